import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.unit.recording_maker import NODES, START, STEP, STEPS, write

from bigiron.analyze.intervals import percentiles, rate, ratio, share
from bigiron.analyze.score import score
from bigiron.analyze.score_tally import merged, tally
from bigiron.analyze.score_truth import Drain, Episode, Scene, Suspicion, strength
from bigiron.cli import root
from bigiron.cli.score_files import Truth
from bigiron.errors import ParseError
from bigiron.model import Subject

DAY = 86_400.0
HOUR = 3600.0
SCENE = Scene("s", ("a1", "a2", "a3", "a4"), 0.0, 10 * DAY)


def episode(kind: str, subject: Subject, onset_s: float = DAY, **more: Any) -> Episode:
    nodes = more.pop("nodes", (subject.node,))
    return Episode("e", kind, more.pop("fault", True), subject, onset_s, nodes=nodes, **more)


def raised(time_s: float, subject: Subject, name: str = "F1") -> Suspicion:
    return Suspicion(time_s, name, "d", "x", subject)


def test_a_finding_counts_from_the_onset_to_the_class_deadline() -> None:
    gpu = Subject("a1", "gpu2")
    slow = episode("slow_clock", gpu)
    for at, found in ((DAY - 1, False), (DAY, True), (DAY + 72 * HOUR, True), (4 * DAY + 1, False)):
        outcome = tally(SCENE, [slow], [raised(at, gpu)], []).outcomes[0]
        assert outcome.found is found, at


def test_an_early_finding_is_false_and_is_no_hit() -> None:
    gpu = Subject("a1", "gpu2")
    told = score(tally(SCENE, [episode("slow_clock", gpu)], [raised(DAY - 1, gpu)], []))
    assert (told.faults.recall.hits, told.faults.recall.n) == (0, 1)
    assert told.false_suspects_per_1000_node_days.value == pytest.approx(1000 / 40)
    assert told.precision.value == 0.0


def test_a_fault_with_a_precursor_is_useful_until_a_quarter_after_the_failure() -> None:
    gpu = Subject("a1", "gpu2")
    growing = episode("nvlink_errors", gpu, precursor=True, fails_s=DAY + 5 * HOUR)
    early = tally(SCENE, [growing], [raised(DAY + 2 * HOUR, gpu)], []).outcomes[0]
    after = tally(SCENE, [growing], [raised(DAY + 5.2 * HOUR, gpu)], []).outcomes[0]
    late = tally(SCENE, [growing], [raised(DAY + 5.3 * HOUR, gpu)], []).outcomes[0]
    assert (early.found, early.lead_s) == (True, 3 * HOUR)
    assert (after.found, after.lead_s) == (True, 0.0)
    assert (late.found, late.lead_s) == (False, 0.0)


def test_the_first_device_named_tells_whether_it_was_the_right_one() -> None:
    slow = episode("slow_clock", Subject("a1", "gpu2"))
    node_first = [raised(DAY, Subject("a1")), raised(DAY + 1, Subject("a1", "gpu2"), "F2")]
    wrong_first = [
        raised(DAY, Subject("a1", "gpu3")),
        raised(DAY + 1, Subject("a1", "gpu2"), "F2"),
    ]
    only_node = [raised(DAY, Subject("a1"))]
    right = [tally(SCENE, [slow], s, []).outcomes[0].right for s in (node_first, wrong_first)]
    assert right == [True, False]
    assert tally(SCENE, [slow], only_node, []).outcomes[0].right is False


def test_a_fault_of_a_node_has_no_right_device() -> None:
    crash = episode("node_crash", Subject("a1"))
    assert tally(SCENE, [crash], [raised(DAY, Subject("a1"))], []).outcomes[0].right is None


