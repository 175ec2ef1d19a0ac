"""The fleet's exporters over HTTP on loopback: /n001/dcgm, /n001/node and so on."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from bigiron.sim.live.world import World


class Exporters:
    """Serves a world's pages on 127.0.0.1 while it is advanced elsewhere under ``lock``."""

    def __init__(self, world: World, port: int = 0) -> None:
        self.lock = threading.Lock()
        self._world = world
        self._index = {name: n for n, name in enumerate(world.fleet.names)}
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self.page))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def urls(self) -> list[str]:
        """Every exporter's URL, two a node."""
        base = f"http://127.0.0.1:{self.port}"
        return [f"{base}/{name}/{which}" for name in self._index for which in ("dcgm", "node")]

    def page(self, path: str) -> str | None:
        """The page at a path; None if there is none or its exporter is gone."""
        name, _, which = path.strip("/").partition("/")
        node = self._index.get(name)
        if node is None or which not in ("dcgm", "node"):
            return None
        with self.lock:
            return self._world.page(node, which)

    def __enter__(self) -> "Exporters":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(page: Callable[[str], str | None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            text = page(self.path)
            body = (text if text is not None else "no exporter here\n").encode()
            self.send_response(200 if text is not None else 503)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Says nothing: a scrape is not news."""

    return Handler
