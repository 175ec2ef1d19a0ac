"""amd-smi's text for people, as the objects its ``--json`` would give.

Each GPU begins with ``GPU: 0``; below it names in capitals nest by their indentation, with a
value after the colon or more names below. Lists ("[0, 1]") stay text.
"""

import re
from collections.abc import Iterator

_GPU = re.compile(r"^GPU:\s*(?P<index>\d{1,4})\s*$", re.MULTILINE)
_NAME = re.compile(r"^(?P<indent> {1,64})(?P<name>[A-Z][A-Z0-9_]{0,63}):\s*(?P<value>.*?)\s*$")
_DEPTH = 16
_FIELDS = 20_000


def is_text(text: str) -> bool:
    """Whether it is such text: a GPU and a name in capitals below it."""
    start = _GPU.search(text)
    if start is None:
        return False
    below = [line for line in text[start.end() :].splitlines()[:8] if line.strip()]
    return bool(below) and _NAME.match(below[0]) is not None


def entries(text: str) -> Iterator[dict[str, object]]:
    """One object a GPU, names in lower case."""
    starts = list(_GPU.finditer(text))
    for index, start in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        entry: dict[str, object] = {"gpu": int(start["index"])}
        _fill(entry, text[start.end() : end])
        yield entry


def _fill(entry: dict[str, object], text: str) -> None:
    stack: list[tuple[int, dict[str, object]]] = [(0, entry)]
    for line in text.splitlines()[:_FIELDS]:
        match = _NAME.match(line)
        if match is None:
            continue
        depth = len(match["indent"])
        while len(stack) > 1 and stack[-1][0] >= depth:
            stack.pop()
        holder, name = stack[-1][1], match["name"].lower()
        value = match["value"].replace("°", "")
        if value:
            holder.setdefault(name, value)
        elif len(stack) < _DEPTH:
            inner: dict[str, object] = {}
            holder.setdefault(name, inner)
            stack.append((depth, inner))
