"""Values of facts: which are the same, which is newer or better, how they are said."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from bigiron.detect.golden.facts import Relevant, proper, relevant
from bigiron.model import FactValue

ON = frozenset({"enabled", "enable", "on", "true", "yes", "1"})
OFF = frozenset({"disabled", "disable", "off", "false", "no", "0"})

OWN_WORDS = re.compile(
    r"^(?:BOOT_IMAGE|initrd|root|rootflags|resume|ip|hostname|BOOTIF|nfsroot|crashkernel"
    r"|rd\.(?:lvm|luks|md)\.\w+|systemd\.machine_id|netroot|cloud-config-url)="
)
"""Kernel arguments that tell where a node boots from, and so differ on each (Linux kernel
documentation, kernel-parameters; dracut.cmdline(7)). ``BOOT_IMAGE`` repeats the kernel's version.
"""

SPLIT = re.compile(r"[\s,;]+")
UNITS = {"gbps": "Gb/s", "w": "W", "gb": "GB", "mhz": "MHz"}
"""Units by the end of a fact's name."""


def comparable(name: str, value: FactValue) -> FactValue:
    """A value such that the same thing said in two ways is equal.

    ``16`` and ``"16"``, ``Enabled`` and ``on``, the arguments of a kernel in another order.
    """
    known = relevant(name)
    return _comparable(known.order if known is not None else "", type(value).__name__, value)


@lru_cache(maxsize=4096)
def _comparable(order: str, kind: str, value: FactValue) -> FactValue:
    """``kind`` keeps True and 1 apart, which are equal to a cache."""
    if order == "switch":
        return _switch(value)
    if order == "least":
        return _number(value) if _is_number(value) else str(value).strip()
    if order == "words":
        return " ".join(sorted(set(words(str(value)))))
    if kind == "float" and _is_number(value) and float(value).is_integer():
        return str(int(float(value)))
    return str(value).strip()


def _switch(value: FactValue) -> FactValue:
    word = str(value).strip().casefold()
    if word in ON:
        return "enabled"
    return "disabled" if word in OFF else word


def words(text: str) -> list[str]:
    """The settings in a text, without those that are each node's own."""
    return [word for word in SPLIT.split(text.strip()) if word and not OWN_WORDS.match(word)]


def newer(value: FactValue, other: FactValue, order: str) -> bool:
    """Whether a value is a later version than another; False where versions have no order."""
    if order not in ("version", "hex") or isinstance(value, bool) or isinstance(other, bool):
        return False
    base = 16 if order == "hex" else 10
    return _parts(str(value), base) > _parts(str(other), base)


def better(value: FactValue, other: FactValue, order: str) -> bool:
    """Whether a value is more than another where more is no fault."""
    return order == "least" and _number(value) > _number(other) > 0


def fits(name: str, value: FactValue, allowed: Iterable[FactValue]) -> bool:
    """Whether a value is one of those allowed; where more is no fault, at least the least."""
    known = relevant(name)
    if known is None:
        return any(str(value) == str(other) for other in allowed)
    own = comparable(name, value)
    several = [comparable(name, other) for other in allowed]
    if any(own == other or near(own, other, known.tolerance) for other in several):
        return True
    numbers = [_number(other) for other in several]
    least = min(numbers, default=0.0) * (1 - known.tolerance)
    return known.order == "least" and _number(own) >= least > 0


def near(value: FactValue, other: FactValue, tolerance: float) -> bool:
    """Whether two numbers are the same but for rounding."""
    if not tolerance or not (_is_number(value) and _is_number(other)):
        return False
    one, two = _number(value), _number(other)
    return abs(one - two) <= tolerance * max(abs(one), abs(two))


def alike(values: Sequence[FactValue], known: Relevant) -> dict[FactValue, FactValue]:
    """For each value the one it counts as: values within the tolerance of a more common one.

    ``values`` are in order, the most common first.
    """
    found: dict[FactValue, FactValue] = {}
    heads: list[FactValue] = []
    for value in values:
        head = next((h for h in heads if near(value, h, known.tolerance)), value)
        found[value] = head
        if head is value:
            heads.append(value)
    return found


def _parts(text: str, base: int) -> tuple[int, ...]:
    """The numbers in a version, for order: ``570.124.06`` before ``570.158.01``."""
    digits = "0123456789abcdef"[:base]
    spaced = "".join(c if c.lower() in digits else " " for c in text).split()
    return tuple(int(word[:9], base) for word in spaced)


def _is_number(value: FactValue) -> bool:
    try:
        number = float(value)
    except ValueError:
        return False
    return number - number == 0  # neither infinite nor NaN


def _number(value: FactValue) -> float:
    """0 for what is no number."""
    return float(value) if _is_number(value) else 0.0


def label(name: str) -> str:
    """A fact's name as people say it: ``driver version``, ``link rate``."""
    if name.startswith(("env.", "sysctl.", "mount.", "module.", "package.", "ulimit.")):
        return name
    name = proper(name)
    stem, _, unit = name.rpartition("_")
    text = (stem if unit in UNITS else name).replace("_", " ")
    if text == "kernel cmdline":
        return "kernel arguments"
    for word in ("pcie", "numa", "mig", "ecc", "mtu", "nccl", "bios", "bmc", "gpu", "iommu", "acs"):
        text = re.sub(rf"\b{word}\b", "PCIe" if word == "pcie" else word.upper(), text)
    for word, as_said in (("vbios", "VBIOS"), ("nvlink", "NVLink"), ("cuda", "CUDA")):
        text = text.replace(word, as_said)
    return text


def said(name: str, value: FactValue) -> str:
    """A value with its unit."""
    unit = UNITS.get(name.rpartition("_")[2], "")
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if len(text) > SHOWN:
        text = f"{text[:SHOWN]}..."
    return f"{text} {unit}" if unit else text


SHOWN = 120
"""Characters of a value that are told."""


def other_words(value: FactValue, usual: FactValue) -> str:
    """``lacks iommu=pt and has nosmt``: how a set of settings differs from another."""
    has, should = words(str(value)), words(str(usual))
    less = sorted(set(should) - set(has))
    more = sorted(set(has) - set(should))
    parts = []
    if less:
        parts.append(f"lacks {', '.join(less)}")
    if more:
        parts.append(f"has {', '.join(more)}")
    text = " and ".join(parts)
    return f"{text[: 2 * SHOWN]}..." if len(text) > 2 * SHOWN else text
