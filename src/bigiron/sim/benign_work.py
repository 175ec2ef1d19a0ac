"""Benign: planned work, weather, storage, and what users run."""

from dataclasses import replace
from functools import partial

from bigiron.sim.history import NEW_BIOS, NEW_DRIVER, NEW_NIC_FIRMWARE
from bigiron.sim.meters import VENDOR_RATIO
from bigiron.sim.scene import HOUR_S, Plan, Scene
from bigiron.sim.site import GPUS, THIRD_VENDOR
from bigiron.sim.workload import BROKEN_USER, Nature, Request

DRAIN_REASONS = ("holding for image build", "reboot for kernel update", "reserved for acceptance")
ROLLOUTS = (
    ("driver", "draw", 0.012, {"driver_version": NEW_DRIVER, "fabricmanager_version": NEW_DRIVER}),
    ("bios", "offset", 1.3, {"bios_version": NEW_BIOS}),
    ("nic", "", 0.0, NEW_NIC_FIRMWARE),
)
"""What is rolled out, the effect it has on all and how large (a driver's power management: share;
the fan curve of a BIOS: degrees Celsius), and the facts that change; a NIC's by its model."""
ROLLOUT_SHARES = (0.6, 0.25, 0.15)
Rollout = tuple[str, str, float, dict[str, str]]


def memory_vendor(scene: Scene, plan: Plan, at_s: float) -> None:
    """Group. One vendor's memory has more correctable errors, in all its parts."""
    hbm = scene.history.site.hbm
    members = tuple(n for n, vendors in enumerate(hbm) if vendors[0] == THIRD_VENDOR)
    if members:
        scene.open(plan, at_s, label="benign", effect=VENDOR_RATIO, members=members)


def app_xid(scene: Scene, plan: Plan, at_s: float) -> None:
    """Group: a user, whose program faults on whatever node it runs."""
    del at_s
    history, cluster = scene.history, scene.cluster

    def told(time_s: float) -> None:
        runs = [r for r in cluster.runs if r.request.user == BROKEN_USER and r.request.xid]
        runs = [r for r in runs if r.end_s is not None and r.state == "FAILED"]
        if not runs:
            return
        members = sorted({n for r in runs for n in r.nodes})
        truth = scene.open(plan, min(r.end_s or 0 for r in runs), label="benign", members=members)
        truth.end_s = min(time_s, max(r.end_s or 0 for r in runs))

    history.at(history.span_s - 1e-3, told)


def operator_drain(scene: Scene, plan: Plan, at_s: float) -> None:
    """Node. An operator takes it out for reasons of their own and gives it back."""
    history, cluster, rng = scene.history, scene.cluster, scene.rng(plan)
    truth = scene.open(plan, at_s, label="benign")
    cluster.close(plan.node, at_s, "drain", DRAIN_REASONS[int(rng.integers(len(DRAIN_REASONS)))])
    hours = float(rng.uniform(1, 9))

    def back(time_s: float) -> None:
        truth.end_s = time_s
        cluster.open(plan.node, time_s)

    cluster.when_empty(plan.node, at_s, lambda t: history.at(t + hours * HOUR_S, back))


def reboot_wave(scene: Scene, plan: Plan, at_s: float) -> None:
    """Group. Planned: all nodes of a group reboot within an announced time."""
    rng = scene.rng(plan)
    members = tuple(scene.history.site.groups(plan.by)[plan.group])
    _planned(scene, plan, at_s, members, "reboot", float(rng.uniform(1.5, 3)) * HOUR_S)


def firmware_rollout(scene: Scene, plan: Plan, at_s: float) -> None:
    """Groups. Planned: a new driver, BIOS or NIC firmware (``mode``), ring by ring."""
    rng, history = scene.rng(plan), scene.history
    rollout = ROLLOUTS[int(rng.choice(len(ROLLOUTS), p=ROLLOUT_SHARES))]
    rollout = next((r for r in ROLLOUTS if r[0] == plan.mode), rollout)
    between_s = min(30 * HOUR_S, 0.15 * history.span_s)
    for k, (ring, members) in enumerate(sorted(history.site.groups("ring").items())):
        begin_s = at_s + k * between_s
        one = replace(plan, by="ring", group=ring, number=plan.number * 10 + k)
        length_s = (1.5 + 0.06 * len(members)) * HOUR_S * float(rng.uniform(0.9, 1.2))
        wave = partial(_ring, scene, one, tuple(members), length_s, rollout)
        history.at(begin_s, wave)


