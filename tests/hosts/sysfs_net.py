"""Adapters of a host: InfiniBand and RoCE devices, their ports and network interfaces."""

from dataclasses import dataclass, field

from tests.hosts.sysfs_tree import Tree

PMA = (
    *("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors"),
    *("port_xmit_discards", "local_link_integrity_errors", "excessive_buffer_overrun_errors"),
    *("port_rcv_constraint_errors", "port_xmit_constraint_errors", "VL15_dropped"),
    *("port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_wait"),
    *("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets"),
)
ROCE_PMA = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets")
MLX5 = (
    *("rnr_nak_retry_err", "out_of_sequence", "packet_seq_err", "local_ack_timeout_err"),
    *("implied_nak_seq_err", "duplicate_request", "req_cqe_error", "resp_cqe_error"),
)
MLX5_ROCE = (*MLX5, "roce_slow_restart", "rx_icrc_encapsulated", "np_cnp_sent", "rp_cnp_handled")
BNXT = ("rx_bytes", "tx_bytes", "rx_pkts", "tx_pkts", "seq_err_naks_rcvd", "rnr_naks_rcvd")


@dataclass
class Rdma:
    """One adapter and its single port."""

    name: str
    netdev: str
    gbps: int
    speed: str  # as the rate's end: NDR, HDR ...
    board: str = "MT_0000000838"
    model: str = "MT4129"
    firmware: str = "28.43.1014"
    ethernet: bool = False
    mtu: int = 4092
    moved: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    hw: tuple[str, ...] = MLX5
    gids: int = 2
    heat: tuple[int, int] | None = None  # of the chip and the module, celsius


def rdma(tree: Tree, folder: str, number: int, one: Rdma) -> None:
    """The adapter below its PCI folder."""
    at = f"{folder}/infiniband/{one.name}"
    guid = f"a088:c203:00{number:02x}:7e10"
    tree.puts(
        at,
        {
            "fw_ver": one.firmware,
            "board_id": one.board,
            "hca_type": one.model,
            "node_guid": guid,
            "node_desc": f"node HCA-{number + 1}",
            "ports/1/state": "4: ACTIVE",
            "ports/1/phys_state": "5: LinkUp",
            "ports/1/rate": f"{one.gbps} Gb/sec ({4 if one.gbps > 100 else 1}X {one.speed})",
            "ports/1/link_layer": "Ethernet" if one.ethernet else "InfiniBand",
        },
    )
    told = {"port_xmit_data": one.moved, "port_rcv_data": one.moved * 101 // 100} | one.counts
    pma = () if one.hw is BNXT else ROCE_PMA if one.ethernet else PMA
    tree.puts(f"{at}/ports/1/counters", {name: told.get(name, 0) for name in pma})
    traffic = {"rx_bytes": one.moved, "tx_bytes": one.moved}
    tree.puts(f"{at}/ports/1/hw_counters", {n: told.get(n, traffic.get(n, 0)) for n in one.hw})
    for gid in range(one.gids + 2):
        used = f"fe80:0000:0000:0000:{guid[:-1]}{gid}" if gid < one.gids else ":".join(["0000"] * 8)
        tree.put(f"{at}/ports/1/gids/{gid}", used)
    tree.link(f"/sys/class/infiniband/{one.name}", at)
    tree.link(f"{at}/device", folder)
    kind = 1 if one.ethernet else 32
    netdev(tree, folder, one.netdev, one.gbps * 1000, mtu=one.mtu, kind=kind, changes=2)
    if one.heat is not None:
        chip, module = one.heat
        hwmon = f"{folder}/hwmon/hwmon{number}"
        tree.puts(
            hwmon,
            {
                "name": "mlx5",
                "temp1_input": chip * 1000,
                "temp1_label": "asic",
                "temp2_input": module * 1000,
                "temp2_label": "Module0",
            },
        )
        tree.link(f"/sys/class/hwmon/hwmon{number}", hwmon)


def netdev(
    tree: Tree, folder: str, name: str, mbps: int, *, mtu: int, kind: int = 1, changes: int = 1
) -> None:
    """A network interface below its PCI folder; ``kind`` 1 is Ethernet, 32 InfiniBand."""
    at = f"{folder}/net/{name}"
    tree.puts(
        at,
        {
            "operstate": "up",
            "speed": mbps,
            "mtu": mtu,
            "type": kind,
            "flags": "0x1003",
            "dev_port": 0,
            "carrier_changes": changes,
        },
    )
    tree.link(f"{at}/device", folder)
    tree.link(f"/sys/class/net/{name}", at)
