"""`bigiron inspect`: what is wrong with the machines these files come from."""

import sys
from datetime import datetime
from typing import BinaryIO, cast

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from bigiron.cli.table import console
from bigiron.hub.documents import Documents
from bigiron.hub.inspect import Diagnosis, Report
from bigiron.hub.inspect import inspect as run
from bigiron.model import Evidence, Finding
from bigiron.words import FAULT_OF, HEALTH_STYLE, SEVERITY_STYLE, advice

EVIDENCE_SHOWN = 4


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
@click.option("--all", "show_all", is_flag=True, help="Show healthy hosts and every evidence line.")
def inspect(paths: tuple[str, ...], as_json: bool, show_all: bool) -> int:
    """Say what is wrong in log files, tool outputs or a bundle.

    PATH is a file, a folder, an archive (tar, zip, gz, bz2, xz, nested) or - for standard input.
    Each file is recognised by its content: kernel logs, nvidia-smi, dcgmi, nvidia-bug-report,
    exporter pages, amd-smi, rocm-smi, RVS, nccl-tests, sacct, scontrol, kubectl and more.

    Exit code: 0 healthy, 1 warning, 2 critical, 3 nothing recognised, 4 wrong usage.
    """
    report = run(list(paths), Documents(stdin=lambda: cast(BinaryIO, sys.stdin.buffer)))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        show(report, console(), show_all=show_all)
    return report.exit_code


def show(report: Report, out: Console, *, show_all: bool = False) -> None:
    """Print a report for a person."""
    for finding in report.groups:
        _show_finding(finding, out, show_all=show_all)
    healthy = [d for d in report.diagnoses if not d.findings]
    for diagnosis in report.diagnoses:
        if diagnosis.findings or show_all or len(report.diagnoses) == 1:
            _show_host(diagnosis, out, show_all=show_all)
    if healthy and len(report.diagnoses) > 1 and not show_all:
        out.print(f"[green]{len(healthy)} healthy[/]: {', '.join(d.node for d in healthy)}")
    _show_inputs(report, out, show_all=show_all)


def _show_host(diagnosis: Diagnosis, out: Console, *, show_all: bool) -> None:
    parts = f"  [dim]{escape(diagnosis.parts)}[/]" if diagnosis.parts else ""
    style = HEALTH_STYLE[diagnosis.health]
    out.print(f"[bold]{escape(diagnosis.node)}[/]  [{style}]{diagnosis.health}[/]{parts}")
    if not diagnosis.findings:
        out.print("  Nothing wrong was seen.")
    for finding in diagnosis.findings:
        _show_finding(finding, out, show_all=show_all)
    out.print()


def _show_finding(finding: Finding, out: Console, *, show_all: bool) -> None:
    head = Text(f"{finding.severity}  ", style=SEVERITY_STYLE[finding.severity])
    head.append(finding.because[0] if finding.because else finding.fault, style="bold")
    out.print(Padding(head, (0, 0, 0, 2)))
    lines = [("", text) for text in finding.because[1:]]
    if finding.blame in FAULT_OF:
        lines.append(("whose fault", FAULT_OF[finding.blame]))
    lines.append(("do", advice(finding.action, finding.when)))
    lines += [("look at", text) for text in finding.look]
    for label, text in lines:
        line = Text(f"{label:<12}" if label else "", style="dim")
        line.append(text, style="")
        out.print(Padding(line, (0, 0, 0, 6)))
    shown = finding.evidence if show_all else finding.evidence[:EVIDENCE_SHOWN]
    for evidence in shown:
        out.print(Padding(_evidence(evidence), (0, 0, 0, 6)), overflow="fold")
    if len(finding.evidence) > len(shown):
        more = len(finding.evidence) - len(shown)
        out.print(Padding(Text(f"and {more} more lines (--all)", "dim"), (0, 0, 0, 6)))


def _evidence(evidence: Evidence) -> Text:
    where = f"{evidence.source}:{evidence.line}" if evidence.line else evidence.source
    line = Text(f"{where}  " if where else "", style="dim")
    if evidence.time is not None:
        line.append(f"{_stamp(evidence.time)}  ", style="dim")
    line.append(evidence.text.strip())
    return line


def _stamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S%z").replace("+0000", "Z")


def _show_inputs(report: Report, out: Console, *, show_all: bool) -> None:
    if show_all or not report.seen:
        for seen in report.seen:
            out.print(
                f"[dim]read {escape(seen.name)} as {seen.format}"
                f"{' of ' + escape(seen.host) if seen.host else ''}: {seen.observations:,}[/]"
            )
    elif report.seen:
        formats = sorted({seen.format for seen in report.seen})
        files = "file" if len(report.seen) == 1 else "files"
        out.print(f"[dim]read {len(report.seen):,} {files}: {', '.join(formats)}[/]")
    for note in report.notes:
        times = f" ({note.count:,} times)" if note.count > 1 else ""
        out.print(f"[dim]note: {escape(note.source)}: {escape(note.what)}{times}[/]")
    if not report.seen:
        out.print("Nothing was recognised.")