def test_a_shared_cause_wants_its_group_and_blames_no_member() -> None:
    loop = Subject(by="cooling", group="l1", members=("a1", "a2"))
    hot = episode("cooling_excursion", loop, nodes=("a1", "a2"), end_s=DAY + HOUR)
    named = raised(DAY + HOUR, Subject(by="cooling", group="l1", members=("a1", "a2")))
    alias = raised(DAY + HOUR, Subject(by="rack", group="r1", members=("a1", "a2", "a3")))
    other = raised(DAY + HOUR, Subject(by="rack", group="r2", members=("a3", "a4")))
    member = raised(DAY + HOUR, Subject("a1", "gpu0"), "F9")
    outcomes = [tally(SCENE, [hot], [s], []).outcomes[0] for s in (named, alias, other)]
    assert [(o.found, o.right) for o in outcomes] == [(True, True), (True, False), (False, None)]
    told = score(tally(SCENE, [hot], [named, member], [Drain(DAY + HOUR, "a2")]))
    assert told.shared.recall.value == told.shared.right.value == 1.0
    assert told.false_suspects_per_1000_node_days.count == 1
    assert told.false_drains_per_1000_node_days.count == 1
    assert [(h.kind, h.blamed.hits) for h in told.harmless] == [("cooling_excursion", 1)]


def test_a_shared_cause_labelled_benign_is_to_be_named_all_the_same() -> None:
    loop = Subject(by="cooling", group="l1")
    hot = episode("cooling_excursion", loop, fault=False, nodes=("a1",))
    assert score(tally(SCENE, [hot], [], [])).shared.recall.n == 1


def test_benign_episodes_are_those_during_which_a_healthy_node_was_blamed() -> None:
    wave = episode(
        "reboot_wave", Subject(by="rack", group="r"), fault=False, nodes=("a1", "a2"), end_s=2 * DAY
    )
    broken = episode("gpu_off_bus", Subject("a2", "gpu1"), end_s=3 * DAY)
    gpu = Subject("a2", "gpu1")
    right = score(tally(SCENE, [wave, broken], [raised(DAY + 60, gpu)], []))
    assert right.harmless_total.hits == 0
    wrong = score(tally(SCENE, [wave, broken], [raised(DAY + 60, Subject("a1"))], []))
    assert wrong.harmless_total.hits == 1
    assert wrong.false_suspects[0].count == 1


def test_traces_of_a_repair_are_not_false_but_what_comes_later_is() -> None:
    broken = episode("gpu_off_bus", Subject("a2", "gpu1"), end_s=DAY + HOUR)
    after = [raised(DAY + 1.5 * HOUR, Subject("a2")), raised(DAY + 3 * HOUR, Subject("a2"), "F2")]
    counted = tally(SCENE, [broken], after, [])
    assert (counted.nodes["s", "a2"].suspects, counted.nodes["s", "a2"].false_suspects) == (2, 1)


def test_what_nothing_could_attribute_is_neither_found_nor_false() -> None:
    unknown = episode("unattributed_failure", Subject("a1"), end_s=DAY + 60)
    told = score(tally(SCENE, [unknown], [raised(DAY + 30, Subject("a1"))], []))
    assert told.faults.recall.n == 0
    assert told.false_suspects_per_1000_node_days.count == 0


def test_an_episode_cut_short_by_the_end_counts_and_is_told() -> None:
    late = episode("thermal_degradation", Subject("a1", "gpu0"), 9 * DAY)
    (outcome,) = tally(SCENE, [late], [], []).outcomes
    assert (outcome.found, outcome.cut, outcome.watched_s) == (False, True, DAY)
    assert score(tally(SCENE, [late], [], [])).faults.cut == 1


def test_luck_is_what_as_many_suspicions_spread_evenly_would_hit() -> None:
    gpu = Subject("a1", "gpu0")
    slow = episode("slow_clock", gpu, 5 * DAY)
    false = [raised(HOUR * i, Subject("a4"), f"F{i}") for i in range(40)]
    told = score(tally(SCENE, [slow], false, []))
    assert told.faults.luck == pytest.approx(1 - 2.718281828 ** (-1 * 3))


