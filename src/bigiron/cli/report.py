"""The text of an inspection: what a senior engineer would say of these machines, in this order.

Written without a table library: it must be there at once. A terminal gets colours and its own
width; a pipe gets lines of PIPE_COLUMNS without any padding.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from textwrap import TextWrapper
from typing import Any, NamedTuple

import click

from bigiron.cli.table import PIPE_COLUMNS
from bigiron.hub.inspect import Diagnosis, Report
from bigiron.model import Evidence, Finding, Health, Note, Severity
from bigiron.nodesets import fold
from bigiron.words import advice, whose

EVIDENCE_SHOWN = 4
NOTES_SHOWN = 12
FILES_NAMED = 3
LABEL = 13
"""Columns of the labels before the lines of a finding."""

_COLOUR: dict[str, tuple[str, bool]] = {
    Severity.INFO: ("bright_black", False),
    Severity.WARNING: ("yellow", False),
    Severity.CRITICAL: ("red", False),
    Severity.FATAL: ("red", True),
    Health.HEALTHY: ("green", False),
    Health.UNKNOWN: ("bright_black", False),
    Health.DEGRADED: ("yellow", False),
    Health.UNHEALTHY: ("red", True),
}
_DIM = "bright_black"


class Line(NamedTuple):
    """One line before wrapping: a styled head, then text; what wraps is indented by ``hang``."""

    head: str
    text: str
    indent: int = 0
    hang: int = 0
    colour: str = ""
    bold: bool = False
    dim: bool = False


def show(report: Report, *, show_all: bool = False) -> None:
    """Print a report for a person."""
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_COLUMNS
    colour = False if os.environ.get("NO_COLOR") else None
    for line in _lines(report, show_all=show_all):
        click.echo(_styled(line, max(wide, 40)), color=colour)


def _styled(line: Line, wide: int) -> str:
    """The line wrapped and coloured; of the first row the head has a style of its own.

    What a log holds may be anything: no control character of it reaches the terminal.
    """
    line = line._replace(head=_printable(line.head), text=_printable(line.text))
    blank = " " * line.indent
    wrapper = TextWrapper(
        width=wide,
        initial_indent=blank + " " * len(line.head),
        subsequent_indent=" " * (line.indent + line.hang),
        break_long_words=False,
        break_on_hyphens=False,
    )
    rows = wrapper.wrap(line.text) or [blank + " " * len(line.head)]
    style: dict[str, Any] = {"fg": _DIM} if line.dim else {"bold": True} if line.bold else {}
    head = click.style(line.head, fg=line.colour or None, bold=line.bold or None)
    first = rows[0][len(blank) + len(line.head) :]
    text = [
        blank + head + click.style(first, **style),
        *(click.style(r, **style) for r in rows[1:]),
    ]
    return "\n".join(text)


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\t\n" else "\ufffd" for c in text)


def _lines(report: Report, *, show_all: bool) -> Iterator[Line]:
    for finding in report.groups:
        yield from _finding(finding, show_all=show_all)
        yield Line("", "")
    healthy = [d for d in report.diagnoses if d.health is Health.HEALTHY and not d.findings]
    for diagnosis in report.diagnoses:
        if diagnosis.findings or show_all or len(report.diagnoses) == 1:
            yield from _host(diagnosis, show_all=show_all)
    if healthy and len(report.diagnoses) > 1 and not show_all:
        names = fold(d.node for d in healthy)
        yield Line(f"{len(healthy)} healthy", f": {names}", hang=2, colour="green")
    if report.jobs:
        total = sum(report.jobs.values())
        states = ", ".join(f"{count:,} {state}" for state, count in report.jobs.items())
        yield Line("", f"{total:,} {_plural(total, 'job')}: {states}", hang=2)
    yield from _inputs(report, show_all=show_all)


def _host(diagnosis: Diagnosis, *, show_all: bool) -> Iterator[Line]:
    about = f"  {diagnosis.parts}" if diagnosis.parts else ""
    colour, _ = _COLOUR[diagnosis.health]
    head = f"{diagnosis.node}  {diagnosis.health}"
    yield Line(head, about, hang=4, colour=colour)
    if not diagnosis.findings:
        yield Line("", "Nothing wrong was seen.", indent=2)
    for finding in diagnosis.findings:
        yield from _finding(finding, show_all=show_all)
    yield Line("", "")


def _finding(finding: Finding, *, show_all: bool) -> Iterator[Line]:
    colour, bold = _COLOUR[finding.severity]
    first = finding.because[0] if finding.because else finding.fault
    yield Line(f"{finding.severity.upper()}", f"  {first}", 2, 2, colour, bold)
    for text in finding.because[1:]:
        yield Line("", text, indent=4)
    if fault_of := whose(finding):
        yield from _labelled("whose fault", [fault_of])
    yield from _labelled("do", [_advice(finding)])
    yield from _labelled("look at", finding.look)
    shown = finding.evidence if show_all else finding.evidence[:EVIDENCE_SHOWN]
    said = [_evidence(one) for one in shown]
    if len(finding.evidence) > len(shown):
        more = len(finding.evidence) - len(shown)
        said.append(f"and {more} more (--all shows {'it' if more == 1 else 'them'})")
    yield from _labelled("seen in", said, dim=True)


def _advice(finding: Finding) -> str:
    said = advice(finding.action, finding.when)
    return said.replace(" it", " their nodes", 1) if finding.subject.by == "job" else said


def _labelled(label: str, texts: Sequence[str], *, dim: bool = False) -> Iterator[Line]:
    for number, text in enumerate(texts):
        head = f"{label if number == 0 else '':<{LABEL}}"
        yield Line(head, text, 4, LABEL, _DIM, dim=dim)


def _evidence(evidence: Evidence) -> str:
    where = f"{evidence.source}:{evidence.line}" if evidence.line else evidence.source
    if evidence.kind == "sample" and evidence.metric and evidence.value is not None:
        text = f"{evidence.metric} = {evidence.value:g}"
    else:
        text = " ".join(evidence.text.split())
    return "  ".join(part for part in (where, _stamp(evidence.time), text) if part)


def _stamp(time: datetime | None) -> str:
    if time is None:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S%z").replace("+0000", "Z")


def _inputs(report: Report, *, show_all: bool) -> Iterator[Line]:
    if show_all:
        for seen in report.seen:
            whose = f" of {seen.host}" if seen.host else ""
            what = f"{seen.observations:,} {_plural(seen.observations, 'observation')}"
            yield Line("", f"read {seen.name} as {seen.format}{whose}: {what}", hang=2, dim=True)
    elif report.seen:
        formats = ", ".join(sorted({seen.format for seen in report.seen}))
        count = len(report.seen)
        yield Line("", f"read {count:,} {_plural(count, 'file')}: {formats}", hang=2, dim=True)
    notes = list(_notes(report.notes))
    shown = notes if show_all else notes[:NOTES_SHOWN]
    for text in shown:
        yield Line("", f"note: {text}", hang=2, dim=True)
    if len(shown) < len(notes):
        yield Line("", f"and {len(notes) - len(shown):,} more notes (--all)", dim=True)
    if report.exit_code == 3:
        yield Line("", "Nothing to judge was recognised.")


def _notes(notes: Sequence[Note]) -> Iterator[str]:
    """What was not used, and where; one thing in many files is told once."""
    by_what: dict[str, list[Note]] = {}
    for note in notes:
        by_what.setdefault(note.what, []).append(note)
    for what, same in by_what.items():
        count = sum(note.count for note in same)
        times = f" ({count:,} times)" if count > len(same) else ""
        if len(same) > FILES_NAMED:
            yield f"{len(same):,} files, the first {same[0].source}: {what}{times}"
        else:
            yield f"{', '.join(note.source for note in same)}: {what}{times}"


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
