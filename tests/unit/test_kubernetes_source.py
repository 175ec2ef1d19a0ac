"""The live source against a small API server of our own on loopback."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from bigiron.errors import ConfigError, Permanent, Temporary
from bigiron.ingest.kubernetes_live import KubernetesSource

FIXTURES = Path(__file__).parents[1] / "fixtures" / "kubernetes"
NOW = datetime(2026, 5, 6, tzinfo=UTC)
PLURALS = {"nodes": "NodeList", "pods": "PodList", "events": "EventList"}


class ApiServer(ThreadingHTTPServer):
    """Lists nodes, pods and events in pages; ``answers`` overrides a kind's next answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.items = {
            plural: json.loads((FIXTURES / f"{plural}.json").read_bytes())["items"]
            for plural in PLURALS
        }
        self.answers: dict[str, list[str]] = {}
        self.asked: list[tuple[str, dict[str, str], str]] = []
        self.circles = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Stay silent."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        plural = parts.path.rpartition("/")[2]
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.server.asked.append((parts.path, query, self.headers.get("Authorization", "")))
        waiting = self.server.answers.get(plural)
        answer = waiting.pop(0) if waiting else ""
        if answer == "drop":
            self.close_connection = True
            return
        if answer == "garbage":
            self.send(200, b"<html>sorry</html>", "text/html")
        elif answer:
            self.refuse(int(answer.split()[0]), *answer.split()[1:])
        else:
            self.page(plural, query)

    def page(self, plural: str, query: dict[str, str]) -> None:
        items, start = self.server.items[plural], int(query.get("continue", "0"))
        start %= max(1, len(items))
        end = start + int(query.get("limit", "500"))
        more = end < len(items) or self.server.circles
        meta = {"resourceVersion": "1", **({"continue": str(end)} if more else {})}
        body = {"apiVersion": "v1", "kind": PLURALS[plural], "metadata": meta}
        self.send(200, json.dumps({**body, "items": items[start:end]}).encode())

    def refuse(self, code: int, *words: str) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "message": f"no: {code}", "code": code}
        kind = "text/html" if "html" in words else "application/json"
        body = b"<h1>busy</h1>" if "html" in words else json.dumps(status).encode()
        self.send(
            code, body, "" if "untyped" in words else kind, "Retry-After" if "wait" in words else ""
        )

    def send(self, code: int, body: bytes, kind: str = "application/json", extra: str = "") -> None:
        self.send_response(code)
        if kind:
            self.send_header("Content-Type", kind)
        if extra:
            self.send_header(extra, "7")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    running = ApiServer()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def source(server: ApiServer) -> Iterator[KubernetesSource]:
    polled = KubernetesSource(url=server.url, page=2, timeout_s=5, now=lambda: NOW)
    yield polled
    polled.close()


def test_reads_every_page_of_every_kind(server: ApiServer, source: KubernetesSource) -> None:
    batch, _ = source.poll("")
    assert {state.node: state.state for state in batch.states} == {
        "gpu-a1": "alloc",
        "gpu-a2": "drain",
        "gpu-a3": "down",
        "gpu-a4": "down",
    }
    assert {job.id for job in batch.jobs} == {"ml/run1", "ml/eval-xyz", "ml/lost"}
    assert "k8s.unreachable" in {event.code for event in batch.events}
    pages = [query.get("continue") for path, query, _ in server.asked if path == "/api/v1/nodes"]
    assert pages == [None, "2"]
    assert {path for path, _, _ in server.asked} == {
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/events",
    }


def test_events_are_read_once(server: ApiServer, source: KubernetesSource) -> None:
    first, cursor = source.poll("")
    assert "kernel.reboot" in {event.code for event in first.events}
    again, cursor = source.poll(cursor)
    assert "kernel.reboot" not in {event.code for event in again.events}
    late = json.loads(json.dumps(server.items["events"][2]))
    late["metadata"]["uid"] = "e9"
    server.items["events"].append(late)
    third, _ = source.poll(cursor)
    assert [event.code for event in third.events].count("kernel.reboot") == 1


