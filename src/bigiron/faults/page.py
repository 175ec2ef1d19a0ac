"""The catalogue as a page to read (docs/faults.md), and one entry as a text."""

from collections.abc import Iterable, Iterator

from bigiron.faults import Catalogue
from bigiron.model import ActionKind, Fault

FAMILIES = {
    "xid": "NVIDIA Xids",
    "sxid": "NVIDIA NVSwitch SXids",
    "dcgm": "NVIDIA DCGM error codes",
    "recovery": "NVML recovery actions",
    "clock": "Clock event reasons",
    "nvrm": "NVIDIA driver messages without an Xid",
    "gsp": "NVIDIA GPU system processor",
    "fm": "Fabric Manager",
    "nvswitch": "NVSwitch driver",
    "imex": "IMEX",
    "amdgpu": "AMD GPUs",
    "pcie": "PCIe",
    "mce": "Machine checks",
    "edac": "Host memory (EDAC)",
    "cper": "Firmware error records (CPER)",
    "ib": "Network adapters and links",
    "nvme": "NVMe drives",
    "kernel": "Linux kernel",
    "nfs": "NFS",
    "lustre": "Lustre",
    "mount": "Mounted file systems",
    "power": "Power",
    "thermal": "Temperature",
    "bmc": "Baseboard controller",
    "nccl": "Collective communication",
    "cuda": "CUDA errors in a job's output",
    "app": "A job's own output",
    "slurm": "Slurm",
    "k8s": "Kubernetes",
    "gpu": "Conditions of a GPU",
    "node": "Conditions of a node",
    "agent": "The node agent on its own work",
    "service": "Services on a node",
    "nic": "Conditions of a network adapter",
    "config": "Configuration",
}
"""Families in the page's order; codes without a dot are classes of episodes and come last."""

CLASSES = "Classes of episodes"

INTRODUCTION = """\
# Faults

Every fault bigiron knows, by family: {count} entries. The data is in `src/bigiron/faults/*.toml`;
`python -m bigiron.faults CODE` prints one entry whole: what to look at next, which codes it
follows from, what ends it, and what other tools do. A file of your own, named by
`faults = ["site.toml"]` in bigiron.toml, adds entries or changes them; of a known code it gives
only what differs:

```toml
[[fault]]
code = "xid.63"
action = "drain"
action_why = "Here a GPU that remaps a row is tested before its next job."
```

*Action* is what is asked for by default, and when: `job_end` waits for the running job. *Published*
is the vendor's own word for it (NVIDIA's immediate action, DCGM's severity).
"""


def markdown(catalogue: Catalogue) -> str:
    """The page. Same catalogue, same bytes."""
    parts = [INTRODUCTION.format(count=len(catalogue)), _sources(catalogue)]
    for title, faults in _families(catalogue):
        parts.append(f"## {title}\n\n{_table(faults)}")
    parts.append(_reasons(catalogue))
    return "\n".join(parts)


def text(fault: Fault, catalogue: Catalogue) -> str:
    """One entry, for a terminal."""
    source = catalogue.sources[fault.source]
    lines = [f"{fault.code}  {fault.name}", "", f"  {fault.meaning}", ""]
    rows = {
        "severity": fault.severity,
        "blame": fault.blame,
        "action": _action(fault),
        "because": fault.action_why,
        "published": fault.bucket,
        "mnemonic": fault.mnemonic,
        "look at": "; ".join(fault.look),
        "follows": ", ".join(fault.follows),
        "others": "; ".join(fault.others),
        "ends with": _clears(fault),
        "source": f"{source.title} ({fault.date}), {source.where}",
    }
    lines += [f"  {name:<10} {value}" for name, value in rows.items() if value]
    return "\n".join(lines) + "\n"


def _families(catalogue: Catalogue) -> Iterator[tuple[str, list[Fault]]]:
    by_family: dict[str, list[Fault]] = {}
    for fault in catalogue:
        family = fault.code.partition(".")[0] if "." in fault.code else ""
        by_family.setdefault(family, []).append(fault)
    for family in [*FAMILIES, *sorted(set(by_family) - set(FAMILIES) - {""}), ""]:
        if family in by_family:
            title = f"{FAMILIES.get(family, family)} (`{family}.`)" if family else CLASSES
            yield title, sorted(by_family[family], key=_order)


def _order(fault: Fault) -> list[tuple[int, int, str]]:
    """``xid.9`` before ``xid.79``, numbers before words."""
    key = []
    for part in fault.code.split("."):
        digits = part.removeprefix("r") if part.startswith("r") else part
        number = int(digits, 16 if digits.startswith("0x") else 10) if _number(digits) else 0
        key.append((0 if _number(digits) else 1, number, part))
    return key


def _number(word: str) -> bool:
    return word.isdigit() or word.startswith("0x")


def _table(faults: Iterable[Fault]) -> str:
    lines = [
        "| Code | Fault | Severity | Blame | Action | Published |",
        "|---|---|---|---|---|---|",
    ]
    for fault in faults:
        what = f"**{_cell(fault.name)}.** {_cell(fault.meaning)}"
        cells = (f"`{fault.code}`", what, fault.severity, fault.blame, _action(fault), fault.bucket)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _reasons(catalogue: Catalogue) -> str:
    lines = [
        "## Where published actions differ",
        "",
        "The reason for bigiron's default, and what others do.",
        "",
        "| Code | Published | Action | Why | Others |",
        "|---|---|---|---|---|",
    ]
    for _, faults in _families(catalogue):
        for fault in faults:
            if fault.action_why or fault.others:
                cells = (
                    f"`{fault.code}`",
                    fault.bucket,
                    _action(fault),
                    _cell(fault.action_why),
                    _cell("; ".join(fault.others)),
                )
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _sources(catalogue: Catalogue) -> str:
    used = {fault.source for fault in catalogue}
    lines = ["## Sources", "", "| Key | Title | Read | Where |", "|---|---|---|---|"]
    for key, source in sorted(catalogue.sources.items()):
        if key in used:
            lines.append(f"| {key} | {source.title} | {source.date} | {_cell(source.where)} |")
    return "\n".join(lines) + "\n"


def _action(fault: Fault) -> str:
    if fault.action is ActionKind.NONE:
        return "none"
    return f"{fault.action}, {fault.when}"


def _clears(fault: Fault) -> str:
    if fault.clears == "quiet":
        hours = fault.quiet_s / 3600
        return f"{hours:g} hour{'s' if hours != 1 else ''} without another"
    return {"reboot": "a restart", "reset": "a reset or restart", "person": "a person's word"}[
        fault.clears
    ]


def _cell(words: str) -> str:
    return words.replace("|", "\\|")
