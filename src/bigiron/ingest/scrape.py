"""Exporters asked directly, where no Prometheus is at hand."""

import re
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
_NODENAME = re.compile(
    rb'^node_uname_info\{[^}\n]{0,2000}?nodename="([^"\n]{1,253})"', re.MULTILINE
)
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


@dataclass(slots=True)
class _Watch:
    """A target, its connection and what is known of its page."""

    target: Target
    client: HttpClient
    parser: PageParser
    named: str = ""

    def scrape(self) -> _Scrape:
        """The page now, or why there is none."""
        at, start = datetime.now(UTC), time.monotonic()
        page, problem = None, ""
        try:
            answer = self.client.get(accept=_ACCEPT)
            self._name(answer.body)
            page = self.parser.parse(answer.body)
            if not page.counts.lines:
                page, problem = None, f"{self.client.url}: not an exporter's page"
        except (Temporary, Permanent) as error:
            problem = str(error)
        return _Scrape(self.target, at, time.monotonic() - start, page, problem)

    def _name(self, body: bytes) -> None:
        """node_exporter's page is about the host it names, whatever address it was asked at."""
        said = _NODENAME.search(body)
        name = said[1].decode("utf-8", "replace") if said else ""
        if name and name != self.named and not self.target.node:
            self.named = name
            self.parser = PageParser(name, fixed=True)


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
            _Watch(
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
            scrapes = list(threads.map(_Watch.scrape, self._targets))
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
        for one in self._targets:
            one.client.close()

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


def _host(url: str) -> str:
    """The host of an address; one of loopback is called so, for want of a name of its own."""
    return host_of(url.partition("://")[2].partition("/")[0].rpartition("@")[2]) or "localhost"


def _port(url: str) -> str:
    parts = urlsplit(url)
    return str(parts.port or (443 if parts.scheme == "https" else 80))
