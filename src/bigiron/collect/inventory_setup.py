"""How a machine is set up: modules, kernel settings, mounts, limits, packages, configuration."""

import re
import zlib
from collections.abc import Iterator

from bigiron.collect.inventory_machine import Told
from bigiron.collect.mount_table import LOCAL, NETWORK, plain
from bigiron.collect.pci_tree import names, text
from bigiron.errors import NoData, Permanent
from bigiron.host import Host

MODULES = {
    "nvidia": ("nvidia_peermem", "gdrdrv", "nvidia_fs", "nvidia_uvm"),
    "amdgpu": ("ib_peer_mem",),
    "mlx5_core": ("mlx5_ib", "ib_ipoib"),
}
"""What is told of, loaded or not, where the module that it belongs to is loaded; its version
only where it is not its owner's."""

OPTIONS = frozenset(
    {
        *("EnableStreamMemOPs", "EnableGpuFirmware", "EnablePCIERelaxedOrderingMode"),
        *("RestrictProfilingToAdminUsers", "RegistryDwords", "InitializeSystemMemoryAllocations"),
        *("EnableResizableBar", "DynamicPowerManagement", "GrdmaPciTopoCheckOverride"),
        *("PreserveVideoMemoryAllocations", "TCEBypassMode", "IgnoreMMIOCheck", "EnableMSI"),
        *("CoherentGPUMemoryMode", "EnableUserNUMAManagement", "ModifyDeviceFiles"),
    }
)
"""Of the driver's NVreg options those that change what a job meets (NVIDIA, driver README)."""

SYSCTLS = (
    *("vm.overcommit_memory", "vm.swappiness", "vm.zone_reclaim_mode", "vm.max_map_count"),
    *("vm.dirty_ratio", "kernel.numa_balancing", "kernel.pid_max", "net.core.rmem_max"),
    *("net.core.wmem_max", "net.core.netdev_max_backlog", "net.core.somaxconn"),
    *("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_congestion_control"),
    *("net.ipv4.tcp_mtu_probing", "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.all.arp_ignore"),
    *("net.ipv4.conf.all.arp_announce", "net.ipv4.neigh.default.gc_thresh3"),
)
"""Memory, NUMA and network settings that guides for training clusters set: socket buffers, and
how several ports of one host in one network answer ARP. None that the kernel works out from the
size of memory (``fs.file-max``, ``kernel.threads-max``): that differs by a little on each node."""

LIMITS = ("memlock", "nofile", "stack", "nproc", "core")
FILES = {
    "slurm_conf": ("slurm.conf", ("/run/slurm/conf", "/etc/slurm", "/etc/slurm-llnl")),
    "gres_conf": ("gres.conf", ("/run/slurm/conf", "/etc/slurm", "/etc/slurm-llnl")),
    "cgroup_conf": ("cgroup.conf", ("/run/slurm/conf", "/etc/slurm", "/etc/slurm-llnl")),
    "kubelet_conf": ("config.yaml", ("/var/lib/kubelet",)),
}
PACKAGES = re.compile(
    r"^(?:containerd(?:\.io)?|docker-ce|cri-o|podman|runc|enroot|pyxis|apptainer|singularity-ce"
    r"|nvidia-container-toolkit|datacenter-gpu-manager(?:-4-core)?|nvidia-fabricmanager(?:-\d+)?"
    r"|nvidia-imex(?:-\d+)?|doca-ofed|mlnx-ofed-basic|rdma-core|rocm-core|libnccl2)$"
)
DPKG = "/var/lib/dpkg/status"
CHUNK, MOST = 256 * 1024, 64 * 1024 * 1024
MOUNTS = 64
PASSING = ("/var/lib/", "/run/", "/snap/", "/boot", "/tmp/")  # noqa: S108  (not written to)

_NCCL = re.compile(r"^\s*((?:NCCL|UCX|CUDA|RCCL|HSA)_\w{1,80})\s*=\s*(.{0,300}?)\s*$", re.MULTILINE)
_PARAM = re.compile(r"^(\w{1,60}): (.{0,200})$", re.MULTILINE)
_LIMIT = re.compile(r"^\s*\*\s+(soft|hard|-)\s+(\w{1,12})\s+(\S{1,30})\s*$", re.MULTILINE)
_FIELD = re.compile(r"^(Package|Status|Version): (.{1,120})$", re.MULTILINE)
_OWN = re.compile(
    r"^(?:clientaddr|addr|mountaddr|port|mountport|mountproto|local_lock|namlen|sunit"
    r"|swidth|subvolid|fd|pgrp|pipe_ino|minproto|maxproto|size|nr_inodes|ro|rw)(?:=|$)"
)
"""Options that tell of one mount alone, or of its host's address."""


