"""Samples through a real Prometheus and a real VictoriaMetrics, started here on loopback."""

import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.system.need import need

from bigiron.ingest.prometheus import PrometheusSource
from bigiron.model import Batch, Sample

NODES = ("alpha01", "alpha02", "alpha03", "alpha04")
PAGE = """# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-{n}-0",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="{node}",DCGM_FI_DRIVER_VERSION="570.1.2"}} {temp}
DCGM_FI_DEV_GPU_TEMP{{gpu="1",UUID="GPU-{n}-1",pci_bus_id="00000000:2A:00.0",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",Hostname="{node}",DCGM_FI_DRIVER_VERSION="570.1.2"}} 50
DCGM_FI_DEV_MEMORY_TEMP{{gpu="0",UUID="GPU-{n}-0",Hostname="{node}"}} 9223372036854775794
DCGM_FI_DEV_SM_CLOCK{{gpu="0",UUID="GPU-{n}-0",Hostname="{node}"}} 1980
DCGM_FI_DEV_FB_USED{{gpu="0",UUID="GPU-{n}-0",Hostname="{node}"}} 1024
node_infiniband_state_id{{device="mlx5_0",port="1"}} 4
node_load1 NaN
something_else 1
"""  # noqa: E501


class Exporter:
    """One node's exporter; its temperature is its count of scrapes."""

    def __init__(self, number: int) -> None:
        exporter = self
        self.node = NODES[number]
        self.scrapes = 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                exporter.scrapes += 1
                page = PAGE.format(node=exporter.node, n=number, temp=exporter.scrapes)
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(page.encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def exporters() -> Iterator[list[Exporter]]:
    running = [Exporter(number) for number in range(len(NODES))]
    yield running
    for exporter in running:
        exporter.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def prometheus(folder: Path, port: int) -> list[str]:
    return [
        "prometheus",
        f"--config.file={folder}/scrape.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]


def victoria_metrics(folder: Path, port: int) -> list[str]:
    return [
        "victoria-metrics",
        f"-promscrape.config={folder}/scrape.yml",
        f"-storageDataPath={folder}/data",
        f"-httpListenAddr=127.0.0.1:{port}",
        "-selfScrapeInterval=0",
    ]


def wait_for(what: str, true: Callable[[], bool], timeout_s: float = 30.0) -> None:
    end = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end, f"waited {timeout_s:g} s for {what}"
        time.sleep(0.1)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1.0) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture(params=[prometheus, victoria_metrics], ids=["prometheus", "victoria-metrics"])
def server(
    request: pytest.FixtureRequest, tmp_path: Path, exporters: list[Exporter]
) -> Iterator[str]:
    command: Callable[[Path, int], list[str]] = request.param
    port = free_port()
    argv = command(tmp_path, port)
    need(argv[0])
    targets = ", ".join(f"'{exporter.address}'" for exporter in exporters)
    (tmp_path / "scrape.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        "scrape_configs:\n"
        f"- {{job_name: dcgm, static_configs: [{{targets: [{targets}]}}]}}\n"
        f"- {{job_name: server, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}\n"
    )
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            health = f"http://127.0.0.1:{port}/api/v1/query?query=1"
            wait_for(f"{argv[0]} to answer", lambda: answers(health))
            wait_for("three scrapes", lambda: min(e.scrapes for e in exporters) >= 3)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=20)


def only(batch: Batch, metric: str, node: str, device: str) -> list[Sample]:
    return [
        one for one in batch.samples if (one.metric, one.node, one.device) == (metric, node, device)
    ]


