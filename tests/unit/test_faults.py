"""The catalogue as a whole, a site's overrides, and the page made of it."""

import subprocess
import sys
from collections import Counter
from importlib import import_module, resources
from pathlib import Path
from pkgutil import walk_packages

import pytest

from bigiron import detect
from bigiron.detect.claims import Asks
from bigiron.detect.limit_rows import LIMITS
from bigiron.errors import ConfigError
from bigiron.faults import CLEARS, Catalogue, parse, shipped
from bigiron.faults.page import FAMILIES, markdown, text
from bigiron.model import ActionKind, Blame, Fault, Severity, When

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"

AGREED = """
xid.79 xid.145.rlw_src_track.0x2 xid.unknown sxid.20034 sxid.unknown dcgm.85 dcgm.unknown
recovery.0 recovery.7 clock.sw_power_cap clock.hw_slowdown clock.sw_thermal clock.hw_thermal
clock.hw_power_brake clock.sync_boost clock.applications_setting clock.display
pcie.aer_correctable pcie.aer_nonfatal pcie.aer_fatal pcie.link_downgraded pcie.link_down
pcie.slot_power pcie.device_inaccessible pcie.bandwidth_limited pcie.surprise_removal
pcie.replay_rate mce.corrected mce.uncorrected mce.fatal mce.thermal edac.correctable
edac.uncorrectable cper.corrected cper.recoverable cper.fatal amdgpu.ras_correctable
amdgpu.ras_uncorrectable amdgpu.ras_deferred amdgpu.bad_page amdgpu.bad_page_threshold
amdgpu.gpu_reset amdgpu.reset_failed amdgpu.ring_timeout amdgpu.page_fault amdgpu.xgmi_error
amdgpu.lost amdgpu.psp_error amdgpu.smu_error amdgpu.poison amdgpu.thermal amdgpu.unknown
ib.link_down ib.link_up ib.flap ib.cmd_timeout ib.health_compromised ib.fw_fatal ib.tx_timeout
ib.cable_unplugged ib.module_event ib.temperature ib.pci_power ib.rate_degraded ib.port_error
ib.unknown nvme.reset nvme.reset_failed nvme.timeout nvme.io_error nvme.media_error
nvme.critical_warning nvme.spare_low nvme.removed kernel.oom kernel.oom_cgroup kernel.hung_task
kernel.soft_lockup kernel.hard_lockup kernel.rcu_stall kernel.panic kernel.oops kernel.bug
kernel.gpf kernel.segfault kernel.segfault_nccl kernel.file_max kernel.conntrack_full
kernel.readonly_fs kernel.ext4_error kernel.xfs_error kernel.ata_error
kernel.clocksource_unstable kernel.nmi kernel.page_alloc_failure kernel.throttled
kernel.call_trace kernel.reboot fm.error fm.nvswitch_nonfatal fm.nvswitch_fatal
fm.training_failed fm.not_running fm.unknown gsp.timeout gsp.error gsp.heartbeat imex.unhealthy
nfs.not_responding nfs.ok nfs.timeout nfs.stale lustre.error lustre.evicted power.psu_failed
power.supply_lost power.brake power.undervoltage thermal.cpu_throttled thermal.critical
thermal.shutdown nvrm.rm_init_failed nvrm.gpu_lost nvrm.os_init_failed nvrm.probe_failed
nvrm.version_mismatch nvrm.assertion nvrm.peermem_invalid_context nvrm.fallen_off nvswitch.error
nccl.timeout nccl.error slurm.node_drain slurm.node_down slurm.gres_missing slurm.invalid_reg
slurm.not_responding slurm.kill_task_failed slurm.reboot slurm.prolog_failed
slurm.epilog_failed k8s.not_ready k8s.unreachable k8s.pressure k8s.cordoned k8s.gpu_unhealthy
k8s.network_unavailable k8s.npd_condition gpu.missing gpu.metrics_frozen gpu.ecc_uncorrectable
gpu.ecc_correctable_high gpu.row_remap_pending gpu.row_remap_failure gpu.row_remap_limit
gpu.spare_rows_low gpu.retired_pages_pending gpu.retired_pages_limit gpu.sram_threshold
gpu.temp_high gpu.memory_temp_high gpu.unhealthy gpu.recovery_needed gpu.nvlink_inactive
gpu.nvlink_errors gpu.nvlink_speed gpu.pcie_width gpu.pcie_gen gpu.slow_clock gpu.hot
gpu.power_low gpu.ecc_disabled gpu.persistence_off gpu.fabric_unhealthy nic.down nic.rate
nic.firmware nic.mtu nic.misbound nic.swapped node.missing node.exporter_down config.drift
config.missing thermal_degradation fan_failure power_brake slow_clock straggler pcie_downtrain
pcie_replay hbm_correctable hbm_remap hbm_uncorrectable nvlink_errors nvlink_fail ib_errors
ib_link_down gpu_off_bus gsp_timeout node_crash driver_hang config_drift lemon
unattributed_failure cooling_excursion leaf_bad pdu_blip
"""
"""Codes that readers and detectors give, and the classes of docs/formats.md."""


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return shipped()


