"""``kubectl get nodes,pods,events -o json|yaml``: single objects, lists, and several documents."""

import importlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, Reader, reader
from bigiron.ingest.kubernetes_event import event_of
from bigiron.ingest.kubernetes_node import NodeObject, listing, mapping
from bigiron.ingest.kubernetes_pod import PodJobs
from bigiron.model import Event, Note, Observation

YAML_LIMIT = 64 * 1024 * 1024
"""PyYAML needs about a hundred times a document's size; larger ones should be asked as JSON."""

OBJECTS_LIMIT = 2_000_000
DEPTH_LIMIT = 3

_OURS = "(?:Node|Pod|Event|List|NodeList|PodList|EventList)"
_KIND = re.compile(rf"^[ \t]*(?:- )?kind: *['\"]?{_OURS}['\"]?\s*$", re.MULTILINE)
_VERSION = re.compile(r'"?apiVersion"?:\s*"?(?:v1|events\.k8s\.io/v1(?:beta1)?)"?')
_JSON_KIND = re.compile(rf'"kind"\s*:\s*"{_OURS}"')


class Objects:
    """Sorts objects by kind; nodes come last, as pods tell whether they are busy."""

    def __init__(self, document: Document, places: Mapping[str, str] | None = None) -> None:
        self._document = document
        self._places = places
        self._nodes: list[NodeObject] = []
        self._events: list[Event] = []
        self._pods = PodJobs()
        self._pods_seen = False
        self._seen = 0
        self._other: dict[str, int] = {}
        self._unusable = self._unused = 0

    def add(self, data: object, kind: str = "", depth: int = 0) -> None:
        """An object or a list of them; ``kind`` is what a list says of its entries.

        Raises ParseError past OBJECTS_LIMIT and DEPTH_LIMIT: YAML's anchors make a small text
        stand for endless lists.
        """
        self._seen += 1
        if self._seen > OBJECTS_LIMIT or depth > DEPTH_LIMIT:
            raise ParseError(self._document.name, 0, "too many objects, or lists within lists")
        found = mapping(data)
        own = str(found.get("kind") or kind)
        if "items" in found and (own.endswith("List") or not own):
            self._pods_seen |= own == "PodList"
            for item in listing(found["items"]):
                self.add(item, own.removesuffix("List"), depth + 1)
        elif own == "Node" and mapping(found.get("metadata")).get("name"):
            self._nodes.append(NodeObject(found, self._document.name, self._places))
        elif own == "Pod":
            self._pods_seen = True
            self._pods.add(found)
        elif own == "Event":
            event = event_of(found, self._document.name)
            self._unused += event is None
            if event is not None:
                self._events.append(event)
        elif own:
            self._other[own] = self._other.get(own, 0) + 1
        else:
            self._unusable += 1

    def pods_known(self, known: bool = True) -> None:
        """Say that all pods are added, so that a node without one is idle."""
        self._pods_seen = known

    def observations(self) -> Iterator[Observation]:
        """What all of them tell. Raises ParseError if there is no node, pod or event."""
        name, now = self._document.name, self._document.now
        if not (self._nodes or self._pods_seen or self._events or self._unused):
            kinds = ", ".join(sorted(self._other)) or "nothing"
            raise ParseError(name, 0, f"no Node, Pod or Event in it, only {kinds}")
        busy = self._pods.busy()
        for node in self._nodes:
            yield from node.observations(now, node.name in busy if self._pods_seen else None)
        yield from self._pods.jobs()
        yield from self._events
        yield from self._left_out()

    def _left_out(self) -> Iterator[Note]:
        for what, count in (
            ("Kubernetes events that are no fault of a node", self._unused),
            ("pods without a GPU", self._pods.without_gpu),
            ("entries that are no Kubernetes object", self._unusable),
            *((f"objects of kind {kind}", count) for kind, count in sorted(self._other.items())),
        ):
            if count:
                yield Note(self._document.name, what, count)


class KubernetesObjects:
    """JSON or YAML as kubectl prints it."""

    def sniff(self, head: Head) -> float:
        """An apiVersion and a kind of ours."""
        text = head.text
        if not _VERSION.search(text):
            return 0.0
        return 0.9 if _JSON_KIND.search(text) or _KIND.search(text) else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        """Nodes, jobs of pods, and faults. Raises ParseError if it holds none of these."""
        objects = Objects(document)
        for data in _decoded(document):
            objects.add(data)
        yield from objects.observations()


def _decoded(document: Document) -> Iterator[object]:
    text = document.text()
    if text.lstrip().startswith("{"):
        try:
            yield msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise ParseError(document.name, 0, f"not JSON: {error}") from error
        return
    if len(text) > YAML_LIMIT:
        raise ParseError(document.name, 0, f"YAML over {YAML_LIMIT} bytes: ask kubectl for JSON")
    yield from _of_yaml(text, document.name)


def _of_yaml(text: str, name: str) -> Iterator[object]:
    # comes with ClusterShell, whose dependency it is; imported here as few documents need it
    yaml: Any = importlib.import_module("yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from yaml.load_all(text, Loader=loader)
    except RecursionError as error:
        raise ParseError(name, 0, "not a Kubernetes object: nested too deeply") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 0
        said = getattr(error, "problem", None) or "malformed"
        raise ParseError(name, line, f"not YAML: {said}") from error


@reader()
def kubernetes_objects() -> Reader:
    """`kubectl get nodes,pods,events -o json` or `-o yaml`, single objects or lists."""
    return KubernetesObjects()
