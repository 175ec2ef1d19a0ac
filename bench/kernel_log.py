"""How fast a kernel log is read with its fault codes recognised: MB of log a second of CPU.

    python bench/kernel_log.py [--mb 64] [--rounds 3]

The text is made here, the same each time: several formats, ordinary messages, and one fault
line in every 500 (a healthy fleet's log) or in every 10 (a storm). Both prefilters are measured.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from bigiron.faults import catalogue
from bigiron.ingest import Document
from bigiron.ingest.kernel_log import KernelLog
from bigiron.ingest.log_scan import FindPrefilter, Prefilter, literals, prefilter
from bigiron.model import Event

START = datetime(2026, 3, 1, tzinfo=UTC)

QUIET: tuple[str, ...] = (
    "IPv6: ADDRCONF(NETDEV_CHANGE): cali{hex}: link becomes ready",
    "usb 1-1.{n}: new high-speed USB device number {n} using xhci_hcd",
    'audit: type=1400 audit(1772323200.{n}:{n}): apparmor="STATUS" operation="profile_load" '
    'profile="unconfined" name="container-{hex}" pid={n} comm="apparmor_parser"',
    "br-{hex}: port {n}(veth{hex}) entered forwarding state",
    "perf: interrupt took too long ({n} > {n}), lowering kernel.perf_event_max_sample_rate to {n}",
    "nvidia-nvswitch2: open (major=510)",
    "nvidia-uvm: Loaded the UVM driver, major device number 508.",
    "mlx5_core 0000:41:00.1: E-Switch: Total vports 10, per vport: max uc(128) max mc(2048)",
    "TCP: request_sock_TCP: Possible SYN flooding on port {n}. Sending cookies.",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Opts: (null)",
    "nvme nvme{n}: 32/0/0 default/read/poll queues",
    "pcieport 0000:00:1c.0: PME: Signaling with IRQ {n}",
    "systemd[1]: Started Session {n} of user trainer.",
    "kauditd_printk_skb: {n} callbacks suppressed",
)
FAULTS: tuple[str, ...] = (
    "NVRM: Xid (PCI:0000:{bus}:00): 31, pid={n}, name=python3, Ch 00000007, intr 00000000. "
    "MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f2b_{hex}000",
    "NVRM: Xid (PCI:0000:{bus}:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row "
    "(0x{hex}) marked for remapping, reset gpu to activate.",
    "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 12028, Non-fatal, Link {n} egress non-posted "
    "PRIV error (First)",
    "watchdog: BUG: soft lockup - CPU#{n} stuck for 27s! [python3:{n}]",
    "mlx5_core 0000:{bus}:00.0: poll_health:825: device's health compromised - reached miss count",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)",
    "nvme nvme1: I/O tag 22 (2016) opcode 0x2 (Admin Cmd) QID 0 timeout, reset controller",
    "Out of memory: Killed process {n} (python3) total-vm:91284kB, anon-rss:81012kB",
)


def _iso(time: datetime, node: str, message: str) -> str:
    return f"{time.isoformat(timespec='microseconds')} {node} kernel: {message}"


def _short(time: datetime, node: str, message: str) -> str:
    return f"{time:%b %d %H:%M:%S} {node} kernel: [{time.timestamp() % 1e7:.6f}] {message}"


def _dmesg(time: datetime, node: str, message: str) -> str:  # noqa: ARG001
    return f"[{time.timestamp() % 1e7:12.6f}] {message}"


def _kmsg(time: datetime, node: str, message: str) -> str:  # noqa: ARG001
    return f"6,{time.microsecond},{int(time.timestamp() % 1e7 * 1e6)},-;{message}"


def _json(time: datetime, node: str, message: str) -> str:
    quoted = message.replace('"', '\\"')
    return (
        f'{{"__REALTIME_TIMESTAMP":"{int(time.timestamp() * 1e6)}","_HOSTNAME":"{node}",'
        f'"PRIORITY":"6","SYSLOG_IDENTIFIER":"kernel","_TRANSPORT":"kernel","MESSAGE":"{quoted}"}}'
    )


FORMS: dict[str, Callable[[datetime, str, str], str]] = {
    "iso": _iso,
    "short": _short,
    "dmesg": _dmesg,
    "kmsg": _kmsg,
    "json": _json,
}


def text(form: str, fault_every: int, size: int, seed: int = 7) -> bytes:
    """``size`` bytes of log in a form, one line in ``fault_every`` a fault."""
    rng = random.Random(seed)
    lines: list[str] = []
    total, n = 0, 0
    while total < min(size, 8_000_000):  # repeated beyond: making it costs more than reading it
        n += 1
        pool = FAULTS if n % fault_every == 0 else QUIET
        message = rng.choice(pool).format(
            n=rng.randrange(1, 9999), hex=f"{rng.getrandbits(44):011x}", bus=f"{n % 8 * 16:02x}"
        )
        node = f"n{rng.randrange(256):03d}"
        line = FORMS[form](START + timedelta(milliseconds=37 * n), node, message)
        lines.append(line)
        total += len(line) + 1
    piece = ("\n".join(lines) + "\n").encode()
    return piece * max(1, size // len(piece))


def searches(faults: KernelLog) -> Iterator[tuple[str, Prefilter]]:
    """The prefilter of this installation, and the one that needs nothing else."""
    gates = faults.knowledge.gates
    yield type(faults.search).__name__, prefilter(gates)
    if not isinstance(faults.search, FindPrefilter):
        yield FindPrefilter.__name__, FindPrefilter(gates)


def main() -> None:
    """Print a table: form, share of faults, prefilter, MB/s, events."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--mb", type=int, default=64)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    shipped = KernelLog(catalogue())
    print(f"{len(literals(shipped.knowledge.gates))} literals")
    print(f"{'form':6} {'fault line':>12} {'prefilter':15} {'MB':>6} {'MB/s':>7} {'events':>8}")
    for every in (500, 10):
        for form in FORMS:
            data = text(form, every, chosen.mb * 1_000_000)
            for name, search in searches(shipped):
                part = data if name != FindPrefilter.__name__ else data[: len(data) // 8]
                speed, events = _measure(search, part, chosen.rounds)
                row = f"{form:6} {'1 in ' + str(every):>12} {name:15} {len(part) / 1e6:6.1f}"
                print(f"{row} {speed:7.1f} {events:8d}", flush=True)


def _measure(search: Prefilter, data: bytes, rounds: int) -> tuple[float, int]:
    """The best of ``rounds`` in MB/s, and how many fault events were counted."""
    kernel_log = KernelLog(catalogue(), search=search)
    best, events = 0.0, 0
    for _ in range(rounds):
        document = Document.of("bench", data, START + timedelta(days=30))
        started = time.process_time()
        events = sum(seen.count for seen in kernel_log.read(document) if isinstance(seen, Event))
        best = max(best, len(data) / 1e6 / (time.process_time() - started))
    return best, events


if __name__ == "__main__":
    main()
