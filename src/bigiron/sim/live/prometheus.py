"""A real Prometheus or VictoriaMetrics on loopback that scrapes the simulated exporters."""

import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from bigiron.errors import NoData, Permanent

READY_S = 15.0


class Prometheus:
    """Runs while the ``with`` block does. Raises NoData where ``program`` is not installed."""

    def __init__(
        self,
        folder: Path,
        page_port: int,
        names: tuple[str, ...],
        every_s: int,
        program: str = "prometheus",
    ) -> None:
        self._program = shutil.which(program)
        if self._program is None:
            raise NoData(f"{program}: not installed")
        self._folder = folder
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prometheus.yml").write_text(_config(page_port, names, every_s), "utf-8")

    @property
    def url(self) -> str:
        """Where it is asked."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> "Prometheus":
        with (self._folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            try:
                ready = f"{self.url}/api/v1/query?query=1"
                with urllib.request.urlopen(ready, timeout=1):  # noqa: S310
                    return self
            except (urllib.error.URLError, OSError):
                if self._process.poll() is not None:
                    break
                time.sleep(0.1)
        self.__exit__(None, None, None)
        raise Permanent(f"{self._program} did not start: see {self._folder / 'server.log'}")

    def _command(self) -> list[str]:
        config, data = self._folder / "prometheus.yml", self._folder / "data"
        address = f"127.0.0.1:{self._port}"
        if Path(str(self._program)).name.startswith("victoria"):
            return [
                str(self._program),
                f"-promscrape.config={config}",
                f"-storageDataPath={data}",
                f"-httpListenAddr={address}",
                "-selfScrapeInterval=0",
                "-search.latencyOffset=0s",
            ]
        return [
            str(self._program),
            f"--config.file={config}",
            f"--storage.tsdb.path={data}",
            f"--web.listen-address={address}",
        ]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _config(port: int, names: tuple[str, ...], every_s: int) -> str:
    """One job an exporter kind; each node is a target with its own path and instance name."""
    lines = ["global:", f"  scrape_interval: {every_s}s", f"  scrape_timeout: {every_s}s"]
    lines.append("scrape_configs:")
    for job, which in (("dcgm-exporter", "dcgm"), ("node-exporter", "node")):
        lines += [f"- job_name: {job}", "  static_configs:"]
        for name in names:
            lines += [
                f"  - targets: ['127.0.0.1:{port}']",
                f"    labels: {{instance: {name}, __metrics_path__: /{name}/{which}}}",
            ]
    return "\n".join(lines) + "\n"
