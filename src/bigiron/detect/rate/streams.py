"""What is counted: each stream's counters, the work its errors go with, and the fault it shows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigiron.detect.hygiene import Clean, Rows
from bigiron.detect.rate.state import Shared

Floats = NDArray[np.float64]

GPU, NIC = "gpu", "nic"


@dataclass(frozen=True, slots=True)
class Stream:
    """Counters that count one kind of error of one kind of part.

    ``what`` is what an operator calls the errors. ``traffic`` are gauges and counters of the bytes
    that the errors go with; where they are not told, or there are none, it is the work of the GPU
    (of a port: of the GPUs of its node). ``memory``: parts are alike by their memory's maker too.
    """

    name: str
    fault: str
    what: str
    metrics: tuple[str, ...]
    traffic: tuple[str, ...] = ()
    memory: bool = False


_PCIE = ("gpu_pcie_rx_bytes_per_second", "gpu_pcie_tx_bytes_per_second")
_NVLINK = ("gpu_nvlink_rx_bytes_total", "gpu_nvlink_tx_bytes_total")
_XGMI = ("gpu_xgmi_rx_bytes_total", "gpu_xgmi_tx_bytes_total")
_PORT = ("ib_rcv_bytes_total", "ib_xmit_bytes_total")

STREAMS: dict[str, tuple[Stream, ...]] = {
    GPU: (
        Stream("pcie_replays", "pcie_replay", "PCIe replays", ("gpu_pcie_replays_total",), _PCIE),
        Stream(
            "pcie_naks",
            "pcie_replay",
            "refused PCIe packets",
            ("gpu_pcie_nak_sent_total", "gpu_pcie_nak_received_total"),
            _PCIE,
        ),
        Stream(
            "pcie_recoveries",
            "pcie_replay",
            "PCIe link recoveries",
            ("gpu_pcie_recoveries_total", "gpu_pcie_replay_rollovers_total"),
        ),
        Stream(
            "aer", "pcie_replay", "correctable PCIe (AER) errors", ("pcie_aer_correctable_total",)
        ),
        Stream(
            "memory",
            "hbm_correctable",
            "corrected memory errors",
            ("gpu_ecc_correctable_volatile_total", "gpu_ras_correctable_total"),
            memory=True,
        ),
        Stream(
            "nvlink",
            "nvlink_errors",
            "NVLink checksum errors and replays",
            (
                "gpu_nvlink_crc_flit_errors_total",
                "gpu_nvlink_crc_data_errors_total",
                "gpu_nvlink_replays_total",
            ),
            _NVLINK,
        ),
        Stream(
            "nvlink_recoveries",
            "nvlink_errors",
            "NVLink recoveries",
            ("gpu_nvlink_recoveries_total",),
        ),
        Stream(
            "xgmi",
            "nvlink_errors",
            "corrected XGMI errors",
            ("gpu_xgmi_correctable_total",),
            _XGMI,
        ),
    ),
    NIC: (
        Stream("symbols", "ib_errors", "symbol errors", ("ib_symbol_errors_total",), _PORT),
        Stream(
            "link_recoveries",
            "ib_errors",
            "link recoveries",
            ("ib_link_error_recovery_total", "ib_local_link_integrity_errors_total"),
        ),
        Stream(
            "receive_errors", "ib_errors", "packets received wrong", ("ib_rcv_errors_total",), _PORT
        ),
        Stream(
            "aer", "pcie_replay", "correctable PCIe (AER) errors", ("pcie_aer_correctable_total",)
        ),
    ),
}
"""By kind of part. ``ib_link_downed_total`` is ``flap``'s."""

BY_NAME = {(kind, s.name): s for kind, streams in STREAMS.items() for s in streams}

BUSY_SHARE = 0.4
"""Of its power limit: a GPU that draws more is at work, where no utilization is told."""

LONGEST_S = 3600.0
"""What a counter grew by over a longer gap is not known to belong to any hour."""

BUSY_LINK, BUSY_LEARN = 0.95, 0.02
"""A busy link's traffic is what this share of links does not exceed at a step; it follows down
slowly, and up at once."""


def told(kind: str, rows: Rows) -> tuple[str, ...]:
    """The names of the streams whose counters are told of a kind of part."""
    streams = STREAMS.get(kind, ())
    return tuple(s.name for s in streams if any(m in rows.increments for m in s.metrics))


