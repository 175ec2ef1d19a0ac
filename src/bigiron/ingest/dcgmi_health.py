"""``dcgmi health -c``: DCGM's own watches of each part, as JSON (-j) or as a table."""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.dcgm_errors import by_text, fault_code
from bigiron.ingest.dcgm_result import check_name, device
from bigiron.ingest.dcgmi_tree import Entry, Tree, trees
from bigiron.model import CheckResult, CheckStatus, Note, Observation

_TITLE = "Health Monitor Report"
_OVERALL = "Overall Health"
_REFUSED = re.compile(r"Unable to check health watches|Health watches not enabled", re.IGNORECASE)
_WORDS = {
    "healthy": CheckStatus.PASS,
    "warning": CheckStatus.WARN,
    "failure": CheckStatus.FAIL,
}
_SPLIT = re.compile(
    r"^(?P<word>Healthy|Warning|Failure|Internal error)\b[\s,:-]*(?P<text>.*)$", re.S
)
LIMIT = 16 * 1024 * 1024
TEXT_LIMIT = 500


class _Reader:
    def sniff(self, head: Head) -> float:
        if _TITLE in head.text:
            return 0.95
        return 0.7 if len(head.text) < 4000 and _REFUSED.search(head.text) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        text = document.text(LIMIT)
        if _TITLE not in text:
            refused = next((line for line in text.splitlines() if _REFUSED.search(line)), "")
            if not refused:
                raise ParseError(document.name, 1, "no health report in it")
            yield _check(document, "", "health", CheckStatus.ERROR, refused.strip())
            return
        for tree in trees(text, document.name):
            if not any(_TITLE in line for line in tree.header):
                continue
            yield from _observe(document, tree)
            if not tree.complete:
                yield _check(document, "", "health", CheckStatus.ERROR, "the output is cut short")
                yield Note(document.name, "output cut short, used as far as it goes")


def _observe(document: Document, tree: Tree) -> Iterator[CheckResult]:
    overall = CheckStatus.ERROR
    told: list[CheckResult] = []
    for name, entry in tree.body.children.items():
        if name == _OVERALL:
            overall = _status(entry.value)[0]
            told += _group(document, "GPU", entry) if entry.children else []
        else:
            told += _group(document, name, entry)
    yield from told
    if not any(result.status is overall for result in told):
        yield _check(document, "", "health", overall, f"{_OVERALL}: {_word(tree)}")


def _word(tree: Tree) -> str:
    entry = tree.body.children.get(_OVERALL)
    return entry.value.strip() if entry and entry.value.strip() else "not told"


def _group(document: Document, group: str, entry: Entry) -> Iterator[CheckResult]:
    """The systems of every entity of one group: GPU, then 3, then Errors, then PCIe system."""
    for number, entity in entry.children.items():
        name = device(group, number.strip())
        systems = entity.children.get("Errors", entity).children
        for system, found in systems.items():
            status, text = _status(found.value)
            errors = [child.value for child in found.children.values() if child.value]
            said = " ".join([text, *errors]).strip()
            check = system.removesuffix(" system")
            yield _check(document, name, f"health {check}", status, said or found.value)
        if not systems:
            status, text = _status(entity.value)
            yield _check(document, name, "health", status, text or entity.value)


def _status(value: str) -> tuple[CheckStatus, str]:
    match = _SPLIT.match(value.strip())
    if match is None:
        return CheckStatus.ERROR, value.strip()
    return _WORDS.get(match["word"].lower(), CheckStatus.ERROR), match["text"].strip()


def _check(
    document: Document, name: str, check: str, status: CheckStatus, text: str
) -> CheckResult:
    code = ""
    if status in (CheckStatus.WARN, CheckStatus.FAIL):
        number = by_text(text)
        code = fault_code(number) if number else "dcgm.unknown"
    said = " ".join(text.split())[:TEXT_LIMIT]
    return CheckResult(
        document.node, check_name(check), status, name, code, said, None, document.name
    )


@reader()
def dcgmi_health() -> _Reader:
    """dcgmi health -c: what DCGM's background watches say of each part."""
    return _Reader()
