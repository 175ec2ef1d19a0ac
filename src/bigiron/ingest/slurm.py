"""A live Slurm, asked through its own commands: nodes, running jobs, ended jobs, maintenance.

``scontrol --oneliner show node`` is the one form every version since 20.11 has: ``scontrol
--json`` came with 23.02, and ``sinfo --json`` changed its meaning then. Commands run with TZ=UTC,
so their times are in UTC. Reading only.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from bigiron.errors import BigironError, NoData, Permanent, Temporary
from bigiron.host import Host
from bigiron.ingest import Document, gather
from bigiron.ingest.slurm_job import LIVE_STATES, nodes_or_none, state_and_reason
from bigiron.ingest.slurm_jobs import SacctTable
from bigiron.ingest.slurm_misc import leaves_of_text, reservations_of_text
from bigiron.ingest.slurm_nodes import records_of_text
from bigiron.ingest.slurm_queue import jobs_of_text
from bigiron.ingest.slurm_values import NO_ZONE, asked_gpus, text_or_empty, time_of, tres_gpus
from bigiron.model import Batch, Job, Node, Note, Observation

HISTORY_S = 7 * 86_400.0
WINDOW_S = 86_400.0
"""The longest stretch of history one poll reads, so that a batch stays small."""
OVERLAP_S = 600.0
"""slurmdbd may hear of an end late: its agent queues while it is away."""
TOPOLOGY_EVERY_S = 3600.0

NODES = ("scontrol", "--all", "--oneliner", "show", "node")
JOBS = ("scontrol", "--all", "--oneliner", "show", "job")
RESERVATIONS = ("scontrol", "--all", "--oneliner", "show", "reservation")
TOPOLOGY = ("scontrol", "--oneliner", "show", "topology")
ENDED = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,TO"
FIELDS = (
    "JobIDRaw,User,Account,Partition,State,ExitCode,Submit,Start,End,AllocTRES,NodeList,Reason,"
    "JobName"
)
QUEUE = (
    ("jobid", 20),
    ("state", 16),
    ("restartcnt", 10),
    ("submittime", 22),
    ("starttime", 22),
    ("username", 64),
    ("account", 64),
    ("partition", 64),
    ("tres-alloc", 512),
    ("tres-per-job", 64),
    ("tres-per-node", 64),
    ("nodelist", 16_384),
    ("name", 256),
)
"""squeue's columns and their widths. It cuts what is wider, so the node list has room; the name
comes last, as its length in bytes may differ from that in characters."""

_PASSING = re.compile(
    r"unable to contact|connection|timed out|zero bytes|standby mode|communication|"
    r"authentication|munge|slurmdbd|try again|transmission",
    re.IGNORECASE,
)
_NO_ACCOUNTING = re.compile(r"accounting storage is disabled|accounting_storage/none", re.I)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class SlurmSource:
    """Polls a cluster; the cursor is the time up to which ended jobs have been read.

    ``history_s`` is how far the first poll looks back. With ``jobs`` off, only nodes and
    maintenance are read.
    """

    def __init__(
        self,
        host: Host,
        *,
        name: str = "slurm",
        every_s: float = 30.0,
        timeout_s: float = 20.0,
        jobs: bool = True,
        history_s: float = HISTORY_S,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self.name = name
        self.every_s = every_s
        self._host = host
        self._timeout_s = timeout_s
        self._jobs = jobs
        self._history_s = history_s
        self._now = now
        self._topology_at: datetime | None = None

    def poll(self, cursor: str) -> tuple[Batch, str]:
        """The nodes as they stand, the running jobs, and the jobs that ended since ``cursor``.

        Raises Temporary if the controller does not answer, Permanent if scontrol is missing or
        refuses. What else fails becomes a Note, and its part of the history is asked for again.
        """
        now = self._now()
        seen: list[Observation] = list(self._nodes(now))
        seen += self._optional(self._leaves, now)
        seen += self._optional(self._maintenance, now)
        if self._jobs:
            seen += self._optional(self._running, now)
            ended, cursor = self._ended(cursor, now)
            seen += ended
        return gather(now, self.name, seen), cursor

    def _run(self, argv: Sequence[str]) -> str:
        try:
            return self._host.run(argv, timeout_s=self._timeout_s)
        except NoData as error:
            raise Permanent(str(error)) from error
        except Permanent as error:
            if _PASSING.search(str(error)) and not _NO_ACCOUNTING.search(str(error)):
                raise Temporary(str(error)) from error
            raise

    def _optional(
        self, part: Callable[[datetime], Iterator[Observation]], now: datetime
    ) -> list[Observation]:
        try:
            return list(part(now))
        except BigironError as error:
            return [Note(self.name, str(error))]

    def _nodes(self, now: datetime) -> Iterator[Observation]:
        found = False
        for record, _, _ in records_of_text(self._run(NODES)):
            found = True
            yield from record.observations(now, self.name)
        if not found:
            yield Note(self.name, "scontrol tells of no node")

    def _leaves(self, now: datetime) -> Iterator[Observation]:
        asked = self._topology_at
        if asked is not None and now - asked < timedelta(seconds=TOPOLOGY_EVERY_S):
            return
        self._topology_at = now
        try:
            text = self._run(TOPOLOGY)
        except Permanent:
            return  # no topology plugin: most clusters have none
        nodes = list(leaves_of_text(text))
        yield from (node for node in nodes if isinstance(node, Node))
        if None in nodes:
            yield Note(self.name, "switches with a malformed node list", nodes.count(None))

    def _maintenance(self, now: datetime) -> Iterator[Observation]:
        for found in reservations_of_text(self._run(RESERVATIONS)):
            if found is None:
                yield Note(self.name, "a reservation without nodes or times")
            elif found.end > now:
                yield found

    def _running(self, now: datetime) -> Iterator[Observation]:
        del now
        columns = ",".join(f"{name}:{width}" for name, width in QUEUE)
        states = "--states=RUNNING,SUSPENDED,COMPLETING,CONFIGURING,STOPPED"
        text = self._run(("squeue", "--all", "--noheader", states, f"--Format={columns}"))
        cut = 0
        for line in text.splitlines():
            job = _job_of_line(line)
            if job is not None:
                yield job
            else:
                cut += bool(line.strip())
        if cut:
            yield Note(self.name, "squeue rows that could not be read", cut)

    def _ended(self, cursor: str, now: datetime) -> tuple[list[Observation], str]:
        """Jobs that ended, by sacct where accounting is on, else what the controller remembers."""
        since = time_of(cursor) or now - timedelta(seconds=self._history_s)
        until = min(now, since + timedelta(seconds=WINDOW_S))
        begin = since - timedelta(seconds=OVERLAP_S)
        argv = (
            "sacct",
            "--allusers",
            "--allocations",
            "--duplicates",
            "--parsable2",
            f"--starttime={begin:%Y-%m-%dT%H:%M:%S}",
            f"--endtime={until:%Y-%m-%dT%H:%M:%S}",
            f"--state={ENDED}",
            f"--format={FIELDS}",
        )
        try:
            return list(self._of_sacct(self._run(argv), now)), until.isoformat()
        except Permanent as error:
            if not _NO_ACCOUNTING.search(str(error)) and "not installed" not in str(error):
                return [Note(self.name, str(error))], cursor
        except BigironError as error:
            return [Note(self.name, str(error))], cursor
        return self._optional(self._remembered, now), now.isoformat()

    def _of_sacct(self, text: str, now: datetime) -> Iterator[Observation]:
        for seen in SacctTable().read(Document.of(self.name, text.encode(), now)):
            if not isinstance(seen, Note) or seen.what != NO_ZONE:
                yield seen

    def _remembered(self, now: datetime) -> Iterator[Observation]:
        del now
        for job, _ in jobs_of_text(self._run(JOBS)):
            if job is not None and job.state not in LIVE_STATES and job.end is not None:
                yield job


def _job_of_line(line: str) -> Job | None:
    values: dict[str, str] = {}
    at = 0
    for name, width in QUEUE:
        values[name] = line[at : at + width]
        at += width
    listed = values["nodelist"]
    nodes = nodes_or_none(listed) if listed[-1:] == " " else None  # no blank: it was cut
    values = {name: value.strip() for name, value in values.items()}
    state, reason = state_and_reason(values["state"])
    if not state or nodes is None or not values["jobid"].isdigit():
        return None
    asked = asked_gpus(values["tres-per-job"], values["tres-per-node"], len(nodes))
    return Job(
        id=values["jobid"],
        state=state,
        user=values["username"],
        name=values["name"],
        account=text_or_empty(values["account"]),
        partition=values["partition"],
        submit=time_of(values["submittime"]),
        start=time_of(values["starttime"]),
        nodes=nodes,
        gpus=tres_gpus(values["tres-alloc"]) or asked,
        restarts=int(values["restartcnt"]) if values["restartcnt"].isdigit() else 0,
        reason=reason,
    )
