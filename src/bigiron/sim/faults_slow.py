"""Gradual classes: they begin small, are to be seen before they fail, and may never fail.

A size is given, or follows from a number of standard deviations of the affected quantity's own
noise over an hour (the mean of a sensor, the count of a counter), or is drawn.
"""

from collections.abc import Callable

import numpy as np

from bigiron.sim import breakdowns, kernel, noise
from bigiron.sim.breakdowns import LASTING
from bigiron.sim.history import Truth
from bigiron.sim.meters import RATES
from bigiron.sim.plant import SPEED_EXPONENT
from bigiron.sim.scene import HOUR_S, Plan, Scene

TYPICAL_LOAD = 0.85
"""Share of the power limit at which a size in degrees is turned into a resistance."""
DAY_H = 24.0
Fail = Callable[[float], str]


def thermal_degradation(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. The thermal resistance rises over hours to days; it may end off the bus."""
    rng = scene.rng(plan)
    sku = scene.history.site.skus[plan.node]
    rise_c = sku.resistance * sku.limit_w * TYPICAL_LOAD
    size = _size(plan, scene.noisy * noise.GPU_TEMP.hourly_sd() / rise_c, rng, (0.08, 0.3))
    ramp_s = _ramp(plan, rng, 6, 48)
    truth = _begin(scene, plan, at_s, size, ramp_s)
    scene.history.effect("resistance", plan.node, size, at_s, device=plan.device, ramp_s=ramp_s)
    _ending(
        *(scene, plan, truth, at_s, ("resistance",)),
        lambda t: breakdowns.off_bus(scene, plan, t),
        "GPU hot: reseat heat sink",
    )


def fan_failure(scene: Scene, plan: Plan, at_s: float) -> None:
    """Node. A fan or pump of several fails: all its GPUs are cooled less."""
    rng = scene.rng(plan)
    sku = scene.history.site.skus[plan.node]
    rise_c = sku.resistance * sku.limit_w * TYPICAL_LOAD
    size = _size(plan, scene.noisy * noise.GPU_TEMP.hourly_sd() / rise_c, rng, (0.1, 0.3))
    truth = _begin(scene, plan, at_s, size, 600.0)
    scene.history.effect("airflow", plan.node, size, at_s, ramp_s=600.0)
    _ending(
        *(scene, plan, truth, at_s, ("airflow",)),
        lambda t: breakdowns.crash(scene, plan, t, rng),
        "fan failed",
    )


def power_brake(scene: Scene, plan: Plan, at_s: float) -> None:
    """Node. A supply weakens: the rail sags under load, at larger sizes the brake bites."""
    rng = scene.rng(plan)
    if plan.sigma is not None:
        sag_v, lost = plan.sigma * scene.noisy * noise.RAIL.hourly_sd(), 0.0
    else:
        lost = plan.size if plan.size is not None else float(rng.uniform(0.01, 0.08))
        sag_v = 0.1 + 1.5 * lost
    ramp_s = _ramp(plan, rng, 2, 24)
    truth = _begin(scene, plan, at_s, lost, ramp_s)
    truth.extra["sag_v"] = round(sag_v, 4)
    history = scene.history
    history.effect("sag", plan.node, sag_v, at_s, ramp_s=ramp_s)
    if lost:
        share = lost / (1 - 0.5**SPEED_EXPONENT)
        history.effect("brake", plan.node, share, at_s + ramp_s / 2, ramp_s=ramp_s / 2)
    _ending(
        *(scene, plan, truth, at_s, ("sag", "brake")),
        lambda t: breakdowns.crash(scene, plan, t, rng),
        "PSU redundancy lost",
    )


def slow_clock(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. It runs below its clock for no stated reason; ``size`` is the speed lost."""
    rng = scene.rng(plan)
    size = plan.size if plan.size is not None else float(rng.uniform(0.03, 0.25))
    truth = _begin(scene, plan, at_s, size, 0.0, precursor=False)
    truth.extra["mode"] = "locked"
    clock = 1 - (1 - size) ** (1 / SPEED_EXPONENT)
    scene.history.effect("clock", plan.node, clock, at_s, device=plan.device)
    _ending(scene, plan, truth, at_s, ("clock",), None, "GPU slow")


def straggler(scene: Scene, plan: Plan, at_s: float) -> None:
    """Node. Its host feeds the GPUs late; they idle while the other ranks of the job spin.

    ``mode`` cpu (something else runs on the host: its load average shows it) or memory (nothing
    shows but the GPUs' idling).
    """
    rng = scene.rng(plan)
    size = plan.size if plan.size is not None else float(rng.uniform(0.05, 0.3))
    truth = _begin(scene, plan, at_s, size, 0.0, precursor=False)
    mode = plan.mode or ("cpu" if rng.uniform() < 0.5 else "memory")
    truth.extra["mode"] = mode
    scene.history.effect("gap", plan.node, size / (1 - size), at_s)
    if mode == "cpu":
        scene.history.effect("load1", plan.node, float(rng.uniform(5, 30)), at_s)
    _ending(scene, plan, truth, at_s, ("gap", "load1"), None, "slow host")


def pcie_replay(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. The link repeats itself more and more; it may end off the bus."""
    _counter(
        *(scene, plan, at_s, "pcie_replay", (2, 60)),
        lambda t: breakdowns.off_bus(scene, plan, t),
        "PCIe replays",
    )


def hbm_correctable(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. Correctable errors grow, rows are remapped for them; it may end uncorrectable."""
    rng = scene.rng(plan)
    _counter(
        *(scene, plan, at_s, "ecc_sbe", (1, 30)),
        lambda t: breakdowns.memory_error(scene, plan, t, rng),
        "ECC errors",
        also=("remap_cor", 0.02),
    )


def hbm_remap(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. Row after row is remapped; the end is a remap that fails for want of spares."""
    rng, history = scene.rng(plan), scene.history
    until_s = at_s + (plan.fails_after_s or plan.lasts_s or 10 * DAY_H * HOUR_S)
    rows = int(plan.size) if plan.size is not None else int(rng.integers(4, 14))
    truth = _begin(scene, plan, at_s, float(rows), 0.0)
    when = at_s + np.sort(rng.beta(2, 1.2, rows)) * (until_s - at_s) * 0.95
    when[0] = at_s
    for row_s in when:
        history.say(plan.node, row_s, kernel.remapped(history.site, plan.node, plan.device, rng))
        history.stroke("add.remap_unc", plan.node, row_s, 1, plan.device)
        history.stroke("xid", plan.node, row_s, 63, plan.device)
    _ending(
        *(scene, plan, truth, at_s, ()),
        lambda t: breakdowns.remap_failure(scene, plan, t),
        "row remaps: RMA",
    )


def nvlink_errors(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device. CRC errors and replays grow; it may end with XID 74."""
    rng = scene.rng(plan)
    _counter(
        *(scene, plan, at_s, "nvlink_crc", (0.5, 12)),
        lambda t: breakdowns.nvlink(scene, plan, t, rng),
        "NVLink CRC errors",
        also=("nvlink_replay", 0.4),
    )


def ib_errors(scene: Scene, plan: Plan, at_s: float) -> None:
    """Device (a NIC). Symbol errors and recoveries grow; it may end with the link down."""
    _counter(
        *(scene, plan, at_s, "ib_symbol", (4, 120)),
        lambda t: breakdowns.port_down(scene, plan, t),
        "IB symbol errors",
        also=("ib_recovery", 0.02),
    )


SLOW = {
    f.__name__: f
    for f in (
        *(thermal_degradation, fan_failure, power_brake, slow_clock, straggler, pcie_replay),
        *(hbm_correctable, hbm_remap, nvlink_errors, ib_errors),
    )
}


def hourly_sd(counter: str) -> float:
    """Standard deviation of a healthy median unit's count in an hour under load: bursts of
    geometric size at Poisson times."""
    rate, _, burst = RATES[counter]
    return float(np.sqrt(rate * (2 * burst**2 - burst)))


def _size(
    plan: Plan, per_sigma: float, rng: np.random.Generator, drawn: tuple[float, float]
) -> float:
    if plan.size is not None:
        return plan.size
    if plan.sigma is not None:
        return plan.sigma * per_sigma
    return float(rng.uniform(*drawn))


def _ramp(plan: Plan, rng: np.random.Generator, low_h: float, high_h: float) -> float:
    """Seconds until it has its full size: before it fails."""
    ramp_s = float(rng.uniform(low_h, high_h)) * HOUR_S
    return ramp_s if plan.fails_after_s is None else min(ramp_s, 0.8 * plan.fails_after_s)


def _begin(
    scene: Scene, plan: Plan, at_s: float, size: float, ramp_s: float, *, precursor: bool = True
) -> Truth:
    """The truth of a gradual episode; ``full`` is when it has reached its size."""
    truth = scene.open(plan, at_s, effect=round(size, 4), precursor=precursor)
    truth.extra["full_s"] = at_s + ramp_s
    return truth


def _counter(
    scene: Scene,
    plan: Plan,
    at_s: float,
    counter: str,
    drawn: tuple[float, float],
    fail: Fail,
    reason: str,
    also: tuple[str, float] | None = None,
) -> None:
    """More errors an hour. Of a given size they stay; drawn ones start low and double."""
    rng, history = scene.rng(plan), scene.history
    base = RATES[counter][0] * RATES[counter][2]
    if plan.sigma is not None or plan.size is not None:
        per_h = _size(plan, hourly_sd(counter), rng, drawn)
        growth_s, ramp_s = 0.0, 6 * HOUR_S
    else:
        per_h = float(np.exp(rng.uniform(*np.log(drawn))))
        growth_s, ramp_s = float(rng.uniform(12, 60)) * HOUR_S, 0.0
    truth = _begin(scene, plan, at_s, (per_h + base) / base, ramp_s)
    truth.extra["per_hour"] = round(per_h, 4)
    where = {"device": plan.device, "ramp_s": ramp_s, "growth_s": growth_s}
    keys = [f"rate.{counter}"]
    history.effect(keys[0], plan.node, per_h, at_s, **where)  # type: ignore[arg-type]
    if also is not None:
        keys.append(f"rate.{also[0]}")
        history.effect(keys[1], plan.node, per_h * also[1], at_s, **where)  # type: ignore[arg-type]
    _ending(scene, plan, truth, at_s, tuple(keys), fail, reason)


def _ending(
    scene: Scene,
    plan: Plan,
    truth: Truth,
    at_s: float,
    keys: tuple[str, ...],
    fail: Fail | None,
    reason: str,
) -> None:
    """It fails, or someone repairs it first, or neither in this recording."""
    history = scene.history
    if plan.fails_after_s is not None and fail is not None:

        def failed(time_s: float) -> None:
            if plan.node in scene.cluster.closed:
                history.at(time_s + 2 * HOUR_S, failed)
                return
            truth.fails_s = time_s
            why = fail(time_s)
            word = "down" if why == "Not responding" else "drain"
            scene.take_out(
                *(truth, plan, time_s + 60, why),
                word=word,
                kill="NODE_FAIL",
                undo=(*keys, *LASTING),
                swap=True,
                then=lambda t: breakdowns.recount(scene, plan, t),
            )

        history.at(at_s + plan.fails_after_s, failed)
    elif plan.lasts_s is not None:
        undo = (*keys, *LASTING)
        scene.take_out(truth, plan, at_s + plan.lasts_s, f"hw: {reason}", undo=undo, swap=True)
