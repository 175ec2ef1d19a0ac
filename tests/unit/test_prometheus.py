"""A Prometheus server and exporters as sources, against servers on loopback that misbehave."""

import base64
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from bigiron import signals
from bigiron.errors import Permanent, Temporary
from bigiron.ingest.http_client import Access, HttpClient, mask
from bigiron.ingest.prometheus import PrometheusSource
from bigiron.ingest.prometheus_api import QUERY_BYTES, selectors
from bigiron.ingest.scrape import ScrapeSource, Target
from bigiron.model import Batch

GPU = {"__name__": "DCGM_FI_DEV_GPU_TEMP", "gpu": "0", "UUID": "GPU-1", "Hostname": "n1",
       "instance": "10.0.0.1:9400", "job": "dcgm"}  # fmt: skip
Series = tuple[dict[str, str], list[tuple[float, str]]]


@dataclass
class Reply:
    body: bytes = b""
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    form: dict[str, str]


class Server:
    """Answers every request with ``reply(asked)``."""

    def __init__(self, reply: Callable[[Asked], Reply]) -> None:
        self.asked: list[Asked] = []
        self.ahead_s = 0.0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                form = parse_qs(self.rfile.read(size).decode())
                asked = Asked(
                    self.path, dict(self.headers), {key: value[0] for key, value in form.items()}
                )
                server.asked.append(asked)
                answer = reply(asked)
                time.sleep(answer.wait_s)
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.kind)
                self.send_header("Content-Length", str(len(answer.body)))
                for key, value in answer.headers.items():
                    self.send_header(key, value)
                self.end_headers()
                try:
                    self.wfile.write(answer.body)
                except OSError:
                    server.asked.append(Asked("gone", {}, {}))

            do_POST = do_GET  # noqa: N815

            def date_time_string(self, timestamp: float | None = None) -> str:
                return super().date_time_string((timestamp or time.time()) + server.ahead_s)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.address}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serving(reply: Callable[[Asked], Reply]) -> Iterator[Server]:
    server = Server(reply)
    try:
        yield server
    finally:
        server.stop()


def success(data: object, **more: object) -> Reply:
    return Reply(json.dumps({"status": "success", "data": data, **more}).encode())


def matrix(series: list[Series]) -> dict[str, object]:
    return {
        "resultType": "matrix",
        "result": [{"metric": labels, "values": values} for labels, values in series],
    }


class Database:
    """Answers as a metrics server does, with ``series``; keeps to the window it is asked for."""

    def __init__(self, *series: Series, **more: object) -> None:
        self.series = list(series)
        self.more = more

    def __call__(self, asked: Asked) -> Reply:
        if "/label/" in asked.path:
            return success(sorted({labels["__name__"] for labels, _ in self.series}))
        if "last_over_time" in asked.form["query"]:
            return success(matrix([]))
        selector, _, window = asked.form["query"].rpartition("[")
        names = selector.split('"')[1].split("|")
        end = float(asked.form["time"])
        start = end - float(window.removesuffix("ms]")) / 1000
        found = [
            (labels, inside)
            for labels, values in self.series
            if labels["__name__"] in names
            and (inside := [value for value in values if start < value[0] <= end])
        ]
        return success(matrix(found), **self.more)


def told(batch: Batch) -> list[tuple[str, str, str, float]]:
    return [(one.node, one.device, one.metric, one.value) for one in batch.samples]


def noted(batch: Batch) -> dict[str, int]:
    return {one.what: one.count for one in batch.notes}


def test_samples_devices_and_facts() -> None:
    now = round(time.time(), 3)
    labels = {**GPU, "modelName": "H100", "pci_bus_id": "00000000:9B:00.0",
              "DCGM_FI_DRIVER_VERSION": "570.1"}  # fmt: skip
    with (
        serving(Database((labels, [(now - 20, "70"), (now - 5, "71")]))) as server,
        closing(PrometheusSource(server.url)) as source,
    ):
        batch, cursor = source.poll("")
        assert told(batch) == [
            ("n1", "gpu0", "gpu_temp_celsius", 70.0),
            ("n1", "gpu0", "gpu_temp_celsius", 71.0),
        ]
        assert float(cursor) == pytest.approx(now - 5, abs=0.001)
        assert batch.samples[1].time is not None
        assert batch.samples[1].time.timestamp() == pytest.approx(now - 5, abs=0.001)
        assert [(d.name, d.id, d.bus, d.model) for d in batch.devices] == [
            ("gpu0", "GPU-1", "0000:9b:00.0", "H100")
        ]
        assert [(f.node, f.name, f.value) for f in batch.facts] == [
            ("n1", "driver_version", "570.1")
        ]
        later, same = source.poll(cursor)
        assert (told(later), later.devices, same) == ([], (), cursor)
    assert all(one.headers.get("User-Agent") == "bigiron" for one in server.asked)


