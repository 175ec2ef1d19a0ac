"""What follows from what: the first cause keeps the blame, in whatever order it is told.

The chains are those measured on Delta (arXiv 2503.11901: PMU to MMU, GSP to a dead GPU, NVLink to
its peers; coalesced within 5 s) and those of NVIDIA's Xid catalogue (48 and what it does to
memory rows and programs, 79 and all that a lost GPU still says).
"""

import pytest
from tests.scenarios.stage import Stage

from bigiron.model import ActionKind, Blame, Change, Health

CHAINS = [
    ("xid.79", "xid.154"),
    ("xid.79", "xid.45"),
    ("xid.79", "xid.43"),
    ("xid.79", "xid.31"),
    ("xid.79", "nvrm.fallen_off"),
    ("xid.79", "recovery.2"),
    ("xid.48", "xid.63"),
    ("xid.48", "xid.64"),
    ("xid.48", "xid.94"),
    ("xid.48", "xid.95"),
    ("xid.48", "xid.171"),
    ("xid.48", "xid.154"),
    ("xid.48", "xid.45"),
    ("xid.94", "xid.63"),
    ("xid.95", "xid.63"),
    ("xid.119", "xid.154"),
    ("xid.119", "xid.45"),
    ("xid.119", "xid.43"),
    ("xid.120", "xid.31"),
    ("xid.122", "xid.31"),
    ("xid.74", "xid.45"),
    ("xid.74", "recovery.1"),
    ("xid.62", "xid.45"),
    ("amdgpu.ring_timeout", "amdgpu.gpu_reset"),
]


@pytest.mark.parametrize(("cause", "follower"), CHAINS)
def test_what_follows_within_seconds_is_evidence(cause: str, follower: str) -> None:
    stage = Stage()
    stage.happens("a1", cause, "gpu3", ago_s=9)
    stage.happens("a1", follower, "gpu3", ago_s=6)
    stage.run()
    assert list(stage.open) == [f"{cause} a1/gpu3"]


@pytest.mark.parametrize("early_s", [0.2, 1, 3, 5])
@pytest.mark.parametrize(("cause", "follower"), CHAINS)
def test_what_is_stamped_up_to_five_seconds_too_early_follows_all_the_same(
    cause: str, follower: str, early_s: float
) -> None:
    stage = Stage()
    stage.happens("a1", follower, "gpu3", ago_s=10 + early_s)
    stage.happens("a1", cause, "gpu3", ago_s=10)
    stage.run()
    assert list(stage.open) == [f"{cause} a1/gpu3"]


@pytest.mark.parametrize(("cause", "follower"), CHAINS)
def test_what_follows_in_the_next_poll_opens_nothing(cause: str, follower: str) -> None:
    stage = Stage()
    stage.happens("a1", cause, "gpu3", ago_s=2)
    stage.run()
    stage.happens("a1", follower, "gpu3", ago_s=55)
    stage.run(3)
    assert list(stage.open) == [f"{cause} a1/gpu3"]
    assert stage.changes(Change.OPEN) == [cause]


@pytest.mark.parametrize(("cause", "follower"), CHAINS)
def test_a_cause_that_is_told_late_takes_over_what_was_told_first(
    cause: str, follower: str
) -> None:
    stage = Stage()
    stage.happens("a1", follower, "gpu3", ago_s=2)
    stage.run()
    stage.happens("a1", cause, "gpu3", ago_s=64)
    stage.run(3)
    assert list(stage.open) == [f"{cause} a1/gpu3"]


@pytest.mark.parametrize(
    ("cause", "follower"),
    [("xid.48", "xid.63"), ("xid.48", "xid.95"), ("xid.119", "xid.79"), ("xid.122", "xid.31")],
)
def test_another_gpu_of_the_node_has_its_own_trouble(cause: str, follower: str) -> None:
    stage = Stage()
    stage.happens("a1", cause, "gpu3", ago_s=9)
    stage.happens("a1", follower, "gpu6", ago_s=6)
    stage.run()
    assert set(stage.open) == {f"{cause} a1/gpu3", f"{follower} a1/gpu6"}


@pytest.mark.parametrize(("cause", "follower"), [("xid.79", "xid.48"), ("xid.48", "xid.63")])
def test_no_chain_reaches_across_a_boot(cause: str, follower: str) -> None:
    stage = Stage()
    stage.happens("a1", cause, "gpu3", ago_s=50)
    stage.run()
    stage.happens("a1", "kernel.reboot", ago_s=40)
    stage.happens("a1", follower, "gpu3", ago_s=20)
    stage.run()
    assert list(stage.open) == [f"{follower} a1/gpu3"]