def test_a_node_without_gpu_pods_is_idle(server: ApiServer, source: KubernetesSource) -> None:
    server.items["pods"] = []
    batch, _ = source.poll("")
    assert {state.node: state.state for state in batch.states}["gpu-a1"] == "idle"


@pytest.mark.parametrize(
    ("answer", "wait_s"),
    [
        ("429 wait", 7.0),
        ("503 wait", 7.0),
        ("503 html", 30.0),
        ("500 untyped", 30.0),
        ("410", 30.0),
    ],
)
def test_a_busy_server_is_asked_again_when_it_says(
    server: ApiServer, source: KubernetesSource, answer: str, wait_s: float
) -> None:
    server.answers["nodes"] = [answer]
    with pytest.raises(Temporary, match=f"nodes: HTTP {answer.split()[0]}") as caught:
        source.poll("")
    assert caught.value.retry_after_s == wait_s
    assert server.url in str(caught.value)
    assert source.poll("")[0].states


@pytest.mark.parametrize("code", ["401", "403"])
def test_a_refusal_is_permanent(server: ApiServer, source: KubernetesSource, code: str) -> None:
    server.answers["nodes"] = [code]
    with pytest.raises(Permanent, match=f"HTTP {code}: no: {code}"):
        source.poll("")


def test_refused_pods_and_events_leave_the_nodes(
    server: ApiServer, source: KubernetesSource
) -> None:
    server.answers = {"pods": ["403"], "events": ["403"]}
    batch, cursor = source.poll("before|")
    assert cursor == "before|"
    assert {state.node: state.state for state in batch.states}["gpu-a1"] == "unknown"
    assert len([note for note in batch.notes if "HTTP 403" in note.what]) == 2


@pytest.mark.parametrize("answer", ["drop", "garbage"])
def test_a_broken_answer_is_temporary(
    server: ApiServer, source: KubernetesSource, answer: str
) -> None:
    server.answers["nodes"] = ["", answer]
    with pytest.raises(Temporary, match="nodes: "):
        source.poll("")
    assert source.poll("")[0].states


@pytest.mark.parametrize("entry", [7, "x", None, [1]])
def test_entries_that_are_no_objects_are_temporary(
    server: ApiServer, source: KubernetesSource, entry: object
) -> None:
    server.items["nodes"].append(entry)
    with pytest.raises(Temporary, match="nodes: "):
        source.poll("")


def test_a_list_that_goes_round_in_circles_ends(server: ApiServer) -> None:
    server.circles = True
    source = KubernetesSource(url=server.url, page=1, list_s=0.3)
    with pytest.raises(Temporary, match=r"nodes: not all listed in 0\.3 s"):
        source.poll("")
    source.close()


def test_no_server_is_temporary(server: ApiServer) -> None:
    url = server.url
    server.server_close()
    with pytest.raises(Temporary):
        KubernetesSource(url=url, timeout_s=2).poll("")


def test_a_kubeconfig_gives_server_and_token(server: ApiServer, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        f"clusters:\n- name: c\n  cluster: {{server: '{server.url}'}}\n"
        "users:\n- name: u\n  user: {token: sesame}\n"
        "contexts:\n- name: a\n  context: {cluster: c, user: u}\n"
    )
    polled = KubernetesSource(kubeconfig=str(config), timeout_s=5)
    assert polled.poll("")[0].nodes
    assert {token for _, _, token in server.asked} == {"Bearer sesame"}
    polled.close()
    wrong = KubernetesSource(kubeconfig=str(config), context="b")
    with pytest.raises(ConfigError, match="b"):
        wrong.poll("")


@pytest.mark.parametrize("text", ["", "a: [", "clusters: 3\n", "apiVersion: v1\n"])
def test_an_unusable_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config"
    config.write_text(text)
    with pytest.raises(ConfigError, match=str(config)):
        KubernetesSource(kubeconfig=str(config)).poll("")
    with pytest.raises(ConfigError, match="nowhere"):
        KubernetesSource(kubeconfig=str(tmp_path / "nowhere")).poll("")
