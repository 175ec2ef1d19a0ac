"""How fast exporter pages are read, beside prometheus_client's parser in the same run.

    python bench/openmetrics.py [--seconds 2]

Bytes in, floats out: one array of canonical values, NaN for blanks, aligned to resolved series
(metric, node, device). Every value differs from one scrape to the next. "first sight" reads each
page with a parser that has seen none; "repeated" is a target scraped again and again. Time is
processor time of this one thread.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence

from prometheus_client.parser import text_string_to_metric_families

from bigiron import signals
from bigiron.ingest.openmetrics_page import PageParser

VARIANTS = 8
NODE_NAMES = (
    ("node_cpu_seconds_total", ('cpu="{0}",mode="idle"', 8 * 96)),
    ("node_cpu_frequency_hertz", ('cpu="{0}"', 96)),
    ("node_infiniband_port_data_received_bytes_total", ('device="mlx5_{0}",port="1"', 8)),
    ("node_infiniband_symbol_error_total", ('device="mlx5_{0}",port="1"', 8)),
    ("node_infiniband_link_downed_total", ('device="mlx5_{0}",port="1"', 8)),
    ("node_infiniband_state_id", ('device="mlx5_{0}",port="1"', 8)),
    ("node_hwmon_temp_celsius", ('chip="platform_coretemp_0",sensor="temp{0}"', 64)),
    ("node_network_receive_bytes_total", ('device="eth{0}"', 200)),
    ("node_network_carrier_changes_total", ('device="eth{0}"', 200)),
    ("node_disk_io_time_seconds_total", ('device="nvme{0}n1"', 16)),
    ("node_filesystem_avail_bytes", ('device="/dev/md{0}",fstype="xfs",mountpoint="/data{0}"', 60)),
)


def dcgm_names(count: int) -> list[str]:
    """The first ``count`` names dcgm-exporter may write, one a signal."""
    names = [
        one.name
        for signal in signals.SIGNALS.values()
        for one in signal.sources.get("dcgm", ())[:1]
        if one.name.startswith("DCGM_FI_")
    ]
    return names[:count]


def dcgm_page(seed: int, node: str = "n001", gpus: int = 8, metrics: int = 60) -> bytes:
    """A page of dcgm-exporter on Kubernetes."""
    rng = random.Random(seed)
    lines: list[str] = []
    for name in dcgm_names(metrics):
        lines += (f"# HELP {name} A field of DCGM.", f"# TYPE {name} gauge")
        for gpu in range(gpus):
            labels = (
                f'gpu="{gpu}",UUID="GPU-{gpu:08x}-0000-4000-8000-{hash_of(node):012x}",'
                f'pci_bus_id="00000000:{gpu + 16:02X}:00.0",device="nvidia{gpu}",'
                f'modelName="NVIDIA H100 80GB HBM3",Hostname="{node}",'
                'DCGM_FI_DRIVER_VERSION="570.86.15",container="",namespace="",pod=""'
            )
            lines.append(f"{name}{{{labels}}} {rng.uniform(0, 2000):.6f}")
    return ("\n".join(lines) + "\n").encode()


def hash_of(node: str) -> int:
    """A number that differs from node to node and not from run to run."""
    return int.from_bytes(node.encode()) % (1 << 48)


def node_page(seed: int) -> bytes:
    """A page of node_exporter on a large host: about 1,450 series, a quarter of them catalogued."""
    rng = random.Random(seed)
    lines: list[str] = []
    for name, (labels, count) in NODE_NAMES:
        lines += (f"# HELP {name} Of the host.", f"# TYPE {name} counter")
        lines += (f"{name}{{{labels.format(i)}}} {rng.randrange(10**9)}" for i in range(count))
    return ("\n".join(lines) + "\n").encode()


def large_page(seed: int) -> bytes:
    """About 1 MB: pages of several nodes behind one address."""
    return b"".join(dcgm_page(seed + n, node=f"n{n:03d}") for n in range(6))


def rate(run: Callable[[int], int], seconds: float) -> float:
    """Samples a second of processor time, over at least ``seconds``."""
    run(0)
    count, turn = 0, 0
    start = time.process_time()
    while (spent := time.process_time() - start) < seconds:
        turn += 1
        count += run(turn)
    return count / spent


def measure(pages: Sequence[bytes], seconds: float) -> dict[str, float]:
    """Rates of each way of reading ``pages``, the variants of one target's page."""
    parser = PageParser()
    plain = PageParser(vector=False)

    def client(turn: int) -> int:
        text = pages[turn % len(pages)].decode()
        return sum(len(family.samples) for family in text_string_to_metric_families(text))

    return {
        "repeated": rate(lambda n: parser.parse(pages[n % len(pages)]).counts.lines, seconds),
        "repeated, no numpy": rate(
            lambda n: plain.parse(pages[n % len(pages)]).counts.lines, seconds
        ),
        "first sight": rate(
            lambda n: PageParser().parse(pages[n % len(pages)]).counts.lines, seconds
        ),
        "prometheus_client": rate(client, seconds),
    }


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=2.0)
    seconds = arguments.parse_args().seconds
    made: tuple[tuple[str, Callable[[int], bytes]], ...] = (
        ("dcgm-exporter, 8 GPUs x 60", dcgm_page),
        ("node_exporter", node_page),
        ("1 MB, 6 nodes", large_page),
    )
    print(f"{'page':28}{'bytes':>10}{'series':>8}{'used':>7}  samples/s: ", end="")
    print(f"{'repeated':>12}{'no numpy':>12}{'first sight':>13}{'prometheus_client':>19}")
    for title, make in made:
        pages = [make(1000 * variant) for variant in range(VARIANTS)]
        page = PageParser().parse(pages[0])
        rates = measure(pages, seconds)
        print(
            f"{title:28}{len(pages[0]):>10,}{page.counts.lines:>8,}{len(page.values):>7,}", end=""
        )
        widths = (25, 12, 13, 19)
        print("".join(f"{r:>{w},.0f}" for r, w in zip(rates.values(), widths, strict=True)))


if __name__ == "__main__":
    main()
