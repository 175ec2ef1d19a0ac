"""`bigiron score`: what a replay found of what really happened, with n and 95 % intervals."""

from pathlib import Path

import click
import msgspec

from bigiron.analyze.intervals import Percentiles, Rate, Share
from bigiron.analyze.score import ClassScore, Score
from bigiron.analyze.score import score as figures
from bigiron.cli.score_files import Truth
from bigiron.cli.table import show
from bigiron.model import Note

WORST = 12
"""Sources of false suspects that are listed."""


@click.command()
@click.argument("recording", type=click.Path(path_type=Path))
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--baselines",
    is_flag=True,
    help="Judge the usual methods on the same recording too; they write into DIR/baselines.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
def score(recording: Path, folder: Path, baselines: bool, as_json: bool) -> int:
    """Compare what `bigiron replay` wrote into DIR with what really happened in RECORDING.

    RECORDING must hold truth.jsonl. A suspect is a finding on a node or device that became a
    warning or worse; a finding on a group blames no node. What counts as found, false and useful
    is told in docs/detection.md.
    """
    truth = Truth(recording)
    judged = truth.against(folder)
    scores = {"bigiron": figures(judged.tally)}
    if baselines:
        from bigiron.hub.baselines import run

        for name, out in run(recording, folder / "baselines").items():
            scores[name] = figures(truth.against(out).tally)
    if as_json:
        told: object = scores["bigiron"] if not baselines else scores
        click.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())
        return 0
    print_score(scores["bigiron"], judged.notes)
    if baselines:
        click.echo()
        print_methods(scores)
    return 0


def print_score(told: Score, notes: tuple[Note, ...] = ()) -> None:
    """All tables of one score."""
    click.echo(f"{told.nodes} nodes, {told.node_days:,.1f} node-days")
    click.echo()
    rows = [_row(one) for one in (*told.classes, told.faults, told.shared) if one.recall.n]
    show(
        ("class", "n", "recall", "luck", "delay h p10/50/90", "lead h p10/50/90", "right part"),
        rows,
    )
    if told.levels:
        click.echo()
        show(
            ("size of gradual faults", "found within 7 days", "within 14 days"),
            [
                (one.strength, share_text(one.within_7_days), share_text(one.within_14_days))
                for one in told.levels
            ],
        )
    click.echo()
    for name, text in summary(told):
        click.echo(f"{name:38} {text}")
    blamed = [one for one in told.harmless if one.blamed.hits]
    if blamed:
        click.echo()
        show(
            ("benign or shared, yet a node was blamed", "episodes"),
            [(one.kind, f"{one.blamed.hits} of {one.blamed.n}") for one in blamed],
        )
    if told.false_suspects:
        click.echo()
        show(
            ("false suspects by detector", "fault", "count"),
            [(f.detector, f.fault, str(f.count)) for f in told.false_suspects[:WORST]],
        )
    for note in notes:
        click.echo(f"note: {note.source}: {note.what}")


def summary(told: Score) -> list[tuple[str, str]]:
    """The figures over all classes, in words."""
    base = told.base_rate_per_1000_node_days
    return [
        ("false suspects per 1,000 node-days", rate_text(told.false_suspects_per_1000_node_days)),
        ("false drains per 1,000 node-days", rate_text(told.false_drains_per_1000_node_days)),
        ("benign or shared, a node blamed", share_text(told.harmless_total)),
        ("right device, of those found", share_text(told.right_device)),
        ("right group, of those found", share_text(told.shared.right)),
        ("precision of suspects", share_text(told.precision)),
        ("fault episodes per 1,000 node-days", "-" if base is None else f"{base:.1f}"),
    ]


def print_methods(scores: dict[str, Score]) -> None:
    """Ours and the others side by side."""
    rows = [
        (
            name,
            share_text(one.faults.recall),
            f"{one.faults.luck:.1f}",
            rate_text(one.false_suspects_per_1000_node_days),
            rate_text(one.false_drains_per_1000_node_days),
            share_text(one.harmless_total),
            share_text(one.right_device),
        )
        for name, one in scores.items()
    ]
    show(
        (
            "method",
            "recall",
            "luck",
            "false suspects /1,000 nd",
            "false drains /1,000 nd",
            "benign, node blamed",
            "right device",
        ),
        rows,
    )


def _row(one: ClassScore) -> tuple[str, ...]:
    cut = f" ({one.cut} cut)" if one.cut else ""
    return (
        one.kind,
        f"{one.recall.n}{cut}",
        share_text(one.recall),
        f"{one.luck:.1f}",
        percentiles_text(one.delay_h),
        percentiles_text(one.lead_h) if one.lead_h.n else "-",
        share_text(one.right) if one.right.n else "-",
    )


def share_text(share: Share) -> str:
    """``0.97 [0.91, 0.99] (33 of 34)``."""
    if share.value is None or share.low is None or share.high is None:
        return "- (0 of 0)"
    return f"{share.value:.2f} [{share.low:.2f}, {share.high:.2f}] ({share.hits} of {share.n})"


def rate_text(rate: Rate) -> str:
    """``0.30 [0.10, 0.62] (5)``."""
    if rate.value is None or rate.low is None or rate.high is None:
        return "-"
    return f"{rate.value:.2f} [{rate.low:.2f}, {rate.high:.2f}] ({rate.count})"


def percentiles_text(of: Percentiles) -> str:
    """Hours; "never" where a percentile falls on a miss."""
    return "/".join("never" if p is None else f"{p:.1f}" for p in (of.p10, of.p50, of.p90))
