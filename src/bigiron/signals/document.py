"""docs/signals.md, written from the catalogue: ``python -m bigiron.signals.document``."""

import sys

from bigiron.signals import SIGNALS, Signal, Source

_HEAD = """# Signals

Every metric bigiron knows, under its canonical name. This page is written from the catalogue in
`src/bigiron/signals/`; do not edit it: run `python -m bigiron.signals.document > docs/signals.md`.

*Bad* is the direction in which trouble lies: `none` only describes load. Exporters' names are
given with the factor that brings their value to our unit; the first of several is believed where
an exporter gives more than one. DCGM's blank values ("not supported", "not found", "not
permitted": 2147483632 and above, 9223372036854775792 and above, 140737488355328 and above, to 15
more each) are no samples, and neither is NaN.

Devices are named `gpu3`, `mlx5_0`, `nvme0`; a part of one follows after a colon: `gpu0:gi7` (a
MIG instance), `gpu0:nvlink3`, `gpu0:xid79`, `mlx5_0:2` (a second port). What an exporter repeats
for each MIG instance of a GPU (temperature, power, Xids) is read once, as the GPU's.
"""


def markdown() -> str:
    """The whole page."""
    lines = [_HEAD, "| signal | unit | kind | bad | meaning | exporters' names |"]
    lines.append("|---|---|---|---|---|---|")
    lines += map(_row, SIGNALS.values())
    return "\n".join(lines) + "\n"


def _row(signal: Signal) -> str:
    names = "<br>".join(
        f"{exporter}: " + ", ".join(map(_name, sources))
        for exporter, sources in signal.sources.items()
    )
    return (
        f"| `{signal.name}` | {signal.unit} | {signal.kind} | {signal.bad} "
        f"| {signal.help} | {names} |"
    )


def _name(source: Source) -> str:
    if source.table is not None:
        pairs = ", ".join(f"{old:g} is {new:g}" for old, new in source.table.items())
        other = f", else {source.otherwise:g}" if source.otherwise == source.otherwise else ""
        return f"`{source.name}` ({pairs}{other})"
    return f"`{source.name}`" + (f" × {source.scale:g}" if source.scale != 1.0 else "")


if __name__ == "__main__":
    sys.stdout.write(markdown())
