"""What nine hosts say of themselves besides PCI: kernel, board, CPUs, memory, settings, mounts."""

import zlib
from dataclasses import dataclass, replace

from tests.hosts.sysfs_tree import Tree

CPU = "/sys/devices/system/cpu"
NUMA = "/sys/devices/system/node"


@dataclass(frozen=True)
class Machine:
    """One host's settings; ``gpu`` is nvidia, amd or ""."""

    product: str
    vendor: str
    bios: str
    cpu: str
    gpu: str = "nvidia"
    sockets: int = 2
    cores: int = 56
    smt: str = "on"
    memory_gib: int = 2048
    dimms: int = 32
    driver: str = "570.124.06"
    kernel: str = "5.15.0-1078-nvidia"
    release: str = "Ubuntu 22.04.5 LTS"
    cmdline: str = "ro iommu=pt numa_balancing=disable"
    iommu: str = "identity"
    arm: bool = False
    virtual: bool = False
    fabric: bool = True


_DGX = Machine("DGXH100", "NVIDIA", "1.06.07", "Intel(R) Xeon(R) Platinum 8480C")
_A100 = replace(
    _DGX,
    product="DGXA100 920-23687-2530-000",
    bios="1.28",
    cpu="AMD EPYC 7742 64-Core Processor",
    cores=64,
    memory_gib=1024,
    dimms=16,
    driver="550.144.03",
)
MACHINES = {
    "a100x8": _A100,
    "a100x8-mig": _A100,
    "h100x8": _DGX,
    "gb200x4": Machine(
        "GB200 NVL",
        "NVIDIA",
        "02.04.07",
        "Neoverse-V2",
        cores=72,
        smt="notimplemented",
        memory_gib=960,
        dimms=2,
        kernel="6.8.0-1021-nvidia-64k",
        release="Ubuntu 24.04.2 LTS",
        cmdline="ro iommu.passthrough=1 init_on_alloc=0",
        arm=True,
        fabric=False,
    ),
    "l40sx8": Machine(
        "SYS-421GE-TNRT",
        "Supermicro",
        "2.3",
        "INTEL(R) XEON(R) GOLD 6548Y+",
        cores=32,
        memory_gib=1024,
        dimms=16,
        cmdline="ro quiet",
        iommu="DMA-FQ",
        fabric=False,
    ),
    "t4x4": Machine(
        "g4dn.12xlarge",
        "Amazon EC2",
        "1.0",
        "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz",
        sockets=1,
        cores=24,
        memory_gib=192,
        dimms=0,
        kernel="6.8.0-1024-aws",
        cmdline="ro console=tty1 nvme_core.io_timeout=4294967295",
        iommu="",
        virtual=True,
        fabric=False,
    ),
    "mi250x8": Machine(
        "G262-ZO0",
        "GIGABYTE",
        "R31",
        "AMD EPYC 7A53 64-Core Processor",
        gpu="amd",
        sockets=1,
        cores=64,
        memory_gib=512,
        dimms=8,
        driver="6.8.5",
        kernel="5.14.0-503.40.1.el9_5.x86_64",
        release="Red Hat Enterprise Linux 9.5 (Plow)",
        fabric=False,
    ),
    "mi300xx8": Machine(
        "PowerEdge XE9680",
        "Dell Inc.",
        "2.6.3",
        "INTEL(R) XEON(R) PLATINUM 8568Y+",
        gpu="amd",
        cores=48,
        driver="6.12.12",
        kernel="5.15.0-138-generic",
        fabric=False,
    ),
    "cpu-only": Machine(
        "ProLiant DL360 Gen11",
        "HPE",
        "U54",
        "INTEL(R) XEON(R) GOLD 6430",
        gpu="",
        cores=32,
        memory_gib=256,
        dimms=8,
        kernel="5.15.0-138-generic",
        cmdline="ro quiet splash",
        iommu="",
        fabric=False,
    ),
}


def machine(tree: Tree, name: str) -> None:
    """Write all of it."""
    one = MACHINES[name]
    _kernel(tree, one)
    _board(tree, one)
    _cpus(tree, one)
    _memory(tree, one)
    _modules(tree, one)
    _mounts(tree, one)
    _settings(tree, one)
    for group in range(tree.groups):
        tree.put(f"/sys/kernel/iommu_groups/{group}/type", one.iommu or "DMA")


