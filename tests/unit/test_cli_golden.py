import json
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from bigiron.cli import root
from bigiron.config import parse
from bigiron.detect import Declared, Exempt
from bigiron.errors import ConfigError, NoData, Permanent
from bigiron.hub import golden as of
from bigiron.hub.golden_file import FILE, check, declared_in, with_golden
from bigiron.hub.loop import Hub
from bigiron.hub.memory import Memory
from bigiron.hub.poller import Arrival
from bigiron.hub.replay import replay
from bigiron.hub.scan import scan
from bigiron.hub.settings import settings
from bigiron.hub.turn import Settings
from bigiron.ingest.recording import Recording
from bigiron.model import Batch, Device, Fact, FactValue, Node
from bigiron.store.ledger import Ledger

NOW = datetime.now(UTC).replace(microsecond=0)
NODES = [f"n{number:02d}" for number in range(1, 25)]


def batch(odd: dict[str, FactValue] | None = None) -> Batch:
    """24 nodes with eight GPUs; n07 has what ``odd`` says."""
    nodes = tuple(Node(n, sku="box8", role="train", ring=f"ring{n[1]}") for n in NODES)
    gpus = [
        Device(n, f"gpu{i}", "gpu", f"GPU-{n}-{i}", model="Model M") for n in NODES for i in (0, 1)
    ]
    facts = [Fact(n, "hostname", n, "", NOW) for n in NODES]
    for n in NODES:
        own: dict[str, FactValue] = {
            "driver_version": "550.1",
            "env.NCCL_IB_HCA": "mlx5",
            "memory_total_gb": 2015.5,
        }
        own |= (odd or {}) if n == "n07" else {}
        facts += [Fact(n, name, value, "", NOW) for name, value in own.items()]
        facts += [Fact(n, "power_limit_w", 700, f"gpu{i}", NOW) for i in (0, 1)]
        facts += [Fact(n, "ecc_mode", "Enabled", f"gpu{i}", NOW) for i in (0, 1)]
        facts += [Fact(n, "pcie_link_gen", 5, f"gpu{i}", NOW) for i in (0, 1)]
        facts += [Fact(n, "numa_node", i, f"gpu{i}", NOW) for i in (0, 1)]
        facts.append(Fact(n, "bios_version", f"1.{int(n[1:]) % 3}", "", NOW))
    return Batch(NOW, "facts", nodes=nodes, devices=tuple(gpus), facts=tuple(facts))


def hub(folder: Path, odd: dict[str, FactValue] | None = None) -> Path:
    with Ledger(folder) as ledger:
        live = Hub(ledger, NOW)
        live.step([Arrival("facts", batch(odd), "1", 0.0)], NOW)
        live.close(NOW + timedelta(seconds=1))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return hub(tmp_path / "hub", {"driver_version": "535.1"})


def ask(*arguments: str | Path, text: str | None = None) -> Result:
    return CliRunner().invoke(
        root, ["golden", *map(str, arguments)], input=text, standalone_mode=False
    )


def said(*arguments: str | Path, text: str | None = None, code: int = 0) -> str:
    result = ask(*arguments, text=text)
    assert result.exception is None, result.exception
    assert result.return_value == code
    return result.stdout


def test_derived_is_a_golden_file_with_counts_and_comments(folder: Path) -> None:
    text = said("derive", "--folder", folder)
    tables = {t["kind"]: t for t in tomllib.loads(text)["golden"]}
    assert tables["node"]["facts"] == {
        "driver_version": "550.1",
        "env.NCCL_IB_HCA": "mlx5",
        "memory_total_gb": 2015.5,
    }
    assert tables["gpu"]["facts"] == {"ecc_mode": "Enabled", "power_limit_w": 700}
    assert tables["gpu"]["model"] == "Model M"
    assert 'driver_version = "550.1"  # 23 of 24 nodes' in text
    assert '# bios_version: no consensus: "1.0" on 8, "1.1" on 8, "1.2" on 8 of 24 nodes' in text
    assert "# pcie_link_gen: it moves with load" in text


def test_derived_as_json_says_the_same(folder: Path) -> None:
    tables = json.loads(said("derive", "--folder", folder, "--json"))
    node = next(t for t in tables if t["kind"] == "node")
    assert node["facts"]["driver_version"] == "550.1"
    assert node["held"]["driver_version"] == "23 of 24 nodes"
    assert node["undecided"]["bios_version"].startswith("no consensus")


