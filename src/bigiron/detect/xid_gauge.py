"""The last XID an exporter tells, for fleets whose kernel logs are not read.

It is a last value, not a counter: it stays after the fault is over, starts at zero with the
exporter, and repeats nothing. So only a *change* to a new code counts, and only if the kernel
log does not tell of the same device; a program's own code is left out altogether.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from bigiron.detect import Block, Fleet, Window, detector, fold
from bigiron.detect.claims import Asks, claim, entry
from bigiron.detect.limits import fresh
from bigiron.model import (
    Blame,
    Evidence,
    Finding,
    Recovery,
    Severity,
    Subject,
)

NAME = "xid_gauge"
READS = ("gpu_xid_last",)

WAIT_S = 120.0
"""The kernel log may come later than the sample: so long it is waited for."""

LOG_S = 900.0
"""A log line this near in time tells of the same happening."""

SUSPECT = Asks(Severity.WARNING, why="the last code may be of long ago")


class Last(msgspec.Struct, frozen=True):
    """A device's last code, when it changed to it, when its log last told of an XID, and whether
    the log has told of this change.
    """

    code: int
    changed_s: float | None = None
    logged_s: float | None = None
    told: bool = False


UNKNOWN = Last(-1)


class Codes(msgspec.Struct, frozen=True):
    """The devices by ``node/device``."""

    devices: dict[str, Last] = {}


class XidGauge:
    """Remembers each device's last code to see it change."""

    name: str = NAME
    reads: tuple[str, ...] = READS

    def start(self, fleet: Fleet) -> Codes:
        """No device is known."""
        del fleet
        return Codes()

    def step(self, state: Codes, block: Block) -> tuple[Codes, list[Finding | Recovery]]:
        """The codes after a block, and those that changed and that no log tells."""
        devices = dict(state.devices)
        found: list[Finding | Recovery] = []
        for (node, device), value, at_s in block.told(READS[0]):
            key = f"{node}/{device}"
            last = devices.get(key, UNKNOWN)
            if not 0 <= value < 1000 or value == last.code:
                continue
            devices[key] = _changed(last, int(value), at_s)
            if last.changed_s is not None and last.code > 0:
                old = f"{NAME}|xid.{last.code}|{key}"
                found.append(Recovery(old, "the exporter tells another code or none"))
        for event in block.events:
            if event.code.startswith(("xid.", "recovery.")) and event.device:
                key = f"{event.node}/{event.device}"
                at_s = (event.time or block.time).timestamp()
                last = devices.get(key, UNKNOWN)
                devices[key] = _logged(last, at_s)
        now_s = block.time.timestamp()
        found += [_claim(key, last) for key, last in devices.items() if _counts(last, now_s)]
        return Codes(devices), found


@fold(reads=READS)
def xid_gauge() -> XidGauge:
    """A GPU's last XID as its exporter tells it, where no kernel log does."""
    return XidGauge()


def _changed(last: Last, code: int, at_s: float) -> Last:
    """A device after a sample; the first one seen may be long over and is no change."""
    if last.code == code:
        return last
    if last.code < 0:
        return Last(code, None, last.logged_s)
    return Last(code, at_s, last.logged_s, _near(at_s, last.logged_s))


def _logged(last: Last, at_s: float) -> Last:
    told = last.told or _near(at_s, last.changed_s)
    return msgspec.structs.replace(last, logged_s=at_s, told=told)


def _near(one_s: float, other_s: float | None) -> bool:
    return other_s is not None and abs(one_s - other_s) <= LOG_S


def _counts(last: Last, now_s: float) -> bool:
    if last.code <= 0 or last.changed_s is None or now_s - last.changed_s < WAIT_S:
        return False
    return not last.told and not _application(last.code)


def _application(code: int) -> bool:
    known = entry(f"xid.{code}")
    return known is None or known.blame is Blame.APPLICATION or known.severity is Severity.INFO


def _claim(key: str, last: Last) -> Finding:
    node, _, device = key.partition("/")
    changed = datetime.fromtimestamp(last.changed_s or 0.0, UTC)
    code = f"xid.{last.code}"
    known = entry(code)
    text = f"its exporter's last XID became {last.code} at {changed:%Y-%m-%d %H:%M:%S}"
    return claim(
        NAME,
        code,
        Subject(node=node, device=device),
        (
            f"{device} of {node}: {text}; its kernel log is not read or says nothing.",
            known.meaning if known is not None else "",
        ),
        since=changed,
        evidence=(Evidence("sample", text, changed, metric=READS[0], value=float(last.code)),),
        confidence=0.8,
    )


@detector(reads=READS)
def xid_seen(window: Window) -> Iterator[Finding]:
    """A GPU's last XID in a single look, where it cannot be told when it came."""
    if not window.single_look:
        return
    told = {(e.node, e.device) for e in window.events if e.code.startswith("xid.")}
    for (node, device), series in fresh(window, READS[0]):
        code = int(series.last) if 0 < series.last < 1000 else 0
        if not code or _application(code) or (node, device) in told:
            continue
        known = entry(f"xid.{code}")
        text = f"its last XID is {code}; the exporter does not tell when it came"
        yield claim(
            "xid_seen",
            f"xid.{code}",
            Subject(node=node, device=device),
            (f"{device} of {node}: {text}.", known.meaning if known is not None else ""),
            since=None,
            evidence=(Evidence("sample", text, metric=READS[0], value=series.last),),
            confidence=0.5,
            asks=SUSPECT,
        )
