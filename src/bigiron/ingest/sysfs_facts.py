"""PCI links and InfiniBand ports of a node from a flat capture of its sysfs."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bigiron.ingest import Document, json_text
from bigiron.ingest.ib_port import port_events, port_observations, rate_gbps, word
from bigiron.ingest.pcie_link import generation
from bigiron.model import Device, Event, Fact, Observation, Sample

_BUS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_LINK = re.compile(rf"^/sys/\S+/({_BUS})/((?:current|max)_link_(?:speed|width))$")
_PART = re.compile(rf"^/sys/bus/pci/devices/({_BUS})/(infiniband|net|nvme)/([\w.-]+)/(.+)$")
_LABEL = re.compile(r"HCA-(\d+)$")
_INDEXED = re.compile(r"^ib(\d+)$")


@dataclass(slots=True)
class _Capture:
    """What the capture holds, by PCI address."""

    links: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    hca: dict[str, str] = field(default_factory=dict)
    net: dict[str, str] = field(default_factory=dict)
    nvme: dict[str, str] = field(default_factory=dict)
    of_hca: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    of_net: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    def name(self, bus: str) -> str:
        """mlx5_0 or nvme3 where the capture tells it, else the PCI address."""
        return self.hca.get(bus) or self.nvme.get(bus) or bus

    def kind(self, bus: str) -> str:
        """Devices of one kind are expected to have links alike; "" where it is not known."""
        if bus in self.hca:
            of = self.of_hca[bus]
            return f"HCA {of.get('board_id', '')} {of.get('hca_type', '')}"
        return "NVMe" if bus in self.nvme else ""


def observations(document: Document, facts: Mapping[str, object]) -> Iterator[Observation]:
    """Links with their faults, then ports with theirs."""
    capture = _capture(facts)
    yield from _links(document, capture)
    yield from _ports(document, capture)


def _capture(facts: Mapping[str, object]) -> _Capture:
    capture = _Capture()
    for path, value in facts.items():
        if link := _LINK.match(path):
            capture.links[link[1]][link[2]] = json_text.text(value)
        elif part := _PART.match(path):
            bus, kind, name, rest = part.groups()
            if kind == "infiniband":
                capture.hca[bus] = name
                capture.of_hca[bus][rest] = json_text.text(value)
            elif kind == "net":
                capture.net[bus] = name
                capture.of_net[bus][rest] = json_text.text(value)
            else:
                capture.nvme[bus] = name
    return capture


def _links(document: Document, capture: _Capture) -> Iterator[Observation]:
    shapes: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for bus, link in sorted(capture.links.items()):
        device = capture.name(bus)
        speed = json_text.number(link.get("current_link_speed"))
        width = json_text.number(link.get("current_link_width"))
        if not speed or not width:
            continue
        yield Fact(document.node, "pcie_link_speed_gt_per_s", speed, device, document.now)
        yield Fact(document.node, "pcie_link_width", int(width), device, document.now)
        if generation(speed):
            yield Fact(document.node, "pcie_link_gen", generation(speed), device, document.now)
        if device != bus:
            yield Device(document.node, device, "nvme" if bus in capture.nvme else "nic", bus=bus)
        if kind := capture.kind(bus):
            shapes[kind][bus] = (speed, width)
        yield from _link_fault(document, device, bus, link, speed, width)
    for kind, links in shapes.items():
        yield from _odd_one(document, capture, kind, links)


def _link_fault(
    document: Document, device: str, bus: str, link: dict[str, str], speed: float, width: float
) -> Iterator[Observation]:
    """Narrower than the device says it can be, or at a rate PCIe does not have.

    A lower rate alone is no fault: idle links slow down to save power.
    """
    best_speed = json_text.number(link.get("max_link_speed"))
    best_width = json_text.number(link.get("max_link_width"))
    for name, best in (("speed_gt_per_s", best_speed), ("width", best_width)):
        if best is not None and best < 255:
            value = best if name != "width" else int(best)
            yield Fact(document.node, f"pcie_link_{name}_max", value, device, document.now)
    # 255 is what sysfs shows for the width of a device that no longer answers.
    if best_width is not None and width < best_width < 255:
        why = f"could be x{best_width:g}"
    elif not generation(speed):
        why = "a rate no PCIe generation has"
    else:
        return
    yield _downgraded(document, device, bus, speed, width, why)


def _odd_one(
    document: Document, capture: _Capture, kind: str, links: Mapping[str, tuple[float, float]]
) -> Iterator[Event]:
    """One device with a lesser link than all others of its kind, of which there are three or more.

    Two or more that differ are taken as another slot type (M.2 beside U.2), not as a fault.
    """
    shapes = Counter(links.values())
    (usual, count), *others = shapes.most_common()
    if count < 3 or len(others) != 1 or others[0][1] != 1:
        return
    odd = others[0][0]
    bus = next(bus for bus, shape in links.items() if shape == odd)
    if generation(odd[0]) and (odd[0] < usual[0] or odd[1] < usual[1]):
        why = f"its {count} peers ({kind.split()[0]}) have {usual[0]:g} GT/s x{usual[1]:g}"
        yield _downgraded(document, capture.name(bus), bus, odd[0], odd[1], why)


def _downgraded(
    document: Document, device: str, bus: str, speed: float, width: float, why: str
) -> Event:
    name = device if device == bus else f"{device} ({bus})"
    return Event(
        document.node,
        "pcie.link_downgraded",
        f"PCIe link of {name} runs at {speed:g} GT/s x{width:g}: {why}",
        device,
        document.now,
        source=document.name,
        attrs={"bus": bus, "speed_gt_per_s": f"{speed:g}", "width": f"{width:g}"},
    )


def _ports(document: Document, capture: _Capture) -> Iterator[Observation]:
    states = []
    for bus, hca in sorted(capture.hca.items()):
        of, net = capture.of_hca[bus], capture.of_net.get(bus, {})
        state = {
            "name": hca,
            "kind": capture.kind(bus),
            "state": of.get("ports/1/state", ""),
            "physical": of.get("ports/1/phys_state", ""),
            "rate": of.get("ports/1/rate", ""),
        }
        states.append(state)
        if bus not in capture.links:
            yield Device(document.node, hca, "nic", bus=bus)
        yield from port_observations(document, state, rate_gbps(state["rate"]))
        yield from _port_facts(document, capture, bus)
        yield from _port_faults(document, hca, capture.net.get(bus, ""), of, net)
    yield from port_events(document, states)
    yield from _netdevs_down(document, capture)
    yield from _misbound(document, capture)


def _port_facts(document: Document, capture: _Capture, bus: str) -> Iterator[Observation]:
    hca, of, net = capture.hca[bus], capture.of_hca[bus], capture.of_net.get(bus, {})
    facts = {
        "firmware_version": of.get("fw_ver", ""),
        "bus": bus,
        "netdev": capture.net.get(bus, ""),
        "link_layer": of.get("ports/1/link_layer", ""),
        "mtu": net.get("mtu", ""),
    }
    for name, said in facts.items():
        if said:
            whole = name == "mtu" and said.isdecimal() and len(said) < 10
            value = int(said) if whole else said
            yield Fact(document.node, name, value, hca, document.now)
    changes = json_text.number(net.get("carrier_changes"))
    if changes is not None:
        yield Sample(document.node, hca, "ib_carrier_changes_total", changes, document.now)


def _port_faults(
    document: Document, hca: str, netdev: str, of: Mapping[str, str], net: Mapping[str, str]
) -> Iterator[Event]:
    """A port slower than its own interface claims, and firmware that has no version."""
    rate, speed = rate_gbps(of.get("ports/1/rate", "")), json_text.number(net.get("speed"))
    if rate is not None and speed is not None and rate * 1000 < speed * 0.99:
        yield Event(
            document.node,
            "nic.rate",
            f"{hca} ({netdev}) is linked at {of['ports/1/rate']}, "
            f"{speed / 1000:g} Gb/s is what its interface stands for",
            hca,
            document.now,
            source=document.name,
            attrs={"rate_gbps": f"{rate:g}", "expected_gbps": f"{speed / 1000:g}"},
        )
    firmware = of.get("fw_ver")
    if firmware and not re.search(r"\d", firmware):
        yield Event(
            document.node,
            "nic.firmware",
            f"{hca} ({netdev}) reports firmware {firmware!r}, which is no version",
            hca,
            document.now,
            source=document.name,
            attrs={"firmware_version": firmware},
        )


def _netdevs_down(document: Document, capture: _Capture) -> Iterator[Event]:
    """An interface that is down on an active port, while those of other ports are up.

    Where no IPoIB interface is up the site does not use them, and that is no fault.
    """
    if not any(net.get("operstate") == "up" for net in capture.of_net.values()):
        return
    for bus, netdev in sorted(capture.net.items()):
        of = capture.of_hca.get(bus, {})
        active = word(of.get("ports/1/state", "")) == "active"
        if active and capture.of_net[bus].get("operstate") == "down":
            yield Event(
                document.node,
                "nic.down",
                f"{netdev} ({capture.name(bus)}) is down although its port is active",
                capture.name(bus),
                document.now,
                source=document.name,
                attrs={"operstate": "down", "netdev": netdev, "state": "active"},
            )


def _misbound(document: Document, capture: _Capture) -> Iterator[Event]:
    """Interfaces whose order is not that of their adapters' labels (HCA-1, HCA-2 ...).

    The labels are in the order of the slots; only where all of them ascend with the PCI address
    does an interface index that does not ascend tell a wrong binding.
    """
    labels: list[int] = []
    indexes: list[int] = []
    for bus in sorted(capture.net):
        label = _LABEL.search(capture.of_hca.get(bus, {}).get("node_desc", ""))
        found = _INDEXED.match(capture.net[bus])
        if label is None or found is None:
            return
        labels.append(int(label[1]))
        indexes.append(int(found[1]))
    if labels != sorted(labels) or indexes == sorted(indexes):
        return
    usual = sorted(indexes)
    for bus, slot, index, expected in zip(sorted(capture.net), labels, indexes, usual, strict=True):
        if index != expected:
            hca = capture.name(bus)
            yield Event(
                document.node,
                "nic.misbound",
                f"HCA-{slot} at {bus} is bound to ib{index} ({hca}), expected ib{expected}",
                hca,
                document.now,
                source=document.name,
                attrs={"bus": bus, "netdev": f"ib{index}", "expected": f"ib{expected}"},
            )
