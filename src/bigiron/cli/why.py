"""`bigiron why`: from what is asked for down to the raw line or sample it rests on."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from bigiron.cli.odds import odds
from bigiron.cli.place import place, print_json, query_options
from bigiron.cli.table import at, printable
from bigiron.model import Event, Evidence, Health
from bigiron.store.reading import NodeRow, Reading, Reason, Why
from bigiron.words import HEALTH_STYLE, SEVERITY_STYLE, advice, chance, whose

HANG = 2
"""Columns by which what does not fit is indented further than its beginning."""


@click.command()
@click.argument("node")
@query_options
def why(node: str, as_json: bool, folder: Path | None, config_file: Path | None) -> int:
    """Show why NODE stands as it does: action, verdict, findings, evidence, raw lines."""
    with Reading(place(folder, config_file)) as reading:
        found = reading.why(reading.named(node))
    if as_json:
        print_json(found)
    else:
        _show(found, _Page(Console(highlight=False)))
    return 0


class _Page:
    """Prints lines: on a terminal wrapped and indented like their beginning, in a pipe whole."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = max(40, console.width) if console.is_terminal else None

    def print(self, line: Text | str) -> None:
        """One line, whatever its length."""
        text = Text(line) if isinstance(line, str) else line
        if self.width is None:
            self.console.print(text, soft_wrap=True)
            return
        indent = len(text.plain) - len(text.plain.lstrip())
        first, *rest = text.wrap(self.console, self.width)
        first.rstrip()
        self.console.print(first, soft_wrap=True)
        room = self.width - indent - HANG
        for part in rest:
            part.rstrip()
        for part in Text(" ").join(rest).wrap(self.console, room) if rest else []:
            part.rstrip()
            self.console.print(Text(" " * (indent + HANG)) + part, soft_wrap=True)


def _show(found: Why, console: _Page) -> None:
    console.print(_head(found.node))
    if found.node.verdict is not None and found.node.verdict.held_until is not None:
        console.print(f"  not better yet: {printable(found.node.verdict.because)}")
    if not found.actions:
        console.print("  asked for: nothing")
    for action in found.actions:
        line = Text(f"  asked for: {advice(action.kind, action.when)}", style="bold")
        line.append(f" ({action.mode}, {at(action.time)}) for {', '.join(action.findings)}: ", "")
        line.append(printable(action.reason), style="")
        console.print(line)
        if action.held:
            console.print(Text(f"    held back: {action.held}", style="yellow"))
    if not found.reasons:
        console.print("  no finding stands against it")
    for reason in found.reasons:
        _show_reason(reason, console)
    for part in odds(found):
        console.print(Text(f"  {part}", style="dim"))
    for closing in found.asked:
        who = f"  {closing.finding} is to be closed at the hub's next turn, says {closing.by}: "
        console.print(who + printable(closing.because))
    for row in found.closed:
        line = Text(f"  {row.id} {row.finding.fault} on {row.finding.subject} ", style="dim")
        line.append(f"{printable(row.because)} ({at(row.closed)} UTC)")
        console.print(line)


def _head(row: NodeRow) -> Text:
    health = row.verdict.health if row.verdict else Health.UNKNOWN
    line = Text(row.node.name, style="bold")
    line.append(f"  {health}", style=HEALTH_STYLE[health])
    if row.verdict is None:
        line.append("  not judged yet", style="")
    else:
        day, week = chance(row.verdict.p_fail_24h), chance(row.verdict.p_fail_7d)
        line.append(f"  fails within 24 h: {day}, within 7 days: {week}", style="")
        line.append(f"  since {at(row.verdict.time)} UTC", style="dim")
    if row.state is not None:
        reason = f" ({printable(row.state.reason)})" if row.state.reason else ""
        line.append(f"  scheduler: {row.state.state}{reason}", style="")
    return line


def _show_reason(reason: Reason, console: _Page) -> None:
    finding = reason.row.finding
    line = Text(f"  {reason.row.id} ", style="bold")
    line.append(f"{finding.severity} ", style=SEVERITY_STYLE[finding.severity])
    line.append(f"{finding.fault} on {finding.subject}", style="bold")
    line.append(
        f"  open since {at(reason.row.opened)}, confidence {finding.confidence:.2f}, "
        f"detector {finding.detector}",
        style="dim",
    )
    console.print(line)
    for text in finding.because:
        console.print(Text(f"    {printable(text)}"))
    if fault_of := whose(finding):
        console.print(Text(f"    whose fault: {fault_of}"))
    for evidence in reason.evidence:
        console.print(_evidence(evidence, finding.because))
    for event in reason.events:
        console.print(_event(event))
    for text in finding.look:
        console.print(Text(f"    look at: {text}", style="dim"))


def _evidence(evidence: Evidence, told: Sequence[str]) -> Text:
    line = Text(f"    {evidence.kind} ", style="cyan")
    line.append(f"{at(evidence.time)} {_place(evidence.source, evidence.line)}", style="dim")
    if evidence.metric and evidence.value is not None:
        line.append(f" {evidence.metric} = {evidence.value:g} {evidence.unit}".rstrip(), style="")
        beside = [("peers", evidence.peer), ("its own past", evidence.past)]
        others = ", ".join(f"{who} {value:g}" for who, value in beside if value is not None)
        line.append(f" ({others})" if others else "", style="")
    if not any(evidence.text in text for text in told):
        line.append(f"  {printable(evidence.text)}", style="")
    return line


def _event(event: Event) -> Text:
    times = f" ({event.count} times)" if event.count > 1 else ""
    line = Text("    seen too ", style="cyan")
    line.append(f"{at(event.time)} {_place(event.source, event.line)}", style="dim")
    line.append(f" {event.code} {printable(event.text)}{times}", style="")
    return line


def _place(source: str, line: int) -> str:
    return f"{source}:{line}" if line else source
