"""What a site declares of its nodes: golden tables and exceptions, checked before they are used.

What cannot be meant is an error that names file and key: a fact that nobody compares would
otherwise be declared for nothing.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from difflib import get_close_matches

from bigiron.config import Config, GoldenConfig, GoldenExceptionConfig
from bigiron.detect import Declared, Exempt
from bigiron.detect.golden.facts import (
    ALIASES,
    ONLY_DECLARED,
    PREFIXES,
    RELEVANT,
    proper,
    relevant,
)
from bigiron.errors import ConfigError, ParseError
from bigiron.model import FactValue
from bigiron.nodesets import fold, unfold

PARTS_AT_REST = frozenset({"", "gpu"})
"""The kinds of part whose link may be slower while nothing is asked of it."""


def declared(golden: GoldenConfig) -> Declared:
    """What a table of a configuration or of a golden file declares."""
    facts = {name: _several(value) for name, value in golden.facts.items()}
    return Declared(facts, golden.sku, golden.role, kind=golden.kind, model=golden.model)


def _several(value: FactValue | list[FactValue]) -> tuple[FactValue, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def exempted(config: Config, file: str = "configuration") -> tuple[Exempt, ...]:
    """The exceptions of a configuration. Raises ConfigError."""
    return tuple(_exempt(n, one, file) for n, one in enumerate(config.golden_exception))


def over(exempt: Exempt, now: datetime) -> str:
    """A sentence for an exception that has ended; "" while it holds."""
    if now < exempt.until:
        return ""
    return (
        f"the exception for {exempt.fact} on {fold(exempt.nodes)} ended at "
        f"{exempt.until.astimezone(UTC):%Y-%m-%d %H:%M} UTC ({exempt.why}): remove it or renew it"
    )


def check(config: Config, file: str) -> None:
    """Raises ConfigError for what a golden table or an exception cannot mean."""
    seen: dict[tuple[str, ...], int] = {}
    for number, golden in enumerate(config.golden):
        for name, value in golden.facts.items():
            key = f"golden[{number}].facts.{name}"
            wanted = _wanted(name, golden.kind, _several(value))
            if wanted:
                raise ConfigError(file, key, wanted)
            what = (golden.sku, golden.role, golden.kind, golden.model, proper(name))
            if what in seen:
                wanted = f"golden[{seen[what]}] declares it for the same nodes and parts"
                raise ConfigError(file, key, wanted)
            seen[what] = number
    exempted(config, file)


def _wanted(name: str, kind: str, values: tuple[FactValue, ...]) -> str:
    """What a declared fact should be instead; "" if it is good."""
    known = relevant(name)
    if known is None:
        return _unknown(name)
    if not values:
        return "a value, or a list of at least one: with none, every node would differ"
    if proper(name) in ONLY_DECLARED and kind in PARTS_AT_REST:
        return f"a GPU at rest lowers it: declare {name}_max, or the kind of another part"
    if known.order == "least":
        wrong = next((value for value in values if not _is_positive(value)), None)
        if wrong is not None:
            return f"{wrong!r}: a number above zero is wanted"
    return ""


def _is_positive(value: FactValue) -> bool:
    try:
        return not isinstance(value, bool) and 0 < float(value) < float("inf")
    except ValueError:
        return False


def _unknown(name: str) -> str:
    """What may have been meant by the name of a fact that nobody compares."""
    close = get_close_matches(name, [*RELEVANT, *ALIASES], 1, 0.6)
    families = ", ".join(f"{prefix}*" for prefix in PREFIXES)
    meant = f"did you mean {close[0]}" if close else f"wanted {', '.join(RELEVANT)} or {families}"
    return f"no fact of this name is compared; {meant}"


def _exempt(number: int, one: GoldenExceptionConfig, file: str) -> Exempt:
    """An exception. Raises ConfigError where it is not clear for whom, of what, how long, why."""
    lacks = next(_lacks(one), None)
    if lacks is not None:
        field, wanted = lacks
        raise ConfigError(file, f"golden_exception[{number}].{field}", wanted)
    values = tuple(value for value in _several(one.value) if value != "")
    nodes = frozenset(unfold(one.nodes))
    return Exempt(nodes, one.fact, values, datetime.fromisoformat(one.until), one.why)


def _lacks(one: GoldenExceptionConfig) -> Iterator[tuple[str, str]]:
    """Fields that say nothing that can be used, and what is wanted there."""
    try:
        if not unfold(one.nodes):
            yield "nodes", "at least one node is wanted, such as gpu[001-004]"
    except ParseError as error:
        yield "nodes", str(error)
    if relevant(one.fact) is None:
        yield "fact", f"{one.fact!r}: {_unknown(one.fact)}"
    example = "such as 2027-01-31T00:00:00Z"
    try:
        if datetime.fromisoformat(one.until).tzinfo is None:
            yield "until", f"{one.until!r}: wanted an offset, {example}"
    except ValueError:
        yield "until", f"{one.until!r}: wanted RFC 3339, {example}"
    if not one.why.strip():
        yield "why", "a reason is wanted, for whoever reads it later"
