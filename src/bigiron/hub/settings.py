"""What a configuration means for a turn."""

from pathlib import Path

from bigiron.config import Config
from bigiron.decide.hazard_weights import Weights, parse, shipped
from bigiron.decide.judge import Judging
from bigiron.decide.policy import Policy
from bigiron.detect import detector, fold
from bigiron.errors import ConfigError
from bigiron.hub import declaring
from bigiron.hub.memory import Limits
from bigiron.hub.turn import Settings


def settings(config: Config) -> Settings:
    """The settings of a turn."""
    policy = config.policy
    return Settings(
        off=tuple(sorted(name for name, d in config.detectors.items() if not d.enabled)),
        fresh_s=config.hub.fresh_s,
        sustain_s=config.hub.sustain_s,
        false_per_node_day=config.hub.false_suspects / 1000,
        declared=tuple(map(declaring.declared, config.golden)),
        exempt=declaring.exempted(config),
        judging=Judging(config.hub.hold_s, _weights(config.hazard)),
        policy=Policy(
            max_out_count=policy.max_out_count,
            max_out_share=policy.max_out_share,
            breaker_share=policy.breaker_share,
            breaker_count=policy.breaker_count,
        ),
    )


def _weights(file: str) -> Weights:
    """The hazard's weights: a site's own, or those that ship. Raises ConfigError."""
    if not file:
        return shipped()
    try:
        return parse(Path(file).read_text("utf-8"), file)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(file, "", f"cannot be read: {error}") from error


def check(config: Config, file: str) -> None:
    """Raises ConfigError for what would do nothing, or something that cannot be meant."""
    switches = set(config.detectors)
    if switches:
        known = sorted({*(d.name for d in detector), *(f.name for f in fold)})
        for name in sorted(switches.difference(known)):
            wanted = f"no such detector; there are {', '.join(known)}"
            raise ConfigError(file, f"detectors.{name}", wanted)
    declaring.check(config, file)
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
