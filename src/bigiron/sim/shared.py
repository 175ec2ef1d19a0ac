"""Shared causes: one part that many nodes hang on. No member is to blame."""

from bigiron.sim import kernel
from bigiron.sim.history import Truth
from bigiron.sim.scene import HOUR_S, Plan, Scene


def _members(scene: Scene, plan: Plan) -> tuple[int, ...]:
    return tuple(scene.history.site.groups(plan.by)[plan.group])


def _open(scene: Scene, plan: Plan, at_s: float, effect: float) -> Truth:
    return scene.open(
        *(plan, at_s),
        label="benign",
        effect=round(effect, 4),
        members=_members(scene, plan),
        shared_cause=True,
    )


def cooling_excursion(scene: Scene, plan: Plan, at_s: float) -> None:
    """A loop's supply air warms by several degrees within tens of minutes, for hours."""
    rng = scene.rng(plan)
    size = plan.size if plan.size is not None else float(rng.uniform(4, 9))
    lasts_s = float(rng.uniform(2, 7)) * HOUR_S
    truth = _open(scene, plan, at_s, size)
    truth.end_s = at_s + lasts_s
    scene.history.effect(
        *("inlet", _members(scene, plan), size, at_s, at_s + lasts_s),
        ramp_s=float(rng.uniform(900, 2700)),
        fall_s=HOUR_S,
    )


def leaf_bad(scene: Scene, plan: Plan, at_s: float) -> None:
    """A leaf switch errs: symbol errors on the ports of all its nodes, some links flap."""
    rng, history = scene.rng(plan), scene.history
    members = _members(scene, plan)
    lasts_s = float(rng.uniform(1.5, 6)) * HOUR_S
    size = float(rng.uniform(30, 200))
    truth = _open(scene, plan, at_s, size)
    truth.end_s = end_s = at_s + lasts_s
    for node in members:
        for nic in range(8):
            per_h = size * float(rng.gamma(2.0, 0.5))
            history.effect("rate.ib_symbol", node, per_h, at_s, end_s, device=nic)
            history.effect("rate.ib_recovery", node, per_h * 0.05, at_s, end_s, device=nic)
            for _ in range(int(rng.poisson(0.15 * lasts_s / HOUR_S))):
                _flap(scene, node, nic, float(rng.uniform(at_s, end_s)))
    history.effect("net", members, 0.08, at_s, end_s)


def _flap(scene: Scene, node: int, nic: int, at_s: float) -> None:
    history = scene.history
    history.say(node, at_s, kernel.link(history.site, node, nic, "Link down"))
    history.say(node, at_s + 4.2, kernel.link(history.site, node, nic, "Link up"))
    history.stroke("add.ib_downed", node, at_s, 1, nic)


def pdu_blip(scene: Scene, plan: Plan, at_s: float) -> None:
    """A distribution unit's voltage dips at the same second on all its nodes; brakes bite."""
    rng, history = scene.rng(plan), scene.history
    lasts_s = max(2.2 * scene.step_s, float(rng.uniform(60, 600)))
    sag_v = float(rng.uniform(0.5, 0.9))
    truth = _open(scene, plan, at_s, sag_v)
    truth.end_s = end_s = at_s + lasts_s
    members = _members(scene, plan)
    history.effect("sag", members, sag_v, at_s, end_s)
    history.effect("brake", members, 0.85, at_s, end_s)


SHARED = {f.__name__: f for f in (cooling_excursion, leaf_bad, pdu_blip)}
BY = {"cooling_excursion": "cooling", "leaf_bad": "leaf", "pdu_blip": "pdu"}