def test_each_sample_is_answered_once_even_if_it_came_late() -> None:
    now = time.time()
    early, late = (GPU, [(now - 10, "1")]), ({**GPU, "gpu": "1"}, [(now - 40, "2")])
    database = Database(early, late)
    with serving(database) as server, closing(PrometheusSource(server.url)) as source:
        _, cursor = source.poll("")
        late[1].append((now - 15, "3"))  # written after the poll, older than the cursor
        batch, after = source.poll(cursor)
        assert told(batch) == [("n1", "gpu1", "gpu_temp_celsius", 3.0)]
        assert after == cursor
        assert told(source.poll(after)[0]) == []


def test_a_lost_batch_is_answered_again() -> None:
    now = time.time()
    values = [(now - 30, "1")]
    with (
        serving(Database((GPU, values))) as server,
        closing(PrometheusSource(server.url)) as source,
    ):
        _, first = source.poll("")
        values.append((now - 10, "2"))
        lost, _ = source.poll(first)
        again, _ = source.poll(first)
        assert told(lost) == told(again) == [("n1", "gpu0", "gpu_temp_celsius", 2.0)]
        assert [one.name for one in again.devices] == ["gpu0"]


def test_another_source_goes_on_from_the_cursor() -> None:
    now = time.time()
    with serving(Database((GPU, [(now - 30, "1"), (now - 10, "2")]))) as server:
        with closing(PrometheusSource(server.url)) as source:
            batch, _ = source.poll(f"{now - 20:.3f}")
        assert told(batch) == [("n1", "gpu0", "gpu_temp_celsius", 2.0)]


def test_values_that_are_none() -> None:
    now = time.time()
    clock = {**GPU, "__name__": "DCGM_FI_DEV_MEMORY_TEMP"}
    load = {"__name__": "node_load1", "node": "n1"}
    database = Database(
        (GPU, [(now - 3, "NaN"), (now - 2, "5")]),
        (clock, [(now - 2, "9223372036854775794")]),
        (load, [(now - 2, "+Inf")]),
    )
    with serving(database) as server, closing(PrometheusSource(server.url)) as source:
        batch, _ = source.poll("")
    assert told(batch) == [("n1", "gpu0", "gpu_temp_celsius", 5.0)]
    assert noted(batch) == {"values that are none: not supported, or no number": 3}


def test_series_of_one_gpu_under_several_labels_are_one() -> None:
    now = time.time()
    pod = {**GPU, "pod": "train-0"}
    instant = {**GPU, "__name__": "DCGM_FI_DEV_POWER_USAGE_INSTANT"}
    power = {**GPU, "__name__": "DCGM_FI_DEV_POWER_USAGE"}
    database = Database(
        (GPU, [(now - 20, "1")]),
        (pod, [(now - 10, "2")]),
        (instant, [(now - 5, "500"), (now - 4, "501")]),
        (power, [(now - 5, "400"), (now - 4, "140737488355328")]),
    )
    with serving(database) as server, closing(PrometheusSource(server.url)) as source:
        batch, _ = source.poll("")
    assert told(batch) == [
        ("n1", "gpu0", "gpu_temp_celsius", 1.0),
        ("n1", "gpu0", "gpu_temp_celsius", 2.0),
        ("n1", "gpu0", "gpu_power_watts", 400.0),
        ("n1", "gpu0", "gpu_power_watts", 501.0),
    ]