def _kernel(tree: Tree, one: Machine) -> None:
    image = f"BOOT_IMAGE=/boot/vmlinuz-{one.kernel} root=UUID=5a0c1f2e-77aa-4c1d-9d0e-0a5e5b1c2d3e"
    name, _, version = one.release.partition(" ")
    tree.put("/proc/cmdline", f"{image} {one.cmdline}")
    tree.put("/proc/sys/kernel/osrelease", one.kernel)
    tree.put("/etc/os-release", f'NAME="{name}"\nPRETTY_NAME="{one.release}"\nID=own\n# {version}')
    clock = "arch_sys_counter" if one.arm else "kvm-clock" if one.virtual else "tsc"
    source = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    tree.put(source, clock)


def _board(tree: Tree, one: Machine) -> None:
    at = "/sys/devices/virtual/dmi/id"
    tree.puts(
        at,
        {
            "bios_vendor": one.vendor,
            "bios_version": one.bios,
            "bios_date": "03/14/2025",
            "sys_vendor": one.vendor,
            "product_name": one.product,
            "product_serial": "1663424000017",
            "board_name": f"{one.product.split()[0]}-BB",
            "board_serial": "To be filled by O.E.M." if one.virtual else "NVB0021X17",
        },
    )
    tree.link("/sys/class/dmi/id", at)
    if not one.virtual:
        tree.put("/sys/devices/platform/ipmi_bmc.0/firmware_revision", "24.9")


def _cpus(tree: Tree, one: Machine) -> None:
    threads = one.sockets * one.cores * (2 if one.smt == "on" else 1)
    tree.put(f"{CPU}/online", f"0-{threads - 1}")
    tree.put(f"{CPU}/smt/control", one.smt)
    tree.put(f"{CPU}/smt/active", int(one.smt == "on"))
    if not one.arm:
        tree.put(f"{CPU}/cpu0/microcode/version", "0x2b000620")
    driver = "cppc_cpufreq" if one.arm else "intel_pstate"
    for cpu in () if one.virtual else range(4):
        files = {"scaling_governor": "performance", "scaling_driver": driver}
        tree.puts(f"{CPU}/cpufreq/policy{cpu}", dict(files))
    lines = ["processor\t: 0"]
    if not one.arm:
        lines += ["vendor_id\t: own", f"model name\t: {one.cpu}", "microcode\t: 0x2b000620"]
    else:
        lines += ["CPU implementer\t: 0x41", "CPU part\t: 0xd4f"]
    tree.put(
        "/proc/cpuinfo", "\n".join(lines) + "\n\n" + "\n".join(lines).replace(": 0\n", ": 1\n")
    )
    tree.put(f"{NUMA}/online", f"0-{one.sockets - 1}" if one.sockets > 1 else "0")
    for node in range(one.sockets):
        first = node * one.cores
        cpus = f"{first}-{first + one.cores - 1}"
        if one.smt == "on":
            second = one.sockets * one.cores + first
            cpus += f",{second}-{second + one.cores - 1}"
        tree.put(f"{NUMA}/node{node}/cpulist", cpus)