def test_what_is_derived_declared_and_shown_is_the_same(folder: Path) -> None:
    before = json.loads(said("show", "--folder", folder, "--json"))["facts"]
    differed = said("diff", "--folder", folder, "--json", code=1)
    text = said("derive", "--folder", folder)
    said("declare", "-", "--folder", folder, text=text)
    after = json.loads(said("show", "--folder", folder, "--json"))["facts"]
    derived = {(r["kind"], r["fact"], r["place"]): r for r in before}
    assert len(after) == len(before)
    for row in after:
        was = derived[row["kind"], row["fact"], row["place"]]
        assert row["should"] == was["should"]
        assert row["holds"] == was["holds"]
        declared = was["by"] == "derived" and not was["place"]
        assert row["by"] == ("declared" if declared else was["by"])
    again = json.loads(said("diff", "--folder", folder, "--json", code=1))
    assert [f["fault"] for f in again] == [f["fault"] for f in json.loads(differed)]
    assert again[0]["because"][0] == (
        "n07 has driver version 535.1; it should be 550.1, as declared."
    )
    assert said("derive", "--folder", folder).splitlines()[1:] == text.splitlines()[1:]


def test_a_table_for_a_person_shows_what_should_be_and_by_whose_word(folder: Path) -> None:
    lines = said("show", "--folder", folder).splitlines()
    driver = next(line for line in lines if " driver_version " in line)
    assert driver.split() == [
        "box8",
        "train",
        "node",
        "driver_version",
        "550.1",
        "23",
        "of",
        "24",
        "derived",
    ]
    bios = next(line for line in lines if " bios_version " in line)
    assert bios.endswith("no consensus")


def test_the_heaviest_differences_come_first_and_the_exit_code_tells(tmp_path: Path) -> None:
    odd: dict[str, FactValue] = {
        "driver_version": "535.1",
        "env.NCCL_IB_HCA": "mlx5_9",
        "memory_total_gb": 1024.0,
    }
    there = hub(tmp_path / "hub", odd)
    lines = said("diff", "--folder", there, code=1).splitlines()[1:]
    assert [line.split()[1].removeprefix("config.drift.") for line in lines] == [
        "env.NCCL_IB_HCA",
        "memory_total_gb",
        "driver_version",
    ]


def test_nobody_differs(tmp_path: Path) -> None:
    there = hub(tmp_path / "hub")
    assert said("diff", "--folder", there) == ""
    assert json.loads(said("diff", "--folder", there, "--json")) == []


EXCEPTION = """
[[golden_exception]]
nodes = "n[06-07]"
fact = "driver_version"
value = "535.1"
until = {until}
why = "a trial"
"""


def test_an_exception_is_applied_shown_and_named_when_it_is_over(folder: Path) -> None:
    text = EXCEPTION.format(until="2099-01-31T00:00:00Z")
    assert "1 exceptions" in said("declare", "-", "--folder", folder, text=text)
    assert said("diff", "--folder", folder) == ""
    (shown,) = json.loads(said("show", "--folder", folder, "--json"))["exceptions"]
    assert shown == {
        "nodes": "n[06-07]",
        "fact": "driver_version",
        "values": ["535.1"],
        "until": "2099-01-31T00:00:00Z",
        "why": "a trial",
        "over": False,
    }
    assert "2099-01-31 00:00:00" in said("show", "--folder", folder)
    result = ask(
        "declare", "-", "--folder", folder, text=EXCEPTION.format(until='"2020-01-31T00:00:00Z"')
    )
    note = "the exception for driver_version on n[06-07] ended at 2020-01-31 00:00 UTC (a trial)"
    assert result.stderr.count(note) == 1
    result = ask("diff", "--folder", folder)
    assert result.return_value == 1
    assert result.stderr.count(note) == 1
    assert "The exception for it ended at 2020-01-31 00:00 (a trial)." in result.stdout
    assert "(over)" in said("show", "--folder", folder)


