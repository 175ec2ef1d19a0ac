"""The sysfs of nine hosts: PCI paths, error counters, adapters. Values are our own.

python -m tests.hosts.make_sysfs        write them below tests/hosts
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from tests.hosts.make_machine import machine
from tests.hosts.sysfs_net import BNXT, MLX5_ROCE, Rdma, netdev, rdma
from tests.hosts.sysfs_tree import ACS_OFF, Function, Link, Tree, add

HERE = Path(__file__).parent
PORT, VGA = "060400", "030000"
GPU, GPU_AMD, GPU_MI200 = "030200", "120000", "038000"
NVSWITCH, ETHERNET, INFINIBAND, NVME = "068000", "020000", "020700", "010802"
GEN3: Link = (8.0, 16, 8.0, 16)
GEN4: Link = (16.0, 16, 16.0, 16)
GEN5: Link = (32.0, 16, 32.0, 16)

Made = tuple[str, Function]
"""A function's folder and itself."""


def lanes(link: Link, width: int) -> Link:
    """The same rates with fewer lanes."""
    return link[0], width, link[2], width


class Pci:
    """The buses of one host; each function remembers its folder."""

    def __init__(self, tree: Tree, *, root_ids: str, switch_ids: str = "", grouped: bool = True):
        self.tree = tree
        self._root_ids, self._switch_ids, self._grouped = root_ids, switch_ids, grouped
        self.slots = 0

    def below(self, root: str, numa: int, link: Link, device: int = 1) -> str:
        """A root port of a root bus such as ``0000:15``: its folder."""
        domain, bus = root.split(":")
        port = Function(f"{domain}:{bus}:{device:02x}.0", self._root_ids, PORT, link, numa)
        return self._port(f"/sys/devices/pci{domain}:{bus}", port)

    def switch(self, root: str, numa: int, link: Link, ends: list[Function]) -> Iterator[Made]:
        """A switch below a root port, with one end at each of its ports."""
        domain, bus = root.split(":")[0], int(root.split(":")[1], 16)
        at = self.below(root, numa, link)
        uplink = Function(f"{domain}:{bus + 1:02x}:00.0", self._switch_ids, PORT, link, numa)
        at = self._port(at, uplink)
        for number, end in enumerate(ends):
            port = Function(
                f"{domain}:{bus + 2:02x}:{number:02x}.0", self._switch_ids, PORT, end.link, numa
            )
            end.bus = f"{domain}:{bus + 3 + number:02x}:00.0"
            end.numa = numa
            yield self.end(self._port(at, port), end)

    def direct(self, root: str, numa: int, end: Function, device: int = 1) -> Made:
        """One end at a root port of its own."""
        domain, bus = root.split(":")[0], int(root.split(":")[1], 16)
        end.bus, end.numa = f"{domain}:{bus + device:02x}:00.0", numa
        return self.end(self.below(root, numa, end.link or GEN4, device), end)

    def end(self, folder: str, end: Function, *, slot: bool = True) -> Made:
        """An end below a port."""
        end.grouped = self._grouped
        made = add(self.tree, folder, end)
        if slot:
            self.slots += 1
            self.tree.put(f"/sys/bus/pci/slots/{self.slots}/address", end.bus.rpartition(".")[0])
        return made, end

    def _port(self, folder: str, port: Function) -> str:
        port.acs, port.driver, port.grouped = ACS_OFF, "pcieport", self._grouped
        return add(self.tree, folder, port)