def drivers(host: Host) -> Told:
    """Versions of GPU drivers, and which modules beside them are loaded."""
    for module in ("nvidia", "amdgpu"):
        version = text(host, f"/sys/module/{module}/version")
        if version:
            yield "", "driver_version", version
    said = text(host, "/proc/driver/nvidia/version")
    if said:
        yield "", "module.nvidia.kind", "open" if "Open Kernel Module" in said else "proprietary"
    ofed = text(host, "/sys/module/mlx5_core/version")[:80]
    if ofed:
        yield "", "module.mlx5_core", ofed
    for owner, others in MODULES.items():
        if not names(host, f"/sys/module/{owner}"):
            continue
        for module in others:
            loaded = names(host, f"/sys/module/{module}")
            version = text(host, f"/sys/module/{module}/version")[:80]
            own = version if version != text(host, f"/sys/module/{owner}/version") else ""
            yield "", f"module.{module}", (own or "loaded") if loaded else "not loaded"
    for name, value in _PARAM.findall(text(host, "/proc/driver/nvidia/params")):
        if name in OPTIONS:
            yield "", f"module.nvidia.{name}", value.strip().strip('"')


def sysctls(host: Host) -> Told:
    """Settings of the running kernel."""
    for name in SYSCTLS:
        value = " ".join(text(host, f"/proc/sys/{name.replace('.', '/')}").split())
        yield "", f"sysctl.{name}", value[:200]


def environment(host: Host) -> Told:
    """What every job's NCCL and its like are told by files; the last word counts."""
    found = {}
    for path in ("/etc/environment", "/etc/nccl.conf"):
        for name, value in _NCCL.findall(text(host, path)):
            found[name] = value.strip("\"'")
    for name, value in found.items():
        yield "", f"env.{name}", value


def mounts(host: Host) -> Told:
    """File systems of disks and servers that all nodes should have alike.

    Without those that come and go with users and containers: below an automounter, below what
    container engines keep.
    """
    table = text(host, "/proc/1/mountinfo") or text(host, "/proc/self/mountinfo")
    lines = [parsed for line in table.splitlines()[:10_000] if (parsed := _mount(line))]
    automatic = [point for point, kind, _, _ in lines if kind == "autofs"]
    passing = (*PASSING, *(f"{point}/" for point in automatic))
    told = 0
    for point, kind, source, options in lines:
        if kind not in LOCAL and kind not in NETWORK:
            continue
        if point in automatic or point.startswith(passing):
            continue
        from_server = f" {source}" if kind in NETWORK else ""
        kept = ",".join(sorted(one for one in options.split(",") if one and not _OWN.match(one)))
        yield "", f"mount.{point}", f"{kind}{from_server} {kept}".strip()[:300]
        told += 1
        if told == MOUNTS:
            return


def _mount(line: str) -> tuple[str, str, str, str] | None:
    """Point, type, source and the file system's options of a line of mountinfo."""
    left, dash, right = line.partition(" - ")
    fields, rest = left.split(" "), right.split(" ")
    if not dash or len(fields) < 6 or len(rest) < 3:
        return None
    return plain(fields[4])[:200], rest[0], plain(rest[1])[:200], rest[2]


def limits(host: Host) -> Told:
    """Limits of everybody's processes (limits.conf(5)), ``soft/hard`` where they differ.

    Later files have the last word.
    """
    folder = "/etc/security/limits.d"
    files = ["/etc/security/limits.conf"]
    files += [f"{folder}/{one}" for one in names(host, folder) if one.endswith(".conf")]
    found: dict[str, dict[str, str]] = {}
    for path in files[:64]:
        for kind, item, value in _LIMIT.findall(text(host, path)):
            if item in LIMITS:
                both = ("soft", "hard") if kind == "-" else (kind,)
                found.setdefault(item, {}).update(dict.fromkeys(both, value))
    for item, values in found.items():
        yield (
            "",
            f"ulimit.{item}",
            "/".join(dict.fromkeys(values[k] for k in sorted(values, reverse=True))),
        )


def packages(host: Host) -> Told:
    """Versions of container engines and GPU tools, by Debian's list of packages.

    Read piece by piece: it has megabytes. There is no such text on a system with RPM.
    """
    for name, version in _installed(host):
        if name.startswith("nvidia-fabricmanager"):
            yield "", "fabricmanager_version", re.sub(r"^\d+:|-[^-]*$", "", version)
        else:
            yield "", f"package.{re.sub(r'-[0-9]+$', '', name)}", version


def _installed(host: Host) -> Iterator[tuple[str, str]]:
    rest = ""
    for start in range(0, MOST, CHUNK):
        try:
            data = host.part(DPKG, start, CHUNK)
        except (NoData, Permanent):
            return
        *whole, rest = (rest + data.decode("utf-8", "replace")).split("\n\n")
        if len(data) < CHUNK:
            whole, rest = [*whole, rest], ""
        for paragraph in whole:
            name = paragraph.lstrip("\n").partition("\n")[0].removeprefix("Package: ")
            if PACKAGES.match(name):
                fields = dict(_FIELD.findall(paragraph))
                if fields.get("Status", "").endswith(" installed") and "Version" in fields:
                    yield name, fields["Version"]
        rest = rest[-CHUNK:]
        if len(data) < CHUNK:
            return


def configurations(host: Host) -> Told:
    """What scheduler and kubelet are told: checksum and length, without comments."""
    for name, (file, folders) in FILES.items():
        said = next((found for at in folders if (found := text(host, f"{at}/{file}"))), "")
        lines = (line.partition("#")[0].strip() for line in said.splitlines())
        kept = "\n".join(line for line in lines if line)
        if kept:
            yield "", name, f"{zlib.crc32(kept.encode()):08x}.{len(kept)}"
