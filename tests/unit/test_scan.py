"""One look: what was reached, what is too old to judge by, what a page says of it."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import bigiron
from bigiron.cli import root

NOW = datetime.now(UTC)
SRC = Path(bigiron.__file__).parent.parent
XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=7, name=train, GPU has fallen off the bus."
PAGE = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",Hostname="gpu017"} 41\n'


class Exporter(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = {"/metrics": PAGE, "/unnamed": PAGE.replace(',Hostname="gpu017"', "")}
        self.send_response(200 if self.path in page else 404)
        self.end_headers()
        self.wfile.write(page.get(self.path, "").encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Exporter) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def scan(*arguments: str) -> Result:
    result = CliRunner().invoke(root, ["scan", *arguments], standalone_mode=False)
    assert result.exception is None
    return result


def log(folder: Path, age: timedelta, nodes: int = 1) -> Path:
    at = (NOW - age).isoformat()
    path = folder / "kernel.log"
    path.write_text("".join(f"{at} gpu{n:03d} kernel: {XID}\n" for n in range(1, nodes + 1)))
    return path


def test_a_page_that_answers_makes_a_node(url: str) -> None:
    result = scan("--scrape", f"{url}/metrics")
    assert result.return_value == 0
    assert "1 healthy  gpu017" in result.stdout


def test_a_page_of_loopback_that_names_no_host_is_of_localhost(url: str) -> None:
    result = scan("--scrape", f"{url}/unnamed")
    assert "1 healthy  localhost" in result.stdout


def test_nothing_that_answers_is_nothing_reached(url: str) -> None:
    result = scan("--scrape", f"gpu017={url}/nope")
    assert result.return_value == 3
    assert "nothing answered" in result.stdout


def test_a_log_whose_every_event_is_old_does_not_make_a_healthy_node(tmp_path: Path) -> None:
    path = log(tmp_path, timedelta(days=40))
    result = scan("--kernel-log", str(path))
    assert result.return_value == 3
    assert "all of its 1 events are older than --since" in result.stdout
    assert "healthy" not in result.stdout
    assert scan("--kernel-log", str(path), "--since", "60d").return_value == 2


def test_one_look_knows_no_breaker(tmp_path: Path) -> None:
    """Everything is new in one look; that many nodes are flagged "at once" says nothing."""
    result = scan("--kernel-log", str(log(tmp_path, timedelta(hours=1), nodes=12)))
    assert result.return_value == 2
    assert "breaker:" not in result.stdout
    assert "drain it and reboot now" in result.stdout


def test_the_page_names_the_ill_and_escapes_what_a_log_says(tmp_path: Path) -> None:
    path = tmp_path / "kernel.log"
    at = (NOW - timedelta(hours=1)).isoformat()
    path.write_text(f"{at} gpu017 kernel: {XID.replace('train', '<b>train</b>')}\n")
    page = tmp_path / "scan.html"
    scan("--kernel-log", str(path), "--html", str(page))
    text = page.read_text()
    assert "1 of 1 node needs a look" in text
    assert "<b>gpu017</b>" in text
    assert "&lt;b&gt;train" in text
    assert "<b>train" not in text
    assert "Scheduler" not in text, "no column for a scheduler that was not asked"


def test_what_the_base_install_lacks_is_named(tmp_path: Path) -> None:
    """A folder before site-packages whose module of that name cannot be imported."""
    lacking = "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)\n"
    (tmp_path / "sqlalchemy.py").write_text(lacking)
    result = subprocess.run(
        [sys.executable, "-m", "bigiron", "nodes"],
        env={"PYTHONPATH": f"{tmp_path}:{SRC}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 4
    assert "Traceback" not in result.stderr
    assert "sqlalchemy" in result.stderr
    assert "bigiron[hub]" in result.stderr
