"""The weights of the hazard, as data: a base rate, and what each kind of evidence adds.

``hazard.toml`` beside this module holds those that ship, written by ``tools/study_hazard.py``; a
site may use a file of the same form, fitted to its own history (``hazard = "ours.toml"`` in
bigiron.toml). Keys ending in ``_24h`` and ``_7d`` belong to the two horizons.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated

import msgspec
from msgspec import Meta

from bigiron.errors import ConfigError
from bigiron.model import Severity

LogOdds = Annotated[float, Meta(ge=0, le=20)]
Share = Annotated[float, Meta(gt=0, lt=1)]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file; an unknown key is an error, never ignored."""


class Source(Table, frozen=True):
    """What the weights were fitted to, and on which day."""

    title: str
    date: str
    node_days: int = 0
    failures: int = 0


class Base(Table, frozen=True):
    """How likely a node fails of which nothing is known: ``p_24h`` and ``p_7d``.

    Both belong to a fleet with ``rate`` failures per 1,000 node-days; ``sku`` gives the rate of
    those SKUs that have another, and their odds are in proportion.
    """

    rate: Annotated[float, Meta(gt=0)]
    p_24h: Share
    p_7d: Share
    sku: Mapping[str, Annotated[float, Meta(gt=0)]] = {}


class Past(Table, frozen=True):
    """What former incidents add: ``w`` times ``log((k + shape) / (expected + shape))``.

    A gamma prior over nodes' own rates: ``shape`` is 1 over the relative variance of these;
    ``k`` is the incidents of the last ``days``, ``expected`` how many the base rate gives.
    """

    shape: Annotated[float, Meta(gt=0)]
    w_24h: LogOdds
    w_7d: LogOdds
    days: Annotated[float, Meta(gt=0)] = 30.0


class Weight(Table, frozen=True):
    """Log-odds that one finding of this severity adds, and its support.

    ``fault`` is a code or the beginning of codes (``xid``, ``xid.79``); empty: of any fault.
    ``n`` is how many such findings there were, ``failed`` how many were followed by a failure
    within 7 days or came with one.
    """

    severity: Severity
    w_24h: LogOdds
    w_7d: LogOdds
    fault: str = ""
    n: int = 0
    failed: int = 0


class Weights(Table, frozen=True):
    """All of a file. There is a weight for any fault of each severity above info."""

    source: Source
    base: Base
    past: Past
    weight: tuple[Weight, ...]

    def of(self, fault: str, severity: Severity) -> tuple[float, float]:
        """The log-odds of a finding for 24 h and 7 d: those of the nearest fault that is known."""
        best = (0.0, 0.0)
        length = -1
        for one in self.weight:
            if one.severity is severity and len(one.fault) > length and below(fault, one.fault):
                best, length = (one.w_24h, one.w_7d), len(one.fault)
        return best


def below(fault: str, above: str) -> bool:
    """Whether a fault's code is this one or begins with it: ``xid.79`` with ``xid``."""
    return not above or fault == above or fault.startswith(f"{above}.")


def parse(text: str, file: str) -> Weights:
    """The weights of a TOML text. Raises ConfigError naming file and key."""
    try:
        found = msgspec.convert(tomllib.loads(text), Weights)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(file, "", f"not TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise ConfigError(file, "", str(error)) from error
    if found.base.p_7d < found.base.p_24h:
        raise ConfigError(file, "base.p_7d", "at least base.p_24h: a week is longer than a day")
    for severity in Severity:
        general = any(w.severity is severity and not w.fault for w in found.weight)
        if severity is not Severity.INFO and not general:
            wanted = f"a weight of severity {severity} without a fault, for what is not listed"
            raise ConfigError(file, "weight", wanted)
    return found


@cache
def shipped() -> Weights:
    """The weights that ship with bigiron."""
    name = "hazard.toml"
    return parse(resources.files("bigiron.decide").joinpath(name).read_text("utf-8"), name)
