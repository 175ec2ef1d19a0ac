"""`bigiron demo`: a simulated fleet, faults injected, the real hub finds and explains them."""

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from shutil import which

import click
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from bigiron.cli.table import console
from bigiron.errors import NoData, Permanent, Temporary
from bigiron.model import Blame, Severity
from bigiron.sim.live import slurm
from bigiron.sim.live.episodes import Episode
from bigiron.sim.live.prometheus import Prometheus
from bigiron.sim.live.server import Exporters
from bigiron.sim.live.story import WHAT, story
from bigiron.sim.live.world import World
from bigiron.store.reading import FindingRow, Reading
from bigiron.words import DO, SEVERITY_STYLE

TICK_S = 1.0
SCRAPE_S = 2
SHOWN = 14


@click.command()
@click.option("--nodes", default=64, show_default=True, type=click.IntRange(16, 1024))
@click.option(
    "--minutes",
    default=3.0,
    show_default=True,
    type=click.FloatRange(0.5, 60),
    help="How long; below 2 the slow faults are not found in time.",
)
@click.option("--seed", default=7, show_default=True, help="The same seed, the same story.")
@click.option("--folder", type=click.Path(path_type=Path), help="Kept here; else a new folder.")
@click.option("--no-prometheus", is_flag=True, help="Fetch the pages without a Prometheus.")
def demo(nodes: int, minutes: float, seed: int, folder: Path | None, no_prometheus: bool) -> int:
    """A simulated fleet with faults injected; the hub finds them and says why.

    The fleet's exporter pages are scraped by a real Prometheus where one is installed, and fetched
    directly where not. Everything runs on loopback and ends with the demo.
    """
    place = folder or Path(tempfile.mkdtemp(prefix="bigiron-demo-"))
    place.mkdir(parents=True, exist_ok=True)
    out = console()
    length_s = minutes * 60
    world = World.make(nodes, seed, time.time(), (), job_s=length_s * 4)
    busy = [n for job in world.jobs.running for n in job.nodes if len(job.nodes) > 1]
    world.episodes = story(nodes, length_s, seed, busy)
    injected = list(world.episodes)
    with ExitStack() as stack:
        exporters = stack.enter_context(Exporters(world))
        source = _source(stack, place, exporters, world, no_prometheus)
        slurm.install(place / "slurm")
        slurm.update(place / "slurm", world)
        (place / "kernel.log").touch()
        (place / "bigiron.toml").write_text(_config(place, source), "utf-8")
        out.print(
            f"[bold]{nodes} simulated nodes × 8 GPUs[/], exporter pages read by "
            f"{'a real Prometheus' if 'prometheus' in source else 'the embedded scraper'}, "
            f"a kernel log, a Slurm-like job stream.\n{len(injected)} things will happen in "
            f"{minutes:g} minutes; three of them are no fault of any node."
        )
        hub = _hub(stack, place)
        _play(world, exporters, place, length_s, hub, out)
    _told(place, world, injected, out)
    command = _command()
    out.print("\n[bold]Try next[/]")
    for line in (
        f"nodes --folder {place / 'hub'}",
        f"why {_first_fault(world, injected)} --folder {place / 'hub'}",
        f"inspect {place / 'kernel.log'}",
    ):
        out.print(f"  {command} {line}", soft_wrap=True)
    return 0


def _command() -> str:
    """How this command was called: what is told to be tried next works as it stands."""
    return "bigiron" if which("bigiron") else sys.argv[0]


def _source(
    stack: ExitStack, place: Path, exporters: Exporters, world: World, no_prometheus: bool
) -> str:
    """The configuration's part that reads the pages."""
    if not no_prometheus:
        try:
            server = Prometheus(place / "prometheus", exporters.port, world.fleet.names, SCRAPE_S)
            stack.enter_context(server)
        except NoData:
            pass  # not installed: the pages are fetched directly
        else:
            return f'[[prometheus]]\nurl = "{server.url}"\nevery_s = 1.0\n'
    targets = ", ".join(f'"{url}"' for url in exporters.urls())
    return f"[[scrape]]\ntargets = [{targets}]\nevery_s = {SCRAPE_S}.0\n"


def _config(place: Path, source: str) -> str:
    """A hub at the demo's pace: minutes stand for what takes hours."""
    return f"""# The demo's hub. Its times are compressed; a real fleet keeps the defaults.
[hub]
folder = "{place / "hub"}"
window_s = 300.0
fresh_s = 15.0
sustain_s = 30.0

{source}
[[kernel_log]]
path = "{place / "kernel.log"}"

[slurm]
path = "{place / "slurm"}:/usr/bin:/bin"
every_s = 3.0
"""


