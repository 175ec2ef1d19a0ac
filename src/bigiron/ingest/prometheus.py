"""A Prometheus-compatible server as a source: what its exporters' metrics say, with true times."""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from bigiron import signals
from bigiron.errors import Permanent, Temporary
from bigiron.ingest.http_client import Access, HttpClient
from bigiron.ingest.openmetrics_facts import INFO_NAMES
from bigiron.ingest.openmetrics_series import rule
from bigiron.ingest.prometheus_api import Matrix, PrometheusApi, selectors
from bigiron.ingest.prometheus_series import SeriesReader
from bigiron.model import Batch, Note, Sample

_SCRAPE = ("up", "scrape_duration_seconds", "scrape_samples_scraped")
_WHO = "node_uname_info|DCGM_FI_DEV_GPU_TEMP|gpu_package_power|amd_gpu_package_power"
_LONGEST_WINDOW_S = 3600.0
_HISTORY_WINDOW_S = 600.0
_SKEW_S = 5.0
_SKEW_NEWS_S = 2.5
_LATE_POLLS = 3.0
_NAMES_SINCE_S = 86_400.0


class PrometheusSource:
    """Asks for every catalogued metric the server has, and answers each sample once.

    The cursor is the time of the last sample taken, in seconds since 1970. A source that goes on
    from its own last cursor also takes samples that reached the server late (a slow scrape, a
    remote write): those up to ``lookback_s`` late, within half of that; one that was restarted
    takes those after the cursor. The first poll takes a few of each series' ``lookback_s``.
    Where a name was never seen before the first poll, it is looked up in the last six hours, so
    that an exporter already dead is still counted against its node.

    ``matchers`` narrows everything (``cluster="a"``). Raises Permanent on a bad address.
    """

    def __init__(
        self,
        url: str,
        every_s: float = 30.0,
        *,
        name: str = "",
        access: Access | None = None,
        matchers: str = "",
        lookback_s: float = 90.0,
        names_every_s: float = 600.0,
        timeout_s: float = 10.0,
        limit_bytes: int = 512 * 1024 * 1024,
    ) -> None:
        client = HttpClient(url, access, timeout_s=timeout_s, limit_bytes=limit_bytes)
        self._api = PrometheusApi(client)
        self.name = name or client.url
        self.every_s = every_s
        self._matchers = matchers
        self._lookback_s = lookback_s
        self._names_every_s = names_every_s
        self._reader = SeriesReader()
        self._cursor: str | None = None
        self._names: tuple[str, ...] = ()
        self._names_at = -math.inf
        self._names_wait_s = 0.0
        self._swept = -math.inf
        self._skew_s = 0.0

    def poll(self, cursor: str) -> tuple[Batch, str]:
        """The samples since ``cursor``. Raises Temporary, Permanent."""
        since = _since(cursor)
        notes: list[Note] = []
        self._know_names(notes)
        now = time.time() + self._skew_s
        if since > now + _SKEW_S:  # the server's clock was ahead once: no cursor for today
            since = -math.inf
            notes.append(Note(self.name, "read up to a time of the future; begun anew"))
        if cursor != self._cursor or not math.isfinite(since):
            self._reader.start_at(since)
        answers = self._ask(self._names, now, self._window_s(now, since), self._reader)
        self._keep_skew()
        samples, unused = self._read(answers)
        changed, self._reader.changed = self._reader.changed, False
        at = datetime.fromtimestamp(now - self._skew_s, UTC)
        batch = Batch(
            time=at,
            source=self.name,
            devices=self._reader.inventory.devices() if changed else (),
            facts=self._reader.inventory.facts(at) if changed else (),
            samples=tuple(samples),
            notes=(*notes, *unused, *self._warnings(), *self._note_skew()),
        )
        newest = max(self._reader.newest, since)
        self._cursor = repr(newest) if math.isfinite(newest) else ""
        self._reader.forget_before(now - _LONGEST_WINDOW_S - self._lookback_s)
        return batch, self._cursor

    def range(self, start: datetime, end: datetime, step_s: float) -> Iterator[Batch]:
        """History: a batch for each ten minutes or ``step_s`` from ``start`` to ``end``.

        The samples are those scraped, at their own times, thinned to the last of each ``step_s``;
        a missed scrape stays missing. Raises Temporary, Permanent.
        """
        reader = SeriesReader()
        names = _known(self._given_names(start.timestamp()))
        reader.start_at(start.timestamp())
        first, last = start.timestamp(), end.timestamp()
        window = max(step_s, _HISTORY_WINDOW_S)
        while first < last:
            at = min(first + window, last)
            samples, notes = reader.read(self._ask(names, at, at - first), self.name)
            slots = {
                (s.node, s.device, s.metric, s.time.timestamp() // step_s): s
                for s in samples
                if s.time
            }
            yield Batch(
                time=datetime.fromtimestamp(at, UTC),
                source=self.name,
                devices=reader.inventory.devices(),
                facts=reader.inventory.facts(datetime.fromtimestamp(at, UTC)),
                samples=tuple(slots.values()),
                notes=(*notes, *self._warnings()),
            )
            first = at

    def close(self) -> None:
        """Let go of the connections."""
        self._api.close()

    def _window_s(self, now: float, since: float) -> float:
        """How far back this poll looks: since the last, and now and then for late samples."""
        if not math.isfinite(since):
            return self._lookback_s
        late_s = _LATE_POLLS * self.every_s
        if now - self._swept >= self._lookback_s / 2:
            self._swept, late_s = now, self._lookback_s
        return min(max(0.0, now - since) + late_s, _LONGEST_WINDOW_S)

    def _ask(
        self, names: Sequence[str], at: float, window_s: float, known: SeriesReader | None = None
    ) -> list[Matrix]:
        """The answers, of each series only what is not ``known`` already."""
        found: list[Matrix] = []
        for selector in selectors(names, self._matchers):
            answer = self._api.samples(selector, window_s, at)
            if known is not None:
                known.trim(answer)
            found += answer
        return found

    def _read(self, answers: list[Matrix]) -> tuple[list[Sample], list[Note]]:
        try:
            return self._reader.read(answers, self.name, self._skew_s)
        except (msgspec.MsgspecError, OverflowError) as error:
            raise Temporary(
                f"{self._api.url}: the answer is not what the API promises: {error}"
            ) from None

    def _know_names(self, notes: list[Note]) -> None:
        """Which catalogued names the server has; asked again every ``names_every_s``.

        A server that has only just started has few or none yet: while the list still grows it is
        asked for at each poll, then ever more rarely.
        """
        if time.monotonic() - self._names_at < self._names_wait_s:
            return
        given = self._given_names()
        first = not math.isfinite(self._names_at)
        if first and abs(self._skew_s) > _SKEW_S:  # how it differs is known only now
            given = self._given_names()
        names = _known(given)
        grew = first or not names or names != self._names
        wait_s = 0.0 if grew else max(2 * self._names_wait_s, self.every_s)
        self._names, self._names_wait_s = names, min(wait_s, self._names_every_s)
        self._names_at = time.monotonic()
        if first:
            if others := len(given) - len(self._names):
                notes.append(Note(self.name, "metric names that are not catalogued", others))
            self._know_nodes(time.time() + self._skew_s)

    def _given_names(self, since: float | None = None) -> list[str]:
        """The names of the last day by the server's clock, or of all time since a given one."""
        if since is None:
            since = time.time() + self._skew_s - _NAMES_SINCE_S
        try:
            names = self._api.names(since)
        except Permanent as error:
            if not _refused_only_names(str(error)):
                raise
            return [*_catalogued()]
        self._keep_skew()
        return names

    def _know_nodes(self, now: float) -> None:
        more = f",{self._matchers}" if self._matchers else ""
        query = f'last_over_time({{__name__=~"{_WHO}"{more}}}[6h])[1s:1s]'
        try:
            self._reader.learn_names(self._api.query(query, now))
        except (Permanent, Temporary, msgspec.MsgspecError):
            return  # a server that cannot look so far back still answers what is asked next

    def _keep_skew(self) -> None:
        """How the clocks differ now; the header counts whole seconds, so one more is no news."""
        skew = self._api.server_time - time.time()
        if abs(skew) <= _SKEW_S or skew != skew:
            self._skew_s = 0.0
        elif abs(skew - self._skew_s) > _SKEW_NEWS_S:
            self._skew_s = skew

    def _note_skew(self) -> Iterator[Note]:
        if self._skew_s:
            what = (
                f"the server's clock is {self._skew_s:+.0f} s from this machine's: it is reckoned"
            )
            yield Note(self.name, what)

    def _warnings(self) -> Iterator[Note]:
        said, self._api.warnings = self._api.warnings, []
        for warning in dict.fromkeys(said):
            yield Note(self.name, f"the server warns: {warning}"[:400], said.count(warning))


def _since(cursor: str) -> float:
    try:
        return float(cursor) if cursor else -math.inf
    except ValueError:
        raise Permanent(f"cursor {cursor!r}: want seconds since 1970") from None


def _known(names: Iterable[str]) -> tuple[str, ...]:
    wanted = {*INFO_NAMES, *_SCRAPE}
    return tuple(sorted({name for name in names if name in wanted or rule(name) is not None}))


def _refused_only_names(error: str) -> bool:
    """Some hosted servers answer queries and not the list of names."""
    return ": 404 " in error or ": 403 " in error or ": 405 " in error


def _catalogued() -> Iterator[str]:
    yield from INFO_NAMES
    for one in signals.SIGNALS.values():
        yield one.name
        for exporter, sources in one.sources.items():
            if exporter not in ("nvml", "amd_smi", "redfish"):
                yield from (source.name for source in sources)
