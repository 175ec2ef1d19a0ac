"""A node's Ethernet interfaces: what they are, against what the system was told to configure."""

from collections.abc import Iterator, Mapping

from bigiron.ingest import Document, json_text
from bigiron.ingest.json_text import JsonMap, at
from bigiron.model import Event, Fact, Observation, Sample


def observations(document: Document, facts: Mapping[str, object]) -> Iterator[Observation]:
    """Interfaces in the order of ``intf_status``."""
    told = json_text.mapping(facts.get("intf_ifcfg"))
    speeds = json_text.mapping(facts.get("link_speed"))
    macs = json_text.mapping(facts.get("phys_macaddr"))
    links = {
        json_text.text(i.get("ifname")): i for i in json_text.objects(facts.get("intf_status"))
    }
    for name, link in links.items():
        if name and link.get("link_type") == "ether":
            yield from _facts(document, name, link, json_text.number(speeds.get(name)))
    for name, config in told.items():
        if isinstance(config, dict):
            mac = json_text.text(macs.get(name))
            yield from _faults(document, name, config, links, mac)


def _facts(
    document: Document, name: str, link: JsonMap, speed_mbps: float | None
) -> Iterator[Observation]:
    up = json_text.text(link.get("operstate")).upper() == "UP"
    yield Sample(document.node, name, "node_network_up", float(up), document.now)
    mtu = json_text.number(link.get("mtu"))
    if mtu is not None:
        yield Fact(document.node, "mtu", int(mtu), name, document.now)
    master = json_text.text(link.get("main")) or json_text.text(link.get("master"))
    if master:
        yield Fact(document.node, "bond", master, name, document.now)
    if speed_mbps is not None:
        # The file keeps the last speed of an interface that is down.
        yield Fact(document.node, "link_rate_gbps", speed_mbps / 1000, name, document.now)
        if up:
            rate = speed_mbps * 125_000
            metric = "node_network_speed_bytes_per_second"
            yield Sample(document.node, name, metric, rate, document.now)


def _faults(
    document: Document, name: str, config: JsonMap, links: Mapping[str, JsonMap], mac: str
) -> Iterator[Event]:
    if json_text.text(config.get("ONBOOT")).casefold() == "no":
        return
    link = links.get(name)
    if link is None:
        yield _event(document, "nic.down", name, f"{name} is configured and does not exist", {})
        return
    state = json_text.text(link.get("operstate")).upper()
    if state == "DOWN":
        flags = ",".join(map(str, json_text.sequence(link.get("flags"))))
        text = f"{name} is DOWN ({flags}), and is configured to be up"
        yield _event(document, "nic.down", name, text, {"operstate": state})
    expected = json_text.number(config.get("MTU"))
    mtu = json_text.number(link.get("mtu"))
    if state != "DOWN" and expected and mtu is not None and mtu != expected:
        text = f"{name} has MTU {mtu:g}, configured is {expected:g}"
        yield _event(
            document, "nic.mtu", name, text, {"mtu": f"{mtu:g}", "expected": f"{expected:g}"}
        )
    yield from _swapped(document, name, config, link, links, mac)


def _swapped(
    document: Document,
    name: str,
    config: JsonMap,
    link: JsonMap,
    links: Mapping[str, JsonMap],
    mac: str,
) -> Iterator[Event]:
    """The card under this name is not the one that was configured, or is not in its bond."""
    told = json_text.text(config.get("HWADDR"))
    if told and mac and told.casefold() != mac.casefold():
        text = f"{name} has hardware address {mac}, configured is {told}: the cards were swapped"
        yield _event(document, "nic.swapped", name, text, {"address": mac, "expected": told})
    master = json_text.text(config.get("MASTER"))
    actual = json_text.text(link.get("main")) or json_text.text(link.get("master"))
    up = json_text.text(link.get("operstate")).upper() == "UP"
    if master and up and actual != master:
        state = json_text.text(at(links.get(master), "operstate")) or "absent"
        text = f"{name} is not in bond {master}, which is {state}, as it is configured to be"
        yield _event(document, "nic.misbound", name, text, {"bond": actual, "expected": master})


def _event(document: Document, code: str, name: str, text: str, attrs: dict[str, str]) -> Event:
    return Event(document.node, code, text, name, document.now, source=document.name, attrs=attrs)
