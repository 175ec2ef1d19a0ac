"""GPUs that a node ought to have and does not show, by its scheduler's word and by its like.

For one look, and for a GPU that was gone before the hub first looked: where the node's own past
tells, ``missing`` needs no comparison.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Set

from bigiron.detect import Key, Window
from bigiron.detect.claims import claim
from bigiron.model import Evidence, Finding, Recovery, Subject

NAME = "missing"
LIKE_NODES = 8
"""Fewer nodes of a kind say nothing about how many GPUs a node of it has."""
LIKE_SHARE = 0.9
LOST = frozenset({"xid.79", "nvrm.gpu_lost", "nvrm.fallen_off", "amdgpu.lost"})
"""Events after which everyone knows: the log's finding is enough."""


def fewer(
    window: Window, shown: Mapping[str, Set[str]], known: Mapping[str, Set[str]]
) -> Iterator[Finding | Recovery]:
    """Findings on nodes that show fewer GPUs than they should.

    ``shown`` are the GPUs seen now by node, ``known`` those ever seen: they are not claimed here.
    """
    told = {node for node, _ in lost(window)}
    standing = window.standing_of(f"{NAME}|gpu.missing|") or frozenset()
    usual = _usual(window, shown)
    for node, gpus in sorted(shown.items()):
        wanted, because = _wanted(window, node, len(gpus), usual)
        if len(gpus) >= wanted or node in told:
            if node in standing:
                yield from _again(window, node, gpus)
            continue
        gone = wanted - len(gpus)
        names: Set[str] = set()
        if gone == 1:  # what is configured may be any number
            names = {f"gpu{index}" for index in range(wanted)} - gpus - known.get(node, set())
        device = min(names) if len(names) == 1 else ""
        what = f"{device} is missing" if device else f"{gone} GPUs are missing"
        yield claim(
            NAME,
            "gpu.missing",
            Subject(node=node, device=device),
            (
                f"{node} shows {len(gpus)} GPUs: {what}. {because}",
                "A GPU that leaves the bus shows first as metrics that end.",
            ),
            since=None,
            evidence=(Evidence("sample", f"{len(gpus)} GPUs have samples", window.now),),
            confidence=0.9,
        )


def lost(window: Window) -> frozenset[Key]:
    """The devices that the log tells are gone."""
    events = window.events
    return window.memo.made(
        "lost", (events,), lambda: frozenset((e.node, e.device) for e in events if e.code in LOST)
    )


def _again(window: Window, node: str, gpus: Set[str]) -> Iterator[Recovery]:
    """The end of what may have been said of a node, or of the GPUs that it shows."""
    for subject in (node, *(f"{node}/{gpu}" for gpu in sorted(gpus))):
        key = f"{NAME}|gpu.missing|{subject}"
        if window.standing is not None and key in window.standing:
            yield Recovery(key, "it is seen again")


def _usual(window: Window, shown: Mapping[str, Set[str]]) -> dict[str, tuple[int, int]]:
    """For each node, how many GPUs nine in ten of its kind show, and how many nodes that are.

    None where all nodes show the same number: then none shows fewer.
    """
    if len({len(gpus) for gpus in shown.values()}) == 1:
        return {}
    kinds: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for node, gpus in shown.items():
        models = {d.model for g in gpus if (d := window.fleet.devices.get((node, g)))}
        of_node = window.fleet.nodes.get(node)
        kinds[of_node.sku if of_node else "", *sorted(models)].append(node)
    usual: dict[str, tuple[int, int]] = {}
    for nodes in kinds.values():
        count, of_like = Counter(len(shown[node]) for node in nodes).most_common(1)[0]
        if of_like >= LIKE_NODES and of_like >= LIKE_SHARE * len(nodes):
            usual |= dict.fromkeys(nodes, (count, of_like))
    return usual


def _wanted(
    window: Window, node: str, shows: int, usual: Mapping[str, tuple[int, int]]
) -> tuple[int, str]:
    """How many GPUs a node should show, and who says so."""
    fact = window.facts.get((node, ""), {}).get("gpu_count_configured")
    if fact is not None and isinstance(fact.value, int | float) and fact.value > shows:
        return int(fact.value), f"Its scheduler counts on {int(fact.value)}."
    count, like = usual.get(node, (0, 0))
    return count, f"{like} nodes like it show {count}."
