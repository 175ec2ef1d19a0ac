"""What nine hosts' kernels last said: dev/kmsg of the captured trees, as ``cat /dev/kmsg`` writes.

    python -m tests.hosts.make_feeds

Lines are in the drivers' own forms (../../src/bigiron/faults names their sources), values ours.
Healthy hosts have an ordinary boot behind them; three had something happen since.
"""

from pathlib import Path

from tests.hosts.make_machine import MACHINES

HERE = Path(__file__).parent


def of(bus: str, words: str) -> str:
    """A message of a device, with the dictionary that the kernel adds."""
    return f"{words}\n SUBSYSTEM=pci\n DEVICE=+pci:{bus}"


NVIDIA = (
    (5, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {driver}  Release Build"),
    (6, of("0000:1b:00.0", "nvidia 0000:1b:00.0: enabling device (0140 -> 0142)")),
    (6, "nvidia-uvm: Loaded the UVM driver, major device number 508."),
)
AMD = (
    (6, "[drm] amdgpu kernel modesetting enabled."),
    (6, of("0000:26:00.0", "amdgpu 0000:26:00.0: amdgpu: SMU is initialized successfully!")),
)
COMMON = (
    (5, "Linux version {kernel} (build@host) (gcc 11.4.0) #79-Ubuntu SMP"),
    (6, r"rcu: \x09RCU restricting CPUs from NR_CPUS=8192 to nr_cpu_ids=224."),
    (6, of("0000:00:01.0", "pcieport 0000:00:01.0: PME: Signaling with IRQ 34")),
    (6, "mlx5_core 0000:18:00.0: E-Switch: Total vports 10, per vport: max uc(128) max mc(2048)"),
    (30, "systemd[1]: Started Journal Service."),
)
SINCE: dict[str, tuple[tuple[int, str], ...]] = {
    "h100x8": (
        (
            4,
            "NVRM: Xid (PCI:0000:1b:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: "
            "New row (0x00000000012f8e40) marked for remapping, reset gpu to activate.",
        ),
        (
            4,
            "NVRM: Xid (PCI:0000:1b:00): 94, pid=41032, name=python3, Contained: SM (0x1). "
            "RST: No, D-RST: No",
        ),
    ),
    "mi300xx8": ((3, of("0000:26:00.0", "amdgpu 0000:26:00.0: amdgpu: GPU reset begin!")),),
    "cpu-only": (
        (4, "mce: [Hardware Error]: Machine check events logged"),
        (
            6,
            "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)",
        ),
    ),
}


def kmsg(name: str) -> str:
    """A host's ring."""
    machine = MACHINES[name]
    own = {"nvidia": NVIDIA, "amd": AMD}.get(machine.gpu, ())
    at_s = [0.0, 0.25, 1.5, 6.1, 7.0, 9.5, 9.9, 10.4]
    lines = []
    for sequence, (priority, words) in enumerate((*COMMON, *own, *SINCE.get(name, ()))):
        time_s = at_s[sequence] if sequence < len(COMMON) + len(own) else 86_400.0 + sequence
        text = words.replace("{kernel}", machine.kernel).replace("{driver}", machine.driver)
        lines.append(f"{priority},{sequence},{round(time_s * 1e6)},-;{text}\n")
    return "".join(lines)


def put(name: str, path: str, text: str) -> None:
    """A file of a host's tree."""
    file = HERE / name / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


if __name__ == "__main__":
    for host in MACHINES:
        put(host, "dev/kmsg", kmsg(host))
