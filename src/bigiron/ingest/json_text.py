"""JSON as tools print it: with a warning above it, with NaN in it, cut off, or nested too deep."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head

JSON_LIMIT = 64 * 1024 * 1024
"""Bytes of one JSON document; a whole node's tools print a few hundred kilobytes."""

_START = re.compile(r"^[ \t]*[\[{]", re.MULTILINE)
_NUMBER = re.compile(r"^\s*\(?\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")

JsonMap = Mapping[str, object]


def load(document: Document, limit: int = JSON_LIMIT) -> object:
    """The value of the first JSON text in the document. Raises ParseError, naming the line."""
    if document.size > limit:
        raise ParseError(document.name, 0, f"more than {limit} bytes of JSON")
    return loads(document.text(limit + 1), document.name, limit)


def loads(text: str, name: str, limit: int = JSON_LIMIT) -> object:
    """The value of the first JSON text in ``text``; what stands above it is passed over."""
    if len(text) > limit:
        raise ParseError(name, 0, f"more than {limit} bytes of JSON")
    start = _START.search(text)
    if start is None:
        raise ParseError(name, 0, "holds no JSON")
    body = text[start.start() :]
    try:
        value: object = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return _lenient(body, name, text.count("\n", 0, start.start()))
    except RecursionError as error:
        raise ParseError(name, 0, "JSON nested too deep") from error
    return value


def _lenient(body: str, name: str, lines_above: int) -> object:
    """NaN, Infinity and text after the end are accepted; for the rest it tells the line."""
    try:
        value: object = json.JSONDecoder(strict=False).raw_decode(body.lstrip())[0]
    except json.JSONDecodeError as error:
        line = lines_above + error.lineno
        raise ParseError(name, line, f"not JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise ParseError(name, 0, "JSON nested too deep or a number too long") from error
    return value


def has_keys(head: Head, *keys: str) -> bool:
    """Whether the head looks like JSON and each of these stands in it as a key."""
    if _START.search(head.text) is None:
        return False
    return all(re.search(rf'"{re.escape(key)}"\s*:', head.text) for key in keys)


def mapping(value: object) -> JsonMap:
    """The value if it is an object with text keys, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> Sequence[object]:
    """The value if it is an array, else an empty one."""
    return value if isinstance(value, list) else ()


def at(value: object, *path: str) -> object:
    """What stands at ``path`` inside nested objects; None where something is missing."""
    for key in path:
        value = mapping(value).get(key)
    return value


def text(value: object) -> str:
    """A scalar as stripped text; "" for None, "N/A" and its like, objects and arrays."""
    if value is None or isinstance(value, bool | dict | list):
        return ""
    said = str(value).strip()
    return "" if said.casefold() in NOT_AVAILABLE else said


NOT_AVAILABLE = frozenset(
    {"", "n/a", "na", "none", "unknown", "not supported", "[n/a]", "unsupported", "null"}
)


def number(value: object) -> float | None:
    """The finite number a value or a text such as "26.1 W" or "(300Mhz)" begins with."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _finite(value)
    if isinstance(value, str):
        match = _NUMBER.match(value.replace(",", ""))
        return _finite(float(match[1])) if match else None
    return None


def _finite(value: float) -> float | None:
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def objects(value: object) -> Iterator[JsonMap]:
    """The objects of an array, or the value itself if it is an object."""
    if isinstance(value, dict):
        yield value
    for item in sequence(value):
        if isinstance(item, dict):
            yield item
