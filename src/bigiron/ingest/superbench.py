"""SuperBench: results, baselines and the diagnosis summary, a JSON object or one a line.

A diagnosis row names the node ("index" or "node"), its category and what was out of bounds
("Defective Details" or "Defect Details"); "FailedTest" with results missing means that the test
did not run, which is an error and says nothing of the hardware. A results row is judged only by
its return codes, for what is fast enough is for the node's peers to say.
Source: SuperBench's data-diagnosis documentation.
"""

import json
import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, json_text, reader
from bigiron.ingest.json_text import JsonMap
from bigiron.model import CheckResult, CheckStatus, Note, Observation

_METRIC = re.compile(r"^([\w.-]+(?:/[\w.:-]+)*)/([\w.-]+)(?::(\d+))?$")
_RANK = re.compile(r"/[\w.-]+:(\d+)\b")
_DETAILS = ("Defective Details", "Defect Details", "Issue_Details", "Issue Details")
_NODE = ("index", "node", "Index", "Node")
_MAX_VALUES = 64


class SuperBench:
    """One CheckResult a diagnosed node, or one a node and benchmark."""

    def sniff(self, head: Head) -> float:
        """Certain by a diagnosis key; likely by keys such as "mem-bw/H2D_Mem_BW:0"."""
        if not head.text.lstrip().startswith(("{", "[")):
            return 0.0
        if any(f'"{key}"' in head.text for key in _DETAILS):
            return 0.95
        keys = re.findall(r'"[\w.-]+(?:/[\w.:-]+)+"\s*:\s*-?\d', head.text)
        return 0.85 if len(keys) >= 3 and "return_code" in head.text else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Rows in order."""
        rows = bad = 0
        for row in _rows(document):
            if row is None:
                bad += 1
                continue
            rows += 1
            yield from _row(document, row)
        if not rows:
            raise ParseError(document.name, 1, "no row of SuperBench results")
        if bad:
            yield Note(document.name, "superbench: lines that are not JSON", bad)


@reader()
def superbench() -> Reader:
    """SuperBench results, baseline and diagnosis summary."""
    return SuperBench()


def _rows(document: Document) -> Iterator[JsonMap | None]:
    """The objects of a file of one object, of a list, or of one object a line."""
    try:
        whole = json.loads(document.text(json_text.JSON_LIMIT))
    except (ValueError, RecursionError):
        for line in document.lines():
            if line.strip():
                yield _object(line)
        return
    yield from json_text.objects(whole)


def _object(line: str) -> JsonMap | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _row(document: Document, row: JsonMap) -> Iterator[Observation]:
    node = next((said for key in _NODE if (said := json_text.text(row.get(key)))), "")
    details = next((json_text.text(row.get(key)) for key in _DETAILS if key in row), None)
    if details is not None or "Accept" in row:
        yield _diagnosis(document, node or document.node, row, details or "")
    elif node:
        yield from _results(document, node, row)
    else:
        yield Note(document.name, "superbench: a baseline, for reference only", len(row))


def _diagnosis(document: Document, node: str, row: JsonMap, details: str) -> CheckResult:
    category = json_text.text(row.get("Category") or row.get("Categories"))
    accepted = row.get("Accept")
    parts = [part.strip() for part in re.split(r",(?=[\w.-]+/)", details) if part.strip()]
    out_of_bounds = [part for part in parts if not part.endswith("_miss")]
    codes_only = all("return_code" in part for part in out_of_bounds)
    if not details and not category and accepted is not False:
        status = CheckStatus.PASS
    elif parts and codes_only:
        status = CheckStatus.ERROR
    else:
        status = CheckStatus.FAIL
    ranks = {match[1] for part in out_of_bounds if (match := _RANK.search(part))}
    shown = "; ".join(out_of_bounds[:5] or parts[:5]) or "accepted"
    missing = len(parts) - len(out_of_bounds)
    text = shown + f"; {missing} results missing" * bool(missing)
    return CheckResult(
        node,
        f"superbench {category}".strip(),
        status,
        f"gpu{ranks.pop()}" if len(ranks) == 1 else "",
        text=text[:500],
        time=document.now,
        source=document.name,
    )


def _results(document: Document, node: str, row: JsonMap) -> Iterator[Observation]:
    benchmarks: dict[str, dict[str, float]] = {}
    other = 0
    for key, value in row.items():
        match, number = _METRIC.match(key), json_text.number(value)
        if match is None or number is None:
            other += key not in _NODE
            continue
        rank = f":{match[3]}" if match[3] is not None else ""
        benchmarks.setdefault(match[1], {})[match[2] + rank] = number
    for name, values in benchmarks.items():
        yield _benchmark(document, node, name, values)
    if other:
        yield Note(document.name, "superbench: columns that are no result", other)


def _benchmark(document: Document, node: str, name: str, values: dict[str, float]) -> CheckResult:
    codes = [value for key, value in values.items() if key.split(":")[0] == "return_code"]
    measured = {k: v for k, v in values.items() if k.split(":")[0] != "return_code"}
    zero = [key for key, value in measured.items() if value == 0]
    if not codes or any(codes):
        bad = next((f"{code:g}" for code in codes if code), "missing")
        status, text = CheckStatus.ERROR, f"return code {bad}"
    elif zero or not measured:
        what = f"{zero[0]} is zero" if zero else "nothing was measured"
        status, text = CheckStatus.ERROR, what
    else:
        status, text = CheckStatus.PASS, f"ran, {len(measured)} values"
    return CheckResult(
        node,
        f"superbench {name}",
        status,
        text=text,
        time=document.now,
        source=document.name,
        values=dict(list(measured.items())[:_MAX_VALUES]),
    )
