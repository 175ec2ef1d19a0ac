"""Services that a GPU node needs: alive, or gone.

A service is looked for where systemd keeps its processes (its control group), else among all
processes by name, which is done rarely. Told as gone is one that ran before and does not now,
that is switched on in systemd and does not run, or that the hardware calls for: Fabric Manager
where there are NVSwitches. One that was never here is silent.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic

from bigiron.collect import Seen, collector
from bigiron.collect.processes import Processes, processes
from bigiron.collect.service_names import SERVICES, Service
from bigiron.collect.standing import standing
from bigiron.errors import NoData, Permanent, Temporary
from bigiron.host import Host
from bigiron.model import Event, Fact, Sample

SEARCH_EVERY_S = 600.0
"""Seconds between two searches by name for what is not running under systemd."""
GONE_S = 90.0
"""A service that restarts is back in seconds (``RestartSec``); one that is not, is gone."""
EXPECTED_EVERY_S = 300.0
_GROUPS = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")


@dataclass(slots=True)
class _Known:
    """What is known of one service: its process, and since when it is missed."""

    pid: int = 0
    start: int = 0
    ran: bool = False
    expected: str = ""
    missed_s: float | None = None


@dataclass(slots=True)
class _Watch:
    """All services, and when they were last searched for by name."""

    known: dict[str, _Known] = field(default_factory=dict)
    searched_s: float | None = None
    expected_s: float | None = None


@collector(every_s=60.0, timeout_s=20.0)
def services(host: Host) -> Iterator[Seen]:
    """Fabric Manager, IMEX, persistence daemon, DCGM, kubelet, slurmd, time service: alive?"""
    table = processes(host)
    if not table.whole_host():
        raise NoData("the processes of the host are not visible from here")
    watch = host.held("services", _Watch)
    now = monotonic()
    first = not watch.known
    if watch.expected_s is None or now - watch.expected_s >= EXPECTED_EVERY_S:
        watch.expected_s = now
        for service in SERVICES:
            known = watch.known.setdefault(service.name, _Known())
            known.expected = _why(host, service, systemd=_systemd(table))
    alive = {s.name: _alive(host, table, s, watch.known[s.name]) for s in SERVICES}
    _search(table, watch, alive, now)
    told: list[Event] = []
    running = {s.fault for s in SERVICES if alive[s.name]}
    for service in SERVICES:
        known = watch.known[service.name]
        up = alive[service.name]
        known.ran |= up
        if not known.ran and not known.expected:
            continue
        yield Sample("", service.name, "node_service_up", float(up))
        if up:
            known.missed_s = None
            continue
        known.missed_s = now if known.missed_s is None else known.missed_s
        lasting = first or now - known.missed_s >= GONE_S
        if lasting and service.fault not in running:
            told.append(_event(service, known))
    for event in standing(host, "services").news(told):
        yield _detailed(host, event)
    names = " ".join(sorted(name for name, up in alive.items() if up))
    yield from standing(host, "services").fresh([Fact("", "services", names or "none")])


def _alive(host: Host, table: Processes, service: Service, known: _Known) -> bool:
    """Whether its process is there: the one known, else one of its control group."""
    if known.pid:
        process = table.look(known.pid)
        if process is not None and process.start == known.start and process.state not in "ZX":
            return True
        known.pid = 0
    for unit in service.units:
        for group in _GROUPS:
            for pid in _pids(host, f"{group}/{unit}.service/cgroup.procs"):
                process = table.look(pid)
                if process is not None and process.name == service.process:
                    known.pid, known.start = pid, process.start
                    return True
    return False


def _pids(host: Host, path: str) -> Iterator[int]:
    try:
        text = host.read(path)
    except (NoData, Permanent):
        return
    for word in text.split()[:64]:
        if word.isascii() and word.isdecimal() and len(word) < 10:
            yield int(word)


def _search(table: Processes, watch: _Watch, alive: dict[str, bool], now: float) -> None:
    """Search all processes by name: at times, and at once for one that has just gone."""
    missed = any(
        not alive[name] and (known.ran or known.expected) and known.missed_s is None
        for name, known in watch.known.items()
    )
    due = watch.searched_s is None or now - watch.searched_s >= SEARCH_EVERY_S
    if not (missed or due):
        return
    watch.searched_s = now
    wanted = {s.process: s.name for s in SERVICES if s.by_name and not alive[s.name]}
    for process in table.scan(0.0 if missed else SEARCH_EVERY_S).of.values():
        name = wanted.get(process.name)
        if name is not None and process.state not in "ZX":
            known = watch.known[name]
            known.pid, known.start = process.pid, process.start
            alive[name] = True


def _systemd(table: Processes) -> bool:
    """Whether systemd runs this host: its units are only files elsewhere."""
    first = table.look(1)
    return first is not None and first.name == "systemd"


def _why(host: Host, service: Service, *, systemd: bool) -> str:
    """Why it should run, in words: the hardware calls for it, or systemd starts it at boot."""
    if service.calls is not None and service.calls(host):
        return "this machine has NVSwitches"
    starts = systemd and any(
        True
        for unit in service.units
        for _ in host.glob(f"/etc/systemd/system/*.wants/{unit}.service")
    )
    if starts and (service.fits is None or service.fits(host)):
        return "it is switched on in systemd"
    return ""


def _event(service: Service, known: _Known) -> Event:
    why = "it ran before" if known.ran else known.expected
    text = f"{service.name} is not running; {why}"
    attrs = {"service": service.name, "unit": service.units[0] if service.units else ""}
    return Event("", service.fault, text, source="/proc", attrs=attrs)


def _detailed(host: Host, event: Event) -> Event:
    """The same with what systemd says of it: since when, and how it ended."""
    unit = event.attrs["unit"]
    if not unit:
        return event
    shown = "--property=ActiveState,SubState,Result,ExecMainStatus,StateChangeTimestamp"
    try:
        said = host.run(["systemctl", "show", f"{unit}.service", shown], timeout_s=5.0)
    except (NoData, Permanent, Temporary):
        return event
    state = dict(line.split("=", 1) for line in said.splitlines()[:20] if "=" in line)
    attrs = {**event.attrs, **{k: v[:100] for k, v in state.items() if v}}
    since = state.get("StateChangeTimestamp", "")[:60]
    how = f"{state.get('ActiveState', '?')[:20]}/{state.get('SubState', '?')[:20]}"
    words = f"systemd: {how}" + (f" since {since}" if since else "")
    return Event(
        event.node, event.code, f"{event.text} ({words})", source=event.source, attrs=attrs
    )
