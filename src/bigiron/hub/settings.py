"""What a configuration means for a turn."""

from datetime import datetime
from pathlib import Path

from bigiron.config import Config, GoldenConfig, GoldenExceptionConfig
from bigiron.decide.policy import Policy
from bigiron.detect import Declared, Exempt, detector, fold
from bigiron.errors import ConfigError, ParseError
from bigiron.hub.memory import Limits
from bigiron.hub.turn import Settings
from bigiron.model import FactValue
from bigiron.nodesets import unfold


def settings(config: Config) -> Settings:
    """The settings of a turn."""
    policy = config.policy
    return Settings(
        off=tuple(sorted(name for name, d in config.detectors.items() if not d.enabled)),
        fresh_s=config.hub.fresh_s,
        sustain_s=config.hub.sustain_s,
        declared=tuple(declared(golden) for golden in config.golden),
        exempt=exempted(config),
        policy=Policy(
            max_out_count=policy.max_out_count,
            max_out_share=policy.max_out_share,
            breaker_share=policy.breaker_share,
            breaker_count=policy.breaker_count,
        ),
    )


def check(config: Config, file: str) -> None:
    """Raises ConfigError for what would do nothing, or something that cannot be meant."""
    switches = set(config.detectors)
    if switches:
        known = sorted({*(d.name for d in detector), *(f.name for f in fold)})
        for name in sorted(switches.difference(known)):
            wanted = f"no such detector; there are {', '.join(known)}"
            raise ConfigError(file, f"detectors.{name}", wanted)
    for number, golden in enumerate(config.golden):
        for name, value in golden.facts.items():
            if value == []:
                wanted = "a value, or a list of at least one: with none, every node would differ"
                raise ConfigError(file, f"golden[{number}].facts.{name}", wanted)
    if config.hub.fresh_s > config.hub.window_s:
        wanted = f"at most hub.window_s ({config.hub.window_s:g}): older samples are not held"
        raise ConfigError(file, "hub.fresh_s", wanted)
    settings(config)


def memory_limits(config: Config) -> Limits:
    """How much a hub of this configuration holds in memory."""
    return Limits(
        series_s=config.hub.window_s,
        gap_s=min(45.0, config.hub.window_s / 40),
        events_s=config.hub.event_days * 86_400,
    )


def fault_files(config: Config, file: Path | None) -> list[Path]:
    """The site's own fault files, relative to the configuration's folder."""
    base = file.parent if file is not None else Path()
    return [base / name for name in config.faults]


def declared(golden: GoldenConfig) -> Declared:
    """What a table of a configuration or of a golden file declares."""
    facts: dict[str, tuple[FactValue, ...]] = {
        name: tuple(value) if isinstance(value, list) else (value,)
        for name, value in golden.facts.items()
    }
    kind = golden.kind
    return Declared(facts, golden.sku, golden.role, kind=kind, model=golden.model)


def exempted(config: Config) -> tuple[Exempt, ...]:
    """The exceptions of a configuration. Raises ConfigError."""
    return tuple(_exempt(n, one) for n, one in enumerate(config.golden_exception))


def _exempt(number: int, one: GoldenExceptionConfig) -> Exempt:
    """An exception. Raises ConfigError where its nodes or its end cannot be understood."""
    key = f"golden_exception[{number}]"
    try:
        until = datetime.fromisoformat(one.until)
    except ValueError as error:
        wanted = f"{one.until!r}: wanted RFC 3339, such as 2027-01-31T00:00:00Z"
        raise ConfigError("configuration", f"{key}.until", wanted) from error
    if until.tzinfo is None:
        wanted = f"{one.until!r}: wanted an offset, such as 2027-01-31T00:00:00Z"
        raise ConfigError("configuration", f"{key}.until", wanted)
    try:
        nodes = frozenset(unfold(one.nodes))
    except ParseError as error:
        raise ConfigError("configuration", f"{key}.nodes", str(error)) from error
    values = tuple(one.value) if isinstance(one.value, list) else (one.value,)
    return Exempt(nodes, one.fact, tuple(v for v in values if v != ""), until, one.why)
