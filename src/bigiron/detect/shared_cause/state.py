"""What the search for shared causes remembers from step to step."""

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NONE: Floats = np.zeros(0)


class Heat(msgspec.Struct, frozen=True):
    """Air or coolant of each node (n,): ``base`` is its usual temperature, ``rise`` how much it
    is above that of late, ``hours`` its mean of the last hours, ``jump`` how much it is above
    that, ``steps`` how many were seen. ``spread`` is how far apart the groups' rises usually are.
    """

    base: Floats = NONE
    rise: Floats = NONE
    hours: Floats = NONE
    jump: Floats = NONE
    steps: Floats = NONE
    spread: float = 0.5


class Ports(msgspec.Struct, frozen=True):
    """Errors of each port (n,): ``lately`` those of the last hour, fading; ``usual`` the same over
    the last days.
    """

    units: tuple[str, ...] = ()
    lately: Floats = NONE
    usual: Floats = NONE


class Power(msgspec.Struct, frozen=True):
    """Each node (n,): ``volts`` is its usual rail voltage, ``clock`` its usual clock at work (Hz),
    ``braked`` the usual share of its GPUs that are braked, ``booted`` when it last booted (epoch
    seconds), ``there`` whether it was heard at the last step. ``sag`` is the usual size of a
    voltage's wobble.
    """

    volts: Floats = NONE
    clock: Floats = NONE
    braked: Floats = NONE
    booted: Floats = NONE
    there: Flags = np.zeros(0, np.bool_)
    sag: float = 0.05


class Standing(msgspec.Struct, frozen=True):
    """A group that is claimed: since when it shows, and when it last did (epoch seconds)."""

    fault: str
    by: str
    group: str
    members: tuple[str, ...]
    marked: tuple[str, ...]
    since_s: float
    last_s: float
    chance: float
    text: str


class State(msgspec.Struct, frozen=True):
    """Everything. ``warming`` is since when a group's air has been above half the limit."""

    nodes: tuple[str, ...] = ()
    heat: Heat = Heat()
    ports: Ports = Ports()
    power: Power = Power()
    warming: dict[str, float] = {}
    stalled: dict[str, float] = {}
    """When a node last told that its file server does not answer (epoch seconds)."""
    standing: dict[str, Standing] = {}