@dataclass(frozen=True, slots=True)
class Panel:
    """One step of one kind of part (n, m): errors (NaN where not told), hours, activity (0..1)."""

    errors: Floats
    hours: Floats
    activity: Floats


def panel(rows: Rows, streams: tuple[Stream, ...], shared: Shared, work: Floats) -> Panel:
    """What each unit counted since the step before; ``work`` (n,) is that of its GPUs, 0 to 1.

    ``shared.most`` follows the traffic of busy links.
    """
    n, m = len(rows.units), len(streams)
    errors, hours = np.full((n, m), np.nan), np.zeros((n, m))
    activity = np.repeat(work[:, None], m, axis=1)
    usable = rows.present & ~rows.grace & ~rows.frozen
    state = rows.values.get("ib_state")
    if state is not None:
        usable = usable & ~(state == 0)
    for at, stream in enumerate(streams):
        for metric in stream.metrics:
            grown = rows.increments.get(metric)
            if grown is None:
                continue
            span = rows.spans[metric]
            known = usable & (span <= LONGEST_S) & (grown >= 0)
            summed = np.where(np.isfinite(errors[:, at]), errors[:, at], 0.0) + grown
            errors[:, at] = np.where(known, summed, errors[:, at])
            hours[:, at] = np.where(known, np.maximum(hours[:, at], span / 3600), hours[:, at])
        carried = _traffic(rows, stream, usable)
        if carried is not None:
            activity[:, at] = _share(carried, shared, at, activity[:, at])
    return Panel(errors, hours, activity)


def _traffic(rows: Rows, stream: Stream, usable: NDArray[np.bool_]) -> Floats | None:
    """Bytes a second each way added up (n,), NaN where not told; None where nobody tells."""
    parts = []
    for metric in stream.traffic:
        if metric in rows.values:
            parts.append(rows.values[metric])
        elif metric in rows.increments:
            with np.errstate(invalid="ignore", divide="ignore"):
                parts.append(rows.increments[metric] / rows.spans[metric])
    if not parts:
        return None
    total = np.where(np.isfinite(parts[0]), parts[0], 0.0)
    some = np.isfinite(parts[0])
    for part in parts[1:]:
        total = total + np.where(np.isfinite(part), part, 0.0)
        some = some | np.isfinite(part)
    return np.where(some & usable, total, np.nan)


def _share(carried: Floats, shared: Shared, at: int, otherwise: Floats) -> Floats:
    """Traffic as a share of what a busy link carries."""
    shown = carried[np.isfinite(carried)]
    if shown.size:
        most = float(np.quantile(shown, BUSY_LINK))
        shared.most[at] = max(most, shared.most[at] + BUSY_LEARN * (most - shared.most[at]))
    if shared.most[at] <= 0:
        return otherwise
    return np.where(np.isfinite(carried), np.clip(carried / shared.most[at], 0.0, 1.0), otherwise)


def work_of(clean: Clean) -> dict[str, Floats]:
    """How much each GPU works, 0 to 1, and for each port how much its node's do; 1 if not told."""
    found: dict[str, Floats] = {}
    count = len(clean.nodes)
    node_work = np.ones(count)
    gpus = clean.rows.get(GPU)
    if gpus is not None:
        found[GPU] = _work(gpus)
        total = np.bincount(gpus.node, weights=found[GPU], minlength=count)
        size = np.bincount(gpus.node, minlength=count)
        node_work = np.where(size > 0, total / np.maximum(size, 1), 1.0)
    for kind, rows in clean.rows.items():
        if kind != GPU and kind in STREAMS:
            found[kind] = node_work[rows.node]
    return found


def _work(rows: Rows) -> Floats:
    """Utilization; else that an SM in ten is active; else the power drawn; else at work."""
    none = np.full(len(rows.units), np.nan)
    used = rows.values.get("gpu_utilization_ratio", none)
    active = rows.values.get("gpu_sm_active_ratio", none)
    power, limit = (rows.values.get(f"gpu_power_{w}watts", none) for w in ("", "limit_"))
    with np.errstate(invalid="ignore"):
        work = np.where(np.isfinite(power / limit), power > BUSY_SHARE * limit, 1.0)
        work = np.where(np.isfinite(active), active > 0.1, work)
    return np.clip(np.where(np.isfinite(used), used, work), 0.0, 1.0)
