"""What every healthy log is full of must not open the gate: it would cost each line of it."""

import pytest

from bigiron.faults import catalogue
from bigiron.ingest.kernel_log import KernelLog
from bigiron.ingest.log_scan import literals

FREQUENT = (
    "nvidia-nvswitch2: open (major=510)",
    "nvidia-nvswitch3: release (major=510)",
    "IPv6: ADDRCONF(NETDEV_CHANGE): calif281fb17c23: link becomes ready",
    "audit: type=1400 audit(1767225600.603:480): apparmor=ALLOWED operation=open profile=snap",
    "perf: interrupt took too long (2511 > 2500), lowering kernel.perf_event_max_sample_rate",
    "docker0: port 3(veth1c2f) entered forwarding state",
)


@pytest.mark.parametrize("line", FREQUENT)
def test_a_frequent_healthy_line_passes_no_gate(line: str) -> None:
    gates = literals(KernelLog(catalogue()).knowledge.gates)
    assert [literal for literal in gates if literal in line.encode()] == []
