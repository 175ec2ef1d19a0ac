"""Limits that mean something by themselves, whatever peers and past say."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from datetime import timedelta

from bigiron.detect import Key, Series, Window, detector
from bigiron.detect.claims import Asks, claim, entry, run_since, sampled, sustained
from bigiron.detect.limit_rows import (
    GLANCE,
    LIMITS,
    RECOVERY_WORDS,
    RETIRED_LIMIT,
    TEMP_LIMIT_C,
    Limit,
)
from bigiron.detect.words import device_words, sentence
from bigiron.model import Finding, Subject

NAME = "limits"
SLOWDOWN = "gpu_temp_slowdown_celsius"
READS = (
    *dict.fromkeys(limit.metric for limit in LIMITS),
    "gpu_retired_pages_sbe_total",
    "gpu_retired_pages_dbe_total",
    "gpu_temp_celsius",
    "gpu_recovery_action",
)


@detector(reads=READS, every_s=15.0)
def limits(window: Window) -> Iterator[Finding]:
    """Pending and failed remaps, uncorrectable errors, sustained slowdown, heat, wear."""
    told = codes_told(window)
    for limit in LIMITS:
        if not (limit.passing and window.single_look):
            yield from (f for f in _limit(window, limit) if _key(f) not in told)
    yield from _retired(window)
    yield from _hot(window)
    yield from _recovery(window, {(n, d) for n, d, code in told if code.startswith("recovery.")})


def codes_told(window: Window) -> set[tuple[str, str, str]]:
    """Node, device and code of what events of the last day tell: not to be counted twice."""
    of = window.events, window.now.timestamp()
    return window.memo.made("codes told", of, lambda: _codes_told(window))


def _codes_told(window: Window) -> set[tuple[str, str, str]]:
    if window.single_look:
        return {(e.node, e.device, e.code) for e in window.events}
    oldest = window.now - timedelta(days=1)
    recent = (e for e in window.events if e.time is not None and e.time >= oldest)
    return {(e.node, e.device, e.code) for e in recent}


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.subject.node, finding.subject.device, finding.fault


def fresh(window: Window, metric: str) -> Iterator[tuple[Key, Series]]:
    """The series of a metric whose newest sample is fresh."""
    return window.past(metric)


def _limit(window: Window, limit: Limit) -> Iterator[Finding]:
    merged = _node_wide(window, limit) if limit.node_wide else {}
    for node, devices in merged.items():
        yield _node_claim(window, limit, node, devices)
    for (node, device), series in window.past(limit.metric, limit.bad):
        if node in merged:
            continue
        bad = [limit.bad(value) for value in series.values]
        if limit.hold and not sustained(series, bad, window):
            continue
        who = device_words(window, node, device) if device else "the host"
        text = _says(limit, series.last)
        yield claim(
            NAME,
            limit.fault,
            Subject(node=node, device=device),
            (sentence(f"{who}: {text}"), _source(limit)),
            since=run_since(series, bad),
            evidence=(sampled(limit.metric, series, text, unit=limit.unit),),
            asks=_asks(window, limit),
        )


def _node_wide(window: Window, limit: Limit) -> dict[str, list[Key]]:
    """The nodes on which most devices (and three at least) are past the limit together."""
    bad: dict[str, list[Key]] = {}
    for key, series in window.past(limit.metric, limit.bad):
        past = [limit.bad(value) for value in series.values]
        if not limit.hold or sustained(series, past, window):
            bad.setdefault(key[0], []).append(key)
    if not any(len(keys) >= 3 for keys in bad.values()):
        return {}
    count = Counter(node for (node, _), _ in window.latest(limit.metric))
    return {n: keys for n, keys in bad.items() if len(keys) >= 3 and 2 * len(keys) > count[n]}


def _node_claim(window: Window, limit: Limit, node: str, keys: Sequence[Key]) -> Finding:
    of_metric = window.series[limit.metric]
    devices = ", ".join(sorted(device for _, device in keys))
    runs = [run_since(s, [limit.bad(v) for v in s.values]) for s in map(of_metric.get, keys) if s]
    series = of_metric[keys[0]]
    text = _says(limit, series.last).replace("its clocks", "their clocks")
    return claim(
        NAME,
        limit.fault,
        Subject(node=node),
        (f"{len(keys)} GPUs of {node} ({devices}): {text}.", _source(limit)),
        since=min(runs),
        evidence=(sampled(limit.metric, series, text, unit=limit.unit),),
        asks=_asks(window, limit),
    )


def _says(limit: Limit, value: float) -> str:
    return limit.says.format(value=value, s="" if round(value) == 1 else "s")


def _source(limit: Limit) -> str:
    return f"Limit: {limit.source}."


def _retired(window: Window) -> Iterator[Finding]:
    """Retired pages of GPUs without row remapping, single and double bit together."""
    double = dict(window.last("gpu_retired_pages_dbe_total"))
    least = RETIRED_LIMIT - max(double.values(), default=0.0)
    for key, series in window.past("gpu_retired_pages_sbe_total", lambda pages: pages >= least):
        pages = series.last + double.get(key, 0.0)
        if not RETIRED_LIMIT <= pages < 1e6:
            continue
        node, device = key
        text = f"{pages:.0f} memory pages are retired, of at most 64"
        yield claim(
            NAME,
            "gpu.retired_pages_limit",
            Subject(node=node, device=device),
            (f"{device_words(window, node, device)}: {text}.",),
            since=run_since(series, [True] * len(series.values)),
            evidence=(sampled("gpu_retired_pages_sbe_total", series, text),),
        )


def _hot(window: Window) -> Iterator[Finding]:
    """GPUs at their slowdown temperature, or at 93 °C where that is not known."""
    margins = window.series.get("gpu_temp_margin_celsius", {})
    known_c = {key: c for key, c in window.last(SLOWDOWN) if 60 < c < 130}
    least_c = min(known_c.values(), default=TEMP_LIMIT_C)
    least_c = min(least_c, TEMP_LIMIT_C)
    for key, series in window.past("gpu_temp_celsius", lambda value_c: value_c >= least_c):
        if key in margins:
            continue
        limit_c = known_c.get(key, TEMP_LIMIT_C)
        bad = [limit_c <= value < 200 for value in series.values]
        if not sustained(series, bad, window):
            continue
        node, device = key
        text = f"it is at {series.last:.0f} °C; its limit is {limit_c:.0f} °C"
        yield claim(
            NAME,
            "gpu.temp_high",
            Subject(node=node, device=device),
            (f"{device_words(window, node, device)}: {text}.",),
            since=run_since(series, bad),
            evidence=(sampled("gpu_temp_celsius", series, text, unit="celsius"),),
        )


def _recovery(window: Window, told: Set[Key]) -> Iterator[Finding]:
    """The driver's own word on what a GPU needs, unless the kernel log has told it already."""
    for (node, device), series in window.past("gpu_recovery_action", lambda code: 0 < code < 8):
        action = int(series.last)
        if not action or (node, device) in told:
            continue
        text = f"the driver asks for {RECOVERY_WORDS[action]} (recovery action {action})"
        yield claim(
            NAME,
            "gpu.recovery_needed",
            Subject(node=node, device=device),
            (f"{device_words(window, node, device)}: {text}.",),
            since=run_since(series, _nonzero(series.values)),
            evidence=(sampled("gpu_recovery_action", series, text),),
            asks=_recovers(action),
        )


def _asks(window: Window, limit: Limit) -> Asks | None:
    return GLANCE if limit.brief and window.single_look else limit.asks


def _recovers(action: int) -> Asks | None:
    """What the catalogue has for this recovery action."""
    known = entry(f"recovery.{action}")
    if known is None:
        return None
    why = "which recovery it is decides"
    return Asks(known.severity, known.action, known.when, known.blame, why)


def _nonzero(values: Sequence[float]) -> list[bool]:
    return [value != 0 for value in values]
