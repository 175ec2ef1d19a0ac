"""Links that are down or narrower than they should be, judged against their like."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

from bigiron.detect import Columnar, Key, Series, Window, detector
from bigiron.detect.claims import Asks, claim, run_since, sampled, sustained
from bigiron.detect.limits import codes_told
from bigiron.detect.same_port import pairs
from bigiron.detect.words import device_words, sentence
from bigiron.model import ActionKind, Blame, Event, Finding, Recovery, Severity, Subject, When

NAME = "links"

ALONE = Asks(
    Severity.WARNING,
    ActionKind.CHECK,
    When.JOB_END,
    Blame.LINK,
    "one look at one node: the port may never have been cabled",
)

PEERS = 4
"""So many ports of one name in other nodes of the SKU are needed to say what is usual."""

USUAL = 0.8

COUNTED = {
    "gpu_nvlink_crc_data_errors_total": "checksum errors in data",
    "gpu_nvlink_recoveries_total": "link recoveries",
}
COUNTED_LIMIT = 10
"""Meta's gcm health checks fail above a site's threshold, 10 in their example. Flits with a wrong
checksum are sent again and are ordinary."""

BUSY = 0.3
"""Utilisation from which a GPU does not idle its link down on purpose."""


IDLE_S = 3600.0


@detector(
    reads=(
        "ib_state",
        "gpu_nvlink_links_down",
        "gpu_nvlink_links_up",
        "gpu_pcie_link_width",
        "gpu_pcie_link_gen",
    ),
    every_s=15.0,
)
def links(window: Window) -> Iterator[Finding | Recovery]:
    """Ports down, NVLinks inactive, PCIe links narrower or slower than their like."""
    told = codes_told(window)
    down = [f for f in _ports(window) if (f.subject.node, f.subject.device, f.fault) not in told]
    logged = _logged(window, down)
    for finding in down:
        line = logged.get((finding.subject.node, finding.subject.device))
        if line is None:
            yield finding
        elif window.stands(finding.key):
            yield Recovery(finding.key, f"told by the log as {line.code} of {line.device}")
    yield from _nvlinks(window)
    if window.single_look:
        yield from _counted(window)
    yield from _width(window)
    yield from _gen(window)


def _sku(window: Window, node: str) -> str:
    known = window.fleet.nodes.get(node)
    return known.sku if known is not None else ""


def _ports(window: Window) -> Iterator[Finding]:
    """A port that is not active and was, or whose like are: an uncabled one is nobody's fault."""
    down = list(window.past("ib_state", lambda state: state == 0))
    if not down:
        return
    active: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    in_node: Counter[str] = Counter()
    for (node, device), state in window.latest("ib_state"):
        kind = (_sku(window, node), device)
        total[kind] += 1
        active[kind] += state == 1
        in_node[node] += state == 1
    for (node, device), series in down:
        kind = (_sku(window, node), device)
        was = any(value == 1 for value in series.values)
        usual = total[kind] > PEERS and active[kind] >= USUAL * (total[kind] - 1)
        alone = window.single_look and in_node[node] > 0 and total[kind] <= PEERS
        if not (was or usual or alone):
            continue
        bad = [value == 0 for value in series.values]
        why = "it was active before" if was else "ports of this name are active elsewhere"
        if alone and not usual and not was:
            why = f"{in_node[node]} other ports of the node are active"
        text = sentence(f"{device_words(window, node, device)}: the port is down; {why}")
        yield claim(
            NAME,
            "nic.down",
            Subject(node=node, device=device),
            (text,),
            since=run_since(series, bad),
            evidence=(sampled("ib_state", series, "port state"),),
            confidence=1.0 if was or usual else 0.6,
            asks=None if was or usual else ALONE,
        )


