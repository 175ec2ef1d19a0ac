"""GPCNeT: ``network_test`` and ``network_load_test`` under MPI.

A run that printed an error or ended without its tables did not test the network: an error.
Source: GPCNeT's README and the tables it prints.
"""

import re
from collections.abc import Iterator

from bigiron.ingest import Document, Head, Reader, reader
from bigiron.model import CheckResult, CheckStatus, Observation

_ERROR = re.compile(r"^\s*ERROR:\s*(.*)")
_ABORT = re.compile(r"non-zero (?:exit code|status)|terminated by signal|MPI_ABORT")
_ROW = re.compile(r"^\s*\|\s*([A-Za-z][^|]*?)\s*\|\s*([\d.]+)\s*\|\s*([\d.]+)\s*\|")
_MARKS = ("this application must be run on at least", "Network Tests v", "Network Load Tests v")


class Gpcnet:
    """One CheckResult a run."""

    def sniff(self, head: Head) -> float:
        """Certain by its banner or by its own refusal."""
        return 0.9 if any(mark in head.text for mark in _MARKS) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """The run's result; values hold the average of each row of its tables."""
        values: dict[str, float] = {}
        error = abort = ""
        for line in document.lines():
            if match := _ERROR.match(line):
                error = error or match[1]
            elif row := _ROW.match(line):
                name = re.sub(r"\W+", "_", row[1]).strip("_").casefold()
                values[name] = float(row[3])
            elif _ABORT.search(line):
                abort = abort or line.strip()
        if error or abort:
            status, text = CheckStatus.ERROR, error or abort
        elif not values:
            status, text = CheckStatus.ERROR, "no table of results: it did not finish"
        elif min(values.values()) <= 0:
            status, text = CheckStatus.ERROR, "a measured value is zero"
        else:
            status, text = CheckStatus.PASS, f"ran, {len(values)} rows"
        yield CheckResult(
            document.node,
            "gpcnet",
            status,
            text=text[:500],
            time=document.now,
            source=document.name,
            values=values,
        )


@reader()
def gpcnet() -> Reader:
    """GPCNeT network tests."""
    return Gpcnet()
