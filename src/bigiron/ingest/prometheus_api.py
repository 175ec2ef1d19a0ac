"""The Prometheus HTTP API as Prometheus, VictoriaMetrics, Thanos and Mimir answer it.

Samples are asked for with a range selector in an instant query (``{__name__=~"..."}[90s]``): both
Prometheus and VictoriaMetrics answer with the samples as scraped, each with its own time, where
an instant vector would repeat a value for five minutes after its exporter died.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from bigiron.errors import Permanent, Temporary
from bigiron.ingest.http_client import Answer, HttpClient

T = TypeVar("T")
QUERY_BYTES = 6_000
"""VictoriaMetrics refuses queries beyond 16 kB (-search.maxQueryLen), proxies sooner."""

QUERY_NAMES = 8
"""Few enough that one answer of a large fleet is never held beside all the others."""


class Matrix(msgspec.Struct):
    """One series: its labels as they stand in the answer, and its samples."""

    metric: msgspec.Raw
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    resultType: str = ""  # noqa: N815  (the API's word)
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Reply(msgspec.Struct):
    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    errorType: str = ""  # noqa: N815
    warnings: list[str] = []
    isPartial: bool = False  # noqa: N815


_REPLY = msgspec.json.Decoder(_Reply)
_DATA = msgspec.json.Decoder(_Data)
_MATRIX = msgspec.json.Decoder(list[Matrix])
_NAMES = msgspec.json.Decoder(list[str])


class PrometheusApi:
    """Queries. ``warnings`` holds what the server said about the last answers, until taken."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self.warnings: list[str] = []
        self.server_time = float("nan")

    @property
    def url(self) -> str:
        """The server's address without credentials."""
        return self._client.url

    def names(self, since: float) -> list[str]:
        """The names of all metrics with samples after ``since`` (seconds since 1970)."""
        query = {"start": f"{since:.3f}"}
        data = self._reply(self._client.get("/api/v1/label/__name__/values", query))
        return self._decode(_NAMES, data)

    def samples(self, selector: str, window_s: float, at: float) -> list[Matrix]:
        """The samples of a selector in the ``window_s`` seconds up to ``at``, oldest first."""
        return self.query(f"{selector}[{max(1, round(window_s * 1000))}ms]", at)

    def query(self, text: str, at: float) -> list[Matrix]:
        """An instant query with a range selector."""
        form = {"query": text, "time": f"{at:.3f}"}
        data = self._reply(self._client.post("/api/v1/query", form))
        found = self._decode(_DATA, data)
        if found.resultType != "matrix":
            raise Permanent(f"{self.url}: answered with a {found.resultType}, not a matrix")
        return self._decode(_MATRIX, found.result)

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _reply(self, answer: Answer) -> msgspec.Raw:
        self.server_time = answer.date
        if "html" in answer.content_type or answer.body[:64].lstrip()[:1] == b"<":
            raise Permanent(
                f"{self.url}: answered with a web page, not with the Prometheus API: "
                "is a proxy or a login in between?"
            )
        reply = self._decode(_REPLY, answer.body)
        if reply.status != "success":
            said = f"{self.url}: {reply.errorType}: {reply.error}"[:400]
            raise Temporary(said) if reply.errorType == "timeout" else Permanent(said)
        self.warnings += reply.warnings[:10]
        if reply.isPartial:
            self.warnings.append("the server says that its answer is partial")
        return reply.data

    def _decode(self, decoder: "msgspec.json.Decoder[T]", data: bytes | msgspec.Raw) -> T:
        try:
            return decoder.decode(data)
        except msgspec.DecodeError as error:
            raise Temporary(
                f"{self.url}: the answer is not what the API promises: {error}"
            ) from None


def selectors(names: Sequence[str], matchers: str = "") -> Iterator[str]:
    """Selectors for all ``names``, each at most QUERY_BYTES long; ``matchers`` goes into each."""
    more = f",{matchers}" if matchers else ""
    chunk: list[str] = []
    size = 0
    for name in names:
        if len(chunk) >= QUERY_NAMES or (
            chunk and size + len(name) > QUERY_BYTES - len(more) - 100
        ):
            yield _selector(chunk, more)
            chunk, size = [], 0
        chunk.append(name)
        size += len(name) + 1
    if chunk:
        yield _selector(chunk, more)


def _selector(names: Sequence[str], more: str) -> str:
    return '{__name__=~"' + "|".join(names) + '"' + more + "}"
