"""Processes, services, memory, clock and boot: well on captured hosts, sick by one thing."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hosts.make_health import stat
from tests.unit.collected import NAMES, Collector, captured, events, golden, samples
from tests.unit.machine_copies import copied, put

from bigiron.collect import Seen
from bigiron.collect import clock as clock_module
from bigiron.collect import tasks as tasks_module
from bigiron.collect.clock import clock
from bigiron.collect.edac import edac, machine_checks, module_name
from bigiron.collect.pressure import killed, memory, pressure, stalled
from bigiron.collect.processes import parse, processes
from bigiron.collect.service_names import SERVICES
from bigiron.collect.services import GONE_S, services
from bigiron.collect.standing import AGAIN_S, Standing
from bigiron.collect.tasks import STUCK_S, tasks
from bigiron.collect.time_service import chrony, ntpq
from bigiron.collect.uptime import boot_time, taint_words, uptime
from bigiron.errors import NoData
from bigiron.faults import shipped
from bigiron.host import Host
from bigiron.model import Event, Fact, Sample

COLLECTORS: dict[str, Collector] = {
    "uptime": uptime,
    "pressure": pressure,
    "tasks": tasks,
    "services": services,
    "clock": clock,
    "edac": edac,
}
WITHOUT = {("edac", "t4x4")}
"""A virtual machine sees no memory controller."""


class Watch:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Stands for the monotonic clock of those collectors that wait."""
    made = Watch()
    monkeypatch.setattr(tasks_module, "monotonic", made)
    monkeypatch.setattr("bigiron.collect.services.monotonic", made)
    monkeypatch.setattr("bigiron.collect.processes.monotonic", made)
    return made


@pytest.mark.parametrize("name", COLLECTORS)
@pytest.mark.parametrize("host", NAMES)
def test_what_it_says_of_captured_hosts(name: str, host: str) -> None:
    if (name, host) in WITHOUT:
        with pytest.raises(NoData):
            list(COLLECTORS[name](captured(host)))
    else:
        golden(COLLECTORS[name], name, host)


@pytest.mark.parametrize("name", COLLECTORS)
def test_no_captured_host_has_a_fault_at_any_look(name: str) -> None:
    for host in (captured(one) for one in NAMES if (name, one) not in WITHOUT):
        assert [events(COLLECTORS[name](host)) for _ in range(3)] == [[], [], []]


@pytest.mark.parametrize("name", COLLECTORS)
def test_a_machine_that_tells_nothing_is_silent(name: str, tmp_path: Path) -> None:
    with pytest.raises(NoData):
        list(COLLECTORS[name](Host(root=tmp_path)))


def only(seen: list[Seen]) -> Event:
    (event,) = [one for one in seen if isinstance(one, Event)]
    return event


# --- services


