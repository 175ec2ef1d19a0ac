"""NVMe drives: there, alive, how warm; and what their own health log says.

State and temperature are the kernel's (sysfs; reading the temperature asks the drive). The health
log (``smartctl``, else ``nvme smart-log``) is asked for once an hour: some drives stall for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bigiron.collect import Seen, collector
from bigiron.collect.standing import standing
from bigiron.errors import NoData, ParseError, Permanent, Temporary
from bigiron.host import Host
from bigiron.ingest import Document, gather
from bigiron.ingest.smartctl import Smartctl
from bigiron.model import Device, Event, Fact, Sample

HEALTH_EVERY = 60
DRIVES = 128
_CLASS = "/sys/class/nvme"
_FINE = frozenset(status for status in range(256) if not status & 0b11)
"""Exit statuses of smartctl(8): from bit 2 on they tell of the drive, not of the call."""
_DEAD = frozenset({"dead", "deleting", "deleting (no IO)"})
_STARTING = frozenset({"resetting", "connecting", "new"})


@dataclass(slots=True)
class _State:
    """Drives seen, by serial number, and which were on their way up at the last look."""

    calls: int = 0
    seen: dict[str, str] = field(default_factory=dict)
    starting: set[str] = field(default_factory=set)
    temperature: dict[str, str] = field(default_factory=dict)
    health: dict[str, tuple[Event, ...]] = field(default_factory=dict)


@collector(every_s=60.0, timeout_s=55.0, apart=True)
def nvme(host: Host) -> Iterator[Seen]:
    """State, temperature and health log of NVMe drives."""
    state = host.held("nvme", _State)
    everything = state.calls % HEALTH_EVERY == 0
    state.calls += 1
    drives = [path.rpartition("/")[2] for path in host.glob(f"{_CLASS}/nvme[0-9]*")][:DRIVES]
    if not drives and not state.seen:
        raise NoData("no NVMe drive")
    told: list[Event] = []
    alive: list[str] = []
    for drive in drives:
        word = _text(host, drive, "state") or "live"
        serial = _text(host, drive, "serial") or drive
        state.seen[serial] = drive
        yield Sample("", drive, "nvme_up", float(word == "live"))
        told += _bad_state(state, drive, word)
        if word == "live":
            alive.append(drive)
        if everything:
            yield from standing(host, "nvme").fresh(_identity(host, drive, serial))
    told += _gone(host, state, drives)
    for drive in alive:
        yield from _temperature(host, state, drive)
    for drive in alive if everything else ():
        seen = list(_health(host, drive))
        yield from (one for one in seen if not isinstance(one, Event))
        state.health[drive] = tuple(one for one in seen if isinstance(one, Event))
    told += [event for drive in alive for event in state.health.get(drive, ())]
    yield from standing(host, "nvme").news(told)


def _bad_state(state: _State, drive: str, word: str) -> Iterator[Event]:
    """A dead drive at once; one that restarts, if it still does so at the next look."""
    before = drive in state.starting
    state.starting.discard(drive)
    if word in _DEAD:
        text = f"{drive}: the kernel has given the drive up (state {word})"
        yield Event("", "nvme.reset_failed", text, drive, source=_CLASS)
    elif word in _STARTING:
        state.starting.add(drive)
        if before:
            text = f"{drive}: the drive has been {word} for a minute"
            yield Event("", "nvme.reset", text, drive, source=_CLASS)


def _gone(host: Host, state: _State, drives: list[str]) -> Iterator[Event]:
    """Drives seen before that are there no more, under any name."""
    there = {_text(host, drive, "serial") or drive for drive in drives}
    for serial, drive in state.seen.items():
        if serial not in there:
            text = f"{drive} (serial {serial}) is gone"
            yield Event("", "nvme.removed", text, drive, source=_CLASS, attrs={"serial": serial})


def _identity(host: Host, drive: str, serial: str) -> Iterator[Seen]:
    model, firmware = _text(host, drive, "model"), _text(host, drive, "firmware_rev")
    bus = _text(host, drive, "address")
    yield Device("", drive, "nvme", serial if serial != drive else "", bus, model)
    if firmware:
        yield Fact("", "firmware_version", firmware, drive)


def _temperature(host: Host, state: _State, drive: str) -> Iterator[Sample]:
    """The composite temperature, by the drive's hwmon device."""
    path = state.temperature.get(drive)
    if path is None:
        found = [
            *host.glob(f"{_CLASS}/{drive}/hwmon[0-9]*/temp1_input"),
            *host.glob(f"{_CLASS}/{drive}/hwmon/hwmon[0-9]*/temp1_input"),
        ]
        path = state.temperature[drive] = found[0] if found else ""
    if not path:
        return
    try:
        text = host.read(path)
    except NoData:
        del state.temperature[drive]
        return
    except Permanent:  # the drive did not answer
        return
    if text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 8:
        yield Sample("", drive, "nvme_temp_celsius", int(text) / 1000.0)


def _health(host: Host, drive: str) -> Iterator[Seen]:
    """Samples and faults of the drive's health log; nothing where no tool may read it."""
    path = f"/dev/{drive}"
    for argv in (["smartctl", "-j", "-a", path], ["nvme", "smart-log", path, "-o", "json"]):
        try:
            said = host.run(argv, timeout_s=20.0, fine=_FINE)
        except (NoData, Permanent, Temporary):  # not installed, not allowed, or no answer
            continue
        document = Document.of(f"{drive} {argv[0]}", said.encode(), datetime.now(UTC))
        try:
            seen = list(Smartctl().read(document))
        except ParseError:
            continue
        batch = gather(document.now, document.name, seen)
        yield from (
            Sample("", s.device, s.metric, s.value)
            for s in batch.samples
            if s.metric != "nvme_temp_celsius"
        )
        yield from (
            Event("", e.code, e.text, e.device or drive, source=argv[0], attrs=e.attrs)
            for e in batch.events
        )
        return


def _text(host: Host, drive: str, name: str) -> str:
    try:
        return host.read(f"{_CLASS}/{drive}/{name}")
    except (NoData, Permanent):
        return ""
