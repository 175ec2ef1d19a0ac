"""Writing a host's files: a small kit for the makers of captured hosts. Values are our own."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Link = tuple[float, int, float, int]
"""GT/s and lanes now, GT/s and lanes at most."""

COR = ("RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF")
UNC = (
    *("Undefined", "DLP", "SDES", "TLP", "FCP", "CmpltTO", "CmpltAbrt", "UnxCmplt", "RxOF"),
    *("MalfTLP", "ECRC", "UnsupReq", "ACSViol", "UncorrIntErr", "BlockedTLP", "AtomicOpBlocked"),
    *("TLPBlockedErr", "PoisonTLPBlocked"),
)
ACS_OFF, ACS_ON = 0x00, 0x1D
"""Control bits of Access Control Services; on: source validation, both redirects, upstream."""


@dataclass
class Tree:
    """A host's root folder."""

    root: Path
    groups: int = 0

    def put(self, path: str, content: str | bytes | int) -> None:
        """A file; text gets the line end that the kernel's files have."""
        at = self.root / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else f"{content}\n".encode()
        at.write_bytes(data)

    def puts(self, folder: str, files: Mapping[str, str | bytes | int]) -> None:
        """Several files of one folder."""
        for name, content in files.items():
            self.put(f"{folder}/{name}", content)

    def link(self, path: str, to: str) -> None:
        """A relative link, as sysfs has them."""
        at = self.root / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.unlink(missing_ok=True)
        at.symlink_to(os.path.relpath(self.root / to.lstrip("/"), at.parent))


@dataclass
class Function:
    """One PCI function and what the kernel tells of it."""

    bus: str
    ids: str  # vendor:device
    kind: str  # class, six digits
    link: Link | None = None
    numa: int = 0
    driver: str = ""
    acs: int | None = None
    grouped: bool = True
    errors: Mapping[str, int] = field(default_factory=dict)


def add(tree: Tree, parent: str, one: Function) -> str:
    """A function below a folder of /sys/devices; its own folder."""
    folder = f"{parent}/{one.bus}"
    vendor, device = one.ids.split(":")
    files: dict[str, str | bytes | int] = {
        "vendor": f"0x{vendor}",
        "device": f"0x{device}",
        "class": f"0x{one.kind}",
        "numa_node": one.numa,
        "config": config(vendor, device, one.acs),
        "power/control": "on",
    }
    if one.link is not None:
        now, lanes, most, most_lanes = one.link
        files["current_link_speed"] = f"{now:.1f} GT/s PCIe"
        files["current_link_width"] = lanes
        files["max_link_speed"] = f"{most:.1f} GT/s PCIe"
        files["max_link_width"] = most_lanes
        files |= aer(one.errors)
    tree.puts(folder, files)
    tree.link(f"/sys/bus/pci/devices/{one.bus}", folder)
    if one.driver:
        tree.put(f"/sys/bus/pci/drivers/{one.driver}/module/.keep", b"")
        tree.link(f"{folder}/driver", f"/sys/bus/pci/drivers/{one.driver}")
    if one.grouped:
        tree.link(f"{folder}/iommu_group", f"/sys/kernel/iommu_groups/{tree.groups}")
        tree.groups += 1
    return folder


def config(vendor: str, device: str, acs: int | None = None) -> bytes:
    """Configuration space: identity, and of a port its extended capabilities AER and ACS."""
    head = bytes.fromhex(vendor)[::-1] + bytes.fromhex(device)[::-1]
    if acs is None:
        return head.ljust(64, b"\0")
    aer_head = (0x0001 | 2 << 16 | 0x148 << 20).to_bytes(4, "little")
    acs_head = (0x000D | 1 << 16).to_bytes(4, "little")
    acs_body = (0x5F).to_bytes(2, "little") + acs.to_bytes(2, "little")
    return head.ljust(0x100, b"\0") + aer_head.ljust(0x48, b"\0") + acs_head + acs_body


def aer(errors: Mapping[str, int]) -> dict[str, str | bytes | int]:
    """The three files of error counters; ``errors`` by kind, uncorrected ones as non-fatal."""
    cor = {kind: errors.get(kind, 0) for kind in COR}
    unc = {kind: errors.get(kind, 0) for kind in UNC}
    return {
        "aer_dev_correctable": _counts(cor, "TOTAL_ERR_COR"),
        "aer_dev_nonfatal": _counts(unc, "TOTAL_ERR_NONFATAL"),
        "aer_dev_fatal": _counts(dict.fromkeys(UNC, 0), "TOTAL_ERR_FATAL"),
    }


def _counts(by_kind: Mapping[str, int], total: str) -> str:
    lines = [f"{kind} {count}" for kind, count in by_kind.items()]
    return "\n".join([*lines, f"{total} {sum(by_kind.values())}"])