def test_up_is_a_nodes_by_its_address_and_other_targets_are_left_out() -> None:
    now = time.time()

    def up(instance: str, job: str, value: str) -> Series:
        labels = {"__name__": "up", "instance": instance, "job": job}
        return labels, [(now - 1, value)]

    load = {"__name__": "node_load1", "instance": "10.0.0.1:9100", "job": "node"}
    database = Database(
        (GPU, [(now - 1, "50")]),
        (load, [(now - 1, "3")]),
        up("10.0.0.1:9400", "dcgm", "1"),
        up("10.0.0.1:9100", "node", "0"),
        up("10.0.0.2:9400", "dcgm", "0"),
        up("grafana:3000", "grafana", "1"),
    )
    with serving(database) as server, closing(PrometheusSource(server.url)) as source:
        batch, cursor = source.poll("")
        assert sorted(told(batch)) == [
            ("10.0.0.2", "dcgm", "node_scrape_up", 0.0),
            ("n1", "", "node_load1", 3.0),
            ("n1", "dcgm", "node_scrape_up", 1.0),
            ("n1", "gpu0", "gpu_temp_celsius", 50.0),
            ("n1", "node", "node_scrape_up", 0.0),
        ]
        assert source.poll(cursor)[0].devices == (), "other targets do not make it start over"


def test_an_address_that_gets_a_nodes_name_later() -> None:
    now = time.time()
    load = {"__name__": "node_load1", "instance": "10.0.0.1:9100", "job": "node"}
    values = [(now - 30, "3")]
    database = Database((load, values))
    with (
        serving(database) as server,
        closing(PrometheusSource(server.url, names_every_s=0.0)) as source,
    ):
        batch, cursor = source.poll("")
        assert told(batch) == [("10.0.0.1", "", "node_load1", 3.0)]
        uname = {**load, "__name__": "node_uname_info", "nodename": "n1", "release": "6.8"}
        database.series.append((uname, [(now - 5, "1")]))
        values.append((now - 5, "4"))
        batch, _ = source.poll(cursor)
    assert told(batch) == [("n1", "", "node_load1", 4.0)]
    assert {(one.name, one.value) for one in batch.facts} == {
        ("kernel", "6.8"),
        ("hostname", "n1"),
    }


def test_names_that_come_a_moment_after_the_first_poll_are_not_waited_for() -> None:
    now = time.time()
    database = Database()
    with serving(database) as server, closing(PrometheusSource(server.url)) as source:
        batch, cursor = source.poll("")
        assert told(batch) == []
        database.series.append((GPU, [(now - 1, "61")]))
        batch, _ = source.poll(cursor)
    assert [row[-1] for row in told(batch)] == [61.0]


def test_a_gpu_known_by_its_uuid_moves_with_its_index() -> None:
    now = time.time()
    uuid = {"uuid": "u1", "instance": "n1:9835", "job": "gpu"}
    temps, indexes = [(now - 20, "50")], [(now - 20, "3")]
    database = Database(
        ({**uuid, "__name__": "nvidia_smi_temperature_gpu"}, temps),
        ({**uuid, "__name__": "nvidia_smi_index"}, indexes),
    )
    with serving(database) as server, closing(PrometheusSource(server.url)) as source:
        batch, cursor = source.poll("")
        assert told(batch) == [("n1", "gpu3", "gpu_temp_celsius", 50.0)]
        temps.append((now - 1, "51"))
        indexes.append((now - 1, "4"))
        batch, _ = source.poll(cursor)
    assert told(batch) == [("n1", "gpu4", "gpu_temp_celsius", 51.0)]


