"""What the search for shared causes remembers from step to step."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from bigiron.detect.state import carried, follow

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NONE: Floats = np.zeros(0)


class Heat(msgspec.Struct, frozen=True):
    """Air or coolant of each node (n,): ``base`` is its usual temperature, ``rise`` how much it
    is above that of late, ``hours`` its mean of the last hours, ``jump`` how much it is above
    that, ``steps`` how many were seen, ``seen`` when it was last (epoch seconds). ``spread`` is how
    far apart the groups' rises usually are, ``shared`` by how much all of them had risen when that
    was last known, at ``shared_s`` (epoch seconds, 0 for never).
    """

    base: Floats = NONE
    rise: Floats = NONE
    hours: Floats = NONE
    jump: Floats = NONE
    steps: Floats = NONE
    seen: Floats = NONE
    spread: float = 0.5
    shared: float = 0.0
    shared_s: float = 0.0


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
    """A group that is claimed: since when it shows, and when it last did (epoch seconds).

    ``unseen_s`` is for how long nothing was seen of it that would tell whether it still does.
    """

    fault: str
    by: str
    group: str
    members: tuple[str, ...]
    marked: tuple[str, ...]
    since_s: float
    last_s: float
    chance: float
    text: str
    unseen_s: float = 0.0


class State(msgspec.Struct, frozen=True):
    """Everything. ``warming`` is since when a group's air has been above half the limit, ``time_s``
    the time of the last step (epoch seconds, 0 for none)."""

    nodes: tuple[str, ...] = ()
    heat: Heat = Heat()
    ports: Ports = Ports()
    power: Power = Power()
    warming: dict[str, float] = {}
    stalled: dict[str, float] = {}
    """When a node last told that its file server does not answer (epoch seconds)."""
    standing: dict[str, Standing] = {}
    time_s: float = 0.0


def aligned(state: State, nodes: tuple[str, ...]) -> State:
    """The state with its rows moved to the nodes of this step."""
    if len(state.heat.seen) != len(state.nodes):  # of a version that did not keep it
        state = msgspec.structs.replace(state, nodes=(), heat=Heat(), power=Power())
    index = follow(state.nodes, nodes)
    if index is None:
        return state
    h, p = state.heat, state.power
    return msgspec.structs.replace(
        state,
        nodes=nodes,
        heat=Heat(
            carried(h.base, index, np.nan),
            carried(h.rise, index, 0.0),
            carried(h.hours, index, np.nan),
            carried(h.jump, index, 0.0),
            carried(h.steps, index, 0.0),
            carried(h.seen, index, np.nan),
            *(h.spread, h.shared, h.shared_s),
        ),
        power=Power(
            carried(p.volts, index, np.nan),
            carried(p.clock, index, np.nan),
            carried(p.braked, index, 0.0),
            carried(p.booted, index, np.nan),
            carried(p.there, index, False),
            p.sag,
        ),
    )
