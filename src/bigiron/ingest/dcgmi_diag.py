"""``dcgmi diag``: as JSON (-j) of DCGM 2, 3 and 4 and of nvvs itself, and as a table.

What stands around the JSON counts too: a refusal ("unsupported GPU"), an error, a timeout or an
exit status means that parts of the diagnostic did not run, and that is never a pass.
"""

import json
import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.dcgm_result import Result, Warn, check_results, device
from bigiron.ingest.json_text import JsonMap, mapping, sequence
from bigiron.model import CheckResult, CheckStatus, Fact, Note, Observation

_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic", "DCGM Multi-Node Diagnostic", "NVVS")
_ROOT = re.compile(r'"DCGM (?:GPU |Multi-?Node )?Diagnostic"')
_CATEGORIES = re.compile(r'"(?:test_categories|tests)"\s*:\s*\[')
_TABLE = re.compile(r"^\|\s*Diagnostic\s*\|\s*Result\s*\|", re.MULTILINE)
_REFUSED = re.compile(r"unable to run diagnostic on unsupported GPU\s*(?P<gpu>\d{1,3})?", re.I)
_PROBLEM = re.compile(
    r"^\s*(?:error:|.*\btimed? ?out\b|.*unable to complete (?:the )?diagnostic|"
    r".*diagnostic could not be run|.*could not (?:stop|start) the (?:launched )?diagnostic|"
    r".*(?:exit|exited|return)(?:ed)?(?: with)? (?:status|code):?\s*-?[1-9]\d*|rc=-?[1-9])",
    re.IGNORECASE,
)
LIMIT = 32 * 1024 * 1024
TEXT_LIMIT = 400
MAX_LINE = 1024


class _Reader:
    def sniff(self, head: Head) -> float:
        text = head.text
        if _ROOT.search(text) or _TABLE.search(text):
            return 0.95
        if "test_categories" in text and _CATEGORIES.search(text):
            return 0.7
        if len(text) > 4000:
            return 0.0
        told = "dcgm" in text.lower() or "diagnostic" in text.lower()
        wrong = any(_REFUSED.search(line) or _PROBLEM.match(line) for line in text.splitlines())
        return 0.6 if told and wrong else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        text = document.text(LIMIT)
        if _TABLE.search(text):
            results, facts, around = _from_table(text)
            complete = _closed(text)
        elif "{" in text:
            value, around, complete = _decode(text, document.name)
            results, facts = _results(value), _facts(value)
        else:
            results, facts, around, complete = [], {}, text, True
        told = list(_around(document, around, bool(results)))
        if not results and not told and not facts and "{" not in text:
            raise ParseError(document.name, 1, "no diagnostic in it")
        for name, fact in facts.items():
            yield Fact(document.node, name, fact)
        for result in results:
            yield from check_results(document, result)
        yield from told
        if not complete:
            yield _whole(document, CheckStatus.ERROR, "the output is cut short")
            yield Note(document.name, "output cut short, used as far as it goes")
        elif not results and not told:
            yield _whole(document, CheckStatus.ERROR, "the diagnostic reports no test at all")


def _whole(document: Document, status: CheckStatus, text: str, name: str = "") -> CheckResult:
    """A result of the diagnostic as a whole."""
    return CheckResult(document.node, "dcgm.diag", status, name, "", text, None, document.name)


def _around(document: Document, text: str, ran: bool) -> Iterator[CheckResult]:
    """What the lines around the results say of those that did not run."""
    told: set[str] = set()
    for line in text.splitlines()[:2000]:
        said = " ".join(line.split())[:TEXT_LIMIT]
        refused = _REFUSED.search(said)
        if not said or said in told:
            continue
        told.add(said)
        if refused is not None:
            name = f"gpu{int(refused['gpu'])}" if refused["gpu"] else ""
            yield _whole(document, CheckStatus.ERROR if ran else CheckStatus.SKIP, said, name)
        elif _PROBLEM.match(said):
            yield _whole(document, CheckStatus.ERROR, said)


# JSON


def _decode(text: str, name: str) -> tuple[object, str, bool]:
    """The JSON value, the text around it, and whether it was whole."""
    start = text.find("{")
    decoder = json.JSONDecoder(strict=False)
    try:
        value, end = decoder.raw_decode(text, start)
    except RecursionError as error:
        raise ParseError(name, 1, "JSON nested too deep") from error
    except ValueError as error:
        body = _closed_at_last_object(text[start:])
        try:
            value = decoder.raw_decode(body)[0]
        except (ValueError, RecursionError):
            line = text.count("\n", 0, start) + getattr(error, "lineno", 1)
            raise ParseError(name, line, "JSON cut short or broken") from error
        return value, text[:start], False
    return value, text[:start] + "\n" + text[end:], True


