"""Exporters on the node: scraped on loopback, named by UUID and bus, missed when they die."""

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.collected import HOSTS, NAMES, captured, events, facts, golden, lines, samples

from bigiron.collect import Seen, page_fetch
from bigiron.collect.exporters import INVENTORY, SCRAPED, STRANGER_S, TARGETS, Target, exporters
from bigiron.collect.page_fetch import fetch
from bigiron.errors import NoData, Permanent, Temporary
from bigiron.host import Host
from bigiron.ingest.openmetrics_page import PageParser
from bigiron.model import Device, Note

HAVE = tuple(name for name in NAMES if (HOSTS / name / "bigiron/exporters").is_dir())
PAGE = (HOSTS / "h100x8/bigiron/exporters/dcgm.prom").read_bytes()
Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


class Server:
    """A server on loopback that answers as it is told."""

    def __init__(self) -> None:
        self.page = PAGE
        self.status = 200
        self.answer: Answer | None = None
        self.asked: list[str] = []
        own = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                own.asked.append(f"{self.request_version} {self.path} {self.headers['Accept']}")
                if own.answer is not None:
                    own.answer(self)
                    return
                self.send_response(own.status)
                self.send_header("Content-Length", str(len(own.page)))
                self.end_headers()
                self.wfile.write(own.page)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                del format, args

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/metrics"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def asking(url: str, host: Host | None = None, expected: bool = True, job: str = "dcgm") -> Host:
    host = host or captured("h100x8")
    host.handles[TARGETS] = (Target(job, url, expected),)
    return host


def look(host: Host) -> list[Seen]:
    """One look, without how long it took."""
    return [one for one in exporters(host) if "duration" not in getattr(one, "metric", "")]


@pytest.mark.parametrize("name", HAVE)
def test_what_it_says_of_captured_hosts(name: str) -> None:
    golden(look, "exporters", name)


@pytest.mark.parametrize("name", sorted({*NAMES} - {*HAVE}))
def test_a_host_without_an_exporter_has_no_data(name: str) -> None:
    with pytest.raises(NoData):
        look(captured(name))


def test_captured_are_exporters_of_both_vendors_and_mig() -> None:
    assert {"h100x8", "a100x8-mig", "mi300xx8"} <= set(HAVE)


@pytest.mark.parametrize("name", HAVE)
def test_a_page_from_loopback_is_the_same(server: Server, name: str) -> None:
    (page,) = (HOSTS / name / "bigiron/exporters").iterdir()
    server.page = page.read_bytes()
    assert lines(look(asking(server.url, captured(name), job=page.stem))) == lines(
        look(captured(name))
    )
    assert server.asked[0].startswith("HTTP/1.0 /metrics application/openmetrics-text")


def test_what_every_gpu_has_is_left_to_the_exporter(server: Server) -> None:
    host = asking(server.url)
    look(host)
    scraped = host.handles[SCRAPED]
    assert {"gpu_temp_celsius", "gpu_power_watts", "pcie_replay_total"} & scraped
    assert not [name for name in scraped if "nvlink" in name], "a sum says nothing of a link"
    assert not [name for name in scraped if name.startswith("node_")]
    server.page = b"".join(
        line + b"\n"
        for line in PAGE.splitlines()
        if not (line.startswith(b"DCGM_FI_DEV_GPU_TEMP{") and b'gpu="3"' in line)
    )
    look(host)
    assert host.handles[SCRAPED] == scraped - {"gpu_temp_celsius"}, "one GPU lacks it: ask them all"
    server.page = PAGE.replace(b"} 118.25\n", b"} 9223372036854775794\n")
    look(host)
    assert "gpu_power_watts" not in host.handles[SCRAPED], "what it marks as unknown is asked for"


def test_devices_and_facts_are_told_where_wanted_once_and_when_labels_change(
    server: Server,
) -> None:
    host = asking(server.url)
    assert not facts(look(host)), "the driver's own collector tells them"
    host = asking(server.url)
    host.handles[INVENTORY] = True
    seen = look(host)
    devices = [one for one in seen if isinstance(one, Device)]
    assert len(devices) == 8
    assert devices[0].id.startswith("GPU-")
    assert devices[0].bus == "0000:19:00.0"
    assert facts(seen)["", "driver_version"] == "570.124.06"
    assert facts(look(host)) == {}
    server.page = PAGE.replace(b"570.124.06", b"580.1.1")
    assert facts(look(host))["", "driver_version"] == "580.1.1"


def test_a_gpu_goes_by_its_bus_whatever_the_exporter_numbers_it(server: Server) -> None:
    server.page = PAGE.replace(b'gpu="0"', b'gpu="x"').replace(b'gpu="1"', b'gpu="0"')
    server.page = server.page.replace(b'gpu="x"', b'gpu="1"').replace(b'"nvidia', b'"n')
    page = b'DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-z",pci_bus_id="00000000:19:00.0"} 99\n'
    host = asking(server.url)
    host.handles[INVENTORY] = True
    seen = look(host)
    first = next(one for one in seen if isinstance(one, Device) and one.name == "gpu0")
    assert first.bus == "0000:19:00.0"
    server.page = page
    assert samples(look(asking(server.url)))["gpu0", "gpu_temp_celsius"] == 99


