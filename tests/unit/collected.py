"""What collectors say, as lines that a person can compare, and the golden files of them.

BIGIRON_WRITE_GOLDEN=1 pytest tests/unit/test_collect_x.py      writes them anew
"""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from bigiron.collect import Seen
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


def copied(name: str, to: Path) -> Host:
    """A copy of a captured host, to make it sick."""
    shutil.copytree(HOSTS / name, to / name, symlinks=True)
    return Host(root=to / name)


def put(host: Host, path: str, content: str | int | bytes) -> None:
    """Change a file of a copy; the path may lead through links."""
    at = host.root / path.lstrip("/")
    at.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())


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
