"""Why jobs are interrupted: published counts, and the classes of ours they are played as."""

LLAMA3_TABLE5 = (
    ("faulty GPU", 148, {"gpu_off_bus": 0.5, "nvlink_fail": 0.15, "nvlink_errors": 0.1,
                         "pcie_replay": 0.1, "driver_hang": 0.15}),
    ("GPU HBM3 memory", 72, {"hbm_uncorrectable": 0.7, "hbm_correctable": 0.18,
                             "hbm_remap": 0.12}),
    ("software bug", 54, {"unattributed_failure": 1.0}),
    ("network switch or cable", 35, {"ib_link_down": 0.6, "ib_errors": 0.4}),
    ("unplanned host maintenance", 32, {"node_crash": 0.4, "unattributed_failure": 0.6}),
    ("GPU SRAM memory", 19, {"hbm_uncorrectable": 1.0}),
    ("GPU system processor", 17, {"gsp_timeout": 1.0}),
    ("NIC", 7, {"ib_link_down": 1.0}),
    ("NCCL watchdog timeouts", 7, {"unattributed_failure": 1.0}),
    ("silent data corruption", 6, {"unattributed_failure": 1.0}),
    ("GPU thermal interface and sensor", 6, {"thermal_degradation": 1.0}),
    ("SSD", 3, {"node_crash": 1.0}),
    ("power supply", 3, {"power_brake": 1.0}),
    ("server chassis", 2, {"fan_failure": 1.0}),
    ("IO expansion board", 2, {"pcie_replay": 1.0}),
    ("dependency", 2, {"unattributed_failure": 1.0}),
    ("CPU", 2, {"node_crash": 1.0}),
    ("system memory", 2, {"node_crash": 1.0}),
)  # fmt: skip
"""(component, count, {class: share}): the 419 unexpected interruptions in 54 days of Llama 3's
training (arXiv 2407.21783, Table 5); the shares are ours."""


def failure_mix() -> dict[str, float]:
    """Share of the failures by class."""
    mix: dict[str, float] = {}
    total = sum(count for _, count, _ in LLAMA3_TABLE5)
    for _, count, shares in LLAMA3_TABLE5:
        for kind, share in shares.items():
            mix[kind] = mix.get(kind, 0.0) + share * count / total
    return dict(sorted(mix.items()))
