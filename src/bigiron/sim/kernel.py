"""What the kernel says: start-up, chatter, and the drivers' words on faults.

The forms are those of the drivers' own messages; every number in them is drawn or made up.
"""

import numpy as np

from bigiron.sim.site import GPUS, Site

Lines = list[tuple[float, str]]
"""(seconds after the event, message)."""

CHATTER = (
    'audit: type=1400 audit({t}.{k:03d}:{k}): apparmor="ALLOWED" operation="open" profile="snap"',
    "perf: interrupt took too long ({k} > {j}), lowering kernel.perf_event_max_sample_rate "
    "to {s}000",
    "clocksource: Long readout interval, skipping watchdog check: cs_nsec: 1{t} wd_nsec: 1{k}",
    "TCP: request_sock_TCP: Possible SYN flooding on port {p}. Sending cookies.",
    "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, "
    "skipping further processing",
    "pt_main_thread[{p}]: segfault at {t:x} ip {k:x}1629 sp {t:x}4fd124 error 4 in "
    "libnccl.so.2[7f7c7ac00000+d3d3000]",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,"
    "oom_memcg=/slurm/uid_{k}/job_{p},task_memcg=/slurm/uid_{k}/job_{p}/step_0,"
    "task=python,pid={p},uid={k}",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#{s}_Chan#0_DIMM#0 (channel:0 slot:0 "
    "page:0x{k:x} offset:0x0 grain:32 syndrome:0x0)",
    "nvidia-nvswitch3: SXid (PCI:0000:06:00.0): 12028, Non-fatal, Link {s} egress non-posted "
    "PRIV error (First)",
    "mlx5_core 0000:9a:00.0: mlx5_cmd_out_err:808:(pid {p}): QUERY_VPORT_COUNTER(0x770) "
    "op_mod(0x0) failed, status bad parameter(0x3), syndrome (0x5f7fa2), err(-22)",
    "pcieport 0000:{s:02x}:01.0: AER: Corrected error received: 0000:{s:02x}:00.0",
)
CHATTER_SHARE = (0.37, 0.25, 0.14, 0.1, 0.05, 0.03, 0.01, 0.01, 0.01, 0.02, 0.01)
CHATTER_PER_NODE_HOUR = 0.5
PROGRAMS = ("python", "python3", "train.py", "pt_main_thread", "ray::Worker")
NO_PROCESS = "pid='<unknown>', name=<unknown>, "


def chatter(rng: np.random.Generator) -> str:
    """A line that means nothing for a node's health."""
    text = CHATTER[int(rng.choice(len(CHATTER), p=CHATTER_SHARE))]
    k, j, t = (int(rng.integers(low, 10**top)) for low, top in ((2000, 4), (1000, 4), (10**8, 9)))
    return text.format(
        t=t, k=k, j=j, s=int(rng.integers(1, 60)), p=int(rng.integers(20_000, 60_000))
    )


def start_up(site: Site, node: int, driver: str, kernel: str, nic_firmware: str) -> Lines:
    """A boot as far as anyone looks at it."""
    lines: Lines = [
        (
            0.0,
            f"Linux version {kernel} (buildd@build-amd64-051) (gcc (Ubuntu 11.4.0) 11.4.0) "
            "#122-Ubuntu SMP",
        )
    ]
    lines += [(3 + k / 100, f"nvidia-nvswitch{k}: open (major=510)") for k in range(4)]
    lines.append((4.0, loading(driver)))
    for k in range(GPUS):
        bus = site.nic_bus(node, k)
        lines.append((9 + 0.3 * k, f"mlx5_core {bus}: firmware version: {nic_firmware}"))
    for k in range(GPUS):
        ready = f"IPv6: ADDRCONF(NETDEV_CHANGE): ib{k}: link becomes ready"
        lines.append((12 + 0.2 * k, ready))
    return lines


def loading(driver: str) -> str:
    """The driver announces itself."""
    return f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue Mar 11 10:11:12 UTC 2025"


def xid(site: Site, node: int, gpu: int, code: int, text: str) -> str:
    """An XID line of the GPU in a socket."""
    return f"NVRM: Xid (PCI:{site.bus(node, gpu)[:-2]}): {code}, {text}"


def recovery(site: Site, node: int, gpu: int, code: int, word: str) -> str:
    """XID 154: what the driver thinks it takes."""
    text = f"GPU recovery action changed from 0x0 (None) to 0x{code:x} ({word})"
    return xid(site, node, gpu, 154, NO_PROCESS + text)


def fallen_off(site: Site, node: int, gpu: int) -> Lines:
    """XID 79 with what comes before and after it."""
    return [
        (0.0, f"NVRM: GPU at PCI:{site.bus(node, gpu)[:-2]}: {site.uuids[node][gpu]}"),
        (0.0, xid(site, node, gpu, 79, NO_PROCESS + "GPU has fallen off the bus.")),
        (0.1, recovery(site, node, gpu, 2, "Node Reboot Required")),
    ]