def _ring(
    scene: Scene,
    plan: Plan,
    members: tuple[int, ...],
    length_s: float,
    rollout: Rollout,
    at_s: float,
) -> None:
    _planned(scene, plan, at_s, members, "firmware", length_s, rollout)


def _planned(
    scene: Scene,
    plan: Plan,
    at_s: float,
    members: tuple[int, ...],
    kind: str,
    length_s: float,
    rollout: Rollout | None = None,
) -> None:
    """Maintenance: nodes are emptied and restarted one after the other within the time."""
    history, cluster, rng = scene.history, scene.cluster, scene.rng(plan)
    history.maintenance.append((at_s, at_s + length_s, members, kind))
    truth = scene.open(
        plan, at_s, label="benign", effect=rollout[2] if rollout else 0.0, members=members
    )
    if rollout is not None:
        truth.extra["what"] = rollout[0]
    truth.end_s = at_s + length_s + HOUR_S
    for node in members:
        when_s = at_s + float(rng.uniform(0.02, 0.7)) * length_s
        minutes = float(rng.uniform(8, 18))

        def restarted(time_s: float, n: int = node, m: float = minutes) -> None:
            if n in cluster.closed:  # someone else has it: it is left out of the wave
                return
            cluster.close(n, time_s, "maint", f"planned {kind}")
            cluster.lose(n, time_s, "REQUEUED", "0:0")
            if rollout is not None and rollout[0] == "driver":
                history.drivers[n] = NEW_DRIVER
            up_s = history.restart(n, time_s + 120, m)
            if rollout is not None:
                history.at(up_s + 5, partial(_updated, scene, n, rollout))
            history.at(up_s + 240, lambda t: cluster.open(n, t))

        history.at(when_s, restarted)


def _updated(scene: Scene, node: int, rollout: Rollout, at_s: float) -> None:
    history = scene.history
    what, key, size, facts = rollout
    name = history.site.names[node]
    if what == "nic":
        version = facts[history.site.skus[node].nic]
        for k in range(GPUS):
            history.fact(node, at_s, f"nic{k}", fw_version=version)
    else:
        history.fact(node, at_s, **facts)
    if key:
        history.effect(key, node, size, at_s)
    for truth in history.truths:  # a drift that the rollout overwrites is over
        if truth.kind == "config_drift" and truth.subject["node"] == name:
            overwritten = what == "nic" and truth.extra["attribute"] == "fw_version"
            if overwritten or truth.extra["attribute"] in facts:
                truth.end_s = truth.end_s or at_s


def storage_outage(scene: Scene, plan: Plan, at_s: float) -> None:
    """Group. The file server answers no more for a while: jobs stall, some fail."""
    history, rng = scene.history, scene.rng(plan)
    members = tuple(history.site.groups(plan.by)[plan.group])
    lasts_s = float(rng.uniform(900, 3600))
    truth = scene.open(plan, at_s, label="benign", members=members)
    truth.end_s = at_s + lasts_s
    history.effect("stall", members, 1.0, at_s, at_s + lasts_s)
    server = f"nfs{int(rng.integers(1, 9)):02d}"
    for node in members:
        if rng.uniform() < 0.7:
            said_s = at_s + float(rng.uniform(20, 300))
            history.say(node, said_s, f"nfs: server {server} not responding, still trying")
            history.say(
                node, at_s + lasts_s + float(rng.uniform(0, 20)), f"nfs: server {server} OK"
            )
        if rng.uniform() < 0.1:
            fails_s = at_s + float(rng.uniform(600, lasts_s + 300))
            history.at(fails_s, partial(_job_fails, scene, node))


def _job_fails(scene: Scene, node: int, at_s: float) -> None:
    scene.lose_jobs(node, at_s, "FAILED", "1:0")


