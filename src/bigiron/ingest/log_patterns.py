"""Messages to fault codes by the catalogue's own patterns.

A fault's ``needs`` are literals of which every message it means contains one; where a pattern's
own text demands a longer one (``log_literals``), that decides whether it is tried at all. Of the
faults a message could mean, the one with the longest need found in it is tried first, then in
the catalogue's order; the first pattern that matches wins.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from bigiron.errors import ConfigError
from bigiron.faults import Catalogue
from bigiron.ingest import pci_address
from bigiron.ingest.log_literals import Gate, required, worth
from bigiron.model import Fault

MESSAGE_LIMIT = 4096
"""Characters of a message that patterns see; the kernel itself writes at most about 1,000."""


_address = lru_cache(maxsize=4096)(pci_address)
_NUMBER = re.compile(r"[0-9]+")
_ON_PCI = frozenset({"gpu", "nic", "nvme", "switch"})
_ADDRESS = re.compile(
    r"(?<![\w:])((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)(?=[\s:),]|$)",
    re.IGNORECASE,
)
"""A device's address where the pattern names none: a driver names the device it speaks of."""


class Match(NamedTuple):
    """A fault code, the device named (or "") and the other named parts of the pattern."""

    code: str
    device: str
    attrs: dict[str, str]


class _Rule(NamedTuple):
    """One pattern of a fault; ``about`` is the kind of device the fault is about."""

    code: str
    about: str
    pattern: str
    needs: tuple[str, ...]
    gate: Gate


class FaultPatterns:
    """The patterns of a catalogue, ready to be tried.

    Raises ConfigError for a fault that has patterns but no literals they cannot match without.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._rules = [rule for fault in catalogue.patterned() for rule in _rules(fault)]
        self._by_gate: dict[str, list[int]] = {}
        for index, rule in enumerate(self._rules):
            for gate in rule.gate.any_of:
                self._by_gate.setdefault(gate, []).append(index)
        self._shapes = [(_NUMBER.sub("0", gate), rules) for gate, rules in self._by_gate.items()]
        self._behind = lru_cache(maxsize=4096)(self._find_behind)
        self._compiled = cache(re.compile)  # a log meets few of the patterns: each on first use

    @property
    def gates(self) -> tuple[Gate, ...]:
        """A line that passes none of these means no fault."""
        return tuple(dict.fromkeys(rule.gate for rule in self._rules))

    def match(self, message: str) -> Match | None:
        """The first fault that this message means."""
        message = message[:MESSAGE_LIMIT]
        rules = self._behind(_NUMBER.sub("0", message))
        if not rules:
            return None
        for index in self._order(rules, message):
            rule = self._rules[index]
            found = self._compiled(rule.pattern).search(message)
            if found is not None:
                return _match(rule, found)
        return None

    def _find_behind(self, shape: str) -> tuple[int, ...]:
        """The rules whose gates a message of this shape may contain.

        Messages repeat but for their numbers, so what is found is kept by the message with every
        number made 0. A gate in a message is then also in its shape if its own numbers are too.
        """
        return tuple(
            sorted({index for gate, behind in self._shapes if gate in shape for index in behind})
        )

    def _order(self, rules: tuple[int, ...], message: str) -> list[int]:
        """Those with a need in the message, longest need first, then as in the catalogue."""
        if len(rules) == 1 and any(need in message for need in self._rules[rules[0]].needs):
            return [*rules]
        lengths = {
            index: max((len(n) for n in self._rules[index].needs if n in message), default=0)
            for index in rules
        }
        return sorted((i for i in rules if lengths[i]), key=lambda i: (-lengths[i], i))


def _rules(fault: Fault) -> Iterator[_Rule]:
    """A fault's patterns, each behind the literals that say most: its own or the fault's."""
    for text in fault.patterns:
        own = required(text)
        needs = fault.needs or (own.any_of if own else ())
        if not needs or any(sign in need for need in needs for sign in "\n\r\0"):
            raise ConfigError("faults", f"{fault.code}.needs", "literals that every match contains")
        gate = own if own and worth(own.any_of) > worth(needs) else Gate(needs)
        yield _Rule(fault.code, fault.device, text, needs, gate)


def _match(rule: _Rule, found: re.Match[str]) -> Match:
    groups = {name: text.strip() for name, text in found.groupdict().items() if text}
    named = groups.pop("device", "")
    device = _address(groups.pop("pci", "")) or _address(named) or named
    if not device and rule.about in _ON_PCI and (address := _ADDRESS.search(found.string)):
        device = _address(address[1])
    return Match(rule.code, device, groups)