def test_sizes_are_told_whatever_the_class_and_only_whole_windows_count() -> None:
    small = [
        episode("slow_clock", Subject("a1", "gpu2"), strength="5 % slower"),
        episode("straggler", Subject("a2"), strength="5 % slower"),
        episode("straggler", Subject("a3"), 8 * DAY, strength="5 % slower"),
    ]
    late = raised(6 * DAY, Subject("a1", "gpu2"))
    told = score(tally(SCENE, small, [late], []))
    assert told.faults.recall.hits == 0, "after the deadline"
    (level,) = told.levels
    assert (level.within_7_days.hits, level.within_7_days.n) == (1, 2)
    assert level.within_14_days.n == 1, "only the one found: no window of 14 days was watched"


def test_sizes_in_words() -> None:
    assert strength("hbm_correctable", 6.9, 2) == "2 sigma"
    assert strength("slow_clock", 0.05, None) == "5 % slower"
    assert strength("hbm_remap", 9.0, None) == strength("straggler", 0.0, None) == ""


def test_recordings_put_together_are_counted_apart() -> None:
    gpu = Subject("a1", "gpu2")
    one = tally(SCENE, [episode("slow_clock", gpu)], [raised(DAY, gpu)], [])
    two = tally(SCENE, [episode("slow_clock", gpu)], [], [])
    told = score(merged([one, two]))
    assert (told.recordings, told.nodes, told.node_days) == (2, 8, 80.0)
    assert (told.faults.recall.hits, told.faults.recall.n) == (1, 2)
    assert told.faults.delay_h.p10 == 0.0
    assert told.faults.delay_h.p90 is None


def test_wilson_against_published_values() -> None:
    # R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3
    for hits, n, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605)):
        told = share(hits, n)
        assert told.low == pytest.approx(low, abs=1e-4)
        assert told.high == pytest.approx(high, abs=1e-4)
    assert share(0, 20).high == pytest.approx(0.1611, abs=1e-4)
    assert share(0, 0).value is None


def test_rates_over_nodes() -> None:
    quiet = rate([0] * 128, [28.0] * 128)
    assert quiet.value == 0.0
    assert quiet.high == pytest.approx(1000 * 3.6889 / 3584, abs=1e-3)
    even, one_node = rate([1] * 50, [10.0] * 50), rate([50] + [0] * 49, [10.0] * 50)
    assert even.value == one_node.value == 100.0
    assert even.low == even.high == 100.0
    assert one_node.low == 0.0
    assert (one_node.high or 0) > 200.0
    assert rate([3, 1], [5.0, 5.0]) == rate([3, 1], [5.0, 5.0])
    assert rate([], []).value is None


def test_a_share_over_nodes_is_never_surer_than_wilson() -> None:
    told = ratio([3, 4, 5], [3, 4, 5])
    assert (told.value, told.low, told.high) == (1.0, share(12, 12).low, 1.0)
    assert ratio([0], [0]).value is None


def test_percentiles_count_a_miss_as_never() -> None:
    told = percentiles([float("inf"), *map(float, range(1, 10))])
    assert (told.p10, told.p50, told.p90) == (1.0, 5.0, 9.0)
    assert percentiles([1.0, float("inf")]).p90 is None
    assert percentiles([]).n == 0


# The command


def line(**fields: Any) -> str:
    return json.dumps(fields) + "\n"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    folder = write(tmp_path / "small")
    lost = START + 4 * STEP
    (folder / "truth.jsonl").write_text(
        line(
            **{"episode": "e1", "class": "gpu_off_bus", "label": "fault", "onset": _at(lost)},
            subject={"kind": "device", "node": "p02", "device": "gpu1"},
            fails=_at(lost),
            end=None,
            effect=0.0,
            precursor=False,
        )
        + line(
            **{"episode": "e2", "class": "firmware_rollout", "label": "benign"},
            subject={"kind": "group", "by": "rack", "group": "r1"},
            onset=_at(START),
        )
    )
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    found = _at(START + 4 * STEP + timedelta(seconds=60))
    finding = {"id": "F1", "detector": "fault", "fault": "xid.79", "confidence": 1.0}
    device = {"kind": "device", "node": "p02", "device": "0000:22:00.0"}
    (folder / "findings.jsonl").write_text(
        line(**finding, time=_at(START), change="open", severity="info", subject=device)
        + line(**finding, time=found, change="update", severity="fatal", subject=device)
        + line(**finding, time=found, change="close", severity="fatal", subject=device)
    )
    drain = {"action": "drain_now", "mode": "shadow", "reason": "", "findings": []}
    (folder / "actions.jsonl").write_text(
        line(time=found, node="p02", **drain) + line(time=found, node="p01", held="budget", **drain)
    )
    return folder


