"""InfiniBand and RoCE ports from sysfs, and the interfaces of other network cards.

Which reads make a driver write to the kernel log, and so are not done or not repeated:

* ``counters/`` of an adapter that refuses them: see ``rdma_counters``;
* a module's memory (``ethtool -m``, ``mlxlink -m``): refused and logged where there is no module
  or its cable has none. It is never read. ``mlxlink`` also writes to configuration space to take
  its turn. Optics are told only as far as the driver's own temperature sensors (hwmon) go, every
  five minutes, and only of active ports: those have a module. Light levels are not;
* ``vpd``, an adapter's serial: slow, and reading it writes to the device. The node GUID is used.

``speed`` of an interface takes the kernel's network lock: it is read when a state has changed,
else every ten minutes. All of it can hang in a driver whose firmware does not answer.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic

import msgspec

from bigiron.collect import Seen, collector
from bigiron.collect.pci_tree import text
from bigiron.collect.rdma_adapters import Adapter, Interface, Port, adapters, interfaces
from bigiron.collect.rdma_counters import Counters
from bigiron.collect.standing import standing
from bigiron.errors import NoData
from bigiron.host import Host
from bigiron.ingest import Document, ethernet_facts, json_text, sysfs_facts
from bigiron.ingest.ib_port import port_observations, rate_gbps, word
from bigiron.model import Device, Event, Fact, FactValue, Sample

RENEW_S = 600.0
HEAT_S = 300.0
LOOKS = {"nic.down": 3, "nic.rate": 3}
"""A port that comes up is initialising, or slow, for seconds; one that flaps is down for 25
(gpud). These are told as events when seen in so many looks; samples tell them at once."""
_SENSORS = {"asic": "asic", "module": "module"}
"""What mlx5 calls its sensors (Linux, mlx5 hwmon), without their numbers."""
_DEVICES = "/sys/bus/pci/devices"


@dataclass(slots=True)
class _Watch:
    """What is known between looks."""

    adapters: tuple[Adapter, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    renewed_s: float = float("-inf")
    heat_s: float = float("-inf")
    counters: Counters = field(default_factory=Counters)
    speeds: dict[str, tuple[str, str]] = field(default_factory=dict)
    told: dict[tuple[str, str], FactValue] = field(default_factory=dict)
    in_a_row: Counter[tuple[str, str]] = field(default_factory=Counter)


@collector(every_s=30.0, timeout_s=25.0, apart=True)
def infiniband(host: Host) -> Iterator[Seen]:
    """RDMA ports (state, rate, counters, firmware, GIDs, module heat) and network interfaces."""
    watch, now = host.held("infiniband", _Watch), monotonic()
    if now - watch.renewed_s >= RENEW_S:
        _renew(host, watch, now)
        yield from _identities(watch)
    if not watch.adapters and not watch.interfaces:
        raise NoData("no network card")
    seen = [*_ports(host, watch), *_interfaces(host, watch)]
    for adapter in watch.adapters:
        for port in adapter.ports:
            seen += watch.counters.look(host, port, now)
    events = [one for one in seen if isinstance(one, Event)]
    yield from (one for one in seen if isinstance(one, Sample) or _new(watch, one))
    yield from standing(host, "infiniband").news(_lasting(watch, events))
    if now - watch.heat_s >= HEAT_S:
        watch.heat_s = now
        yield from _heat(host, watch)


def _new(watch: _Watch, one: Seen) -> bool:
    """Whether it is a fact that was not told yet."""
    if not isinstance(one, Fact) or watch.told.get((one.device, one.name)) == one.value:
        return False
    watch.told[one.device, one.name] = one.value
    return True


def _renew(host: Host, watch: _Watch, now: float) -> None:
    watch.adapters = adapters(host)
    watch.interfaces = interfaces(host, watch.adapters)
    watch.renewed_s = now
    watch.counters.renew()
    watch.speeds.clear()
    watch.told.clear()


def _identities(watch: _Watch) -> Iterator[Seen]:
    """Adapters as parts, and what of their setup no other reader tells."""
    for adapter in watch.adapters:
        guid, model = adapter.told["node_guid"], adapter.told["hca_type"]
        yield Device("", adapter.name, "nic", guid, adapter.bus, model)
        for name, value in (("model", model), ("board_id", adapter.told["board_id"])):
            if value:
                yield Fact("", name, value, adapter.name)
        for port in adapter.ports:
            yield Fact("", "gid_count", port.gids, port.name)
            if port.number != "1" and port.layer:
                yield Fact("", "link_layer", port.layer, port.name)


def _document() -> Document:
    return Document.of("infiniband", b"", datetime.now(UTC))


def _ports(host: Host, watch: _Watch) -> Iterator[Seen]:
    """Ports as the readers of a node's facts tell them, without times."""
    facts: dict[str, object] = {}
    document = _document()
    for adapter in watch.adapters:
        at = f"{_DEVICES}/{adapter.bus}/infiniband/{adapter.name}"
        facts |= {f"{at}/{name}": value for name, value in adapter.told.items() if value}
        for port in adapter.ports:
            state = {n: text(host, f"{port.folder}/{n}") for n in ("state", "phys_state", "rate")}
            if not state["state"]:
                watch.renewed_s = float("-inf")
            if port.number == "1":
                facts |= {f"{at}/ports/1/{name}": value for name, value in state.items()}
                facts[f"{at}/ports/1/link_layer"] = port.layer
                continue
            plain = {"name": port.name, "physical": state["phys_state"], "state": state["state"]}
            rate = rate_gbps(state["rate"])
            yield from map(_timeless, port_observations(document, plain, rate))
        if adapter.netdev:
            net = f"{_DEVICES}/{adapter.bus}/net/{adapter.netdev}"
            facts |= _netdev(host, watch, net, adapter.netdev)
    yield from map(_timeless, sysfs_facts.observations(document, facts))


