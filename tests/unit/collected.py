"""What collectors say, as lines that a person can compare, and the golden files of them.

BIGIRON_WRITE_GOLDEN=1 pytest tests/unit/test_collect_x.py      writes them anew
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from bigiron.collect import Seen
from bigiron.errors import NoData
from bigiron.host import Host
from bigiron.model import CheckResult, Device, Event, Fact, Note, Sample

HOSTS = Path(__file__).parents[1] / "hosts"
GOLDEN = Path(__file__).parents[1] / "golden"
NAMES = tuple(
    "a100x8 a100x8-mig h100x8 gb200x4 l40sx8 t4x4 mi250x8 mi300xx8 cpu-only".split()  # noqa: SIM905
)

Collector = Callable[[Host], Iterable[Seen]]


def captured(name: str) -> Host:
    """One of the captured hosts."""
    return Host(root=HOSTS / name)


class Sick(Host):
    """A captured host of which some files are others, or gone, or new."""

    @property
    def changed(self) -> dict[str, bytes | None]:
        """By real path what stands there instead; None is nothing."""
        found: dict[str, bytes | None] = self.handles.setdefault("changed", {})
        return found

    @property
    def read_paths(self) -> list[str]:
        """Every path that was read, in order."""
        found: list[str] = self.handles.setdefault("read_paths", [])
        return found

    def put(self, path: str, content: str | int | bytes) -> None:
        """A file with another content, or a new one; the path may lead through links."""
        data = content if isinstance(content, bytes) else f"{content}\n".encode()
        self.changed[self._key(path)] = data

    def remove(self, path: str) -> None:
        """A file, link or folder that is no longer there."""
        self.changed[self._key(path)] = None

    def part(self, path: str, start: int | None, count: int) -> bytes:
        self.read_paths.append(path)
        key = self._key(path)
        if self._gone(key):
            raise NoData(path)
        data = self.changed.get(key)
        return super().part(path, start, count) if data is None else data[start or 0 :][:count]

    def names(self, path: str) -> list[str]:
        key = self._key(path)
        if self._gone(key):
            raise NoData(path)
        below = [one.removeprefix(f"{key}/") for one in self.changed if one.startswith(f"{key}/")]
        new = {one.partition("/")[0] for one in below}
        try:
            known = set(super().names(path))
        except NoData:
            if not new:
                raise
            known = set()
        return sorted(one for one in known | new if not self._gone(f"{key}/{one}"))

    def real(self, path: str) -> str:
        if self._gone(self._key(path)):
            raise NoData(path)
        return super().real(path)

    def _gone(self, key: str) -> bool:
        return any(
            data is None and (key == one or key.startswith(f"{one}/"))
            for one, data in self.changed.items()
        )

    def _key(self, path: str) -> str:
        """The path with the links of its folder followed, as far as they lead anywhere."""
        folder, _, name = path.rpartition("/")
        if not folder:
            return path
        try:
            return f"{super().real(folder)}/{name}"
        except NoData:
            return f"{self._key(folder)}/{name}"


def sick(name: str) -> Sick:
    """One of the captured hosts, to be changed."""
    return Sick(root=HOSTS / name)


def lines(seen: Iterable[Seen]) -> list[str]:
    """One line each, in order, without times."""
    return [_line(one) for one in seen]


def _line(one: Seen) -> str:
    match one:
        case Sample():
            return f"sample {one.device or '-'} {one.metric} {one.value:.17g}"
        case Fact():
            return f"fact {one.device or '-'} {one.name} {one.value!r}"
        case Device():
            words = (one.kind, one.id, one.bus, one.model, one.vendor)
            return f"device {one.name} {' '.join(word or '-' for word in words)}"
        case Event():
            attrs = " ".join(f"{k}={v}" for k, v in sorted(one.attrs.items()))
            return f"event {one.code} {one.device or '-'} x{one.count} {one.text} [{attrs}]"
        case CheckResult():
            return f"check {one.device or '-'} {one.check} {one.status} {one.text}"
        case Note():
            return f"note {one.source} {one.what} x{one.count}"


def golden(collector: Collector, name: str, host: str) -> None:
    """What a collector first says of a captured host is what its golden file has."""
    told = "\n".join(lines(collector(captured(host)))) + "\n"
    file = GOLDEN / name / f"{host}.txt"
    if os.environ.get("BIGIRON_WRITE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(told)
    assert told == file.read_text()


def events(seen: Iterable[Seen]) -> list[tuple[str, str]]:
    """Code and device of each event."""
    return [(one.code, one.device) for one in seen if isinstance(one, Event)]


def facts(seen: Iterable[Seen]) -> dict[tuple[str, str], object]:
    """Facts by device and name."""
    return {(one.device, one.name): one.value for one in seen if isinstance(one, Fact)}


def samples(seen: Iterable[Seen]) -> dict[tuple[str, str], float]:
    """Samples by device and metric."""
    return {(one.device, one.metric): one.value for one in seen if isinstance(one, Sample)}
