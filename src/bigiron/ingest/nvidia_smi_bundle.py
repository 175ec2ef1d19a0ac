"""A capture of several commands, one after the other, each below its command line."""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.nvidia_sections import MAX_SECTIONS, Section, observe_sections
from bigiron.model import Observation

_TOOLS = r"(?:nvidia-smi|dcgmi|dmesg|journalctl)"
_PROMPT = re.compile(r"^(?:#+\s*)?\$\s+(?P<command>\S.*)$")
_SHELL = re.compile(r"^\(?[\w.-]*\)?\s*\[?[\w.-]+@[\w.-]+[^$#]{0,80}[$#]\s+(?P<command>\S.*)$")
_MARKED = re.compile(
    rf"^(?:#+|\++|=+>?|-+|>+|\*+)\s*(?:\$\s*)?(?P<command>(?:sudo\s+)?(?:/\S+/)?{_TOOLS}\b"
    rf"(?:\s+[^|=+*]*?)?)\s*(?:<?=+|-+|\*+|#+)?:?\s*$"
)
_BARE = re.compile(
    r"^(?P<command>(?:sudo\s+)?(?:/\S+/)?(?:nvidia-smi(?:\s+(?:-\S+|topo|nvlink|pmon|dmon)\b.*)?"
    r"|dcgmi\s+(?:diag|health|nvlink|discovery)\b.*))$"
)
LINE_LIMIT = 16_384
SHORT = 256
"""A prompt or heading with its command's name fits in this."""

_RULE = re.compile(r"^\s*#{8,}\s*$")


def command_line(line: str) -> str:
    """The command a line shows as typed; "" if it shows none."""
    text = line[:LINE_LIMIT].rstrip()
    short = text[:SHORT]
    for pattern, part in ((_PROMPT, text), (_SHELL, short), (_MARKED, short), (_BARE, text)):
        match = pattern.match(part)
        if match is not None:
            whole = len(text) > SHORT and part is short
            return text[match.start("command") :] if whole else match["command"]
    return ""


class _Reader:
    def sniff(self, head: Head) -> float:
        commands = [c for line in head.text.splitlines() if (c := command_line(line))]
        tools = sum(bool(re.search(_TOOLS, command)) for command in commands)
        return 0.97 if len(commands) > 1 and tools else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        sections = _sections(document)
        if not sections:
            raise ParseError(document.name, 1, "no command line in it")
        yield from observe_sections(document, sections)


class _Splitter:
    """Sections by command line, and by headings between ruled lines of ``#``."""

    def __init__(self) -> None:
        self.done: list[Section] = []
        self.commands = 0
        self._section: Section | None = None
        self._lines: list[str] = []
        self._title = ""

    def feed(self, number: int, line: str) -> None:
        command = command_line(line)
        if command:
            self.close()
            self.commands += 1
            self._section = Section(command[:80], number, "")
            self._lines = [f"$ {command}"]
        elif _RULE.match(line):
            if any(text.strip() for text in self._lines[1:]):
                self.close()
            self._lines += [""] if self._section else []
        elif self._section is not None:
            self._lines.append(line)
        elif line.startswith("#"):
            self._title = line.strip("# \t")
        elif line.strip():
            self._section = Section(self._title[:80], number - 1, "")
            self._lines = ["", line]

    def close(self) -> None:
        """Ends the section that is open; a heading at its end belongs to the next."""
        lines, section = self._lines, self._section
        self._lines, self._section = [], None
        if section is None:
            return
        while len(lines) > 1 and (not lines[-1].strip() or _heading(lines[-1])):
            lines.pop()
        section.text = "\n".join(lines) + "\n"
        self.done.append(section)


def _heading(line: str) -> bool:
    """Whether a line starting with ``#`` is not a monitor's own heading."""
    return line.startswith("#") and not re.match(r"^#\s*(?:gpu|Idx|Date)\b", line, re.IGNORECASE)


def _sections(document: Document) -> list[Section]:
    """Each command with what it printed, its own line first: it may tell what columns mean."""
    splitter = _Splitter()
    for number, line in enumerate(document.lines(), 1):
        splitter.feed(number, line)
        if len(splitter.done) >= MAX_SECTIONS:
            break
    splitter.close()
    return splitter.done[:MAX_SECTIONS] if splitter.commands else []


@reader()
def nvidia_smi_bundle() -> _Reader:
    """A capture of several nvidia-smi and dcgmi commands, each below its command line."""
    return _Reader()