@pytest.mark.system
def test_samples_arrive_under_their_names_and_at_their_times(server: str) -> None:
    source = PrometheusSource(server, every_s=1.0, lookback_s=30.0)
    before = datetime.now(UTC)
    batch, cursor = source.poll("")
    for number, node in enumerate(NODES):
        temps = only(batch, "gpu_temp_celsius", node, "gpu0")
        assert len(temps) >= 2
        values = [one.value for one in temps]
        assert values == sorted(set(values)), "each scrape counted once, in order"
        for one in temps:
            assert one.time is not None
            assert before - timedelta(seconds=40) < one.time <= before + timedelta(seconds=2)
        assert {one.value for one in only(batch, "gpu_sm_clock_hertz", node, "gpu0")} == {1.98e9}
        assert {o.value for o in only(batch, "gpu_memory_used_bytes", node, "gpu0")} == {2.0**30}
        assert {one.value for one in only(batch, "ib_state", node, "mlx5_0")} == {1.0}
        assert {one.value for one in only(batch, "node_scrape_up", node, "dcgm")} == {1.0}
        assert only(batch, "node_scrape_duration_seconds", node, "dcgm")
        assert not only(batch, "gpu_memory_temp_celsius", node, "gpu0"), "a blank is no sample"
        ids = {one.name: one.id for one in batch.devices if one.node == node}
        assert ids == {"gpu0": f"GPU-{number}-0", "gpu1": f"GPU-{number}-1"}
    assert {one.node for one in batch.samples} == set(NODES), "the server itself is no node"
    assert {(one.name, one.value) for one in batch.facts} == {("driver_version", "570.1.2")}

    time.sleep(2.2)
    later, after = source.poll(cursor)
    assert float(after) > float(cursor)
    first = {(s.metric, s.node, s.device, s.time) for s in batch.samples}
    second = [(s.metric, s.node, s.device, s.time) for s in later.samples]
    assert len(second) == len(set(second))
    assert not first & set(second), "nothing is answered twice"
    assert only(later, "gpu_temp_celsius", "alpha01", "gpu0")

    with closing(PrometheusSource(server, lookback_s=30.0)) as fresh:
        again, _ = fresh.poll(cursor)
    assert min(one.time for one in again.samples if one.time).timestamp() > float(cursor)
    source.close()


@pytest.mark.system
def test_a_dead_exporter_is_seen_and_its_series_end(server: str, exporters: list[Exporter]) -> None:
    source = PrometheusSource(server, every_s=1.0, lookback_s=30.0)
    batch, cursor = source.poll("")
    assert only(batch, "gpu_temp_celsius", "alpha03", "gpu0")
    exporters[2].server.shutdown()
    exporters[2].server.server_close()
    died = datetime.now(UTC)
    seen: list[Sample] = []

    def noticed() -> bool:
        nonlocal cursor
        batch, cursor = source.poll(cursor)
        seen.extend(batch.samples)
        return any(
            (one.node, one.metric, one.value) == ("alpha03", "node_scrape_up", 0.0) for one in seen
        )

    wait_for("node_scrape_up to be 0", noticed)
    late = [
        one
        for one in seen
        if one.metric.startswith("gpu_")
        and one.node == "alpha03"
        and one.time
        and one.time > died + timedelta(seconds=1)
    ]
    assert late == [], "a dead exporter's last value is not repeated"

    with closing(PrometheusSource(server, lookback_s=30.0)) as fresh:
        restarted, _ = fresh.poll("")
    down = only(restarted, "node_scrape_up", "alpha03", "dcgm")
    assert down[-1].value == 0.0, "still known by its node's name"
    source.close()


@pytest.mark.system
def test_history_is_what_was_scraped(server: str) -> None:
    source = PrometheusSource(server)
    end = datetime.now(UTC)
    batches = list(source.range(end - timedelta(seconds=30), end, 1.0))
    temps = [s for batch in batches for s in only(batch, "gpu_temp_celsius", "alpha02", "gpu0")]
    assert len(temps) >= 2
    thinned = list(source.range(end - timedelta(seconds=30), end, 60.0))
    assert sum(len(only(b, "gpu_temp_celsius", "alpha02", "gpu0")) for b in thinned) <= 2
    source.close()