def test_a_fabric_manager_that_is_not_there_is_told_at_the_first_look(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    shutil.rmtree(host.root / "proc/1200")
    shutil.rmtree(host.root / "sys/fs/cgroup/system.slice/nvidia-fabricmanager.service")
    put(
        host,
        "bigiron/commands/systemctl show nvidia-fabricmanager.service --property=ActiveState,"
        "SubState,Result,ExecMainStatus,StateChangeTimestamp",
        "ActiveState=failed\nSubState=failed\nResult=exit-code\nExecMainStatus=1\n"
        "StateChangeTimestamp=Mon 2026-11-09 03:12:55 UTC",
    )
    seen = list(services(host))
    event = only(seen)
    assert event.code == "fm.not_running"
    assert event.text == (
        "nvidia-fabricmanager is not running; this machine has NVSwitches (systemd: failed/failed"
        " since Mon 2026-11-09 03:12:55 UTC)"
    )
    assert samples(seen)["nvidia-fabricmanager", "node_service_up"] == 0.0
    assert events(services(host)) == [], "what stands is not told at each look"


def test_no_fabric_manager_is_missed_where_there_is_no_nvswitch() -> None:
    for name in ("gb200x4", "l40sx8", "mi300xx8", "cpu-only"):
        assert ("nvidia-fabricmanager", "node_service_up") not in samples(services(captured(name)))


@pytest.mark.parametrize(
    ("name", "pid", "code"),
    [
        ("gb200x4", 1200, "imex.unhealthy"),
        ("h100x8", 1207, "service.persistenced"),
        ("h100x8", 1214, "service.dcgm"),
        ("h100x8", 1221, "service.slurmd"),
        ("h100x8", 1228, "service.munge"),
        ("h100x8", 1235, "service.time"),
        ("l40sx8", 1207, "service.kubelet"),
        ("l40sx8", 1214, "service.containerd"),
        ("mi250x8", 1200, "service.slurmd"),
    ],
)
def test_a_service_that_ran_and_is_gone_is_told(
    name: str, pid: int, code: str, tmp_path: Path, watch: Watch
) -> None:
    host = copied(name, tmp_path)
    assert events(services(host)) == []
    shutil.rmtree(host.root / f"proc/{pid}")
    assert events(services(host)) == [], "it may be restarting"
    watch.now += GONE_S
    assert events(services(host)) == [(code, "")]


def test_a_service_that_restarts_is_no_fault(tmp_path: Path, watch: Watch) -> None:
    host = copied("h100x8", tmp_path)
    list(services(host))
    shutil.rmtree(host.root / "proc/1221")
    (host.root / "proc/9001").mkdir()
    put(host, "/proc/9001/stat", stat(9001, "slurmd", start=777_000))
    group = "/sys/fs/cgroup/system.slice/slurmd.service/cgroup.procs"
    put(host, group, 9001)
    watch.now += GONE_S
    assert samples(services(host))["slurmd", "node_service_up"] == 1.0


def test_the_same_number_for_another_process_is_not_the_service(
    tmp_path: Path, watch: Watch
) -> None:
    host = copied("mi250x8", tmp_path)
    list(services(host))
    put(host, "/proc/1200/stat", stat(1200, "slurmd-impostor", start=999_999))
    assert samples(services(host))["slurmd", "node_service_up"] == 0.0
    watch.now += GONE_S
    assert events(services(host)) == [("service.slurmd", "")]


def test_what_systemd_starts_at_boot_is_expected(tmp_path: Path) -> None:
    host = copied("l40sx8", tmp_path)
    at = host.root / "etc/systemd/system/multi-user.target.wants"
    at.mkdir(parents=True)
    (at / "nvidia-dcgm.service").write_text("[Unit]\n")
    event = only(list(services(host)))
    assert (event.code, event.text) == (
        "service.dcgm",
        "nv-hostengine is not running; it is switched on in systemd",
    )


def _wanted(host: Host, unit: str) -> None:
    at = host.root / "etc/systemd/system/multi-user.target.wants"
    at.mkdir(parents=True, exist_ok=True)
    (at / f"{unit}.service").write_text("[Unit]\n")


def test_units_say_nothing_where_systemd_does_not_run_the_host(tmp_path: Path) -> None:
    host = copied("l40sx8", tmp_path)
    _wanted(host, "slurmd")
    put(host, "/proc/1/stat", stat(1, "init"))
    assert events(services(host)) == []


def test_an_image_made_for_other_machines_is_no_fault(tmp_path: Path) -> None:
    host = copied("l40sx8", tmp_path)
    for unit in ("nvidia-fabricmanager", "nvlsm", "nvidia-imex", "chrony"):
        _wanted(host, unit)
    assert events(services(host)) == [], "no switches, nobody to join, and another keeps time"


def test_where_imex_has_nodes_to_join_it_is_expected(tmp_path: Path) -> None:
    host = copied("gb200x4", tmp_path)
    shutil.rmtree(host.root / "proc/1200")
    assert events(services(host)) == []
    _wanted(host, "nvidia-imex")
    (host.root / "etc/nvidia-imex").mkdir()
    put(host, "/etc/nvidia-imex/nodes_config.cfg", "# nodes\n10.1.1.1\n10.1.1.2")
    host.handles.clear()
    assert events(services(host)) == [("imex.unhealthy", "")]


def test_imex_in_a_container_may_come_and_go(tmp_path: Path, watch: Watch) -> None:
    host = copied("gb200x4", tmp_path)
    shutil.rmtree(host.root / "sys/fs/cgroup/system.slice/nvidia-imex.service")
    list(services(host))
    shutil.rmtree(host.root / "proc/1200")
    watch.now += GONE_S
    list(services(host))
    watch.now += GONE_S
    assert events(services(host)) == []


def test_gpus_of_the_fifth_nvlink_need_a_fabric_manager_that_is_switched_on(
    tmp_path: Path,
) -> None:
    host = copied("l40sx8", tmp_path)
    for path in (host.root / "sys/bus/pci/devices").glob("*/vendor"):
        if path.read_text().strip() == "0x10de":
            (path.parent / "device").write_text("0x2901\n")
    assert events(services(host)) == [], "a guest's host has it"
    _wanted(host, "nvidia-fabricmanager")
    host.handles.clear()
    assert events(services(host)) == [("fm.not_running", "")]


def test_an_agent_that_sees_only_its_own_processes_says_nothing_of_services(
    tmp_path: Path,
) -> None:
    host = copied("h100x8", tmp_path)
    put(host, "/proc/2/stat", stat(2, "bigiron"))
    for collector in (services, tasks):
        with pytest.raises(NoData):
            list(collector(host))


# --- tasks


def test_a_task_stuck_for_two_minutes_is_told(tmp_path: Path, watch: Watch) -> None:
    host = copied("h100x8", tmp_path)
    put(host, "/proc/20011/stat", stat(20011, "python3 (train)", "D", 500, 900_000))
    assert events(tasks(host)) == []
    for _ in range(3):
        watch.now += 30
        assert events(tasks(host)) == []
    watch.now += 30
    seen = list(tasks(host))
    event = only(seen)
    assert event.code == "kernel.hung_task"
    assert event.text == "task python3 (train):20011 has been stuck in the kernel for 120 seconds"
    assert samples(seen) == {("", "node_tasks_stuck"): 1.0}
    put(host, "/proc/20011/stat", stat(20011, "python3 (train)", "S", 500, 900_000))
    watch.now += 30
    assert samples(tasks(host)) == {("", "node_tasks_stuck"): 0.0}


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(stat(20011, "io", "D", 501, 900_000), id="it works and waits"),
        pytest.param(stat(20011, "io", "R", 500, 900_000), id="it runs"),
        pytest.param(stat(20011, "io", "D", 500, 900_001), id="it is another"),
        pytest.param("", id="it cannot be read"),
    ],
)
def test_a_task_that_moves_is_not_stuck(after: str, tmp_path: Path, watch: Watch) -> None:
    host = copied("h100x8", tmp_path)
    put(host, "/proc/20011/stat", stat(20011, "io", "D", 500, 900_000))
    list(tasks(host))
    watch.now += STUCK_S / 2
    put(host, "/proc/20011/stat", after)
    list(tasks(host))
    put(host, "/proc/20011/stat", stat(20011, "io", "D", 500, 900_000))
    watch.now += STUCK_S / 2
    assert samples(tasks(host)) == {("", "node_tasks_stuck"): 0.0}