def heat_wave(scene: Scene, plan: Plan, at_s: float) -> None:
    """Group. Days of hot weather: all inlets are warmer."""
    history, rng = scene.history, scene.rng(plan)
    members = tuple(history.site.groups(plan.by)[plan.group])
    size = plan.size if plan.size is not None else float(rng.uniform(2.5, 5))
    lasts_s = min(float(rng.uniform(1.5, 4)) * 24 * HOUR_S, 0.25 * history.span_s)
    truth = scene.open(plan, at_s, label="benign", effect=round(size, 2), members=members)
    truth.end_s = at_s + lasts_s
    history.effect(
        "inlet", members, size, at_s, at_s + lasts_s, ramp_s=lasts_s / 4, fall_s=lasts_s / 4
    )


def uneven_job(scene: Scene, plan: Plan, at_s: float) -> None:
    """Group: a job. The second half of its ranks has less to do, all the time."""
    rng = scene.rng(plan)
    uneven = float(rng.uniform(0.12, 0.4))
    nature = Nature(0.8, float(rng.uniform(0.75, 0.95)), 0.3, 0.03, round(uneven, 3))
    _job(scene, plan, at_s, nature, uneven)


def hot_workload(scene: Scene, plan: Plan, at_s: float) -> None:
    """Group: a job that draws all the power there is, on all its nodes."""
    draw = float(scene.rng(plan).uniform(1.2, 1.35))
    _job(scene, plan, at_s, Nature(0.95, draw, 0.4, 0.01), draw)


def _job(scene: Scene, plan: Plan, at_s: float, nature: Nature, effect: float) -> None:
    history, cluster, rng = scene.history, scene.cluster, scene.rng(plan)
    partition = max(cluster.queues, key=lambda p: len(history.site.groups("partition").get(p, ())))
    room = len(history.site.groups("partition")[partition])
    nodes = max(2, min((4, 8, 16)[int(rng.integers(3))], room // 4))
    length_s = min(float(rng.uniform(8, 40)) * HOUR_S, 0.2 * history.span_s)
    user = f"u{int(rng.integers(6, 24)):03d}"
    request = Request(*(at_s, partition, user, GPUS, nodes, length_s, "COMPLETED", "0:0", nature))
    number = cluster.submit(request, at_s, first=True)

    def told(time_s: float) -> None:
        runs = [r for r in cluster.runs if r.id == number]
        if not runs:
            if time_s + HOUR_S < history.span_s:
                history.at(time_s + HOUR_S, told)
            return
        members = sorted({n for r in runs for n in r.nodes})
        one = replace(plan, by="job", group=str(number))
        truth = scene.open(
            *(one, runs[0].start_s), label="benign", effect=round(effect, 3), members=members
        )
        truth.end_s = min(history.span_s, runs[0].start_s + length_s)

    history.at(at_s + 60, told)


def reenumeration(scene: Scene, plan: Plan, at_s: float) -> None:
    """Node. After an operator's reboot two GPU indexes have changed places; UUIDs tell."""
    history, cluster, rng = scene.history, scene.cluster, scene.rng(plan)
    node, site = plan.node, history.site
    truth = scene.open(plan, at_s, label="benign")
    cluster.close(node, at_s, "drain", "reboot for kernel update")

    def empty(time_s: float) -> None:
        up_s = history.restart(node, time_s + 120, float(rng.uniform(8, 15)))
        history.at(up_s, moved)
        history.at(up_s + 240, back)

    def moved(time_s: float) -> None:
        a, b = (int(k) for k in rng.permutation(GPUS)[:2])
        site.place[node, [a, b]] = site.place[node, [b, a]]
        code = sum(int(socket) << 3 * k for k, socket in enumerate(site.place[node]))
        history.stroke("place", node, time_s, code)
        for k in (a, b):
            socket = int(site.place[node, k])
            history.fact(
                *(node, time_s + 60, f"gpu{k}"),
                uuid=site.uuids[node][socket],
                bus=site.bus(node, socket),
                serial=site.serials[node][socket],
            )

    def back(time_s: float) -> None:
        truth.end_s = time_s
        cluster.open(node, time_s)

    cluster.empty(node, at_s, empty)


WORK = {
    f.__name__: f
    for f in (
        *(memory_vendor, app_xid, operator_drain, reboot_wave, firmware_rollout, storage_outage),
        *(heat_wave, uneven_job, hot_workload, reenumeration),
    )
}