def test_an_exporter_that_dies_is_missed_and_the_drivers_are_asked_again(server: Server) -> None:
    host = asking(server.url, expected=False)
    assert samples(look(host))["dcgm", "node_scrape_up"] == 1
    server.status = 503
    seen = look(host)
    assert (events(seen), samples(seen)) == ([], {("dcgm", "node_scrape_up"): 0.0})
    assert host.handles[SCRAPED] == frozenset()
    assert events(look(host)) == [("node.exporter_down", "")]
    assert events(look(host)) == [], "told once while it lasts"
    server.status = 200
    assert samples(look(host))["dcgm", "node_scrape_up"] == 1
    assert host.handles[SCRAPED]
    server.close()
    look(host)
    assert events(look(host)) == [("node.exporter_down", "")]


def test_a_named_exporter_that_never_was_there_is_missed() -> None:
    host = asking("http://127.0.0.1:1/metrics")
    assert samples(look(host)) == {("dcgm", "node_scrape_up"): 0.0}
    assert events(look(host)) == [("node.exporter_down", "")]


def test_somebody_elses_server_on_the_port_is_no_exporter(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for page in (b"<html>hello</html>", b"process_cpu_seconds_total 1\n", b"node_load1 2\n", b""):
        server.page = page
        host = asking(server.url, expected=False)
        with pytest.raises(NoData):
            look(host)
        before = len(server.asked)
        with pytest.raises(NoData):
            look(host)
        assert len(server.asked) == before, "not asked again for a while"
    later = time.monotonic() + STRANGER_S + 1
    monkeypatch.setattr("bigiron.collect.exporters.monotonic", lambda: later)
    server.page = PAGE
    assert samples(look(host))


def test_what_is_not_used_is_told_when_it_changes(server: Server) -> None:
    server.page = PAGE + b"site_thing 1\n"
    host = asking(server.url)
    assert [one.count for one in look(host) if isinstance(one, Note)]
    assert not [one for one in look(host) if isinstance(one, Note)]


def test_nobody_who_listens_is_no_data_and_no_address_a_mistake() -> None:
    with pytest.raises(NoData, match="nobody listens"):
        fetch("http://127.0.0.1:1/metrics", timeout_s=1)
    for url in (
        "https://127.0.0.1/",
        "127.0.0.1:9400",
        "http://",
        "http://[::1",
        "http://a:b/",
        "http://x/\n",
    ):
        with pytest.raises(Permanent, match="not an address"):
            fetch(url, timeout_s=1)


def test_a_page_has_a_deadline_and_a_limit(server: Server) -> None:
    stop = threading.Event()

    def drip(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not stop.wait(0.02):
            handler.wfile.write(b"#\n")

    server.answer = drip
    start = time.monotonic()
    with pytest.raises(Temporary, match=r"no answer in 0\.3 s"):
        fetch(server.url, timeout_s=0.3)
    assert time.monotonic() - start < 2
    stop.set()
    server.answer = None
    with pytest.raises(Permanent, match="larger than 1,000 bytes"):
        fetch(server.url, timeout_s=5, limit_bytes=1000)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort", Temporary),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
            Permanent,
        ),
        (b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n", Permanent),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", Permanent),
        (b"HTTP/1.1 500 Oops\r\n\r\n", Temporary),
        (b"HTTP/1.1 200 OK\r\nX: y", Temporary),
        (b"SSH-2.0-x\r\n\r\n", Temporary),
        (b"", Temporary),
    ],
)
def test_an_answer_that_is_no_page_says_why(
    server: Server, said: bytes, error: type[Exception]
) -> None:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.wfile.write(said)

    server.answer = answer
    with pytest.raises(error):
        fetch(server.url, timeout_s=5)


@given(st.binary(max_size=400))
def test_no_answer_and_no_page_breaks_it(said: bytes) -> None:
    try:
        body = page_fetch._body("http://x/", said, 1000)
    except (Temporary, Permanent):
        body = said
    for page in (body, PAGE[:900] + said, said + PAGE[:900]):
        parsed = PageParser(fixed=True, vector=False).parse(page)
        assert len(parsed.values) == len(parsed.series)


def test_a_page_of_64_kb_costs_less_than_10_ms(server: Server) -> None:
    extra = [
        PAGE.replace(b"DCGM_FI_DEV_GPU_TEMP", b"DCGM_FI_DEV_GPU_TEMP" + b"X" * n) for n in range(4)
    ]
    server.page = b"".join(extra)[:64_000].rpartition(b"\n")[0] + b"\n"
    host = asking(server.url)
    look(host)
    spent = []
    for _ in range(15):
        start = time.thread_time()
        look(host)
        spent.append(time.thread_time() - start)
    assert min(spent) < 0.010


def test_reading_goes_through_the_host(tmp_path: Path) -> None:
    with pytest.raises(NoData):
        look(Host(root=tmp_path))
