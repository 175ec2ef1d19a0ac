"""What `bigiron inspect` says of captured inputs beside the checkout, against their right answers.

    python tools/inspect_shared.py [FOLDER]

FOLDER (default: ../shared/data) holds the captures; tools/inspect_shared.toml holds the answers.
Prints a table; exit 1 if an answer is wrong, 0 if all are right, 3 without the folder.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bigiron.hub.documents import Documents
from bigiron.hub.inspect import Report, inspect
from bigiron.ingest import Document, reader
from bigiron.model import Event

ANSWERS = Path(__file__).with_suffix(".toml")


def main() -> int:
    """Run every case; the exit code."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data").resolve()
    console = Console(width=200)
    if not folder.is_dir():
        console.print(f"{folder}: no such folder; nothing was compared")
        return 3
    answers = tomllib.loads(ANSWERS.read_text("utf-8"))
    results = [_case(folder, case) for case in answers["case"]]
    results += _lines(folder, answers["lines"])
    table = Table("", "input", "answer", box=None)
    for path, problems, said in results:
        mark = "[red]wrong[/]" if problems else "[green]right[/]"
        table.add_row(mark, path, "; ".join(problems) if problems else said)
    console.print(table)
    wrong = sum(bool(problems) for _, problems, _ in results)
    console.print(f"{len(results) - wrong} right, {wrong} wrong")
    return 1 if wrong else 0


def _case(folder: Path, case: dict[str, Any]) -> tuple[str, list[str], str]:
    paths = [str(folder / path) for path in case["paths"]]
    report = inspect(paths, Documents())
    problems = [] if report.exit_code in case["exit"] else [f"exit {report.exit_code}"]
    text = _text(report)
    problems += [
        f"does not say /{p}/" for p in case.get("says", []) if not re.search(p, text, re.I)
    ]
    problems += [f"says /{p}/" for p in case.get("not", []) if re.search(p, text, re.I)]
    if case.get("format") and case["format"] not in {seen.format for seen in report.seen}:
        problems.append(f"read as {', '.join(s.format for s in report.seen) or 'nothing'}")
    found = [*report.groups, *(f for d in report.diagnoses for f in d.findings)]
    first = next(iter(found), None)
    said = first.because[0] if first else "healthy" if report.exit_code == 0 else "nothing"
    return " ".join(case["paths"]), problems, said


def _text(report: Report) -> str:
    """Everything a person would read of a report, one finding a line."""
    findings = [f for d in report.diagnoses for f in d.findings] + list(report.groups)
    lines = [
        " ".join([f.severity, f.fault, f.subject.key, f.action, f.when, f.blame, *f.because])
        for f in findings
    ]
    lines += [f"note {note.what}" for note in report.notes]
    lines += [f"jobs {sum(report.jobs.values())}"] if report.jobs else []
    lines += [f"host {d.node} {d.health} {d.parts}" for d in report.diagnoses]
    return "\n".join(lines)


def _lines(folder: Path, wanted: dict[str, Any]) -> Iterator[tuple[str, list[str], str]]:
    """Single kernel lines with their code: each read on its own."""
    log = reader["kernel_log"].run()
    right, wrong = 0, []
    for file in wanted["files"]:
        for number, row in enumerate((folder / file).read_text("utf-8").splitlines(), 1):
            entry = json.loads(row)
            document = Document.of("line", entry["line"].encode() + b"\n", datetime.now(UTC))
            codes = [o.code for o in log.read(document) if isinstance(o, Event)]
            if _line_right(entry, codes, wanted):
                right += 1
            else:
                wrong.append(f"{file}:{number} {codes} {entry['line'][:90]}")
    yield f"{right} single lines", [], "each recognised as its code"
    for problem in wrong:
        yield problem, ["not recognised as its code"], ""


def _line_right(entry: dict[str, Any], codes: list[str], wanted: dict[str, Any]) -> bool:
    line = entry["line"]
    for pattern, code in wanted["exceptions"].items():
        if re.search(pattern, line):
            return codes == [] if code == "none" else bool(codes) and codes[0].startswith(code)
    kind = entry.get("kind", "xid")
    if kind in ("xid", "sxid"):
        told = re.search(r"\): (\d+)", line)
        number = entry.get("code") or (told[1] if told else None)
        if number is None:
            return codes == []
        if int(number) == 154:
            return bool(codes) and codes[0].startswith("recovery.")
        return bool(codes) and (codes[0] + ".").startswith(f"{kind}.{number}.")
    return bool(codes) and codes[0].split(".")[0] in wanted["kinds"].get(kind, [])


if __name__ == "__main__":
    sys.exit(main())
