"""A pickle of plain values only: containers, text, bytes, numbers, None.

Pickle is a program. This interpreter knows the opcodes that build plain values and no other: no
global can be named and nothing can be called, so a hostile file can do nothing but be refused.
Python's own Unpickler is not used even with globals forbidden, because a memo index of 2^31 in a
file of 20 bytes makes it allocate gigabytes.
"""

import pickletools
from collections.abc import Callable
from typing import Final

from bigiron.errors import ParseError

OPCODE_LIMIT = 20_000_000
"""More than the 2,000 entries of 100 frames each that a flight recorder keeps take."""

_MARK: Final = object()
_PUSH = frozenset(
    [
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "LONG4",
        "INT",
        "LONG",
        "FLOAT",
        "BINFLOAT",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "UNICODE",
        "BINSTRING",
        "SHORT_BINSTRING",
        "STRING",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
    ]
)
_CONSTANT = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_SILENT = frozenset(["PROTO", "FRAME"])


class _Machine:
    """The pickle machine's stack and memo."""

    def __init__(self) -> None:
        self.stack: list[object] = []
        self.memo: dict[int, object] = {}

    def since_mark(self) -> list[object]:
        """Pop and return what lies above the last mark."""
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is _MARK:
                items = self.stack[index + 1 :]
                del self.stack[index:]
                return items
        raise ValueError("no mark on the stack")

    def top(self) -> object:
        """The value on top, which must not be a mark."""
        value = self.stack[-1]
        if value is _MARK:
            raise ValueError("a mark where a value belongs")
        return value

    def pop(self, count: int) -> list[object]:
        """The last ``count`` values."""
        if len(self.stack) < count or any(v is _MARK for v in self.stack[-count:]):
            raise ValueError("too little on the stack")
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def extend(self, items: list[object]) -> None:
        """Append to the list on top."""
        target = self.top()
        if not isinstance(target, list):
            raise TypeError("items for something that is no list")
        target.extend(items)

    def update(self, items: list[object]) -> None:
        """Set pairs in the dict on top. Keys must be text or numbers."""
        target = self.top()
        if not isinstance(target, dict) or len(items) % 2:
            raise TypeError("pairs for something that is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | int | float | bytes):
                raise TypeError("a key that is neither text nor number")
            target[key] = value


def _pairs(items: list[object]) -> dict[object, object]:
    machine = _Machine()
    machine.stack.append({})
    machine.update(items)
    made = machine.top()
    return made if isinstance(made, dict) else {}


_STACK: dict[str, Callable[[_Machine], None]] = {
    "MARK": lambda m: m.stack.append(_MARK),
    "EMPTY_DICT": lambda m: m.stack.append({}),
    "EMPTY_LIST": lambda m: m.stack.append([]),
    "EMPTY_TUPLE": lambda m: m.stack.append(()),
    "TUPLE": lambda m: m.stack.append(tuple(m.since_mark())),
    "TUPLE1": lambda m: m.stack.append(tuple(m.pop(1))),
    "TUPLE2": lambda m: m.stack.append(tuple(m.pop(2))),
    "TUPLE3": lambda m: m.stack.append(tuple(m.pop(3))),
    "LIST": lambda m: m.stack.append(m.since_mark()),
    "DICT": lambda m: m.stack.append(_pairs(m.since_mark())),
    "APPEND": lambda m: m.extend(m.pop(1)),
    "APPENDS": lambda m: m.extend(m.since_mark()),
    "SETITEM": lambda m: m.update(m.pop(2)),
    "SETITEMS": lambda m: m.update(m.since_mark()),
}


def load(data: bytes, name: str) -> object:
    """The plain value of a pickle. Raises ParseError for anything else; ``name`` is for it."""
    try:
        return _run(data)
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, UnicodeError) as error:
        raise ParseError(name, 0, f"not a pickle of plain values: {error}") from error


def _run(data: bytes) -> object:
    machine = _Machine()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if count > OPCODE_LIMIT:
            raise ValueError(f"more than {OPCODE_LIMIT} steps")
        if opcode.name == "STOP":
            value = machine.top()
            if len(machine.stack) != 1:
                raise ValueError("values are left over")
            return value
        if not (_value(machine, opcode.name, argument) or _memo(machine, opcode.name, argument)):
            raise ValueError(f"opcode {opcode.name} builds no plain value")
    raise ValueError("it ends before its STOP")


def _value(machine: _Machine, name: str, argument: object) -> bool:
    """Carry out an opcode that makes or fills a value; False if it is no such opcode."""
    if name in _PUSH:
        machine.stack.append(argument)
    elif name in _CONSTANT:
        machine.stack.append(_CONSTANT[name])
    elif name in _STACK:
        _STACK[name](machine)
    else:
        return name in _SILENT
    return True


def _memo(machine: _Machine, name: str, argument: object) -> bool:
    """Carry out an opcode that keeps or fetches a value; False if it is no such opcode."""
    key = argument if isinstance(argument, int) else 0
    if name in {"BINPUT", "LONG_BINPUT", "PUT"}:
        machine.memo[key] = machine.top()
    elif name == "MEMOIZE":
        machine.memo[len(machine.memo)] = machine.top()
    elif name in {"BINGET", "LONG_BINGET", "GET"}:
        machine.stack.append(machine.memo[key])
    else:
        return False
    return True