def _logged(window: Window, down: Sequence[Finding]) -> dict[Key, Event]:
    """The ports whose going down the log tells too, perhaps by another name, and its line.

    That finding is enough: it ends when the log says that the link is up again.
    """
    nodes = {finding.subject.node for finding in down}
    if not nodes or window.single_look:
        return {}
    last: dict[Key, Event] = {}
    for event in window.events:
        if event.node in nodes and event.code in ("ib.link_down", "ib.link_up") and event.time:
            last[event.node, event.device] = event
    lines = {key: e for key, e in last.items() if e.code == "ib.link_down"}
    found: dict[Key, Event] = {}
    for node in nodes:
        ports = {f.subject.device: f.since for f in down if f.subject.node == node}
        logged = {d: (e.time.timestamp(),) for (n, d), e in lines.items() if n == node and e.time}
        counted = {d: (s.timestamp(),) for d, s in ports.items() if s and d not in logged}
        alone = {d: times for d, times in logged.items() if d not in ports}
        same = pairs(alone, counted) | {d: d for d in ports if d in logged}
        found |= {(node, device): lines[node, other] for device, other in same.items()}
    return found


def _nvlinks(window: Window) -> Iterator[Finding]:
    """NVLinks that are inactive while others are up; partitioned GPUs (MIG) have none."""
    up = window.series.get("gpu_nvlink_links_up", {})
    for key, series in window.past("gpu_nvlink_links_down", lambda links: 0 < links < 64):
        node, device = key
        if _mig(window, key):
            continue
        own = up.get(key)
        others = any(s.last > 0 for k, s in up.items() if k[0] == node and k != key)
        some = own is not None and own.last > 0
        if not (some or others or (window.single_look and _picked_out(window, node))):
            continue
        bad = [value > 0 for value in series.values]
        if not sustained(series, bad, window):
            continue
        count = f"{series.last:.0f} NVLink{'s are' if series.last > 1 else ' is'} inactive"
        yield claim(
            NAME,
            "gpu.nvlink_inactive",
            Subject(node=node, device=device),
            (f"{device_words(window, node, device)}: {count}.",),
            since=run_since(series, bad),
            evidence=(sampled("gpu_nvlink_links_down", series, "links down"),),
        )


def _counted(window: Window) -> Iterator[Finding]:
    """Errors of NVLinks since their counters were cleared, where there is no second look."""
    for metric, what in COUNTED.items():
        for (node, device), series in window.past(metric):
            if not COUNTED_LIMIT < series.last < 1e12:
                continue
            by_link = window.facts.get((node, device), {}).get("nvlink_errors_by_link")
            text = f"{series.last:,.0f} {what} on its NVLinks since they were last cleared"
            yield claim(
                NAME,
                "gpu.nvlink_errors",
                Subject(node=node, device=device),
                (
                    sentence(f"{device_words(window, node, device)}: {text}"),
                    f"By link: {by_link.value}." if by_link is not None else "",
                    f"More than {COUNTED_LIMIT} are taken for a bad link (Meta gcm's example).",
                ),
                since=None,
                evidence=(sampled(metric, series, text),),
                confidence=0.8,
            )


def _picked_out(window: Window, node: str) -> bool:
    """Whether a document shows only some of the node's GPUs: those with inactive links."""
    listed = [d for n, d in window.series["gpu_nvlink_links_down"] if n == node]
    numbers = [int(d.removeprefix("gpu")) for d in listed if d.removeprefix("gpu").isdigit()]
    return bool(numbers) and max(numbers) >= len(numbers)


def _mig(window: Window, key: Key) -> bool:
    fact = window.facts.get(key, {}).get("mig_mode")
    return fact is not None and str(fact.value).lower() in ("enabled", "1", "true")


