"""Fail-stop classes: they break at once, with no or little warning."""

from bigiron.sim import breakdowns, kernel
from bigiron.sim.breakdowns import LASTING
from bigiron.sim.history import Truth
from bigiron.sim.scene import HOUR_S, Plan, Scene


def _noticed(scene: Scene, plan: Plan, at_s: float) -> float:
    """When the site's own periodic check takes the node out: every five minutes it looks."""
    return at_s + float(scene.rng(plan).uniform(40, 420))


def gpu_off_bus(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. Half of them with nothing before; ``mode`` silent: no XID either."""
    rng = scene.rng(plan)
    mode = plan.mode or ("silent" if rng.uniform() < 0.3 else "xid")
    truth = scene.open(plan, at_s, mode=mode)
    truth.fails_s = at_s
    reason = breakdowns.off_bus(scene, plan, at_s, silent=mode == "silent")
    scene.take_out(
        *(truth, plan, _noticed(scene, plan, at_s), reason),
        kill="NODE_FAIL",
        undo=LASTING,
        then=lambda t: breakdowns.recount(scene, plan, t),
    )


def hbm_uncorrectable(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. A program dies of a memory error."""
    truth = scene.open(plan, at_s)
    truth.fails_s = at_s
    reason = breakdowns.memory_error(scene, plan, at_s, scene.rng(plan))
    scene.take_out(
        truth, plan, _noticed(scene, plan, at_s), reason, kill="FAILED", reload=True, undo=LASTING
    )


def nvlink_fail(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. A link is lost for good."""
    truth = scene.open(plan, at_s)
    truth.fails_s = at_s
    reason = breakdowns.nvlink(scene, plan, at_s, scene.rng(plan))
    scene.take_out(truth, plan, _noticed(scene, plan, at_s), reason, kill="FAILED", undo=LASTING)


def gsp_timeout(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. Its own processor hangs."""
    truth = scene.open(plan, at_s)
    truth.fails_s = at_s
    reason = breakdowns.gsp(scene, plan, at_s, scene.rng(plan))
    scene.take_out(
        truth, plan, _noticed(scene, plan, at_s), reason, kill="FAILED", swap=False, undo=LASTING
    )


def node_crash(scene: Scene, plan: Plan, at_s: float) -> None:
    """Node. Silence."""
    truth = scene.open(plan, at_s)
    truth.fails_s = at_s
    reason = breakdowns.crash(scene, plan, at_s, scene.rng(plan))
    scene.take_out(
        truth, plan, at_s + 1, reason, word="down", kill="NODE_FAIL", undo=LASTING, swap=False
    )


def driver_hang(scene: Scene, plan: Plan, at_s: float) -> None:
    """Node. Everything that asks the driver waits for ever: ``mode`` freeze (the exporter tells
    what it last knew) or gone (it answers no more). The node lives, its load average climbs.
    """
    rng = scene.rng(plan)
    mode = plan.mode or ("freeze" if rng.uniform() < 0.5 else "gone")
    truth = scene.open(plan, at_s, effect=1.0, mode=mode)
    history = scene.history
    key = "frozen" if mode == "freeze" else "off.dcgm"
    history.effect(key, plan.node, 1.0, at_s)
    history.effect("load1", plan.node, float(rng.uniform(15, 60)), at_s, ramp_s=HOUR_S)
    if rng.uniform() < 0.7:
        history.tell(plan.node, at_s, kernel.hung(rng))
    fails_s = at_s + float(rng.uniform(900, 2700))
    truth.fails_s = fails_s
    history.effect("net", plan.node, 30.0, at_s, fails_s)
    history.at(fails_s, lambda t: scene.lose_jobs(plan.node, t, "FAILED", "1:0"))
    taken_s = fails_s + float(rng.uniform(1200, 4 * HOUR_S))
    scene.take_out(
        truth, plan, taken_s, "GPU driver hung", kill="NODE_FAIL", undo=LASTING, swap=False
    )


def ib_link_down(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. ``mode`` down (and it stays so) or flapping (down and up again, over and over)."""
    rng = scene.rng(plan)
    mode = plan.mode or ("down" if rng.uniform() < 0.6 else "flapping")
    truth = scene.open(plan, at_s, mode=mode)
    truth.fails_s = at_s
    reason = breakdowns.port_down(scene, plan, at_s)
    taken_s = _noticed(scene, plan, at_s)
    if mode == "flapping":
        taken_s = at_s + float(rng.uniform(1, 4)) * HOUR_S
        flap(scene, plan, at_s + 8, taken_s)
    scene.take_out(truth, plan, taken_s, reason, kill="FAILED", undo=LASTING)


def flap(scene: Scene, plan: Plan, up_s: float, end_s: float) -> None:
    """The port comes up at ``up_s`` and goes down again every so many minutes."""
    history, rng = scene.history, scene.rng(plan)
    port = history.site
    at_s = up_s
    while at_s < end_s:
        history.say(plan.node, at_s, kernel.link(port, plan.node, plan.device, "Link up"))
        at_s += float(rng.exponential(900)) + 30
        if at_s >= end_s:
            return
        history.say(plan.node, at_s, kernel.link(port, plan.node, plan.device, "Link down"))
        history.stroke("add.ib_downed", plan.node, at_s, 1, plan.device)
        at_s += float(rng.uniform(3, 25))


def unattributed_failure(scene: Scene, plan: Plan, at_s: float) -> None:
    """Node. A job dies of the infrastructure and nothing says why."""
    cluster = scene.cluster
    if not cluster.here[plan.node]:
        scene.history.at(at_s + HOUR_S, lambda t: unattributed_failure(scene, plan, t))
        return
    rng = scene.rng(plan)
    truth: Truth = scene.open(plan, at_s)
    truth.fails_s = truth.end_s = at_s
    scene.lose_jobs(plan.node, at_s, "FAILED", ("1:0", "134:0", "255:0")[int(rng.integers(3))])