def a100x8(tree: Tree) -> None:
    """Four switches of two GPUs, two HDR adapters and a drive; six NVSwitches."""
    pci = Pci(tree, root_ids="1022:1483", switch_ids="1000:c010")
    number = 0
    for root, numa in (("0000:00", 3), ("0000:40", 1), ("0000:80", 7), ("0000:c0", 5)):
        ends = [
            *[Function("", "10de:20b2", GPU, GEN4, driver="nvidia") for _ in range(2)],
            *[Function("", "15b3:101b", INFINIBAND, GEN4, driver="mlx5_core") for _ in range(2)],
            Function("", "144d:a80a", NVME, lanes(GEN4, 4), driver="nvme"),
        ]
        for folder, end in pci.switch(root, numa, GEN4, ends):
            if end.kind == INFINIBAND:
                _hdr(tree, folder, number)
                number += 1
            elif end.kind == NVME:
                _nvme(tree, folder, number // 2 - 1)
    for index in range(6):
        nvswitch = Function("", "10de:1af1", NVSWITCH, (8.0, 2, 8.0, 2), driver="nvidia-nvswitch")
        pci.direct("0000:e0", 5, nvswitch, 1 + index)
    _management(pci, "0000:60", 1)


def h100x8(tree: Tree) -> None:
    """Four switches of two GPUs, two NDR adapters and two drives; four NVSwitches."""
    pci = Pci(tree, root_ids="8086:352a", switch_ids="1000:c030")
    number, drive = 0, 0
    for root, numa in (("0000:15", 0), ("0000:37", 0), ("0000:97", 1), ("0000:b7", 1)):
        ends = [
            Function("", "15b3:1021", INFINIBAND, GEN5, driver="mlx5_core"),
            Function("", "10de:2330", GPU, GEN5, driver="nvidia"),
            Function("", "15b3:1021", INFINIBAND, GEN5, driver="mlx5_core"),
            Function("", "10de:2330", GPU, GEN5, driver="nvidia"),
            *[Function("", "144d:a826", NVME, lanes(GEN5, 4), driver="nvme") for _ in range(2)],
        ]
        for folder, end in pci.switch(root, numa, GEN5, ends):
            if end.kind == INFINIBAND:
                full = {"excessive_buffer_overrun_errors": 15} if number == 5 else {}
                _ndr(tree, folder, number, full)
                number += 1
            elif end.kind == NVME:
                _nvme(tree, folder, drive)
                drive += 1
    for index in range(4):
        nvswitch = Function("", "10de:22a3", NVSWITCH, (16.0, 2, 16.0, 2), driver="nvidia-nvswitch")
        pci.direct("0000:00", 0, nvswitch, 4 + index)
    _management(pci, "0000:70", 0)


def gb200x4(tree: Tree) -> None:
    """Four GPUs each at a root port of its own, four NDR adapters, a two-port RoCE adapter."""
    pci = Pci(tree, root_ids="10de:22b1")
    for number, domain in enumerate(("0008", "0009", "0018", "0019")):
        gpu = Function("", "10de:2941", GPU, GEN5, driver="nvidia")
        pci.direct(f"{domain}:00", number // 2, gpu)
    for number, domain in enumerate(("0000", "0002", "0010", "0012")):
        nic = Function("", "15b3:1021", INFINIBAND, GEN5, driver="mlx5_core")
        folder, _ = pci.direct(f"{domain}:00", number // 2, nic)
        _ndr(tree, folder, number)
        drive = Function("", "1e0f:0007", NVME, lanes(GEN4, 4), driver="nvme")
        folder, _ = pci.direct(f"{domain}:00", number // 2, drive, 5)
        _nvme(tree, folder, number)
    port = pci.below("0006:00", 0, GEN5)
    for index in range(2):
        one = Function(f"0006:01:00.{index}", "15b3:a2dc", ETHERNET, GEN5, driver="mlx5_core")
        folder, _ = pci.end(port, one, slot=not index)
        _roce(tree, folder, 4 + index, f"enP6p1s0f{index}np{index}", 200)


def l40sx8(tree: Tree) -> None:
    """Two switches of four idle GPUs, a RoCE adapter and two drives."""
    pci = Pci(tree, root_ids="8086:347a", switch_ids="1000:c010")
    drive = 0
    for number, (root, numa) in enumerate((("0000:26", 0), ("0000:a6", 1))):
        ends = [
            *[
                Function("", "10de:26b9", GPU, (2.5, 16, 16.0, 16), driver="nvidia")
                for _ in range(4)
            ],
            Function("", "15b3:1021", ETHERNET, GEN4, driver="mlx5_core"),
            *[Function("", "1344:51c3", NVME, lanes(GEN4, 4), driver="nvme") for _ in range(2)],
        ]
        for folder, end in pci.switch(root, numa, GEN4, ends):
            if end.kind == ETHERNET:
                _roce(tree, folder, number, f"ens{number + 1}np0", 400)
            elif end.kind == NVME:
                _nvme(tree, folder, drive)
                drive += 1
    _management(pci, "0000:70", 0)


def t4x4(tree: Tree) -> None:
    """A virtual machine: all on one bus, no port above them, half the lanes passed on."""
    pci = Pci(tree, root_ids="8086:1237", grouped=False)
    bus = "/sys/devices/pci0000:00"
    for index in range(4):
        gpu = Function(f"0000:00:{0x1B + index:02x}.0", "10de:1eb8", GPU, (8.0, 8, 8.0, 16), -1)
        gpu.driver = "nvidia"
        pci.end(bus, gpu, slot=False)
    net = Function("0000:00:05.0", "1d0f:ec20", ETHERNET, None, -1, "ena")
    folder, _ = pci.end(bus, net, slot=False)
    netdev(tree, folder, "ens5", 50_000, mtu=9001)
    disk = Function("0000:00:04.0", "1d0f:8061", NVME, None, -1, "nvme")
    folder, _ = pci.end(bus, disk, slot=False)
    _nvme(tree, folder, 0)


def mi250x8(tree: Tree) -> None:
    """Eight dies of four modules at root ports, four HDR adapters, two drives."""
    pci = Pci(tree, root_ids="1022:14ab")
    roots = ("0000:c0", "0000:c8", "0000:d0", "0000:d8", "0000:80", "0000:88", "0000:90", "0000:98")
    for number, root in enumerate(roots):
        gpu = Function("", "1002:740c", GPU_MI200, GEN4, driver="amdgpu")
        pci.direct(root, number // 2, gpu)
    for number in range(4):
        nic = Function("", "15b3:101b", INFINIBAND, GEN4, driver="mlx5_core")
        folder, _ = pci.direct(f"0000:{0x20 * number:02x}", number, nic, 3)
        _hdr(tree, folder, number)
    for number in range(2):
        drive = Function("", "144d:a80a", NVME, lanes(GEN4, 4), driver="nvme")
        folder, _ = pci.direct(f"0000:{0x20 * number:02x}", number, drive, 5)
        _nvme(tree, folder, number)


def mi300xx8(tree: Tree) -> None:
    """Eight switches of a GPU, a RoCE adapter and a drive."""
    pci = Pci(tree, root_ids="1022:14ab", switch_ids="1000:c030")
    for number in range(8):
        ends = [
            Function("", "1002:74a1", GPU_AMD, GEN5, driver="amdgpu"),
            Function("", "14e4:1760", ETHERNET, GEN5, driver="bnxt_en"),
            Function("", "144d:a826", NVME, lanes(GEN5, 4), driver="nvme"),
        ]
        for folder, end in pci.switch(f"0000:{0x10 + 0x18 * number:02x}", number // 4, GEN5, ends):
            if end.kind == ETHERNET:
                adapter = Rdma(f"bnxt_re{number}", f"rdma{number}", 400, "NDR")
                adapter.board, adapter.model, adapter.firmware = "", "0x1760", "230.2.52.0"
                adapter.ethernet, adapter.hw, adapter.mtu, adapter.gids = True, BNXT, 9000, 4
                adapter.moved = 7_000_000_000 + number
                rdma(tree, folder, number, adapter)
            elif end.kind == NVME:
                _nvme(tree, folder, number)
    _management(pci, "0000:e0", 1)


def cpu_only(tree: Tree) -> None:
    """No accelerator: two drives and a management adapter."""
    pci = Pci(tree, root_ids="8086:347a")
    for number in range(2):
        drive = Function("", "144d:a80a", NVME, lanes(GEN4, 4), driver="nvme")
        folder, _ = pci.direct("0000:30", 0, drive, 2 + number)
        _nvme(tree, folder, number)
    _management(pci, "0000:70", 0)


def _hdr(tree: Tree, folder: str, number: int) -> None:
    one = Rdma(f"mlx5_{number}", f"ib{number}", 200, "HDR", "MT_0000000223", "MT4123", "20.39.3004")
    one.moved, one.heat = 4_000_000_000 + number, None
    rdma(tree, folder, number, one)


def _ndr(tree: Tree, folder: str, number: int, counts: dict[str, int] | None = None) -> None:
    one = Rdma(f"mlx5_{number}", f"ib{number}", 400, "NDR", counts=counts or {})
    one.moved, one.heat = 9_000_000_000 + number, (61 + number, 48 + number)
    rdma(tree, folder, number, one)


def _roce(tree: Tree, folder: str, number: int, name: str, gbps: int) -> None:
    one = Rdma(f"mlx5_{number}", name, gbps, "NDR", ethernet=True, hw=MLX5_ROCE, gids=4)
    one.mtu, one.moved, one.heat = 9000, 5_000_000_000 + number, (58, 45)
    rdma(tree, folder, number, one)


def _nvme(tree: Tree, folder: str, number: int) -> None:
    at = f"{folder}/nvme/nvme{number}"
    model = "MZQL23T8HCLS-00A07" if number else "MZ1L21T9HCLS-00A07"
    tree.puts(at, {"model": model, "serial": f"S6CKNX0T4{number:05d}", "firmware_rev": "GDC5902Q"})
    tree.link(f"/sys/class/nvme/nvme{number}", at)


def _management(pci: Pci, root: str, numa: int) -> None:
    """The baseboard's display, and a two-port 10G adapter of which one port is cabled."""
    domain, bus = root.split(":")[0], int(root.split(":")[1], 16)
    port = pci.below(root, numa, (8.0, 4, 8.0, 4))
    for index in range(2):
        one = Function(f"{domain}:{bus + 1:02x}:00.{index}", "8086:1563", ETHERNET)
        one.link, one.numa, one.driver = (8.0, 4, 8.0, 4), numa, "ixgbe"
        folder, _ = pci.end(port, one, slot=False)
        netdev(pci.tree, folder, f"eno{index + 1}", 10_000 if not index else -1, mtu=1500)
        if index:
            pci.tree.puts(f"{folder}/net/eno2", {"operstate": "down", "flags": "0x1002"})
    port = pci.below(root, numa, (5.0, 1, 5.0, 1), 2)
    display = Function(f"{domain}:{bus + 3:02x}:00.0", "1a03:2000", VGA, None, numa, "ast")
    pci.end(port, display, slot=False)


HOSTS: dict[str, Callable[[Tree], None]] = {
    "a100x8": a100x8,
    "a100x8-mig": a100x8,
    "h100x8": h100x8,
    "gb200x4": gb200x4,
    "l40sx8": l40sx8,
    "t4x4": t4x4,
    "mi250x8": mi250x8,
    "mi300xx8": mi300xx8,
    "cpu-only": cpu_only,
}


def make(folder: Path, name: str) -> Path:
    """One host's sys/, proc/ and etc/ below ``folder``; its root."""
    tree = Tree(folder / name)
    HOSTS[name](tree)
    machine(tree, name)
    return tree.root


if __name__ == "__main__":
    for host in HOSTS:
        make(HERE, host)
