"""Writes the pages of docs/ that come from the code, or checks that they are current.

python tools/docs.py           write them
python tools/docs.py --check   exit 1 and say which differ
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import click

from bigiron.cli import COMMANDS
from bigiron.config import example
from bigiron.faults import shipped
from bigiron.faults.page import markdown

DOCS = Path(__file__).parent.parent / "docs"


def configuration() -> str:
    """docs/configuration.md."""
    return (
        "# Configuration\n\n"
        "`bigiron.toml`. Every setting with its meaning and default, as `bigiron config example`\n"
        "prints it. `bigiron config check FILE` names file, key and what was wanted.\n\n"
        f"```toml\n{example()}```\n"
    )


def commands() -> str:
    """docs/commands.md: the help of every command."""
    lines = ["# Commands", "", "Exit codes of `inspect` and `scan`: 0 healthy, 1 warning,"]
    lines += ["2 critical, 3 nothing recognised or reached, 4 wrong usage or configuration.", ""]
    lines += [
        "Of the others: 0 done, whatever it says; 3 what was asked for is not there (no hub's"
    ]
    lines += [
        "ledger, no such node, no recording); 4 wrong usage, configuration or installation.",
        "",
    ]
    for name, entry in COMMANDS.items():
        module = importlib.import_module(f"bigiron.cli.{entry.module}")
        lines += _help(getattr(module, name.replace("-", "_")), f"bigiron {name}", 2)
    return "\n".join(lines) + "\n"


def _help(command: click.Command, path: str, level: int) -> list[str]:
    context = click.Context(command, info_name=path, max_content_width=96)
    text = command.get_help(context)
    lines = [f"{'#' * level} {path}", "", "```text", *text.splitlines(), "```", ""]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                lines += _help(inner, f"{path} {name}", level + 1)
    return lines


PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration,
    "commands.md": commands,
    "faults.md": lambda: markdown(shipped()),
}


def main() -> int:
    """Write or check; the exit code."""
    stale = []
    for name, make in PAGES.items():
        page = DOCS / name
        text = make()
        if "--check" not in sys.argv:
            page.write_text(text, "utf-8")
        elif not page.exists() or page.read_text("utf-8") != text:
            stale.append(name)
    for name in stale:
        print(f"docs/{name} is not what the code says: run `make docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