@pytest.mark.parametrize(
    ("text", "key", "wanted"),
    [
        ("[golden\n", "", "not TOML"),
        ("", "", "nothing is declared"),
        ("[hub]\nturn_s = 1", "", "holds [[golden]] and [[golden_exception]] only"),
        ("[golden]\nfacts = {}", "golden", "write [[golden]]"),
        ("[[golden]]\nsku = 'a'", "golden[0]", "required field `facts`"),
        ("[[golden]]\nfacts = {mtu = []}", "golden[0].facts.mtu", "at least one"),
        (
            "[[golden]]\nfacts = {driver_verson = '1'}",
            "golden[0].facts.driver_verson",
            "driver_version",
        ),
        ("[[golden]]\nfacts = {colour = 'red'}", "golden[0].facts.colour", "env.NCCL_*"),
        ("[[golden]]\nfacts = {power_limit_w = 'x'}", "golden[0].facts.power_limit_w", "number"),
        ("[[golden]]\nfacts = {power_limit_w = -1}", "golden[0].facts.power_limit_w", "above zero"),
        ("[[golden]]\nfacts = {power_limit_w = true}", "golden[0].facts.power_limit_w", "number"),
        ("[[golden]]\nfacts = {pcie_link_gen = 5}", "golden[0].facts.pcie_link_gen", "at rest"),
        (
            "[[golden]]\nfacts = {mtu = 1500}\n[[golden]]\nfacts = {mtu = 9000}",
            "golden[1].facts.mtu",
            "golden[0] declares it",
        ),
        (EXCEPTION.format(until="'2027-01-31T00:00:00'"), "golden_exception[0].until", "an offset"),
        (EXCEPTION.format(until="2027-01-31"), "golden_exception[0].until", "an offset"),
        (EXCEPTION.format(until="'soon'"), "golden_exception[0].until", "RFC 3339"),
        (
            "[[golden_exception]]\nnodes = 'a'\nfact = 'mtu'\nwhy = 'x'",
            "golden_exception[0]",
            "`until`",
        ),
        (
            "[[golden_exception]]\nnodes = 'a'\nfact = 'mtu'\nuntil = 2027-01-31T00:00:00Z",
            "golden_exception[0]",
            "`why`",
        ),
        (
            EXCEPTION.format(until="2027-01-31T00:00:00Z").replace("a trial", " "),
            "golden_exception[0].why",
            "a reason",
        ),
        (
            EXCEPTION.format(until="2027-01-31T00:00:00Z").replace("n[06-07]", "n[06-"),
            "golden_exception[0].nodes",
            "n[06-",
        ),
        (
            EXCEPTION.format(until="2027-01-31T00:00:00Z").replace("n[06-07]", ""),
            "golden_exception[0].nodes",
            "at least one node",
        ),
        (
            EXCEPTION.format(until="2027-01-31T00:00:00Z").replace("driver_version", "drivers"),
            "golden_exception[0].fact",
            "no fact of this name",
        ),
    ],
)
def test_an_error_names_file_and_key_and_nothing_is_kept(
    tmp_path: Path, text: str, key: str, wanted: str
) -> None:
    file = tmp_path / "site.toml"
    file.write_text(text)
    result = ask("declare", file, "--folder", tmp_path / "hub")
    assert isinstance(result.exception, ConfigError)
    assert result.exception.file == str(file)
    assert result.exception.key == key
    assert wanted in str(result.exception)
    assert not (tmp_path / "hub" / FILE).exists()


def test_the_same_errors_are_said_of_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "bigiron.toml"
    file.write_text("[[golden]]\nfacts = {driver_verson = '1'}")
    for command in (["config", "check", str(file)], ["scan", "--config", str(file)]):
        result = CliRunner().invoke(root, command, standalone_mode=False)
        assert isinstance(result.exception, ConfigError), command
        assert result.exception.key == "golden[0].facts.driver_verson"
        assert "did you mean driver_version" in str(result.exception)


def test_a_broken_file_in_the_hubs_folder_is_named(folder: Path) -> None:
    (folder / FILE).write_text("[[golden]]\nfacts = {drivers = '1'}")
    for command in ("derive", "show", "diff"):
        result = ask(command, "--folder", folder)
        assert isinstance(result.exception, ConfigError)
        assert result.exception.file == str(folder / FILE)
        assert result.exception.key == "golden[0].facts.drivers"


def test_what_fits_no_node_is_noted(folder: Path) -> None:
    text = "[[golden]]\nsku = 'box9'\nfacts = {mtu = 9000}\n" + EXCEPTION.format(
        until="2099-01-31T00:00:00Z"
    ).replace("n[06-07]", "x01")
    result = ask("declare", "-", "--folder", folder, text=text)
    assert "note: golden[0]: no node of SKU box9 is known" in result.stderr
    assert "note: golden_exception[0]: not known: x01" in result.stderr
    told = json.loads(said("declare", "-", "--folder", folder, "--json", text=text))
    assert told["facts"] == told["tables"] == told["exceptions"] == 1
    assert len(told["notes"]) == 2


def test_declaring_for_a_hub_that_has_seen_nothing_is_possible(tmp_path: Path) -> None:
    file = tmp_path / "golden.toml"
    file.write_text("[[golden]]\nfacts = {mtu = 9000}", encoding="utf-8-sig")
    result = ask("declare", file, "--folder", tmp_path / "new")
    assert result.exception is None
    assert "has seen nothing yet" in result.stderr
    assert declared_in(tmp_path / "new")[0] == (Declared({"mtu": (9000,)}),)


def test_files_that_are_not_there_are_said_so(tmp_path: Path) -> None:
    assert isinstance(ask("declare", tmp_path / "no.toml").exception, ConfigError)
    for command in ("derive", "show", "diff"):
        assert isinstance(ask(command, "--folder", tmp_path / "no").exception, NoData)
    (tmp_path / "file").write_text("")
    result = ask(
        "declare", "-", "--folder", tmp_path / "file", text="[[golden]]\nfacts = {mtu = 1}"
    )
    assert isinstance(result.exception, Permanent)


