"""What nine hosts say of their health: processes, services, mounts, memory, clock, drives, BMC.

python -m tests.hosts.make_health        write it below tests/hosts, after make_sysfs
"""

import json
from pathlib import Path

from tests.hosts import bmc_redfish
from tests.hosts.bmc_ipmi import FREEIPMI, IPMITOOL, ipmi
from tests.hosts.make_machine import MACHINES, Machine
from tests.hosts.sysfs_tree import Tree

HERE = Path(__file__).parent
GIB = 1 << 30
COMMANDS = "bigiron/commands"
BOOT = {
    "a100x8": "1f0b7c7e-2d3a-4f7e-9a58-0c4b6c8f1a01",
    "a100x8-mig": "1f0b7c7e-2d3a-4f7e-9a58-0c4b6c8f1a02",
    "h100x8": "1f0b7c7e-2d3a-4f7e-9a58-0c4b6c8f1a03",
    "gb200x4": "1f0b7c7e-2d3a-4f7e-9a58-0c4b6c8f1a04",
    "l40sx8": "1f0b7c7e-2d3a-4f7e-9a58-0c4b6c8f1a05",
    "t4x4": "1f0b7c7e-2d3a-4f7e-9a58-0c4b6c8f1a06",
    "mi250x8": "1f0b7c7e-2d3a-4f7e-9a58-0c4b6c8f1a07",
    "mi300xx8": "1f0b7c7e-2d3a-4f7e-9a58-0c4b6c8f1a08",
    "cpu-only": "1f0b7c7e-2d3a-4f7e-9a58-0c4b6c8f1a09",
}
# service -> (systemd unit, process name as the kernel cuts it)
NAMES = {
    "fabric": ("nvidia-fabricmanager", "nv-fabricmanage"),
    "imex": ("nvidia-imex", "nvidia-imex"),
    "persistence": ("nvidia-persistenced", "nvidia-persiste"),
    "dcgm": ("nvidia-dcgm", "nv-hostengine"),
    "kubelet": ("kubelet", "kubelet"),
    "containerd": ("containerd", "containerd"),
    "slurmd": ("slurmd", "slurmd"),
    "munge": ("munge", "munged"),
    "chrony": ("chrony", "chronyd"),
    "timesync": ("systemd-timesyncd", "systemd-timesyn"),
}
_SLURM = ("slurmd", "munge", "chrony")
SERVICES = {
    "a100x8": ("fabric", "persistence", "dcgm", *_SLURM),
    "a100x8-mig": ("fabric", "persistence", "kubelet", "containerd", "chrony"),
    "h100x8": ("fabric", "persistence", "dcgm", *_SLURM),
    "gb200x4": ("imex", "persistence", "dcgm", *_SLURM),
    "l40sx8": ("persistence", "kubelet", "containerd", "timesync"),
    "t4x4": ("persistence", "kubelet", "containerd", "chrony"),
    "mi250x8": _SLURM,
    "mi300xx8": ("kubelet", "containerd", "chrony"),
    "cpu-only": _SLURM,
}
NO_CGROUP = ("mi250x8",)
"""Where services are not found by their control group, but by name."""


def health(tree: Tree, name: str) -> None:
    """Write all of it."""
    one = MACHINES[name]
    _kernel(tree, name, one)
    _processes(tree, name)
    _mounts(tree, one)
    _memory(tree, one)
    _drives(tree, one)
    _clock(tree, name)
    if name in IPMITOOL or name in FREEIPMI:
        ipmi(tree, name)
    if name in bmc_redfish.SERVICES:
        told = bmc_redfish.SERVICES[name]()
        tree.put("bigiron/redfish.json", json.dumps(told, indent=1))


def stat(pid: int, name: str, state: str = "S", ticks: int = 100, start: int = 1000) -> str:
    """A line of proc_pid_stat(5)."""
    head = f"{pid} ({name}) {state} 1 {pid} {pid} 0 -1 4194560 900 0 0 0"
    return f"{head} {ticks} {ticks // 2} 0 0 20 0 4 0 {start} 12345678 999 18446744073709551615"


def _kernel(tree: Tree, name: str, one: Machine) -> None:
    tree.put("/proc/sys/kernel/random/boot_id", BOOT[name])
    tree.put("/proc/sys/kernel/tainted", 4096 + 8192 + 1 if one.gpu == "nvidia" else 0)
    tree.put("/proc/stat", "cpu  1 2 3 4\nintr 99 0 9\nctxt 12345\nbtime 1764201600\nprocesses 9")
    tree.put("/proc/loadavg", "17.25 16.80 16.01 9/4211 812345")
    tree.put("/proc/vmstat", "nr_free_pages 1000\npgfault 5\noom_kill 0\nnuma_hit 9")
    cpus = range(4)
    rows = [
        "           " + "".join(f"CPU{cpu:<8}" for cpu in cpus),
        "  0:         36          0          0          0  IR-IO-APIC    2-edge      timer",
        "NMI:         11         12         10         14   Non-maskable interrupts",
    ]
    if not one.arm:
        rows += [
            "MCE:          0          0          0          0   Machine check exceptions",
            "MCP:        812        812        812        812   Machine check polls",
        ]
    tree.put("/proc/interrupts", "\n".join(row if row[0] == " " else f" {row}" for row in rows))
    for resource, some, full in (("cpu", 91, 0), ("io", 1204, 877), ("memory", 12, 3)):
        lines = f"some avg10=0.10 avg60=0.08 avg300=0.02 total={some}000123"
        lines += f"\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={full}000456"
        tree.put(f"/proc/pressure/{resource}", lines)


