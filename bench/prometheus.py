"""How long one poll of a metrics server takes: 64 nodes x 8 GPUs x 60 metrics.

    python bench/prometheus.py [--nodes 64]

The server is another process on loopback that answers at once with a prepared answer (the last
90 seconds at one sample each 15), so the time is that of the transfer, the decoding and the
naming. "first" knows no series yet, "next" knows them all and finds a new sample in each.
"""

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection

from bigiron import signals
from bigiron.ingest.prometheus import PrometheusSource

METRICS = 60
EVERY_S = 15


def names() -> list[str]:
    """DCGM names, one a signal."""
    found = [s.sources["dcgm"][0].name for s in signals.SIGNALS.values() if "dcgm" in s.sources]
    return found[:METRICS]


def series(nodes: int, now: float) -> Iterator[dict[str, object]]:
    """The answer's series."""
    for name in names():
        for node in range(nodes):
            for gpu in range(8):
                labels = {
                    "DCGM_FI_DRIVER_VERSION": "570.86.15",
                    "Hostname": f"n{node:03d}",
                    "UUID": f"GPU-{node:08x}-0000-4000-8000-{gpu:012x}",
                    "__name__": name,
                    "device": f"nvidia{gpu}",
                    "gpu": str(gpu),
                    "instance": f"10.0.0.{node}:9400",
                    "job": "dcgm",
                    "modelName": "NVIDIA H100 80GB HBM3",
                    "pci_bus_id": f"00000000:{gpu + 16:02X}:00.0",
                }
                values = [[now - EVERY_S * back, str(40 + back)] for back in range(5, -1, -1)]
                yield {"metric": labels, "values": values}


def serve(nodes: int, started: Connection) -> None:
    """Answer every query with all series, one scrape later each time."""
    now = time.time()
    answers = []
    for turn in range(4):
        found = list(series(nodes, now - 60 + EVERY_S * turn))
        data = {"resultType": "matrix", "result": found}
        answers.append(
            json.dumps({"status": "success", "data": data}, separators=(",", ":")).encode()
        )
    listed = json.dumps({"status": "success", "data": names()}).encode()
    empty = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'

    class Handler(BaseHTTPRequestHandler):
        turn = 0

        def do_GET(self) -> None:
            """The names."""
            self.answer(listed)

        def do_POST(self) -> None:
            """The samples."""
            form = self.rfile.read(int(self.headers["Content-Length"]))
            if b"last_over_time" in form:
                self.answer(empty)
                return
            self.answer(answers[min(Handler.turn, 3)])
            Handler.turn += 1

        def answer(self, body: bytes) -> None:
            """Send it."""
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    started.send((server.server_address[1], len(answers[0])))
    server.serve_forever()


def main() -> None:
    """Print a line a poll."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nodes", type=int, default=64)
    nodes = arguments.parse_args().nodes
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(nodes, theirs), daemon=True)
    process.start()
    port, size = ours.recv()
    print(f"{nodes * 8 * METRICS:,} series, answer of {size / 1e6:.1f} MB")
    with closing(PrometheusSource(f"http://127.0.0.1:{port}")) as source:
        cursor = ""
        for title in ("first", "next", "next", "next"):
            start, spent = time.perf_counter(), time.process_time()
            batch, cursor = source.poll(cursor)
            took, spent = time.perf_counter() - start, time.process_time() - spent
            print(f"{title:6} {took:6.2f} s ({spent:.2f} s processor) {len(batch.samples):>9,} new")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak:,.0f} MB")
    process.terminate()
    process.join()


if __name__ == "__main__":
    main()