def _memory(tree: Tree, one: Machine) -> None:
    total = one.memory_gib * 1048576 * 984 // 1000
    free = f"MemFree:        {total // 2} kB\nMemAvailable:   {total // 4 * 3} kB"
    tree.put("/proc/meminfo", f"MemTotal:       {total} kB\n{free}")
    for number in range(one.dimms):
        at = f"/sys/devices/system/edac/mc/mc{number % one.sockets}/dimm{number // one.sockets}"
        size = one.memory_gib * 1024 // one.dimms
        tree.puts(at, {"size": size, "dimm_label": f"DIMM_{number}", "dimm_mem_type": "DDR5"})
        if one is _DGX:
            raw = _dmi_module(number, one.memory_gib // one.dimms)
            tree.put(f"/sys/firmware/dmi/entries/17-{number}/raw", raw)
    for size in (2048, 1048576):
        tree.put(f"/sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages", 0)
    tree.put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")


def _modules(tree: Tree, one: Machine) -> None:
    mlx5 = {"nvidia": "24.10-1.1.4", "amd": "", "": ""}[one.gpu]
    versions = {"mlx5_core": mlx5} if not one.virtual and one.gpu else {}
    if one.gpu == "amd":
        versions["amdgpu"] = one.driver
    if one.gpu == "nvidia":
        versions |= {"nvidia": one.driver, "nvidia_uvm": one.driver}
        if not one.virtual:
            versions |= {"nvidia_peermem": one.driver, "gdrdrv": "2.4.4", "mlx5_ib": mlx5}
        kind = "Kernel Module" if one.virtual else "Open Kernel Module for x86_64"
        tree.put(
            "/proc/driver/nvidia/version",
            f"NVRM version: NVIDIA UNIX {kind}  {one.driver}  Release Build",
        )
        tree.put(
            "/proc/driver/nvidia/params",
            "EnableStreamMemOPs: 0\nEnableGpuFirmware: 18\nRestrictProfilingToAdminUsers: 1\n"
            'EnablePCIERelaxedOrderingMode: 0\nRegistryDwords: ""\nModifyDeviceFiles: 1',
        )
        package = f"nvidia-fabricmanager-{one.driver.split('.')[0]}"
        fabric = f"Package: {package}\nStatus: install ok installed\nVersion: {one.driver}-1\n\n"
        packages = fabric if one.fabric else ""
        packages += "Package: containerd.io\nStatus: install ok installed\nVersion: 1.7.25-1\n\n"
        packages += (
            "Package: nvidia-container-toolkit\nStatus: install ok installed\nVersion: 1.17.4-1\n"
        )
        tree.put("/var/lib/dpkg/status", packages)
    for module, version in versions.items():
        tree.put(f"/sys/module/{module}/refcnt", 1)
        if version:
            tree.put(f"/sys/module/{module}/version", version)


def _mounts(tree: Tree, one: Machine) -> None:
    lines = [
        _mounted("/sys", "sysfs", "sysfs", "rw"),
        _mounted("/", "ext4", "/dev/nvme0n1p2", "rw,errors=remount-ro"),
        _mounted("/run", "tmpfs", "tmpfs", "rw,size=211316232k,mode=755"),
        _mounted("/run/containerd/task/rootfs", "overlay", "overlay", "rw,lowerdir=/l"),
    ]
    if one.gpu and not one.virtual:
        nfs = "rw,vers=4.2,hard,nconnect=8,clientaddr=10.20.1.17,addr=10.20.0.5"
        lines += [
            _mounted("/scratch", "lustre", "10.20.0.9@o2ib:/scratch", "rw,flock,lazystatfs"),
            _mounted("/home", "autofs", "auto.home", "rw,fd=6,pgrp=1,timeout=300"),
            _mounted("/home/someone", "nfs4", "home:/export/someone", nfs),
            _mounted("/apps", "nfs4", "home:/export/apps", nfs),
            _mounted("/raid", "xfs", "/dev/md0", "rw,attr2,inode64,sunit=1024,swidth=8192,noquota"),
        ]
    tree.put("/proc/1/mountinfo", "\n".join(lines))


def _mounted(point: str, kind: str, source: str, options: str) -> str:
    number = 20 + zlib.crc32(point.encode()) % 900
    return f"{number} 1 0:{number} / {point} rw,relatime shared:1 - {kind} {source} {options}"


def _dmi_module(number: int, gib: int) -> bytes:
    """An SMBIOS structure of type 17; every module has its own serial number."""
    place = f"CPU{number // 16}_DIMM_{'ABCDEFGH'[number % 16 // 2]}{number % 2 + 1}"
    strings = [place, "Own", f"80CE0123{0x4A1B00 + number:08X}", "OWN-64G-5600"]
    body = bytearray(0x28)
    body[0], body[1] = 17, 0x28
    body[0x0C:0x0E] = (0x7FFF).to_bytes(2, "little")
    body[0x10], body[0x17], body[0x18], body[0x1A] = 1, 2, 3, 4
    body[0x1C:0x20] = (gib * 1024).to_bytes(4, "little")
    return bytes(body) + b"\0".join(one.encode() for one in strings) + b"\0\0"


SYSCTLS = {
    "vm/overcommit_memory": "0",
    "vm/swappiness": "60",
    "vm/zone_reclaim_mode": "0",
    "vm/max_map_count": "1048576",
    "vm/nr_hugepages": "0",
    "kernel/numa_balancing": "0",
    "net/core/rmem_max": "67108864",
    "net/core/wmem_max": "67108864",
    "net/ipv4/tcp_rmem": "4096\t87380\t33554432",
    "net/ipv4/conf/all/rp_filter": "2",
    "net/ipv4/conf/all/arp_ignore": "1",
    "net/ipv4/conf/all/arp_announce": "2",
    "fs/file-max": "9223372036854775807",
}


def _settings(tree: Tree, one: Machine) -> None:
    for name, value in SYSCTLS.items():
        tree.put(f"/proc/sys/{name}", value)
    if not one.gpu or one.virtual:
        return
    tree.put(
        "/etc/nccl.conf",
        "# rails\nNCCL_IB_HCA==mlx5_0,mlx5_1\nNCCL_SOCKET_IFNAME=eno1\nNCCL_CROSS_NIC = 0",
    )
    tree.put(
        "/etc/security/limits.d/95-hpc.conf", "* soft memlock unlimited\n* hard memlock unlimited"
    )
    tree.put("/etc/slurm/slurm.conf", "ClusterName=own\nSlurmctldHost=head\n# nodes\nNodeName=own")
