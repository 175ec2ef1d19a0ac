"""A small recording written with values of its own, for the tests of its reader and of replay."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

START = datetime(2026, 4, 6, tzinfo=UTC)
NODES = ("p01", "p02", "p03")
STEPS = 13
STEP = timedelta(seconds=300)


def write(folder: Path) -> Path:
    """Three nodes, an hour: p02 loses gpu1 after 20 minutes and boots 25 minutes later."""
    (folder / "samples").mkdir(parents=True)
    (folder / "logs").mkdir()
    end = START + (STEPS - 1) * STEP
    (folder / "recording.toml").write_text(
        f'name = "small"\nstart = "{START.isoformat()}"\nend = "{end.isoformat()}"\n'
        'step_s = 300\ndescription = "three nodes"\n'
    )
    rows = ["node,sku,role,rack,leaf,pdu,cooling,ring,partition,site"]
    rows += [f"{node},quad,compute,r1,,,,,batch,x" for node in NODES]
    (folder / "nodes.csv").write_text("\n".join(rows) + "\n")
    rows = ["node,device,kind,id,bus,model,vendor"]
    rows += [
        f"{node},gpu{i},gpu,GPU-{node}-{i},0000:{0x21 + i:02x}:00.0,Model Q,V"
        for node in NODES
        for i in range(2)
    ]
    (folder / "devices.csv").write_text("\n".join(rows) + "\n")
    samples(folder, "DCGM_FI_DEV_GPU_TEMP", 51.0)
    samples(folder, "DCGM_FI_DEV_GPU_UTIL", 97.0)
    lost = START + 4 * STEP
    booted = lost + 5 * STEP
    (folder / "logs" / "kernel.log").write_text(
        f"{_stamp(lost)} p02 kernel: NVRM: Xid (PCI:0000:22:00): 79, pid='<unknown>', "
        "name=<unknown>, GPU has fallen off the bus.\n"
        f"{_stamp(booted)} p02 kernel: Linux version 6.8.0-31-generic (buildd@x) (gcc) #31 SMP\n"
    )
    facts = {"time": START.isoformat(), "node": "p01", "device": "", "facts": {"gpu_count": 2}}
    (folder / "facts.jsonl").write_text(json.dumps(facts) + "\n")
    (folder / "jobs.psv").write_text(
        "JobIDRaw|User|State|ExitCode|Submit|Start|End|NNodes|NodeList|Partition|Restarts\n"
        f"71|ann|COMPLETED|0:0|{START.isoformat()}|{(START + STEP).isoformat()}|"
        f"{(START + 3 * STEP).isoformat()}|2|p[01-02]|batch|0\n"
    )
    (folder / "nodestate.csv").write_text(
        f"time,node,state,reason\n{START.isoformat()},p01,idle,\n{lost.isoformat()},p02,drain,gone\n"
    )
    (folder / "maintenance.csv").write_text(
        f"start,end,nodes,kind\n{START.isoformat()},{end.isoformat()},p[03],firmware\n"
    )
    (folder / "truth.jsonl").write_text("this is for scoring and must not be read\n")
    return folder


def samples(folder: Path, metric: str, value: float) -> None:
    """The same value for each GPU at each step."""
    rows = [
        (START + step * STEP, node, f"gpu{gpu}", value)
        for step in range(STEPS)
        for node in NODES
        for gpu in range(2)
    ]
    table(folder, metric, rows)


def table(folder: Path, metric: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """One Parquet file."""
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "time": pl.Datetime("ms", "UTC"),
        "node": pl.String,
        "device": pl.String,
        "value": pl.Float64,
    }
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    frame.write_parquet(folder / "samples" / f"{metric}.parquet")


def _stamp(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")