def test_nothing_of_the_server_part_is_imported_until_it_is_used() -> None:
    code = (
        "import sys, bigiron.ingest.prometheus, bigiron.ingest.scrape, bigiron.ingest.openmetrics\n"
        "assert not {'numpy', 'httpx2'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_warnings_and_partial_answers_are_noted() -> None:
    now = time.time()
    database = Database((GPU, [(now, "1")]), warnings=["a store is gone"], isPartial=True)
    with serving(database) as server, closing(PrometheusSource(server.url)) as source:
        batch, _ = source.poll("")
    # Said once with the list of names and once with the samples' own answer.
    assert noted(batch) == {
        "the server warns: a store is gone": 1,
        "the server warns: the server says that its answer is partial": 1,
    }


def test_names_that_are_not_catalogued_are_counted_and_not_asked_for() -> None:
    now = time.time()
    other = {"__name__": "go_goroutines", "instance": "n1:9100"}
    with (
        serving(Database((GPU, [(now, "1")]), (other, [(now, "7")]))) as server,
        closing(PrometheusSource(server.url)) as source,
    ):
        batch, _ = source.poll("")
    assert noted(batch) == {"metric names that are not catalogued": 1}
    assert not any("go_goroutines" in one.form.get("query", "") for one in server.asked)


def test_a_server_that_does_not_list_names_is_asked_for_all() -> None:
    now = time.time()
    database = Database((GPU, [(now, "1")]))

    def reply(asked: Asked) -> Reply:
        return Reply(status=404) if "/label/" in asked.path else database(asked)

    with serving(reply) as server, closing(PrometheusSource(server.url)) as source:
        batch, _ = source.poll("")
    assert told(batch) == [("n1", "gpu0", "gpu_temp_celsius", 1.0)]
    queries = [one.form["query"] for one in server.asked if "query" in one.form]
    assert all(len(query) <= QUERY_BYTES + 200 for query in queries)
    assert len(queries) > 3


@pytest.mark.parametrize("ahead_s", [30.0, -300.0, 3600.0, -3600.0, 3 * 86_400.0, -3 * 86_400.0])
def test_a_server_is_asked_by_its_own_clock_and_understood_by_ours(ahead_s: float) -> None:
    there = time.time() + ahead_s
    with (
        serving(Database((GPU, [(there - 5, "1")]))) as server,
        closing(PrometheusSource(server.url)) as source,
    ):
        server.ahead_s = ahead_s
        batch, _ = source.poll("")
    assert told(batch) == [("n1", "gpu0", "gpu_temp_celsius", 1.0)]
    assert [what for what in noted(batch) if "clock is" in what]
    assert batch.samples[0].time is not None
    assert abs(batch.samples[0].time.timestamp() + 5 - time.time()) < 3
    assert abs(batch.time.timestamp() - time.time()) < 3


def test_a_cursor_of_a_clock_that_was_ahead_hides_nothing() -> None:
    now = time.time()
    with (
        serving(Database((GPU, [(now - 5, "1")]))) as server,
        closing(PrometheusSource(server.url)) as source,
    ):
        batch, cursor = source.poll(repr(now + 86_400))
    assert [s.value for s in batch.samples] == [1.0]
    assert float(cursor) == pytest.approx(now - 5)
    assert [what for what in noted(batch) if "of the future" in what]


def test_a_value_that_is_no_number_costs_no_other() -> None:
    now = time.time()
    other = {**GPU, "gpu": "1"}
    with (
        serving(Database((GPU, [(now - 5, "ERR!")]), (other, [(now - 5, "2")]))) as server,
        closing(PrometheusSource(server.url)) as source,
    ):
        batch, _ = source.poll("")
    assert told(batch) == [("n1", "gpu1", "gpu_temp_celsius", 2.0)]


def test_labels_that_are_no_text_are_no_answer() -> None:
    broken = [{"metric": {"__name__": "node_load1", "node": 7}, "values": [[1, "1"]]}]

    def reply(asked: Asked) -> Reply:
        if "/label/" in asked.path:
            return success(["node_load1"])
        return success({"resultType": "matrix", "result": broken})

    with (
        serving(reply) as server,
        closing(PrometheusSource(server.url)) as source,
        pytest.raises(Temporary, match="not what the API promises"),
    ):
        source.poll("")


def test_matchers_go_into_every_query() -> None:
    now = time.time()
    with (
        serving(Database((GPU, [(now, "1")]))) as server,
        closing(PrometheusSource(server.url, matchers='cluster="a"')) as source,
    ):
        source.poll("")
    queries = [one.form["query"] for one in server.asked if "query" in one.form]
    assert queries
    assert all('cluster="a"' in query for query in queries)


def test_selectors_stay_short_and_lose_nothing() -> None:
    names = [f"metric_{number:05d}" for number in range(2000)]
    found = list(selectors(names, 'cluster="a"'))
    assert all(len(one) <= QUERY_BYTES for one in found)
    assert [name for one in found for name in one.split('"')[1].split("|")] == names
    assert list(selectors([])) == []


def test_history_is_thinned_and_not_filled_in() -> None:
    start = 1_700_000_000.0
    values = [(start + second, str(second)) for second in (10, 20, 70, 1300)]
    with (
        serving(Database((GPU, values))) as server,
        closing(PrometheusSource(server.url)) as source,
    ):
        batches = list(
            source.range(
                datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(start + 1800, UTC), 60
            )
        )
    assert [[one.value for one in batch.samples] for batch in batches] == [[20, 70], [], [1300]]


@pytest.mark.parametrize(
    ("reply", "error", "says"),
    [
        (Reply(b"busy", 503), Temporary, "503 Service Unavailable: busy"),
        (Reply(b"", 502), Temporary, "502 Bad Gateway"),
        (Reply(b"", 429), Temporary, "429 Too Many Requests"),
        (Reply(b'{"status":"error","errorType":"execution","error":"too many samples"}', 422),
         Permanent, "too many samples"),
        (Reply(b'{"error":"parse error"}', 400), Permanent, "parse error"),
        (Reply(b"", 401), Permanent, "check the token"),
        (Reply(b"<html>secret page</html>", 500, "text/html"), Temporary, "500"),
        (Reply(b"<html>Sign in</html>", 200, "text/html"), Permanent, "web page"),
        (Reply(b" <!doctype html>", 200, "application/json"), Permanent, "web page"),
        (Reply(b'{"status":"succ'), Temporary, "not what the API promises"),
        (Reply(b"[]"), Temporary, "not what the API promises"),
        (Reply(b'{"status":"success","data":{"a":1}}'), Temporary, "not what the API promises"),
        (Reply(b'{"status":"error","errorType":"timeout","error":"slow"}'), Temporary, "slow"),
        (Reply(b'{"status":"error","errorType":"bad_data","error":"no"}'), Permanent, "no"),
        (Reply(b"", 302, headers={"Location": "http://elsewhere.invalid/api?a=1"}), Permanent,
         "redirects to http://elsewhere.invalid"),
        (Reply(b"", 302, headers={"Location": "/again"}), Permanent, "redirects without end"),
        (Reply(b"{}", wait_s=1.0), Temporary, "no answer in 0.4 s"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_said_with_the_address_and_no_secret(
    reply: Reply, error: type[Exception], says: str
) -> None:
    with serving(lambda _: reply) as server:
        url = server.url.replace("//", "//ops:hunter2@")
        access = Access(token="t0ken")
        with closing(PrometheusSource(url, access=access, timeout_s=0.4)) as source:
            with pytest.raises(error, match=r".") as caught:
                source.poll("")
            text = str(caught.value)
            assert says in text
            assert server.address in text
            assert "hunter2" not in text
            assert "t0ken" not in text
            assert "secret page" not in text
            assert "hunter2" not in repr(source.name)


def test_retry_after_is_passed_on() -> None:
    reply = Reply(b"", 503, headers={"Retry-After": "7"})
    with (
        serving(lambda _: reply) as server,
        closing(HttpClient(server.url)) as client,
        pytest.raises(Temporary) as caught,
    ):
        client.get("/x")
    assert caught.value.retry_after_s == 7.0


def test_nobody_listens() -> None:
    with (
        closing(PrometheusSource("http://ops:hunter2@127.0.0.1:9")) as source,
        pytest.raises(Temporary, match=r"127\.0\.0\.1:9") as caught,
    ):
        source.poll("")
    assert "hunter2" not in str(caught.value)


def test_an_answer_beyond_the_limit_is_refused() -> None:
    with (
        serving(lambda _: Reply(b" " * 3000)) as server,
        closing(PrometheusSource(server.url, limit_bytes=2000)) as source,
        pytest.raises(Permanent, match="larger than 2,000 bytes"),
    ):
        source.poll("")


def test_credentials_are_sent_and_a_redirect_on_the_same_server_is_followed() -> None:
    def reply(asked: Asked) -> Reply:
        if not asked.path.startswith("/prom/"):
            return Reply(b"", 307, headers={"Location": "/prom" + asked.path})
        return Reply(b"fine")

    with serving(reply) as server:
        with closing(HttpClient(server.url.replace("//", "//ops:p%40ss@"))) as client:
            assert client.url == server.url
            assert client.get("/x").body == b"fine"
        with closing(HttpClient(server.url, Access(token="t0ken"))) as client:
            assert client.post("/x", {"a": "1"}).body == b"fine"
    basic = "Basic " + base64.b64encode(b"ops:p@ss").decode()
    assert [one.headers["Authorization"] for one in server.asked[:2]] == [basic, basic]
    assert [one.headers["Authorization"] for one in server.asked[2:]] == ["Bearer t0ken"] * 2
    assert server.asked[-1].form == {"a": "1"}


def test_credentials_never_leave_for_another_server() -> None:
    with serving(lambda _: Reply(b"mine")) as thief:
        reply = Reply(b"", 307, headers={"Location": thief.url})
        with (
            serving(lambda _: reply) as server,
            closing(HttpClient(server.url, Access(token="t0ken"))) as client,
            pytest.raises(Permanent, match="another server"),
        ):
            client.get("/x")
        assert thief.asked == []


@pytest.mark.parametrize(
    "url",
    ["", "prometheus:9090", "ftp://a", "http://", "http://a:b", "http://u:p@h:x/", "http://["],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(Permanent, match="not an address") as caught:
        PrometheusSource(url)
    assert "u:p" not in str(caught.value)


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "ca.pem"
    with (
        closing(HttpClient("https://127.0.0.1:9", Access(ca_file=str(missing)))) as client,
        pytest.raises(Permanent, match=r"ca\.pem"),
    ):
        client.get()


def test_a_cursor_that_is_none() -> None:
    with pytest.raises(Permanent, match="cursor 'x'"):
        PrometheusSource("http://127.0.0.1:9").poll("x")


def test_secrets_do_not_show() -> None:
    assert "hunter2" not in repr(Access(token="hunter2", user="u", password="hunter2"))
    assert mask("GET http://u:p@h/x failed") == "GET http://h/x failed"


PAGE = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="n1"} 50\n'


def test_exporters_are_scraped_and_one_that_fails_is_down() -> None:
    alive = True

    def reply(asked: Asked) -> Reply:
        if asked.path == "/html":
            return Reply(b"<html>node_load1 1</html>", kind="text/html")
        if asked.path == "/other":
            return Reply(b"node_load1 3\n", kind="text/plain")
        return Reply(PAGE.encode(), kind="text/plain") if alive else Reply(b"", 500)

    with serving(reply) as server:
        targets = [
            Target(f"{server.url}/metrics", job="dcgm"),
            Target(f"{server.url}/other", node="n2", job="node"),
            Target(f"{server.url}/html", node="n3", job="node"),
            Target("http://u:hunter2@127.0.0.1:9/metrics", node="n4"),
        ]
        with closing(ScrapeSource(targets, timeout_s=2.0)) as source:
            batch, cursor = source.poll("")
            alive = False
            later, _ = source.poll(cursor)
    found = {(n, d, m): v for n, d, m, v in told(batch) if "duration" not in m}
    assert found == {
        ("n1", "gpu0", "gpu_temp_celsius"): 50.0,
        ("n1", "dcgm", "node_scrape_up"): 1.0,
        ("n2", "", "node_load1"): 3.0,
        ("n2", "node", "node_scrape_up"): 1.0,
        ("n3", "node", "node_scrape_up"): 0.0,
        ("n4", "9", "node_scrape_up"): 0.0,
    }
    assert {m for _, _, m, _ in told(batch)} >= {"node_scrape_duration_seconds"}
    assert any("not an exporter's page" in one.what for one in batch.notes)
    assert not any("hunter2" in one.what + one.source for one in batch.notes)
    assert ("n1", "dcgm", "node_scrape_up", 0.0) in told(later), "by the name it had"
    assert not any(metric.startswith("gpu_") for _, _, metric, _ in told(later))
    assert [(one.node, one.name) for one in batch.devices] == [("n1", "gpu0")]


def test_a_fleet_is_polled_well_within_its_interval() -> None:
    now = time.time()
    names = [one.name for s in signals.SIGNALS.values() for one in s.sources.get("dcgm", ())[:1]][
        :60
    ]
    fleet: list[Series] = [
        (
            {"__name__": name, "gpu": str(gpu), "UUID": f"GPU-{node}-{gpu}",
             "device": f"nvidia{gpu}", "modelName": "NVIDIA H100 80GB HBM3",
             "Hostname": f"n{node:03d}", "instance": f"10.0.0.{node}:9400", "job": "dcgm"},
            [(now - 45, "1"), (now - 30, "2"), (now - 15, "3"), (now, "4")],
        )
        for name in names
        for node in range(64)
        for gpu in range(8)
    ]  # fmt: skip
    with serving(Database(*fleet)) as server, closing(PrometheusSource(server.url)) as source:
        batch, cursor = source.poll("")
        assert len(batch.samples) > 100_000
        again, _ = source.poll(cursor)
    assert again.samples == ()
