"""What the studies share: where public data lies, and figures written into a page."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data" / "public"
BEGIN, END = "<!-- figures: written by `{command}` -->", "<!-- end of figures -->"


def data(name: str) -> Path:
    """A data set's folder: the first argument, else beside the checkout. Exits if it is absent."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / name
    if not folder.is_dir():
        sys.exit(
            f"{folder}: no such folder. This study needs public data that is not part of the "
            "project: see the source it cites, and give the folder as the argument."
        )
    return folder


def write(page: str, command: str, lines: list[str]) -> None:
    """Replace what stands between the markers of docs/PAGE; prints it too."""
    text = "\n".join(lines)
    print(text)
    path = ROOT / "docs" / page
    begin = BEGIN.format(command=command)
    old = path.read_text("utf-8")
    if begin not in old or END not in old:
        sys.exit(f"{path}: the markers {begin!r} and {END!r} are wanted")
    head, rest = old.split(begin, 1)
    path.write_text(f"{head}{begin}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}", "utf-8")
    print(f"\nwritten into {path}", file=sys.stderr)