def recording(folder: Path, odd: dict[str, FactValue]) -> Path:
    """The same fleet as a recording of two hours; what is odd comes after one."""
    start = datetime(2026, 5, 4, 8, tzinfo=UTC)
    folder.mkdir()
    (folder / "recording.toml").write_text(
        f'name = "small"\nstart = "{start.isoformat()}"\n'
        f'end = "{(start + timedelta(hours=2)).isoformat()}"\nstep_s = 300\n'
    )
    (folder / "nodes.csv").write_text(
        "node,sku,role\n" + "".join(f"{n},box8,train\n" for n in NODES)
    )
    lines = [(start, f.node, f.device, {f.name: f.value}) for f in batch().facts]
    lines.append((start + timedelta(hours=1), "n07", "", odd))
    (folder / "facts.jsonl").write_text(
        "".join(
            json.dumps({"time": t.isoformat(), "node": n, "device": d, "facts": facts}) + "\n"
            for t, n, d, facts in lines
        )
    )
    return folder


def test_a_recording_is_asked_as_it_was_at_a_time(tmp_path: Path) -> None:
    there = recording(tmp_path / "rec", {"driver_version": "535.1"})
    assert len(json.loads(said("diff", "--recording", there, "--json", code=1))) == 1
    then = "2026-05-04T08:30:00+00:00"
    assert json.loads(said("diff", "--recording", there, "--json", "--at", then)) == []
    result = ask("show", "--folder", tmp_path, "--at", then)
    assert "it needs --recording" in str(result.exception)


SITE = """
[[golden]]
sku = "box8"
facts = {{ "env.NCCL_IB_HCA" = "mlx5", driver_version = ["550.1", "560.1"] }}
{exception}
"""


def site(until: str = "") -> Settings:
    exception = EXCEPTION.format(until=until) if until else ""
    return settings(parse(SITE.format(exception=exception), "bigiron.toml"))


@pytest.mark.parametrize(("until", "found"), [("", 1), ("2099-01-31T00:00:00Z", 0)])
def test_declared_facts_and_exceptions_hold_in_a_replay(
    tmp_path: Path, until: str, found: int
) -> None:
    there = recording(tmp_path / "rec", {"driver_version": "535.1"})
    replay(Recording(there), tmp_path / "out", site(until))
    lines = (tmp_path / "out" / "findings.jsonl").read_text().splitlines()
    faults = [json.loads(line)["fault"] for line in lines]
    assert faults.count("config.drift.driver_version") == found


class Given:
    """A source that gives one batch."""

    name = "facts"
    every_s = 1.0

    def __init__(self, given: Batch) -> None:
        self.given = given

    def poll(self, cursor: str) -> tuple[Batch, str]:
        return self.given, cursor


@pytest.mark.parametrize(("until", "found"), [("", 1), ("2099-01-31T00:00:00Z", 0)])
def test_declared_facts_and_exceptions_hold_in_a_scan(until: str, found: int) -> None:
    source = Given(batch({"driver_version": "535.1"}))
    told = scan([source], [], NOW, site(until))
    faults = [f.fault for row in told.rows for f in row.findings]
    assert faults.count("config.drift.driver_version") == found


def test_a_hub_uses_what_its_folder_declares(folder: Path) -> None:
    said("declare", "-", "--folder", folder, text=EXCEPTION.format(until="2099-01-31T00:00:00Z"))
    held = with_golden(Settings(), folder)
    until = datetime(2099, 1, 31, tzinfo=UTC)
    assert held.exempt == (
        Exempt(frozenset({"n06", "n07"}), "driver_version", ("535.1",), until, "a trial"),
    )
    with Ledger(folder) as ledger:
        live = Hub(ledger, NOW + timedelta(minutes=5), held)
        at = NOW + timedelta(minutes=5)
        live.step([Arrival("facts", batch({"driver_version": "535.1"}), "2", 0.0)], at)
        assert list(ledger.open_findings()) == []
        live.close(at)


VALUES = st.one_of(
    st.text(max_size=20),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
)


@given(
    st.dictionaries(
        st.sampled_from(["driver_version", "kernel_cmdline", "env.NCCL_X", "mount./a b"]),
        VALUES,
        min_size=1,
    )
)
def test_any_derived_file_can_be_declared(facts: dict[str, FactValue]) -> None:
    memory = Memory()
    told = tuple(Fact(n, k, v, "", NOW) for n in NODES for k, v in facts.items())
    memory.take(Batch(NOW, nodes=tuple(Node(n, sku='a"b\\c\n') for n in NODES), facts=told))
    config = check(of.derive(memory.window(NOW)), "derived")
    (table,) = config.golden
    assert table.sku == 'a"b\\c\n'
    assert msgspec.to_builtins(table.facts) == facts
