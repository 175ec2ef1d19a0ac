"""The simulated scheduler behind Slurm's own commands, as small executables that print a file.

They answer what `bigiron` asks of a real Slurm: nodes, running jobs, ended jobs.
"""

from datetime import UTC, datetime
from pathlib import Path

from bigiron.ingest.slurm import QUEUE
from bigiron.nodesets import fold
from bigiron.sim.live.jobs import HEADER
from bigiron.sim.live.world import World

_SCONTROL = """#!/bin/sh
case "$*" in
  *"show node"*) exec cat "$(dirname "$0")/nodes.txt" ;;
  *"show reservation"*) echo "No reservations in the system" ;;
  *) echo "not simulated: $*" >&2; exit 1 ;;
esac
"""
_CAT = '#!/bin/sh\nexec cat "$(dirname "$0")/{file}"\n'


def install(folder: Path) -> None:
    """Puts scontrol, squeue and sacct into ``folder``; ``update`` writes what they print."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("scontrol", _SCONTROL),
        ("squeue", _CAT.format(file="queue.txt")),
        ("sacct", _CAT.format(file="jobs.psv")),
    ):
        path = folder / name
        path.write_text(text, "utf-8")
        path.chmod(0o755)


def update(folder: Path, world: World) -> None:
    """What the commands print from now on; each file is replaced whole."""
    _write(folder / "nodes.txt", [_node(world, n) for n in range(world.state.nodes)])
    _write(folder / "queue.txt", _queue(world))
    _write(folder / "jobs.psv", [HEADER, *world.jobs.rows[-5000:]])


def _write(path: Path, lines: list[str]) -> None:
    new = path.with_suffix(".new")
    new.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    new.replace(path)


def _node(world: World, n: int) -> str:
    node = world.fleet.nodes[n]
    busy = any(n in job.nodes for job in world.jobs.running)
    state, reason = ("ALLOCATED" if busy else "IDLE"), ""
    if not world.state.up[n]:
        at = datetime.fromtimestamp(int(world.now_s), UTC).strftime("%Y-%m-%dT%H:%M:%S")
        state, reason = "DOWN+NOT_RESPONDING", f" Reason=Not responding [slurm@{at}]"
    boot = datetime.fromtimestamp(world.state.boot[n], UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return (
        f"NodeName={node.name} Arch=x86_64 CoresPerSocket=48 CPUTot=192 AvailableFeatures=h100 "
        f"ActiveFeatures=h100 Gres=gpu:h100:8 NodeAddr=127.0.0.1 Version=23.11.10 State={state} "
        f"Partitions={node.partition} BootTime={boot} CfgTRES=cpu=192,gres/gpu=8{reason}"
    )


def _queue(world: World) -> list[str]:
    lines = []
    for job in world.jobs.running:
        start, submit = (
            datetime.fromtimestamp(int(t), UTC).strftime("%Y-%m-%dT%H:%M:%S")
            for t in (job.start_s, job.submit_s)
        )
        values = {
            "jobid": str(job.id),
            "state": "RUNNING",
            "restartcnt": str(job.restarts),
            "submittime": submit,
            "starttime": start,
            "username": job.user,
            "account": "ml",
            "partition": "train",
            "tres-alloc": f"gres/gpu={8 * len(job.nodes)},node={len(job.nodes)}",
            "nodelist": fold(world.fleet.names[n] for n in job.nodes),
            "name": "train",
        }
        lines.append("".join(values.get(name, "").ljust(width) for name, width in QUEUE))
    return lines
