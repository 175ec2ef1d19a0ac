"""Exporters asked directly, where no Prometheus is at hand."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from bigiron.errors import Permanent, Temporary
from bigiron.ingest.http_client import Access, HttpClient, mask
from bigiron.ingest.openmetrics_page import Page, PageParser
from bigiron.ingest.openmetrics_series import host_of
from bigiron.model import Batch, Device, Fact, Note, Sample

_ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
_THREADS = 16
_PAGE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """An exporter's page. ``node``: whose it is, if given whatever its labels say. ``job``: what
    the exporter is called beside others of its node; its port if not given.
    """

    url: str
    node: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class _Scrape:
    target: Target
    time: datetime
    took_s: float
    page: Page | None
    problem: str


class ScrapeSource:
    """Fetches every target's page, at most 16 at once; one that fails has ``node_scrape_up`` 0."""

    def __init__(
        self,
        targets: Sequence[Target],
        every_s: float = 15.0,
        *,
        name: str = "scrape",
        access: Access | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self.name = name
        self.every_s = every_s
        self._targets = [
            (
                target,
                HttpClient(target.url, access, timeout_s=timeout_s, limit_bytes=_PAGE_BYTES),
                PageParser(target.node or _host(target.url), fixed=bool(target.node)),
            )
            for target in targets
        ]
        self._nodes: dict[str, str] = {}

    def poll(self, cursor: str) -> tuple[Batch, str]:
        """One scrape of all. ``cursor`` is not needed: a page has no past."""
        del cursor
        now = datetime.now(UTC)
        with ThreadPoolExecutor(max(1, min(_THREADS, len(self._targets)))) as threads:
            scrapes = list(threads.map(lambda one: _scrape(*one), self._targets))
        samples: list[Sample] = []
        devices: list[Device] = []
        facts: list[Fact] = []
        notes: list[Note] = []
        for scrape in scrapes:
            if scrape.page is not None:
                samples += scrape.page.samples(scrape.time)
                devices += scrape.page.devices()
                facts += scrape.page.facts(scrape.time)
                notes += scrape.page.notes(mask(scrape.target.url))
            else:
                notes.append(Note(mask(scrape.target.url), scrape.problem))
            samples += self._health(scrape)
        batch = Batch(
            time=now,
            source=self.name,
            devices=tuple(devices),
            facts=tuple(facts),
            samples=tuple(samples),
            notes=tuple(notes),
        )
        return batch, now.isoformat()

    def close(self) -> None:
        """Let go of the connections."""
        for _, client, _ in self._targets:
            client.close()

    def _health(self, scrape: _Scrape) -> list[Sample]:
        target = scrape.target
        if scrape.page is not None and scrape.page.series:
            self._nodes[target.url] = target.node or scrape.page.series[0][1]
        node = target.node or self._nodes.get(target.url) or _host(target.url)
        job = target.job or _port(target.url)
        up = float(scrape.page is not None)
        return [
            Sample(node, job, "node_scrape_up", up, scrape.time),
            Sample(node, job, "node_scrape_duration_seconds", scrape.took_s, scrape.time),
        ]


def _scrape(target: Target, client: HttpClient, parser: PageParser) -> _Scrape:
    at, start = datetime.now(UTC), time.monotonic()
    page, problem = None, ""
    try:
        answer = client.get(accept=_ACCEPT)
        page = parser.parse(answer.body)
        if not page.counts.lines:
            page, problem = None, f"{client.url}: not an exporter's page"
    except (Temporary, Permanent) as error:
        problem = str(error)
    return _Scrape(target, at, time.monotonic() - start, page, problem)


def _host(url: str) -> str:
    return host_of(url.partition("://")[2].partition("/")[0].rpartition("@")[2])


def _port(url: str) -> str:
    parts = urlsplit(url)
    return str(parts.port or (443 if parts.scheme == "https" else 80))
