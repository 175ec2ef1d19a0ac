"""Counters of errors as rates: a unit whose errors come more often than its like's and its own.

Errors are counted apart from one another (a burst is one) over hours at work, or over traffic. A
day's count is negative binomial about the unit's level, and the levels of like units (one model;
for memory one maker) are mixed over the fleet; from both follows how improbable the last days of a
unit are after its own past (methods.md 3.3; docs/detection.md). Beside it stand absolute limits of
links' error rates, and memory replaced again and again.

The modules beside this one import numpy and are loaded only where folds run.
"""

from typing import TYPE_CHECKING

from bigiron.detect import StatefulDetector, fold

if TYPE_CHECKING:
    from bigiron.detect.rate.state import State

NAME = "rate"

READS: tuple[str, ...] = (
    "gpu_pcie_replays_total",
    "gpu_pcie_nak_sent_total",
    "gpu_pcie_nak_received_total",
    "gpu_pcie_recoveries_total",
    "gpu_pcie_replay_rollovers_total",
    "pcie_aer_correctable_total",
    "gpu_ecc_correctable_volatile_total",
    "gpu_ras_correctable_total",
    "gpu_nvlink_crc_flit_errors_total",
    "gpu_nvlink_crc_data_errors_total",
    "gpu_nvlink_replays_total",
    "gpu_nvlink_recoveries_total",
    "gpu_xgmi_correctable_total",
    "ib_symbol_errors_total",
    "ib_link_error_recovery_total",
    "ib_local_link_integrity_errors_total",
    "ib_rcv_errors_total",
    "gpu_remapped_rows_uncorrectable_total",
    "gpu_remapped_rows_correctable_total",
    "gpu_retired_pages_dbe_total",
    "gpu_retired_pages_sbe_total",
    "gpu_pcie_rx_bytes_per_second",
    "gpu_pcie_tx_bytes_per_second",
    "gpu_nvlink_rx_bytes_total",
    "gpu_nvlink_tx_bytes_total",
    "gpu_xgmi_rx_bytes_total",
    "gpu_xgmi_tx_bytes_total",
    "ib_rcv_bytes_total",
    "ib_xmit_bytes_total",
    "ib_state",
    "gpu_utilization_ratio",
    "gpu_sm_active_ratio",
    "gpu_power_watts",
    "gpu_power_limit_watts",
    "gpu_pcie_link_gen",
    "gpu_pcie_link_width",
)


@fold(reads=READS)
def rate() -> "StatefulDetector[State]":
    """Parts whose errors come more often than those of their like and their own before."""
    from bigiron.detect.rate.fold import Rate

    return Rate()