def _netdev(host: Host, watch: _Watch, at: str, name: str) -> dict[str, object]:
    """An interface's files by path."""
    state = text(host, f"{at}/operstate")
    return {
        f"{at}/operstate": state,
        f"{at}/carrier_changes": text(host, f"{at}/carrier_changes"),
        f"{at}/speed": _speed(host, watch, at, name, state),
        f"{at}/mtu": text(host, f"{at}/mtu"),
    }


def _speed(host: Host, watch: _Watch, at: str, name: str, state: str) -> str:
    known = watch.speeds.get(name)
    if known is None or known[0] != state:
        said = text(host, f"{at}/speed")
        # -1, or what it was when it was last up
        speed = said if state != "down" and said.isdigit() else ""
        known = watch.speeds[name] = state, speed
    return known[1]


def _interfaces(host: Host, watch: _Watch) -> Iterator[Seen]:
    """Interfaces of cards without RDMA."""
    links, speeds = [], {}
    for one in watch.interfaces:
        at = f"/sys/class/net/{one.name}"
        state = text(host, f"{at}/operstate")
        if not state:
            watch.renewed_s = float("-inf")
            continue
        link = {"ifname": one.name, "link_type": "ether", "operstate": state, "mtu": one.mtu}
        links.append(link | ({"master": one.bond} if one.bond else {}))
        if speed := _speed(host, watch, at, one.name, state):
            speeds[one.name] = speed
        changes = json_text.number(text(host, f"{at}/carrier_changes"))
        if changes is not None:
            yield Sample("", one.name, "node_network_carrier_changes_total", changes)
    facts = {"intf_status": links, "link_speed": speeds}
    yield from map(_timeless, ethernet_facts.observations(_document(), facts))


def _timeless(one: object) -> Seen:
    """The agent says when it looked."""
    if isinstance(one, Device):
        return one
    if isinstance(one, Sample | Fact | Event):
        return msgspec.structs.replace(one, time=None)
    raise TypeError(type(one).__name__)


def _lasting(watch: _Watch, events: list[Event]) -> Iterator[Event]:
    """Those that were seen in as many looks in a row as their kind asks for."""
    now = {(event.code, event.device): event for event in events}
    watch.in_a_row = Counter({key: watch.in_a_row[key] + 1 for key in now})
    for key, event in now.items():
        if watch.in_a_row[key] >= LOOKS.get(event.code, 1):
            yield event


def _heat(host: Host, watch: _Watch) -> Iterator[Sample]:
    """Chips' temperatures, and modules' where the port is active."""
    for adapter in watch.adapters:
        active = any(_active(host, port) for port in adapter.ports)
        for label, path in adapter.sensors:
            which = _SENSORS.get(label.casefold().rstrip("0123456789"), "")
            if not which or (which == "module" and not active):
                continue
            milli = json_text.number(text(host, path))
            if milli is not None and 0 < milli < 200_000:
                metric = "node_hwmon_temp_celsius"
                yield Sample("", f"{adapter.name} {which}", metric, milli / 1000)


def _active(host: Host, port: Port) -> bool:
    return word(text(host, f"{port.folder}/state")) == "active"