def _closed_at_last_object(text: str) -> str:
    """JSON that was cut off, ended after the last object that was whole.

    Nothing that stands in a half-written object is used: its missing half may hold the warning.
    """
    stack: list[str] = []
    inside = escaped = False
    best, open_then = 0, ""
    for at, char in enumerate(text):
        if inside:
            inside = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            inside, escaped = True, False
        elif char in "{[":
            stack.append("}" if char == "{" else "]")
        elif char in "}]":
            if not stack or stack.pop() != char:
                break
            if char == "}":
                best, open_then = at + 1, "".join(reversed(stack))
    return text[:best] + open_then


def _facts(value: object) -> dict[str, str]:
    """Versions: DCGM 3 names them in the root, DCGM 4 under "metadata"."""
    facts: dict[str, str] = {}
    for part in (mapping(value), mapping(mapping(value).get("metadata")), _root(value)):
        for key, word in part.items():
            if isinstance(word, str) and word.strip() and len(word) < 64:
                lower = key.lower()
                if lower == "driver version detected":
                    facts["driver_version"] = word.strip()
                elif lower in ("version", "dcgm version"):
                    facts["dcgm_version"] = word.strip()
    return facts


def _root(value: object) -> JsonMap:
    top = mapping(value)
    return next((mapping(top[key]) for key in _ROOTS if key in top), top)


def _results(value: object) -> list[Result]:
    root = _root(value)
    results: list[Result] = []
    categories = [mapping(part) for part in sequence(root.get("test_categories"))]
    for holder in (*categories, root, mapping(value)):
        for test in sequence(holder.get("tests")):
            results += _test(mapping(test))
        if holder is root and root is value:
            break
    error = root.get("runtime_error") or mapping(value).get("runtime_error")
    if isinstance(error, str) and error.strip():
        refused = _REFUSED.search(error)
        word = "Skip" if refused is not None and not results else "Not Run"
        results.append(Result("diag", word, warnings=[Warn(error)]))
    return results


def _test(test: JsonMap) -> list[Result]:
    name = str(test.get("name") or test.get("test_name") or "test")[:80]
    results = [_result(name, mapping(result)) for result in sequence(test.get("results"))]
    summary = mapping(test.get("test_summary"))
    if summary:
        whole = _result(name, summary)
        words = {result.word.strip().lower() for result in results}
        if not results or whole.warnings or whole.word.strip().lower() not in words:
            results.append(whole)
    if not results:
        results.append(Result(name, str(test.get("status") or "")))
    return results


def _result(name: str, entry: JsonMap) -> Result:
    return Result(
        name,
        str(entry.get("status") or entry.get("result") or ""),
        _devices(entry),
        list(_warnings(entry.get("warnings"))),
        [str(line) for line in _lines(entry.get("info"))],
    )


def _devices(entry: JsonMap) -> list[str]:
    if "entity_id" in entry:
        return [device(str(entry.get("entity_group", "GPU")), entry["entity_id"])]
    ids = entry.get("gpu_ids", entry.get("gpu_id", ""))
    words = [str(word) for word in ids] if isinstance(ids, list) else str(ids).split(",")
    return [name for word in words[:1024] if (name := device("gpu", word.strip()))] or [""]


def _lines(value: object) -> list[object]:
    if value is None or value == "":
        return []
    return list(sequence(value)) if isinstance(value, list) else [value]


def _warnings(value: object) -> Iterator[Warn]:
    for entry in _lines(value)[:100]:
        if isinstance(entry, dict):
            number = entry.get("error_id")
            text = str(entry.get("warning") or entry.get("error") or "")
            told = isinstance(number, int) and not isinstance(number, bool)
            yield Warn(text, number if told else None)
        elif str(entry).strip():
            yield Warn(str(entry))


# The table

