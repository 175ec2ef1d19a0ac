"""What ends a difference: an exception, a rollout it is part of, or that it is none any more."""

from collections.abc import Iterable, Iterator, Mapping

from bigiron.detect import Window
from bigiron.detect.golden import facts
from bigiron.detect.golden.values import label, said
from bigiron.detect.golden.wave import NAME
from bigiron.model import Fact, FactValue, Finding, Recovery

Over = dict[tuple[str, str], str]
"""By node and fact, by its proper name: what an exception that has ended said."""

GROUPS = "rollout:"
_FAULTS = ("config.drift.", "config.missing.", "config.behind.")


def exceptions(
    window: Window,
) -> tuple[dict[tuple[str, str], tuple[FactValue, ...]], Over]:
    """What is excused now, and which excuses are over.

    An exception without values excuses any; one that is over says so only where no other holds.
    """
    exempt: dict[tuple[str, str], tuple[FactValue, ...]] = {}
    over: Over = {}
    for one in window.exempt:
        for node in one.nodes:
            key = node, facts.proper(one.fact)
            if window.now >= one.until:
                why = f" ({one.why})" if one.why else ""
                over[key] = f"The exception for it ended at {one.until:%Y-%m-%d %H:%M}{why}."
            elif key not in exempt:
                exempt[key] = one.values
            else:
                any_value = not one.values or not exempt[key]
                exempt[key] = () if any_value else (*exempt[key], *one.values)
    return exempt, over


def recoveries(window: Window, found: Iterable[Finding]) -> Iterator[Recovery]:
    """The end of what stands and is not claimed any more, with its reason."""
    if not window.standing:
        return
    claims = list(found)
    now = {finding.key for finding in claims}
    excused, _ = exceptions(window)
    moving = {
        (node, evidence.metric.removeprefix("fact:"))
        for finding in claims
        if finding.subject.by
        for node in finding.subject.members
        for evidence in finding.evidence
    }
    for key in sorted(window.standing):
        detector, _, rest = key.partition("|")
        if detector != NAME or key in now:
            continue
        fault, _, subject = rest.partition("|")
        if subject.startswith(GROUPS):
            yield Recovery(key, "nothing of it moves any more")
            continue
        name = _fact_of(fault)
        node, _, device = subject.partition("/")
        held = _held(window, node, device, name)
        if held is None:
            continue
        if (node, facts.proper(name)) in excused:
            why = "it is excused by an exception"
        elif (node, name) in moving:
            why = "it is part of a rollout"
        else:
            why = f"{label(name)} is {said(name, held.value)}, which no longer differs"
        yield Recovery(key, why)


def _fact_of(fault: str) -> str:
    prefix = next((p for p in _FAULTS if fault.startswith(p)), "")
    return fault.removeprefix(prefix)


def _held(window: Window, node: str, device: str, name: str) -> Fact | None:
    """The fact of a device, or of the node or any device of it."""
    own: Mapping[str, Fact] = window.facts.get((node, device), {})
    if name in own or device:
        return own.get(name)
    return next((f[name] for (n, _), f in window.facts.items() if n == node and name in f), None)
