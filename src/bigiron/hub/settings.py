"""What a configuration means for a turn."""

from pathlib import Path

from bigiron.config import Config, GoldenConfig
from bigiron.decide.policy import Policy
from bigiron.detect import Declared
from bigiron.hub.memory import Limits
from bigiron.hub.turn import Settings
from bigiron.model import FactValue


def settings(config: Config) -> Settings:
    """The settings of a turn."""
    policy = config.policy
    return Settings(
        off=tuple(sorted(name for name, d in config.detectors.items() if not d.enabled)),
        fresh_s=config.hub.fresh_s,
        sustain_s=config.hub.sustain_s,
        declared=tuple(_declared(golden) for golden in config.golden),
        policy=Policy(
            max_out_count=policy.max_out_count,
            max_out_share=policy.max_out_share,
            breaker_share=policy.breaker_share,
            breaker_count=policy.breaker_count,
        ),
    )


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


def _declared(golden: GoldenConfig) -> Declared:
    facts: dict[str, tuple[FactValue, ...]] = {
        name: tuple(value) if isinstance(value, list) else (value,)
        for name, value in golden.facts.items()
    }
    return Declared(facts, golden.sku, golden.role)
