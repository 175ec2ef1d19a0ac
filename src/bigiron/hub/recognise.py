"""Documents to readings: each read by the format that knows it best.

A reader is a plugin, and this is its runner: whatever one does wrong becomes a Note and costs
only its own document.
"""

from collections.abc import Iterator, Sequence

from bigiron.errors import ParseError
from bigiron.hub.documents import Documents
from bigiron.hub.hosts import Reading, assign
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.model import Note

SURE = 0.3
"""A format recognised less surely than this is not read."""

Formats = Sequence[tuple[str, Reader]]


def formats() -> list[tuple[str, str]]:
    """Every format that can be recognised: its name and what it is."""
    return [(plugin.name, plugin.doc) for plugin in reader]


def read_all(paths: list[str], documents: Documents, notes: list[Note]) -> list[Reading]:
    """Every recognised document under the paths, each with its host; ``notes`` grows."""
    known = [(plugin.name, plugin.run()) for plugin in reader]
    readings = [
        reading
        for document in documents.of(paths)
        if (reading := read_one(document, known, notes)) is not None
    ]
    assign(readings)
    return readings


def read_one(document: Document, known: Formats, notes: list[Note]) -> Reading | None:
    """The document as its best reader reads it, or None and a note that says why not.

    A reader that finds at a closer look that the document is not its own leaves it to the next.
    """
    try:
        head = Head.of(document)
    except OSError as error:
        notes.append(Note(document.name, f"cannot be read: {error.strerror or error}"))
        return None
    if not head.data:
        notes.append(Note(document.name, "empty"))
        return None
    refused: list[Note] = []
    for name, best in _candidates(head, known, notes):
        reading, note = _read_as(document, name, best)
        if reading is not None:
            notes += [note] if note is not None else []
            notes += [seen for seen in reading.observations if isinstance(seen, Note)]
            reading.observations = [o for o in reading.observations if not isinstance(o, Note)]
            return reading
        refused += [note] if note is not None else []
    notes += refused[:1] or [Note(document.name, _unrecognised(head))]
    return None


def _candidates(head: Head, known: Formats, notes: list[Note]) -> Iterator[tuple[str, Reader]]:
    """The readers that may know it, the surest first."""
    found: list[tuple[float, str, Reader]] = []
    for name, one in known:
        try:
            sure = one.sniff(head)
        except Exception as error:  # noqa: BLE001  (one reader's bug must not stop the others)
            notes.append(Note(head.name, f"reader {name} failed on it: {_say(error)}"))
            continue
        if sure >= SURE:
            found.append((sure, name, one))
    for _, name, one in sorted(found, key=lambda one: -one[0]):
        yield name, one


def _read_as(document: Document, name: str, best: Reader) -> tuple[Reading | None, Note | None]:
    """What one reader makes of it: a reading, a note, or both where it broke off half-way."""
    reading = Reading(document, name)
    try:
        for seen in best.read(document):
            reading.observations.append(seen)
    except ParseError as error:
        where = f" (line {error.line})" if error.line else ""
        problem = Note(document.name, f"not readable as {name}: {error.problem}{where}")
    except OSError as error:
        problem = Note(document.name, f"cannot be read: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001  (one reader's bug must not stop the others)
        problem = Note(document.name, f"reader {name} failed on it: {_say(error)}")
    else:
        return reading, None
    return (reading if reading.observations else None), problem


def _say(error: Exception) -> str:
    text = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _unrecognised(head: Head) -> str:
    text = head.text.lstrip().lower()
    if text.startswith(("<!doctype html", "<html")):
        return "an HTML page, perhaps a proxy's error page: not recognised"
    if b"\0" in head.data[:4096]:
        return "binary: not recognised"
    return "not recognised"