def _width(window: Window) -> Iterator[Finding]:
    """A PCIe link with fewer lanes than the node's other GPUs of this model.

    Where all are alike the machine is built so (cloud machines pass on 8 of 16 lanes) and only
    a declared golden config can say otherwise.
    """
    of_like = _by_like(window, "gpu_pcie_link_width")
    for like in of_like.values():
        usual = _usual([lanes for _, lanes in like])
        if usual is None:
            continue
        for key, lanes in like:
            if not 0 < lanes < usual:
                continue
            node, device = key
            series = window.series["gpu_pcie_link_width"][key]
            bad = [value < usual for value in series.values]
            text = f"its PCIe link runs on {series.last:.0f} of {usual:.0f} lanes"
            yield claim(
                NAME,
                "gpu.pcie_width",
                Subject(node=node, device=device),
                (
                    f"{device_words(window, node, device)}: {text}.",
                    f"{series.last / usual:.0%} of the host bandwidth of its like is left.",
                ),
                since=run_since(series, bad),
                evidence=(sampled("gpu_pcie_link_width", series, text, peer=usual),),
            )


def _gen(window: Window) -> Iterator[Finding | Recovery]:
    """A PCIe link slower than its like while the GPU works: idle links slow down on purpose.

    One that is slow for an hour beside idle GPUs of its node that are not is so for no purpose.
    """
    busy = window.series.get("gpu_utilization_ratio", {})
    standing = window.standing_of(f"{NAME}|gpu.pcie_gen|")
    for like in _by_like(window, "gpu_pcie_link_gen", standing).values():
        usual = _usual([gen for _, gen in like])
        if usual is None:
            continue
        for key, gen in like:
            if not 0 < gen < usual:
                well = f"{NAME}|gpu.pcie_gen|{key[0]}/{key[1]}"
                if window.stands(well):
                    yield Recovery(well, f"generation {gen:.0f} again")
                continue
            series = window.series["gpu_pcie_link_gen"][key]
            bad = [0 < value < usual for value in series.values]
            works = _busy(busy.get(key))
            if not sustained(series, bad, window) or not (
                works or _slow_alone(window, series, bad, like, busy)
            ):
                continue
            node, device = key
            text = f"its PCIe link runs at generation {series.last:.0f}, its like at {usual:.0f}"
            yield claim(
                NAME,
                "gpu.pcie_gen",
                Subject(node=node, device=device),
                (f"{device_words(window, node, device)}: {text}{', while it works' * works}.",),
                since=run_since(series, bad),
                evidence=(sampled("gpu_pcie_link_gen", series, text, peer=usual),),
            )


def _slow_alone(
    window: Window,
    series: Series,
    bad: Sequence[bool],
    like: Sequence[tuple[Key, float]],
    busy: Mapping[Key, Series],
) -> bool:
    """Whether it has been slow for an hour while others that idle now are not."""
    if window.single_look:
        return False
    hour_s = window.now.timestamp() - IDLE_S
    long = series.times[0] <= hour_s and all(
        b for t, b in zip(series.times, bad, strict=True) if t >= hour_s
    )
    slow = series.last
    idle = [gen for key, gen in like if not _busy(busy.get(key)) and gen > slow]
    return long and len(idle) >= 3


def _busy(series: Series | None) -> bool:
    return series is not None and BUSY <= series.last <= 1


def _by_like(
    window: Window, metric: str, standing: Set[str] | None = frozenset()
) -> dict[tuple[str, str], list[tuple[Key, float]]]:
    """The newest fresh values of a metric by node and GPU model.

    Of nodes where they are not all alike and of those where something stands, whose end may be
    seen; None is of all.
    """
    of_metric = window.series.get(metric, {})
    told = None
    if standing is not None and isinstance(of_metric, Columnar):
        told = standing | of_metric.uneven(window.now.timestamp() - window.fresh_s)
        if not told:
            return {}
    of_node: dict[str, list[tuple[Key, float]]] = {}
    for key, value in window.latest(metric):
        if told is None or key[0] in told:
            of_node.setdefault(key[0], []).append((key, value))
    of_like: dict[tuple[str, str], list[tuple[Key, float]]] = {}
    for node, every in of_node.items():
        for key, value in every:
            known = window.fleet.devices.get(key)
            of_like.setdefault((node, known.model if known else ""), []).append((key, value))
    return of_like


def _usual(values: list[float]) -> float | None:
    """The value of more than half of at least three; None if there is none."""
    if len(values) < 3:
        return None
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > len(values) else None