def _hub(stack: ExitStack, place: Path) -> "subprocess.Popen[bytes]":
    """The hub in a process of its own, as in life; ended with the stack."""
    log = stack.enter_context((place / "hub.log").open("wb"))
    hub = subprocess.Popen(
        [sys.executable, "-m", "bigiron", "hub", "--config", str(place / "bigiron.toml")],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    stack.callback(_end, hub)
    return hub


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _play(
    world: World,
    exporters: Exporters,
    place: Path,
    length_s: float,
    hub: "subprocess.Popen[bytes]",
    out: Console,
) -> None:
    """Lets the story run in real time and shows what the hub has found so far."""
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=out
    )
    task = progress.add_task("injecting faults", total=length_s)
    rows: list[FindingRow] = []
    with (
        (place / "kernel.log").open("a", encoding="utf-8") as log,
        Live(console=out, refresh_per_second=4, transient=True) as live,
    ):
        while (now := time.time()) < world.start_s + length_s:
            if hub.poll() is not None:
                raise Permanent(f"the hub ended early: see {place / 'hub.log'}")
            with exporters.lock:
                world.step(now - world.now_s)
            log.write("".join(f"{line}\n" for line in world.take_log()))
            log.flush()
            slurm.update(place / "slurm", world)
            rows = _found(place) or rows
            _advance(progress, task, now - world.start_s)
            live.update(Group(progress, _table(rows[-SHOWN:])))
            time.sleep(max(0.0, TICK_S - (time.time() - now)))


def _advance(progress: Progress, task: TaskID, done_s: float) -> None:
    progress.update(task, completed=done_s)


def _found(place: Path) -> list[FindingRow]:
    """What stands that a person should know of, oldest first; none before the ledger is there."""
    try:
        with Reading(place / "hub") as reading:
            found = reading.findings(closed=True)
    except (NoData, Temporary):
        return []
    worth = [f for f in found if f.finding.severity is not Severity.INFO]
    return sorted(worth, key=lambda f: (f.opened, f.id))


def _table(rows: list[FindingRow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("found", "severity", "where", "what and why"):
        table.add_column(name, no_wrap=name != "what and why")
    for row in rows:
        finding = row.finding
        table.add_row(
            f"{row.opened:%H:%M:%S}",
            f"[{SEVERITY_STYLE[finding.severity]}]{finding.severity}[/]",
            escape(str(finding.subject)),
            escape(finding.because[0] if finding.because else finding.fault),
        )
    return table


def _told(place: Path, world: World, injected: list[Episode], out: Console) -> None:
    """What was injected beside what was found, and how soon."""
    rows = _found(place)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("injected", "where", "found after", "as", "do"):
        table.add_column(name, no_wrap=name in ("where", "found after", "as"))
    missed = blamed = 0
    for episode in sorted(injected, key=lambda e: e.onset_s):
        where = episode.subject(world.fleet)
        node = world.fleet.names[episode.node]
        onset_s = world.start_s + episode.onset_s
        about = [r for r in rows if r.finding.subject.node == node]
        if episode.benign:
            against = [r for r in about if r.finding.blame is not Blame.APPLICATION]
            blamed += bool(against)
            said = "[red]blamed[/]" if against else "[green]nobody blamed[/]"
            table.add_row(WHAT[episode.kind], where, said, "", "")
            continue
        right = [r for r in about if r.opened.timestamp() >= onset_s - 1]
        missed += not right
        if not right:
            table.add_row(WHAT[episode.kind], where, "[red]not found[/]", "", "")
            continue
        first = right[0]
        delay = first.opened.timestamp() - onset_s
        worst = max(right, key=lambda r: r.finding.severity.rank).finding
        table.add_row(
            WHAT[episode.kind],
            where,
            f"{max(0.0, delay):.1f} s",
            first.finding.fault,
            DO.get(worst.action, "-"),
        )
    out.print(table)
    hit = {world.fleet.names[e.node] for e in injected}
    others = {r.finding.subject.node for r in rows} - hit - {""}
    out.print(
        f"{sum(not e.benign for e in injected) - missed} of "
        f"{sum(not e.benign for e in injected)} faults found; {blamed} of "
        f"{sum(e.benign for e in injected)} harmless happenings blamed on a node; "
        f"{len(others)} untouched nodes flagged."
    )


def _first_fault(world: World, injected: list[Episode]) -> str:
    first = next(e for e in injected if e.kind == "gpu_off_bus")
    return world.fleet.names[first.node]
