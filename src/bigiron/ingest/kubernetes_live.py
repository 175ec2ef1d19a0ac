"""A live Kubernetes API server: nodes, pods and events, listed page by page. Reading only.

The rights it needs: ``list`` on nodes, pods and events of all namespaces. Credentials are found as
kubectl finds them, or in the pod's service account.
"""

import importlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec import MsgspecError

from bigiron.errors import BigironError, ConfigError, Permanent, Temporary
from bigiron.ingest import Document, gather
from bigiron.ingest.kubernetes import Objects
from bigiron.ingest.kubernetes_event import seen_at
from bigiron.ingest.kubernetes_node import mapping
from bigiron.model import Batch, Note, Observation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from httpx2 import HTTPStatusError
    from lightkube import Client
    from lightkube.config.kubeconfig import SingleConfig

PAGE = 500
"""Objects asked for at once; kubectl's own default."""
OBJECTS_LIMIT = 500_000
"""Objects of one kind that are read in one poll; the rest is counted."""
RETRY_AFTER_S = 30.0
LIST_S = 300.0
"""Longest time for all pages of one kind: a list that goes round in circles ends, too."""
_SECONDS = re.compile(r"\d{1,5}")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class KubernetesSource:
    """Polls a cluster; the cursor is the time of the newest event read, and which had that time.

    ``url`` names a server that needs no credentials (a kubectl proxy, a test); else ``kubeconfig``
    and ``context`` are used, or what the pod or the environment offers. ``places`` maps a field of
    Node (rack, leaf ...) to the label that tells it.
    """

    def __init__(
        self,
        *,
        name: str = "kubernetes",
        every_s: float = 30.0,
        timeout_s: float = 20.0,
        url: str = "",
        kubeconfig: str = "",
        context: str = "",
        places: "Mapping[str, str] | None" = None,
        page: int = PAGE,
        list_s: float = LIST_S,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self.name = name
        self.every_s = every_s
        self._timeout_s = timeout_s
        self._url = url
        self._kubeconfig = kubeconfig
        self._context = context
        self._places = places
        self._page = page
        self._list_s = list_s
        self._now = now
        self._client: Client | None = None

    def poll(self, cursor: str) -> tuple[Batch, str]:
        """Nodes and jobs as they stand, and the events since ``cursor``.

        Raises Temporary if the server is away or busy, Permanent if it refuses the nodes, and
        ConfigError if there are no credentials. Pods or events that are refused become a Note.
        """
        now = self._now()
        objects = Objects(Document.of(self.name, b"", now), self._places)
        notes: list[Note] = []
        for data in self._list("Node", "nodes", notes):
            objects.add(data, "Node")
        try:
            objects.pods_known()
            for data in self._list("Pod", "pods", notes):
                objects.add(data, "Pod")
        except Permanent as error:
            notes.append(Note(self.name, str(error)))
            objects.pods_known(known=False)
        try:
            cursor = self._events(objects, cursor, notes)
        except Permanent as error:
            notes.append(Note(self.name, str(error)))
        return gather(now, self.name, [*_of(objects, self.name), *notes]), cursor

    def close(self) -> None:
        """Let go of the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _events(self, objects: Objects, cursor: str, notes: list[Note]) -> str:
        last, _, told = cursor.partition("|")
        known = set(told.split(",")) if told else set()
        newest, at_newest = last, set(known)
        for data in self._list("Event", "events", notes):
            at = seen_at(data)
            when = at.isoformat() if at is not None else ""
            mark = _mark(data)
            if when < last or (when == last and mark in known):
                continue
            objects.add(data, "Event")
            if when > newest:
                newest, at_newest = when, set()
            if when == newest:
                at_newest.add(mark)
        return f"{newest}|{','.join(sorted(at_newest)[:PAGE])}" if newest else cursor

    def _list(self, kind: str, plural: str, notes: list[Note]) -> "Iterator[Mapping[str, Any]]":
        """Every object of a kind, page after page. Raises Temporary or Permanent."""
        import httpx2

        read, until = 0, monotonic() + self._list_s
        client = self._connected()
        try:
            for data in client.list(_resource(kind, plural), **_scope(kind, self._page)):
                read += 1
                if read > OBJECTS_LIMIT:
                    notes.append(Note(self.name, f"{plural} past the first {OBJECTS_LIMIT}"))
                    return
                if monotonic() > until:
                    said = f"{self._where()}: {plural}: not all listed in {self._list_s:g} s"
                    raise Temporary(said, retry_after_s=RETRY_AFTER_S)
                yield data
        except httpx2.HTTPStatusError as error:
            raise _refused(error, plural) from error
        except KeyError as error:
            # lightkube looks for the content type of an error that came without one
            if isinstance(error.__context__, httpx2.HTTPStatusError):
                raise _refused(error.__context__, plural) from error
            raise
        except (TypeError, AttributeError) as error:  # entries that are no objects
            said = f"{self._where()}: {plural}: not what the API promises: {error}"
            raise Temporary(said, retry_after_s=RETRY_AFTER_S) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, MsgspecError, ValueError, OSError) as error:
            said = f"{self._where()}: {plural}: {error or type(error).__name__}"
            raise Temporary(said, retry_after_s=RETRY_AFTER_S) from error

    def _where(self) -> str:
        return self._url or self._kubeconfig or "the cluster's API"

    def _connected(self) -> "Client":
        """The client, made once. Raises ConfigError naming the file with unusable credentials."""
        import httpx2
        from lightkube import Client
        from lightkube.core.exceptions import ConfigError as NoConfig

        if self._client is not None:
            return self._client
        broken: Any = importlib.import_module("yaml").YAMLError
        wrong = (NoConfig, OSError, LookupError, TypeError, ValueError, AttributeError)
        try:
            self._client = Client(
                config=self._credentials(),
                timeout=httpx2.Timeout(self._timeout_s),
                trust_env=not self._url,
            )
        except (*wrong, AssertionError, broken) as error:
            file = self._kubeconfig or "kubeconfig"
            wanted = f"no usable credentials: {error or type(error).__name__}"
            raise ConfigError(file, self._context, wanted) from error
        return self._client

    def _credentials(self) -> "SingleConfig | None":
        """Where the server is and who we are; lightkube raises many things if they are amiss."""
        from lightkube.config.kubeconfig import KubeConfig
        from lightkube.config.models import Cluster, User

        if self._url:
            found = KubeConfig.from_one(cluster=Cluster(server=self._url), user=User())
        elif self._kubeconfig:
            found = KubeConfig.from_file(Path(self._kubeconfig).expanduser())
        else:
            found = KubeConfig.from_env()
        return found.get(context_name=self._context or None)


def _of(objects: Objects, source: str) -> Iterator[Observation]:
    try:
        yield from objects.observations()
    except BigironError as error:
        yield Note(source, str(error))


def _mark(data: "Mapping[str, Any]") -> str:
    meta = mapping(data.get("metadata"))
    return f"{meta.get('uid') or meta.get('name')}:{meta.get('resourceVersion')}"


def _scope(kind: str, page: int) -> dict[str, Any]:
    return {"chunk_size": page} if kind == "Node" else {"chunk_size": page, "namespace": "*"}


def _resource(kind: str, plural: str) -> Any:
    """A resource whose objects stay plain dicts, as the reader of files wants them."""
    from lightkube.core import resource
    from lightkube.generic_resource import GenericGlobalResource, GenericNamespacedResource

    base = GenericGlobalResource if kind == "Node" else GenericNamespacedResource
    info = resource.ApiInfo(
        resource=resource.ResourceDef("", "v1", kind), plural=plural, verbs=["list", "global_list"]
    )
    return type(kind, (base,), {"_api_info": info})


def _refused(error: "HTTPStatusError", plural: str) -> BigironError:
    """The server's answer as ours: 401, 403 and 404 are for a person, the rest passes.

    410 means that the list went stale between two pages; it is simply asked again.
    """
    status = error.response.status_code
    text = f"{error.request.url.copy_with(query=None)}: {plural}: HTTP {status}: {_said(error)}"
    if status in (401, 403, 404):
        return Permanent(text)
    asked = error.response.headers.get("Retry-After", "")
    wait_s = float(asked) if _SECONDS.fullmatch(asked) else RETRY_AFTER_S
    return Temporary(text, retry_after_s=wait_s)


def _said(error: "HTTPStatusError") -> str:
    return (str(error) or error.response.reason_phrase).splitlines()[0][:200]