def test_services_and_tasks_share_one_scan(watch: Watch) -> None:
    host = captured("mi250x8")
    list(services(host))
    first = processes(host).scan(300.0)
    list(tasks(host))
    assert processes(host).scan(300.0) is first
    watch.now += 301
    assert processes(host).scan(300.0) is not first


# --- memory, pressure, boot


def test_kills_for_memory_are_counted_and_told(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    assert events(pressure(host)) == []
    put(host, "/proc/vmstat", "nr_free_pages 1\noom_kill 3\nnuma_hit 9")
    seen = list(pressure(host))
    assert samples(seen)["", "node_oom_kills_total"] == 3.0
    event = only(seen)
    assert (event.code, event.count, event.text) == (
        "kernel.oom_invoked",
        3,
        "3 processes killed for memory",
    )
    assert events(pressure(host)) == []


def test_a_kernel_without_pressure_files_is_no_trouble(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    shutil.rmtree(host.root / "proc/pressure")
    assert ("", "node_memory_total_bytes") in samples(pressure(host))


def test_the_boot_time_does_not_move_with_the_clock(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    before = samples(uptime(host))
    put(host, "/proc/stat", "btime 1764288000")
    assert samples(uptime(host)) == before
    put(host, "/proc/sys/kernel/random/boot_id", "another")
    assert samples(uptime(host)) == {("", "node_boot_time_seconds"): 1764288000.0}


def test_a_kernel_tainted_by_an_oops_is_told_once(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    list(uptime(host))
    put(host, "/proc/sys/kernel/tainted", 12289 | 1 << 7 | 1 << 4)
    assert sorted(events(uptime(host))) == [("kernel.oops", ""), ("mce.logged", "")]
    assert events(uptime(host)) == []


# --- clock


def test_a_clock_that_is_off_is_told_with_its_direction(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    line = "0A140001,10.20.0.1,3,1764500000.1,2.500000000,0,0,-3.5,0,0,0,0,64.2,Normal"
    put(host, "bigiron/commands/chronyc -n -c tracking", line)
    seen = list(clock(host))
    assert samples(seen)["", "node_time_offset_seconds"] == -2.5
    assert only(seen).code == "node.clock_offset"
    assert only(seen).text == "the clock is 2.500 s behind"


def test_a_clock_that_follows_nothing_is_told_when_it_lasts(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    line = "7F7F0101,,0,0.0,0.0,0,0,0,0,0,1,1,0.0,Not synchronised"
    put(host, "bigiron/commands/chronyc -n -c tracking", line)
    told = [events(clock(host)) for _ in range(clock_module.ASK_EVERY + 1)]
    assert told == [[]] * clock_module.ASK_EVERY + [[("node.clock_unsynchronized", "")]]


def test_a_clock_that_jumps_a_day_is_told(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    apart = iter([1000.0, 1000.02, 1000.02 + 86_400, 1000.0])
    host.handles["clocks"] = lambda: next(apart)
    assert events(clock(host)) == []
    assert events(clock(host)) == [], "a slewed clock moves by milliseconds"
    assert only(list(clock(host))).text == "the clock was set forward by 86,400.0 s"
    assert only(list(clock(host))).text == "the clock was set back by 86,400.0 s"


def test_a_slow_clock_source_is_told(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    at = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    put(host, at, "hpet")
    assert events(clock(host)) == [("kernel.clocksource_unstable", "")]


def test_this_machine_s_own_clock_can_be_asked() -> None:
    host = Host(path="/nowhere")
    try:
        seen = list(clock(host))
    except NoData:
        pytest.skip("no clock source here")
    assert abs(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)) > 0
    assert all(isinstance(one, Sample | Fact | Event) for one in seen)


def test_ntpq_tells_the_same() -> None:
    text = (
        'associd=0 status=0615 leap_none, sync_ntp,\nversion="ntpd", processor="x86_64",\n'
        "leap=00, stratum=3, precision=-24, rootdelay=0.2, refid=10.20.0.1,\n"
        "offset=-1500.0, frequency=3.5, sys_jitter=0.1"
    )
    found = ntpq(text)
    assert found is not None
    assert (found.followed, found.offset_s, found.reference) == (True, 1.5, "10.20.0.1")
    unset = ntpq("leap=11, stratum=16, refid=INIT, offset=0")
    assert unset is not None
    assert not unset.followed


# --- memory errors


def test_a_module_with_rising_errors_is_named_by_its_label(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    list(edac(host))
    at = "/sys/devices/system/edac/mc/mc0"
    put(host, f"{at}/dimm3/dimm_ce_count", 41)
    put(host, f"{at}/ce_count", 41)
    found = samples(edac(host))
    assert found["dimm:DIMM_6", "node_edac_correctable_total"] == 41.0
    assert ("dimm:DIMM_1", "node_edac_correctable_total") not in found, "the other half rests"
    assert samples(edac(host)) == {}, "nothing has moved"


def test_an_uncorrectable_error_is_told_when_it_happens(tmp_path: Path) -> None:
    host = copied("h100x8", tmp_path)
    at = "/sys/devices/system/edac/mc/mc1"
    put(host, f"{at}/dimm0/dimm_ue_count", 1)
    assert events(edac(host)) == [], "one of before the agent's start is in the sample"
    put(host, f"{at}/dimm0/dimm_ue_count", 3)
    put(host, f"{at}/ue_count", 3)
    event = only(list(edac(host)))
    assert (event.code, event.device, event.count) == ("edac.uncorrectable", "dimm:DIMM_1", 2)
    assert events(edac(host)) == []


def test_an_older_driver_s_rows_are_read(tmp_path: Path) -> None:
    host = copied("cpu-only", tmp_path)
    at = host.root / "sys/devices/system/edac/mc/mc0"
    for dimm in at.glob("dimm*"):
        shutil.rmtree(dimm)
    (at / "csrow2").mkdir()
    put(host, f"{at.relative_to(host.root)}/csrow2/ce_count", 7)
    assert samples(edac(host))["mc0:csrow2", "node_edac_correctable_total"] == 7.0


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("CPU_SrcID#0_MC#1_Chan#0_DIMM#0", "dimm:CPU_SrcID#0_MC#1_Chan#0_DIMM#0"),
        ("P0 CHANNEL A", "dimm:P0_CHANNEL_A"),
        ("", "mc0:dimm1"),
        ("Not Specified", "mc0:dimm1"),
    ],
)
def test_modules_are_named_by_their_labels(label: str, name: str) -> None:
    assert module_name(label, "mc0:dimm1") == name


# --- conditions that last


def test_a_condition_is_told_when_it_begins_and_each_hour() -> None:
    now = Watch()
    lasting = Standing(now)
    event = Event("", "mount.full", "x", "/")
    assert list(lasting.news([event, event])) == [event]
    now.now += AGAIN_S - 1
    assert list(lasting.news([event])) == []
    now.now += 1
    assert list(lasting.news([event])) == [event]
    assert list(lasting.news([])) == []
    assert list(lasting.news([event])) == [event], "gone and come back"


TOLD = """
fm.not_running imex.unhealthy service.persistenced service.dcgm service.kubelet service.slurmd
service.munge service.time service.nvlsm service.containerd service.rasdaemon service.opensm
kernel.hung_task kernel.oom_invoked kernel.oops kernel.bug kernel.soft_lockup mce.logged
kernel.clocksource_unstable node.clock_offset node.clock_jump node.clock_unsynchronized
edac.uncorrectable nfs.not_responding nfs.ok nfs.stale lustre.connection_lost kernel.readonly_fs
mount.not_responding mount.failed mount.missing mount.full mount.inodes_full nvme.removed
nvme.reset nvme.reset_failed nvme.critical_warning nvme.spare_low bmc.not_responding bmc.refused
bmc.unhealthy bmc.log_full power.psu_failed power.supply_lost power.redundancy_lost power.rail
thermal.high thermal.fan_failed thermal.fan_redundancy_lost
"""


def test_every_code_that_is_told_is_in_the_catalogue() -> None:
    assert [code for code in TOLD.split() if code not in shipped()] == []
    assert {service.fault for service in SERVICES} <= set(TOLD.split())


# --- whatever the files hold

FILES: dict[str, tuple[Collector, tuple[str, ...]]] = {
    "uptime": (uptime, ("/proc/stat", "/proc/sys/kernel/tainted")),
    "pressure": (
        pressure,
        ("/proc/meminfo", "/proc/loadavg", "/proc/vmstat", "/proc/pressure/io"),
    ),
    "services": (
        services,
        ("/proc/1221/stat", "/sys/fs/cgroup/system.slice/slurmd.service/cgroup.procs"),
    ),
    "tasks": (tasks, ("/proc/20011/stat",)),
    "clock": (clock, ("bigiron/commands/chronyc -n -c tracking",)),
    "edac": (edac, ("/proc/interrupts", "/sys/devices/system/edac/mc/mc0/ce_count")),
}


@pytest.mark.parametrize("name", FILES)
def test_whatever_a_file_holds_there_is_an_answer(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    collector, paths = FILES[name]
    host = copied("h100x8", tmp_path_factory.mktemp(name))

    @given(st.sampled_from(paths), st.binary(max_size=400))
    def look(path: str, content: bytes) -> None:
        put(host, path, content)
        host.handles.clear()
        assert all(one for one in collector(host))

    look()


PARSERS: tuple[Callable[[str], object], ...] = (
    parse,
    chrony,
    ntpq,
    boot_time,
    machine_checks,
    killed,
    lambda text: list(memory(text)),
    lambda text: stalled(text, "some"),
)


@given(st.text(max_size=600), st.sampled_from(PARSERS))
def test_no_text_breaks_a_parser(text: str, parser: Callable[[str], object]) -> None:
    parser(text)


@given(st.integers(0, 2**64))
def test_any_taint_has_words(mask: int) -> None:
    assert taint_words(mask)