def test_every_agreed_code_is_an_entry_of_its_own(catalogue: Catalogue) -> None:
    assert [code for code in AGREED.split() if code not in catalogue] == []


def test_the_families_are_whole(catalogue: Catalogue) -> None:
    count = Counter(fault.code.partition(".")[0] for fault in catalogue)
    assert count["xid"] >= 173 + 140
    assert count["sxid"] >= 395
    assert count["dcgm"] == 133 + 1
    assert count["recovery"] == 8 + 1
    assert all(f"dcgm.{n}" in catalogue for n in range(133))


def test_no_code_stands_twice() -> None:
    seen: Counter[str] = Counter()
    for file in resources.files("bigiron.faults").iterdir():
        if file.name.endswith(".toml"):
            faults, _ = parse(file.read_text("utf-8"), file.name, shipped().sources)
            seen.update(fault.code for fault in faults)
    assert [code for code, times in seen.items() if times > 1] == []


def test_an_entry_read_when_asked_for_is_the_one_that_stands_in_the_file() -> None:
    read: list[Fault] = []
    for file in sorted(resources.files("bigiron.faults").iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            read += parse(file.read_text("utf-8"), file.name, shipped().sources)[0]
    assert list(shipped()) == read
    assert list(shipped().patterned()) == [fault for fault in read if fault.patterns]


def test_a_sites_entry_with_patterns_is_among_those_tried(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    file = tmp_path / "site.toml"
    file.write_text(SITE)
    codes = [fault.code for fault in catalogue.with_overrides([file]).patterned()]
    assert codes == [*(fault.code for fault in catalogue.patterned()), "site.door_open"]


def wrong(fault: Fault, catalogue: Catalogue) -> str:
    """What an entry lacks; "" if nothing."""
    checks = {
        "source": fault.source in catalogue.sources and len(fault.date) == 10,
        "code": fault.code == fault.code.lower() and " " not in fault.code,
        "meaning": len(fault.meaning) > 25 and fault.meaning.rstrip().endswith("."),
        "name": 3 <= len(fault.name) <= 80 and not fault.name.endswith("."),
        "look": bool(fault.look),
        "clears": fault.clears in CLEARS and fault.quiet_s > 0,
        "when": (fault.action is ActionKind.NONE) == (fault.when is When.NEVER),
        "follows": fault.code not in fault.follows and all(c in catalogue for c in fault.follows),
        "device": fault.device in ["", "gpu", "nic", "nvme", "switch", "dimm", "cpu", "psu", "fan"],
        "needs": bool(fault.patterns) == bool(fault.needs),
    }
    return ", ".join(name for name, good in checks.items() if not good)


def test_every_entry_is_complete(catalogue: Catalogue) -> None:
    assert {f.code: wrong(f, catalogue) for f in catalogue if wrong(f, catalogue)} == {}


def test_a_programs_fault_asks_nothing_of_the_node(catalogue: Catalogue) -> None:
    own = [fault for fault in catalogue if fault.blame is Blame.APPLICATION]
    assert len(own) > 40
    assert [f.code for f in own if f.action is not ActionKind.NONE] == []


def test_news_asks_for_nothing_urgent(catalogue: Catalogue) -> None:
    loud = {ActionKind.DRAIN_NOW, ActionKind.REBOOT, ActionKind.REPAIR, ActionKind.DRAIN}
    info = [fault for fault in catalogue if fault.severity is Severity.INFO]
    assert [f.code for f in info if f.action in loud or f.when is When.NOW] == []


def test_what_no_node_is_to_blame_for_drains_none(catalogue: Catalogue) -> None:
    for code in ("cooling_excursion", "leaf_bad", "pdu_blip", "nfs.not_responding"):
        assert catalogue.find(code).action is ActionKind.NONE


def test_no_two_follow_each_other_in_good_news(catalogue: Catalogue) -> None:
    for code in ("ib.link_up", "nfs.ok", "recovery.0", "kernel.reboot"):
        fault = catalogue.find(code)
        assert (fault.severity, fault.action) == (Severity.INFO, ActionKind.NONE)


def test_find_goes_from_the_particular_to_the_general(catalogue: Catalogue) -> None:
    assert catalogue.find("xid.145.rlw_src_track.0x2").code == "xid.145.rlw_src_track.0x2"
    assert catalogue.find("xid.145.rlw_src_track.0x40000").code == "xid.145.rlw_src_track"
    assert catalogue.find("xid.145.other.0x1").code == "xid.145"
    assert catalogue.find("sxid.99999").code == "sxid.unknown"
    assert catalogue.find("nosuch.thing").severity is Severity.WARNING


SITE = """
[source.site]
title = "Our operations handbook"
date = "2026-11-01"
where = "https://wiki.example/gpu"

[[fault]]
code = "xid.63"
source = "site"
action = "drain"
action_why = "Here a GPU that remaps is tested first."

[[fault]]
code = "site.door_open"
name = "Rack door open"
meaning = "The door contact of the rack says open."
severity = "info"
blame = "facility"
source = "site"
patterns = ['rackd: door (?P<rack>r\\d{1,3}) open']
needs = ["rackd: door"]
"""


def test_a_site_gives_only_what_differs(catalogue: Catalogue, tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(SITE)
    ours = catalogue.with_overrides([file])
    changed, former = ours.find("xid.63"), catalogue.find("xid.63")
    assert (changed.action, changed.when) == (ActionKind.DRAIN, former.when)
    assert (changed.meaning, changed.bucket) == (former.meaning, "IGNORE")
    assert (changed.source, changed.date) == ("site", "2026-11-01")
    assert ours.find("site.door_open").blame is Blame.FACILITY
    assert len(ours) == len(catalogue) + 1
    assert former.action is ActionKind.RESET_GPU


BAD = {
    "not TOML": ("[[fault", "not TOML"),
    "stray table": ("[rules]\nx = 1\n", "rules"),
    "stray key": ('[[fault]]\ncode = "xid.63"\nsevrity = "info"\n', "xid.63.sevrity"),
    "bad value": ('[[fault]]\ncode = "xid.63"\nseverity = "awful"\n', "severity"),
    "no source": ('[[fault]]\ncode = "xid.63"\nsource = "nowhere"\n', "xid.63.source"),
    "incomplete": ('[[fault]]\ncode = "site.new"\nsource = "linux"\n', "site.new"),
    "bad clears": ('[[fault]]\ncode = "xid.63"\nclears = "magic"\n', "xid.63.clears"),
    "resume": ('[[fault]]\ncode = "xid.63"\naction = "resume"\n', "xid.63.action"),
    "bad pattern": ('[[fault]]\ncode = "kernel.oom"\npatterns = ["("]\n', "kernel.oom.patterns"),
    "no needs": ('[[fault]]\ncode = "kernel.oom"\nneeds = []\n', "kernel.oom.needs"),
    "no list": ('[fault]\ncode = "xid.63"\n', "[[fault]]"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_site_file_is_named_with_its_key(
    catalogue: Catalogue, tmp_path: Path, name: str
) -> None:
    content, key = BAD[name]
    file = tmp_path / "site.toml"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        catalogue.with_overrides([file])
    assert str(file) in str(caught.value)
    assert key in str(caught.value)


def test_a_missing_site_file_is_named(catalogue: Catalogue, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read"):
        catalogue.with_overrides([tmp_path / "absent.toml"])


def test_the_page_in_docs_is_what_the_catalogue_says(catalogue: Catalogue) -> None:
    assert PAGE.read_text("utf-8") == markdown(catalogue), "run `make docs`"


def test_the_page_has_every_code_and_family(catalogue: Catalogue) -> None:
    page = markdown(catalogue)
    assert [fault.code for fault in catalogue if f"| `{fault.code}` |" not in page] == []
    assert {f.code.partition(".")[0] for f in catalogue if "." in f.code} <= set(FAMILIES)


def test_one_entry_reads_whole(catalogue: Catalogue) -> None:
    shown = text(catalogue.find("xid.63"), catalogue)
    for part in ("INFOROM_DRAM_RETIREMENT_EVENT", "IGNORE", "EKS: replace the node", "xid.48"):
        assert part in shown


def test_the_module_prints_entries() -> None:
    command = [sys.executable, "-m", "bigiron.faults", "xid.79", "sxid.20034"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("xid.79  GPU has fallen off the bus")
    assert "sxid.20034  Link failed" in done.stdout


def test_use_puts_a_sites_files_over_the_shipped_catalogue(tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(SITE)
    program = (
        "import pathlib, sys; from bigiron.faults import catalogue, use;"
        "before = catalogue().find('xid.63').action; use([pathlib.Path(sys.argv[1])]);"
        "print(before, catalogue().find('xid.63').action)"
    )
    command = [sys.executable, "-c", program, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["reset_gpu", "drain"]


def test_what_a_detector_asks_for_beside_the_catalogue_says_why() -> None:
    detectors = list(walk_packages(detect.__path__, "bigiron.detect."))
    asked = {
        f"{module.name}.{name}": value
        for module in detectors
        for name, value in vars(import_module(module.name)).items()
        if isinstance(value, Asks)
    }
    assert len(asked) > 5
    assert [name for name, asks in asked.items() if not asks.why] == []


def test_every_limit_is_judged_as_the_catalogue_has_it_unless_its_row_says_why() -> None:
    for limit in LIMITS:
        assert limit.fault in shipped(), limit.fault
        known = shipped().find(limit.fault)
        if limit.asks is not None:
            assert limit.asks.why, limit.fault
            assert limit.asks[:4] != (known.severity, known.action, known.when, known.blame)


def test_one_hour_is_one_hour() -> None:
    told = {text(entry, shipped()) for entry in shipped() if entry.quiet_s == 3600}
    assert any("1 hour without another" in page for page in told)
    assert not any("1 hours" in page for page in told)