def _at(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()


def test_score_of_a_replay(recording: Path, out: Path) -> None:
    result = CliRunner().invoke(root, ["score", str(recording), str(out), "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told["nodes"] == len(NODES)
    assert told["node_days"] == pytest.approx(len(NODES) * (STEPS - 1) * 300 / 86_400, abs=1e-3)
    assert told["faults"]["recall"]["hits"] == 1
    assert told["faults"]["delay_h"]["p50"] == pytest.approx(1 / 60)
    assert told["right_device"]["hits"] == 1, "a PCI address is the device that has it"
    assert (told["drains"], told["false_drains_per_1000_node_days"]["count"]) == (1, 0)
    assert told["harmless_total"] == {"hits": 0, "n": 1, "value": 0.0} | {
        key: told["harmless_total"][key] for key in ("low", "high")
    }


def test_score_as_tables(recording: Path, out: Path) -> None:
    result = CliRunner().invoke(root, ["score", str(recording), str(out)])
    assert result.exit_code == 0, result.output
    assert "gpu_off_bus" in result.output
    assert "1.00 [0.21, 1.00] (1 of 1)" in result.output
    assert "false suspects per 1,000 node-days" in result.output


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{broken\n", r"small/truth\.jsonl:1: "),
        ('{"episode": "e", "class": "x"}\n', r"truth\.jsonl:1: .*label"),
        (
            '\n{"episode":"e","class":"x","label":"fault","subject":{"node":"p01"},'
            '"onset":"2026-04-06T00:00:00"}\n',
            r"truth\.jsonl:2: onset: a time with an offset",
        ),
        (
            '{"episode":"e","class":"x","label":"odd","subject":{"node":"p01"},'
            '"onset":"2026-04-06T00:00:00Z"}\n',
            r"truth\.jsonl:1: label 'odd'",
        ),
    ],
)
def test_a_wrong_truth_names_file_and_line(recording: Path, text: str, problem: str) -> None:
    (recording / "truth.jsonl").write_text(text)
    with pytest.raises(ParseError, match=problem):
        Truth(recording)


def test_what_is_missing_is_named(recording: Path, out: Path, tmp_path: Path) -> None:
    truth = Truth(recording)
    with pytest.raises(ParseError, match=r"nowhere: no such folder"):
        truth.against(tmp_path / "nowhere")
    (out / "actions.jsonl").unlink()
    with pytest.raises(ParseError, match=r"out/actions\.jsonl: the file is missing"):
        truth.against(out)
    (recording / "truth.jsonl").unlink()
    with pytest.raises(ParseError, match=r"truth\.jsonl: the file is missing"):
        Truth(recording)


def test_a_class_without_deadline_and_a_group_without_members_are_told(recording: Path) -> None:
    (recording / "truth.jsonl").write_text(
        line(
            **{"episode": "e1", "class": "gremlins", "label": "fault", "onset": _at(START)},
            subject={"kind": "node", "node": "p01"},
        )
        + line(
            **{"episode": "e2", "class": "app_xid", "label": "benign", "onset": _at(START)},
            subject={"kind": "group", "by": "user", "group": "ann"},
        )
    )
    told = [note.what for note in Truth(recording).notes]
    assert told == [
        "class 'gremlins' has no deadline: scored to the recording's end",
        "no members known of user ann: nobody to be blamed",
    ]


def test_nothing_but_score_reads_the_truth() -> None:
    src = Path(__file__).parents[2] / "src"
    naming = {
        path.relative_to(src).as_posix()
        for path in src.rglob("*.py")
        if '"truth.jsonl"' in path.read_text("utf-8") or "/truth.jsonl" in path.read_text("utf-8")
    }
    readers = {name for name in naming if not name.startswith("bigiron/sim/")}
    assert readers == {"bigiron/cli/score_files.py"}