_ROW = re.compile(r"^\|(?P<name>[^|]*)\|(?P<said>.*?)\|?\s*$")
_SECTION = re.compile(r"^[|+]-+\s+(?P<name>[A-Za-z ]+?)\s+-+\+")
_ENTITY = re.compile(
    r"^(?P<group>GPU|CPU|NvSwitch|Switch|ConnectX)\s?(?P<id>\d{1,4}):\s*(?P<word>\S.*)$"
)
_VERDICT = re.compile(r"^(?:Pass|Fail|Warn|Skip|Not Run)\b", re.I)
_WITH_GPUS = re.compile(r"^(?P<word>[A-Za-z ]+?)\s*-\s*(?:GPUs?:\s*(?P<ids>[\d, ]+)|All)\s*$", re.I)
_MESSAGE = re.compile(r"^(?P<kind>Warning|Error|Info)(?::\s*(?P<of>\S.*))?$", re.I)
_INLINE = re.compile(r"^(?:Warning|Error):\s*(?P<text>.*)$", re.I)
_OF_GPU = re.compile(r"\bGPU\s?(\d{1,3})\b", re.I)


def _closed(text: str) -> bool:
    """Whether the table has its lower edge."""
    rows = [line for line in text.splitlines() if line.startswith(("|", "+"))]
    return bool(rows) and bool(re.match(r"^\+-+\+-+\+\s*$", rows[-1])) and len(rows) > 3


def _from_table(text: str) -> tuple[list[Result], dict[str, str], str]:
    table = _Table()
    around: list[str] = []
    for line in text.splitlines():
        if line.startswith(("|", "+")):
            table.feed(line[:MAX_LINE])
        else:
            around.append(line)
    return table.results(), table.facts, "\n".join(around)


class _Table:
    """Rows are tests; below each stand its entities, its warnings, and their wrapped lines."""

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}
        self._tests: list[tuple[str, list[Result], list[str]]] = []
        self._metadata = False
        self._in_message = False

    def feed(self, line: str) -> None:
        section = _SECTION.match(line)
        if section is not None:
            self._metadata = section["name"].strip().lower() == "metadata"
            return
        row = _ROW.match(line)
        if row is None or line.startswith("+"):
            return
        name, said = row["name"].strip(), row["said"].strip()
        if name == "Diagnostic" and said == "Result":
            return
        if self._metadata:
            key = {"DCGM Version": "dcgm_version", "Driver Version Detected": "driver_version"}
            if name in key and said:
                self.facts[key[name]] = said
        elif name and not _MESSAGE.match(name):
            self._tests.append((name, [_worded(name, said)], []))
            self._in_message = False
        elif self._tests:
            self._below(name, said)

    def _below(self, name: str, said: str) -> None:
        test, results, messages = self._tests[-1]
        entity = _ENTITY.match(said)
        inline = _INLINE.match(said)
        message = _MESSAGE.match(name)
        if message is not None:
            self._in_message = message["kind"].lower() != "info"
            if self._in_message:
                of = message["of"] or ""
                known = not of or said.lower().replace(" ", "").startswith(
                    of.lower().replace(" ", "")
                )
                messages.append(said if known else f"{of}: {said}")
        elif inline is not None:
            self._in_message = True
            messages.append(inline["text"])
        elif entity is not None and (not self._in_message or _VERDICT.match(entity["word"])):
            self._in_message = False
            found = device(entity["group"], entity["id"])
            results.append(Result(test, entity["word"], [found]))
        elif _WITH_GPUS.match(said) and not self._in_message:
            results.append(_worded(test, said))
        elif self._in_message and said:
            messages[-1] = f"{messages[-1]} {said}"

    def results(self) -> list[Result]:
        """Every test's results, each warning with the device it names."""
        found: list[Result] = []
        for _, results, messages in self._tests:
            entities = [one for one in results if list(one.devices) != [""]]
            shown = entities or results
            for message in messages:
                gpu = _OF_GPU.search(message)
                names = f"gpu{int(gpu[1])}" if gpu else ""
                owner = next((one for one in shown if names in one.devices), None)
                if owner is None or len(owner.devices) > 1:
                    whole = results[0]
                    owner = Result(whole.test, (owner or whole).word, [names])
                    shown.append(owner)
                owner.warnings.append(Warn(message))
            if any(one.warnings for one in shown if list(one.devices) != [""]):
                shown = [one for one in shown if one.warnings or list(one.devices) != [""]]
            found += shown
        return found


def _worded(test: str, said: str) -> Result:
    """``Pass``, ``Pass - All``, ``Fail - GPUs: 0, 2``."""
    match = _WITH_GPUS.match(said)
    if match is None:
        return Result(test, said)
    ids = [word.strip() for word in (match["ids"] or "").split(",") if word.strip()]
    return Result(test, match["word"], [device("gpu", one) for one in ids] or [""])


@reader()
def dcgmi_diag() -> _Reader:
    """dcgmi diag: what DCGM's diagnostic found, as JSON or as a table."""
    return _Reader()