def uncorrectable(
    site: Site, node: int, gpu: int, rng: np.random.Generator, *, sram: bool, contained: bool
) -> Lines:
    """XID 48, 63 (DRAM: a row is queued for remapping), 94 or 95."""
    row = f"0x{int(rng.integers(2**34)):010x}"
    where = "SM" if sram else "CE User Channel"
    pid = f"pid={int(rng.integers(200_000, 3_000_000))}, name=python3, "
    lines: Lines = [
        (
            0.0,
            xid(
                *(site, node, gpu, 48),
                pid + "An uncorrectable double bit error (DBE) has been detected on GPU in the "
                f"{'SM' if sram else 'framebuffer at partition 6, subpartition 1'}.",
            ),
        )
    ]
    if not sram:
        text = f"Row Remapper: New row ({row}) marked for remapping, reset gpu to activate."
        lines.append((0.2, xid(site, node, gpu, 63, NO_PROCESS + text)))
    if contained:
        text = f"Contained: {where} (0xd). RST: No, D-RST: No"
        lines.append((0.4, xid(site, node, gpu, 94, NO_PROCESS + text)))
    else:
        text = f"Uncontained: {where} (0x1d). RST: Yes, D-RST: No"
        lines.append((0.4, xid(site, node, gpu, 95, NO_PROCESS + text)))
        lines.append((0.5, recovery(site, node, gpu, 1, "GPU Reset Required")))
    return lines


def remapped(site: Site, node: int, gpu: int, rng: np.random.Generator) -> str:
    """XID 63: one more row on its spare."""
    row = f"0x{int(rng.integers(2**34)):010x}"
    text = f"Row Remapper: New row ({row}) marked for remapping, reset gpu to activate."
    return xid(site, node, gpu, 63, NO_PROCESS + text)


def remap_failed(site: Site, node: int, gpu: int) -> str:
    """XID 64: no spare row is left."""
    return xid(site, node, gpu, 64, NO_PROCESS + "Row Remapper: Failed to remap row")


def nvlink_fatal(site: Site, node: int, gpu: int, link: int) -> Lines:
    """XID 74 of one link, and what the driver wants then."""
    text = f"NVLink: fatal error detected on link {link}(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)"
    return [
        (0.0, xid(site, node, gpu, 74, NO_PROCESS + text)),
        (0.1, recovery(site, node, gpu, 1, "GPU Reset Required")),
    ]


def gsp_timeout(site: Site, node: int, gpu: int, rng: np.random.Generator) -> Lines:
    """XID 119, repeated as callers go on asking."""
    index = site.index_of(node, gpu)
    text = (
        f"pid={int(rng.integers(2_000, 9_000))}, name=dcgm-exporter, "
        f"Timeout after 45s of waiting for RPC response from GPU{index} GSP! "
        "Expected function 76 (GSP_RM_CONTROL) (0x20801702 0x4)."
    )
    lines: Lines = [(k * 45.0, xid(site, node, gpu, 119, text)) for k in range(3)]
    lines.append((0.1, recovery(site, node, gpu, 2, "Node Reboot Required")))
    return sorted(lines)


def application(site: Site, node: int, gpu: int, rng: np.random.Generator) -> tuple[Lines, int]:
    """A program's own fault on a GPU (XID 31 or 13, then 43 or 45), and the first code."""
    program = PROGRAMS[int(rng.integers(len(PROGRAMS)))]
    pid = f"pid={int(rng.integers(400_000, 3_000_000))}, name={program}, "
    channel = f"Ch {int(rng.integers(2, 64)):08x}"
    if rng.uniform() < 0.5:
        client = f"GPCCLIENT_T1_{int(rng.integers(9))}"
        address = f"0x7f{int(rng.integers(256)):02x}_{int(rng.integers(2**32)):08x}"
        text = (
            f"{channel}, intr 00000000. MMU Fault: ENGINE GRAPHICS {client} faulted @ {address}. "
            "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
        )
        code = 31
    else:
        gpc, tpc, sm = (int(rng.integers(k)) for k in (8, 9, 2))
        text = (
            f"Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM {sm}): Out Of Range Address"
        )
        code = 13
    after = 43 if rng.uniform() < 0.7 else 45
    return [
        (0.0, xid(site, node, gpu, code, pid + text)),
        (float(rng.uniform(0.1, 20)), xid(site, node, gpu, after, pid + channel)),
    ], code


def link(site: Site, node: int, nic: int, word: str) -> str:
    """The driver's word on a port: ``Link down`` or ``Link up``."""
    return f"mlx5_core {site.nic_bus(node, nic)} ib{nic}: {word}"


def hung(rng: np.random.Generator) -> Lines:
    """Tasks that wait for the driver and are not heard again."""
    names = ("nvidia-smi", "dcgm-exporter", "nv-hostengine", "kworker/u256:3")
    return [
        (
            122.0 + 123.0 * k,
            f"INFO: task {names[k % 4]}:{int(rng.integers(2_000, 90_000))} blocked for more than "
            f"{122 + 123 * (k // 2)} seconds.",
        )
        for k in range(4)
    ]