def test_a_firmware_that_hangs_and_a_gpu_that_dies_of_it_are_one() -> None:
    stage = Stage()
    stage.happens("a1", "xid.119", "gpu3", ago_s=50)
    stage.happens("a1", "xid.79", "gpu3", ago_s=20)
    stage.run()
    (finding,) = stage.open.values()
    assert (finding.fault, finding.subject.key) == ("xid.119", "a1/gpu3")
    assert "XID 79" in finding.because[0]
    assert finding.action is ActionKind.REBOOT  # a reset cannot bring back what is off the bus
    assert stage.health("a1") is Health.UNHEALTHY


@pytest.mark.parametrize("early_s", [1, 3, 5])
def test_a_gpu_that_dies_as_its_firmware_hangs_is_one_finding_in_either_order(
    early_s: float,
) -> None:
    stage = Stage()
    stage.happens("a1", "xid.79", "gpu3", ago_s=20 + early_s)
    stage.happens("a1", "xid.119", "gpu3", ago_s=20)
    stage.run()
    (finding,) = stage.open.values()
    assert finding.subject.key == "a1/gpu3"


def test_the_ends_of_a_link_are_one_incident_of_the_end_that_told_first() -> None:
    stage = Stage()
    stage.happens("a1", "xid.74", "gpu6", ago_s=9)
    stage.happens("a1", "xid.74", "gpu1", ago_s=5)
    stage.run()
    assert list(stage.open) == ["xid.74 a1/gpu6"]


def test_the_other_end_that_is_told_in_the_next_poll_opens_nothing() -> None:
    stage = Stage()
    stage.happens("a1", "xid.74", "gpu6", ago_s=3)
    stage.run()
    stage.happens("a1", "xid.74", "gpu1", ago_s=60)
    stage.run(2)
    assert list(stage.open) == ["xid.74 a1/gpu6"]
    assert stage.changes(Change.OPEN) == ["xid.74"]


def test_a_lost_gpu_keeps_the_blame_for_its_partners_link_errors_in_either_order() -> None:
    stage = Stage()
    stage.happens("a1", "xid.74", "gpu1", ago_s=14)
    stage.happens("a1", "xid.79", "gpu6", ago_s=10)
    stage.run()
    assert list(stage.open) == ["xid.79 a1/gpu6"]


def test_a_program_that_fails_long_before_is_its_own_incident() -> None:
    stage = Stage()
    stage.happens("a1", "xid.31", "gpu3", ago_s=50)
    stage.happens("a1", "xid.122", "gpu3", ago_s=30)
    stage.run()
    assert set(stage.open) == {"xid.31 a1/gpu3", "xid.122 a1/gpu3"}
    assert stage.open["xid.31 a1/gpu3"].blame is Blame.APPLICATION


def test_all_of_a_chain_in_any_order_within_five_seconds_is_one_finding() -> None:
    codes = ("xid.48", "xid.63", "xid.94", "xid.171", "xid.45", "xid.154")
    for turn in range(len(codes)):
        stage = Stage()
        for nth, code in enumerate((*codes[turn:], *codes[:turn])):
            stage.happens("a1", code, "gpu0", ago_s=20 - 0.8 * nth)
        stage.run()
        assert list(stage.open) == ["xid.48 a1/gpu0"], codes[turn:]


def test_devices_that_fail_at_once_are_one_thing_though_one_of_them_had_it_before() -> None:
    stage = Stage()
    stage.happens("a1", "xid.119", "gpu0")
    stage.run(180)
    for gpu in (1, 2, 3):
        stage.happens("a1", "xid.119", f"gpu{gpu}", ago_s=20 - gpu)
    stage.run()
    assert set(stage.open) == {"xid.119 a1", "xid.119 a1/gpu0"}
    assert "3 GPUs (gpu1, gpu2, gpu3)" in stage.open["xid.119 a1"].because[0]


def test_a_sign_of_a_sign_is_evidence_of_the_cause() -> None:
    stage = Stage()
    stage.happens("a1", "xid.63", "gpu0", ago_s=14)
    stage.happens("a1", "xid.94", "gpu0", ago_s=13)
    stage.happens("a1", "xid.48", "gpu0", ago_s=12)
    stage.run()
    (finding,) = stage.open.values()
    assert finding.fault == "xid.48"
    assert {e.text for e in finding.evidence} == {
        f"line that means {code}" for code in ("xid.48", "xid.63", "xid.94")
    }
