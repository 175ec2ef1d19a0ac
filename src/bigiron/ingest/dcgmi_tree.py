"""The output of dcgmi commands other than diag: one tree, as JSON (-j) or as a table.

Both forms hold the same: header lines, then keys with a value and children. In the table a key
is indented by ``->``, and a value that does not fit goes on in lines whose key is empty.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bigiron.errors import ParseError

_ROW = re.compile(r"^\|(?P<key>[^|]*)\|(?P<value>.*?)\|?\s*$")
MAX_DEPTH = 12
MAX_LINE = 1024


@dataclass(slots=True)
class Entry:
    """A key's value (lines joined) and what stands below it."""

    value: str = ""
    children: dict[str, "Entry"] = field(default_factory=dict)


@dataclass(slots=True)
class Tree:
    """One command's output; ``complete`` is False where it breaks off."""

    header: list[str] = field(default_factory=list)
    body: Entry = field(default_factory=Entry)
    complete: bool = True


def trees(text: str, name: str) -> Iterator[Tree]:
    """Every tree in the text: ``dcgmi nvlink -e`` prints one a GPU. Raises ParseError if none."""
    if re.search(r"^\s*\{", text, re.MULTILINE):
        yield from _from_json(text, name)
    else:
        yield from _from_table(text, name)


def _from_json(text: str, name: str) -> Iterator[Tree]:
    decoder = json.JSONDecoder(strict=False)
    at, found = text.find("{"), 0
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if not found:
                line = text.count("\n", 0, at) + getattr(error, "lineno", 1)
                raise ParseError(name, line, "JSON cut short or broken") from error
            yield Tree(complete=False)
            return
        if isinstance(value, dict) and isinstance(value.get("body"), dict):
            found += 1
            header = value.get("header")
            lines = [str(line) for line in header] if isinstance(header, list) else []
            yield Tree(lines, _entry({"children": value["body"]}, 0))
        at = text.find("{", end)
    if not found:
        raise ParseError(name, 1, "no dcgmi output in it")


def _entry(node: object, depth: int) -> Entry:
    if not isinstance(node, dict) or depth > MAX_DEPTH:
        return Entry(_text(node))
    children = node.get("children")
    below = children.items() if isinstance(children, dict) else ()
    return Entry(
        _text(node.get("value", "")),
        {str(key): _entry(child, depth + 1) for key, child in below},
    )


def _text(value: object) -> str:
    if isinstance(value, list):
        return " ".join(str(part) for part in value)
    return "" if isinstance(value, dict) or value is None else str(value)


def _from_table(text: str, name: str) -> Iterator[Tree]:
    """A table's header ends at ``+===+``; each further edge may be the last of its table."""
    table = _Table()
    found = 0
    for line in text.splitlines():
        done = table.feed(line[:MAX_LINE].rstrip())
        if done is not None:
            found += 1
            yield done
    if table.tree is not None and (table.tree.header or table.tree.body.children):
        found += 1
        yield table.tree
    if not found:
        raise ParseError(name, 1, "no dcgmi table in it")


class _Table:
    def __init__(self) -> None:
        self.tree: Tree | None = None
        self._heading = True
        self._path: list[tuple[int, Entry]] = []

    def feed(self, line: str) -> Tree | None:
        """Takes a line; the tree before it where the line shows that it has ended."""
        done = None
        edge = line.startswith("+") and "=" not in line
        if self.tree is not None and self.tree.complete and not line.startswith("|"):
            done, self.tree = self.tree, None
        if self.tree is None and line.startswith(("+", "|")):
            self.tree, self._heading, self._path = Tree(complete=False), True, []
        if self.tree is None:
            return done
        if line.startswith("|"):
            self.tree.complete = False
            if self._heading:
                self.tree.header.append(line.strip("| \t"))
            else:
                _row(self.tree, self._path, line)
        elif line.startswith("+") and not edge:
            self._heading = False
        elif edge and not self._heading:
            self.tree.complete = True
        return done


def _row(tree: Tree, path: list[tuple[int, Entry]], line: str) -> None:
    match = _ROW.match(line)
    if match is None:
        return
    key, value = match["key"], match["value"].strip()
    name = key.strip()
    if not name:
        if path:
            last = path[-1][1]
            last.value = f"{last.value} {value}".strip()
        return
    if name.startswith("->"):
        name = name.removeprefix("->").strip()
        depth = len(key) - len(key.lstrip()) + 3
    else:
        depth = len(key) - len(key.lstrip())
    while path and path[-1][0] >= depth:
        path.pop()
    parent = path[-1][1] if path else tree.body
    entry = parent.children.setdefault(name, Entry(value))
    path.append((depth, entry))
