"""A real Prometheus on loopback that scrapes the simulated exporters, where one is installed."""

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
    """Runs while the ``with`` block does. Raises NoData where Prometheus is not installed."""

    def __init__(self, folder: Path, page_port: int, names: tuple[str, ...], every_s: int) -> None:
        self._program = shutil.which("prometheus")
        if self._program is None:
            raise NoData("prometheus: not installed")
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
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    str(self._program),
                    f"--config.file={self._folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1):  # noqa: S310
                    return self
            except (urllib.error.URLError, OSError):
                if self._process.poll() is not None:
                    break
                time.sleep(0.1)
        self.__exit__(None, None, None)
        raise Permanent(f"prometheus did not start: see {self._folder / 'prometheus.log'}")

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