def _processes(tree: Tree, name: str) -> None:
    tree.put("/proc/1/stat", stat(1, "systemd", start=1))
    tree.put("/proc/2/stat", stat(2, "kthreadd", start=1))
    tree.put("/proc/311/stat", stat(311, "kworker/0:1H-kblockd", "I", 0, 90))
    tree.put("/proc/20011/stat", stat(20011, "python3 (train)", "R", 99_000_123, 900_000))
    for number, service in enumerate(SERVICES[name]):
        unit, process = NAMES[service]
        pid = 1200 + 7 * number
        tree.put(f"/proc/{pid}/stat", stat(pid, process, start=2000 + number))
        if name not in NO_CGROUP:
            at = f"/sys/fs/cgroup/system.slice/{unit}.service"
            tree.put(f"{at}/cgroup.procs", f"{pid}\n{pid + 1}")
    if "fabric" in SERVICES[name]:
        at = "/etc/systemd/system/multi-user.target.wants/nvidia-fabricmanager.service"
        tree.put(at, "[Unit]\nDescription=NVIDIA fabric manager service")


def _mounts(tree: Tree, one: Machine) -> None:
    """What is to be mounted, and how full it is; the table itself is make_machine's."""
    room = {
        "/": (1750 * GIB, 1500 * GIB, 117_000_000, 115_000_000),
        "/run": (200 * GIB, 199 * GIB, 264_000_000, 263_990_000),
    }
    fstab = ["# own", "UUID=5a0c1f2e / ext4 errors=remount-ro 0 1", "/swap none swap sw 0 0"]
    if one.gpu and not one.virtual:
        room |= {
            "/scratch": (2_000_000 * GIB, 600_000 * GIB, 9_000_000_000, 8_000_000_000),
            "/home/someone": (40_000 * GIB, 11_000 * GIB, 0, 0),
            "/apps": (9_000 * GIB, 4_000 * GIB, 0, 0),
            "/raid": (27_000 * GIB, 21_000 * GIB, 1_400_000_000, 1_399_000_000),
        }
        fstab += ["home:/export/apps /apps nfs4 vers=4.2,hard,_netdev 0 0"]
        fstab += ["/dev/md0 /raid xfs nofail 0 0", "/dev/sr0 /media/cdrom iso9660 ro,noauto 0 0"]
    tree.put("/etc/fstab", "\n".join(fstab))
    tree.put("bigiron/statvfs.json", json.dumps(room, indent=1))


def _memory(tree: Tree, one: Machine) -> None:
    root = "/sys/devices/system/edac/mc"
    for number in range(one.dimms):
        mc, dimm = number % one.sockets, number // one.sockets
        tree.puts(f"{root}/mc{mc}/dimm{dimm}", {"dimm_ce_count": 0, "dimm_ue_count": 0})
    for mc in range(one.sockets if one.dimms else 0):
        counts = ("ce_count", "ue_count", "ce_noinfo_count", "ue_noinfo_count")
        tree.puts(f"{root}/mc{mc}", dict.fromkeys(counts, 0))


def _drives(tree: Tree, one: Machine) -> None:
    for at in sorted((tree.root / "sys/class/nvme").glob("nvme*")):
        drive, number = at.name, int(at.name.removeprefix("nvme"))
        folder = f"/sys/class/nvme/{drive}"
        tree.put(f"{folder}/state", "live")
        tree.put(f"{folder}/hwmon{number + 3}/temp1_input", 38_850 + 1000 * number)
        if not one.virtual:
            tree.put(f"{COMMANDS}/smartctl -j -a /dev/{drive}", smartctl(drive))


def smartctl(drive: str, warning: int = 0, spare: int = 100, passed: bool = True) -> str:
    """The parts of its JSON that are read."""
    log = {
        "critical_warning": warning,
        "temperature": 39,
        "available_spare": spare,
        "available_spare_threshold": 10,
        "percentage_used": 3,
        "media_errors": 0,
    }
    told = {
        "json_format_version": [1, 0],
        "smartctl": {"version": [7, 4], "exit_status": 0 if passed else 8},
        "device": {"name": f"/dev/{drive}", "type": "nvme", "protocol": "NVMe"},
        "smart_status": {"passed": passed},
        "nvme_smart_health_information_log": log,
    }
    return json.dumps(told)


def _clock(tree: Tree, name: str) -> None:
    if "chrony" in SERVICES[name]:
        line = "0A140001,10.20.0.1,3,1764500000.123456789,-0.000012345,0.000001,0.000020,"
        line += "-3.512,0.001,0.040,0.000210,0.000110,64.2,Normal"
        tree.put(f"{COMMANDS}/chronyc -n -c tracking", line)


if __name__ == "__main__":
    for host in MACHINES:
        health(Tree(HERE / host), host)
