"""What nine hosts' kernels last said, and the pages of the exporters and scripts that some run.

    python -m tests.hosts.make_feeds

dev/kmsg is as ``cat /dev/kmsg`` writes it, bigiron/exporters/*.prom as an exporter answers. Lines
are in the drivers' own forms (../../src/bigiron/faults names their sources), values ours. Healthy
hosts have an ordinary boot behind them; three had something happen since.
"""

import re
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

from tests.hosts.make_machine import MACHINES

from bigiron.collect.pci_tree import tree
from bigiron.host import Host

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


AMD_FIELDS = {
    "gpu_package_power": 142.0,
    "gpu_junction_temperature": 47.0,
    "gpu_memory_temperature": 41.0,
    "gpu_gfx_activity": 0.0,
    "gpu_used_vram": 285.0,
    "gpu_total_vram": 196592.0,
    "pcie_replay_count": 0.0,
    "gpu_ecc_uncorrect_total": 0.0,
    "gpu_ecc_correct_total": 0.0,
}
DCGM_FIELDS = {
    "DCGM_FI_DEV_SM_CLOCK": 1980.0,
    "DCGM_FI_DEV_MEM_CLOCK": 2619.0,
    "DCGM_FI_DEV_MEMORY_TEMP": 51.0,
    "DCGM_FI_DEV_GPU_TEMP": 38.0,
    "DCGM_FI_DEV_POWER_USAGE": 118.25,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 412345678.0,
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 0.0,
    "DCGM_FI_DEV_GPU_UTIL": 0.0,
    "DCGM_FI_DEV_XID_ERRORS": 0.0,
    "DCGM_FI_DEV_FB_FREE": 81_007.0,
    "DCGM_FI_DEV_FB_USED": 552.0,
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": 0.0,
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 0.0,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0.0,
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": 0.0,
    "DCGM_FI_PROF_DRAM_ACTIVE": 0.0,
}


def dcgm(name: str, model: str, mig: bool) -> str:
    """A page of dcgm-exporter run as a service: a GPU's fields, and of MIG instances their load."""
    gpus = [part.bus for part in tree(Host(root=HERE / name)).parts if part.kind == "gpu"]
    lines = []
    for at, (field, value) in enumerate(DCGM_FIELDS.items()):
        lines += [f"# HELP {field} A field of DCGM.", f"# TYPE {field} gauge"]
        for index, bus in enumerate(gpus):
            labels = (
                f'gpu="{index}",UUID="GPU-{uuid5(NAMESPACE_DNS, f"{name}.{(index,)}")}",'
                f'pci_bus_id="0000{bus.upper()}",device="nvidia{index}",modelName="{model}",'
                f'Hostname="{name}",DCGM_FI_DRIVER_VERSION="{MACHINES[name].driver}"'
            )
            if mig and "PROF" in field:
                lines += [
                    f'{field}{{{labels},GPU_I_PROFILE="1g.10gb",GPU_I_ID="{part}"}} {value:.6f}'
                    for part in (7, 8)
                ]
            else:
                lines.append(f"{field}{{{labels}}} {value + (index if 0 < at < 5 else 0):g}")
    return "\n".join(lines) + "\n"


def amd(name: str) -> str:
    """A page of AMD's device-metrics-exporter."""
    told = (HERE / name / "bigiron/amdsmi.json").read_text()
    serials = re.findall(r'"product_serial": "(\w+)"', told)
    lines = []
    for field, value in AMD_FIELDS.items():
        lines += [f"# HELP {field} A metric of the exporter.", f"# TYPE {field} gauge"]
        for index, serial in enumerate(serials):
            labels = (
                f'card_model="AMD Instinct MI300X OAM",driver_version="{MACHINES[name].driver}",'
                f'gpu_compute_partition_type="spx",gpu_id="{index}",gpu_memory_partition_type="nps1",'
                f'gpu_partition_id="0",hostname="{name}",serial_number="{serial}"'
            )
            lines.append(f"{field}{{{labels}}} {value:g}")
    return "\n".join(lines) + "\n"


TEXTFILES = {
    "raid.prom": "# TYPE node_hwmon_temp_celsius gauge\n"
    'node_hwmon_temp_celsius{chip="site_script",sensor="manifold"} 31.5\n',
    "site.prom": "site_last_burn_in_timestamp_seconds 1764201600\n",
}


def put(name: str, path: str, text: str) -> None:
    """A file of a host's tree."""
    file = HERE / name / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


if __name__ == "__main__":
    for host in MACHINES:
        put(host, "dev/kmsg", kmsg(host))
    put("h100x8", "bigiron/exporters/dcgm.prom", dcgm("h100x8", "NVIDIA H100 80GB HBM3", False))
    put("a100x8-mig", "bigiron/exporters/dcgm.prom", dcgm("a100x8-mig", "A100-SXM4-80GB", True))
    put("mi300xx8", "bigiron/exporters/amd.prom", amd("mi300xx8"))
    for file, page in TEXTFILES.items():
        put("h100x8", f"var/lib/node_exporter/textfile_collector/{file}", page)
