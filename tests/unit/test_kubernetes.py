"""Kubernetes objects from files."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head
from bigiron.ingest.kubernetes import KubernetesObjects, Objects
from bigiron.model import Event, Fact, Job, Node, NodeState, Note, Observation

FIXTURES = Path(__file__).parents[1] / "fixtures" / "kubernetes"
NOW = datetime(2026, 5, 6, tzinfo=UTC)


def read(name: str) -> list[Observation]:
    document = Document.of(name, (FIXTURES / name).read_bytes(), NOW)
    assert KubernetesObjects().sniff(Head.of(document)) > 0.5
    return list(KubernetesObjects().read(document))


def read_text(text: str) -> list[Observation]:
    return list(KubernetesObjects().read(Document.of("text", text.encode(), NOW)))


def codes(observations: list[Observation], node: str) -> list[str]:
    return [o.code for o in observations if isinstance(o, Event) and o.node == node]


def facts(observations: list[Observation], node: str) -> dict[str, object]:
    return {o.name: o.value for o in observations if isinstance(o, Fact) and o.node == node}


def states(observations: list[Observation]) -> dict[str, NodeState]:
    return {o.node: o for o in observations if isinstance(o, NodeState)}


def test_a_healthy_node_raises_nothing() -> None:
    seen = read("nodes.json")
    assert codes(seen, "gpu-a1") == []
    assert facts(seen, "gpu-a1") == {
        "kernel": "6.8.0-45-generic",
        "boot_id": "b-1",
        "os_image": "Ubuntu 24.04",
        "kubelet_version": "v1.31.2",
        "container_runtime": "containerd://1.7.2",
        "driver_version": "570.86.15",
        "gpu_model": "NVIDIA-H100-80GB-HBM3",
        "gpu_count_discovered": 8,
        "gpu_count_capacity": 8,
        "gpu_count_allocatable": 8,
        "k8s_troubles": "",
    }
    assert states(seen)["gpu-a1"].state == "unknown"  # whether it is busy only pods can tell


def test_other_names_and_addresses_of_a_node_are_told_where_they_differ() -> None:
    addresses = (
        '[{"type": "InternalIP", "address": "10.4.0.1"}, {"type": "Hostname", "address": "n1"}, 7]'
    )
    node = '{"kind": "Node", "metadata": {"name": "n1"}, "status": {"addresses": '
    text = f"{node}{addresses}}}}}"
    assert facts(read_text(text), "n1") == {"address": "10.4.0.1", "k8s_troubles": ""}


def test_a_cordon_is_a_drain_with_its_reason() -> None:
    seen = read("nodes.json")
    state = states(seen)["gpu-a2"]
    assert (state.state, state.reason) == ("drain", "fan swap")
    assert state.since == datetime(2026, 5, 3, 10, tzinfo=UTC)
    assert codes(seen, "gpu-a2") == [
        "k8s.pressure",
        "k8s.cordoned",
        "k8s.gpu_unhealthy",
        "k8s.gpu_unhealthy",
    ]
    label, resource = (
        o for o in seen if isinstance(o, Event) and o.node == "gpu-a2" and "gpu" in o.code
    )
    assert label.device == "gpu5"
    assert resource.attrs == {"found": "7", "configured": "8", "suspect": "hardware"}


def test_a_silent_kubelet_is_unreachable_and_a_taint_names_the_xid() -> None:
    seen = read("nodes.json")
    assert states(seen)["gpu-a3"].state == "down"
    assert codes(seen, "gpu-a3") == ["k8s.unreachable", "k8s.gpu_unhealthy"]
    taint = next(o for o in seen if isinstance(o, Event) and o.attrs.get("taint"))
    assert taint.attrs["xid"] == "94"
    assert taint.time == datetime(2026, 5, 4, 9, tzinfo=UTC)


def test_conditions_of_both_polarities() -> None:
    seen = read("nodes.json")
    assert codes(seen, "gpu-a4") == [
        "k8s.not_ready",
        "k8s.network_unavailable",
        "k8s.gpu_unhealthy",
        "k8s.npd_condition",
        "k8s.gpu_unhealthy",
        "k8s.gpu_unhealthy",
    ]
    hardware = next(o for o in seen if isinstance(o, Event) and o.attrs.get("xid") == "79")
    assert (hardware.device, hardware.attrs["condition"]) == ("gpu3", "AcceleratedHardwareReady")
    plugin = next(
        o for o in seen if isinstance(o, Event) and "suspect" in o.attrs and o.node == "gpu-a4"
    )
    assert plugin.attrs["suspect"] == "device_plugin"


def test_pods_of_one_run_are_one_job() -> None:
    seen = read("pods.json")
    found = {o.id: o for o in seen if isinstance(o, Job)}
    run = found["ml/run1"]
    assert (run.state, run.gpus, run.nodes, run.restarts) == (
        "RUNNING",
        16,
        ("gpu-a1", "gpu-a2"),
        2,
    )
    assert run.start == datetime(2026, 5, 2, 0, 0, 3, tzinfo=UTC)
    assert (run.end, run.partition) == (None, "big")
    ended = found["ml/eval-xyz"]
    assert (ended.state, ended.exit_code, ended.signal, ended.reason) == (
        "FAILED",
        137,
        9,
        "OOMKilled",
    )
    assert ended.end == datetime(2026, 5, 3, 1, tzinfo=UTC)
    assert (found["ml/lost"].state, found["ml/lost"].gpus) == ("NODE_FAIL", 2)
    assert [o.what for o in seen if isinstance(o, Note)] == ["pods without a GPU"]


def test_events_of_nodes_are_kept_and_the_rest_counted() -> None:
    seen = read("events.json")
    events = [o for o in seen if isinstance(o, Event)]
    assert [(o.node, o.code, o.count) for o in events] == [
        ("gpu-a4", "k8s.not_ready", 1),
        ("gpu-a4", "k8s.gpu_unhealthy", 3),
        ("gpu-a1", "kernel.reboot", 1),
    ]
    assert events[1].attrs == {"reason": "GpuXidError", "component": "gpu-monitor", "xid": "48"}
    assert events[2].time == datetime(2026, 5, 5, 10, 0, 2, 500_000, tzinfo=UTC)
    assert [o.count for o in seen if isinstance(o, Note)] == [2]


def test_yaml_with_plain_times_and_several_documents() -> None:
    seen = read("node.yaml")
    assert [o.sku for o in seen if isinstance(o, Node)] == ["a100x4"]
    assert facts(seen, "gpu-b1")["driver_version"] == "550.90.07"
    event = next(o for o in seen if isinstance(o, Event))
    assert (event.code, event.time) == (
        "k8s.npd_condition",
        datetime(2026, 5, 5, 10, tzinfo=UTC),
    )
    assert [o.what for o in seen if isinstance(o, Note)] == ["objects of kind ConfigMap"]


def test_labels_tell_the_place_only_where_they_are_named() -> None:
    import msgspec

    objects = Objects(Document.of("x", b"", NOW), {"rack": "example.org/rack"})
    objects.add(msgspec.json.decode((FIXTURES / "nodes.json").read_bytes()))
    racks = {o.name: o.rack for o in objects.observations() if isinstance(o, Node)}
    assert racks["gpu-a1"] == "r07"
    assert racks["gpu-a2"] == ""
    plain = {o.name: o.rack for o in read("nodes.json") if isinstance(o, Node)}
    assert plain["gpu-a1"] == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"apiVersion": "v1", "kind": "Node"', "not JSON"),
        ("apiVersion: v1\nkind: Node\nmetadata: {a: [}\n", "not YAML"),
        ("apiVersion: v1\nkind: Service\n", "only Service"),
        ("apiVersion: v1\nkind: Node\nx: " + "[" * 20_000, "nested too deeply|not YAML"),
    ],
)
def test_unusable_text_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(ParseError, match=said) as caught:
        read_text(text)
    assert caught.value.source == "text"


def test_yaml_anchors_cannot_make_it_endless() -> None:
    bomb = "kind: List\nitems:\n- &a {kind: List, items: [1, 2]}\n"
    for name, before in zip("bcdefghi", "abcdefgh", strict=True):
        bomb += f"- &{name} {{kind: List, items: [{', '.join([f'*{before}'] * 9)}]}}\n"
    with pytest.raises(ParseError, match="too many objects"):
        read_text(bomb)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "kind",
                    "metadata",
                    "spec",
                    "status",
                    "conditions",
                    "taints",
                    "labels",
                    "name",
                    "items",
                    "containers",
                    "type",
                    "involvedObject",
                    "containerStatuses",
                    "state",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.sampled_from(["Node", "Pod", "Event", "NodeList"]), JSON)
def test_survives_any_object(kind: str, data: object) -> None:
    objects = Objects(Document.of("x", b"", NOW))
    whole = {**data, "kind": kind} if isinstance(data, dict) else {"kind": kind, "items": data}
    try:
        objects.add(whole)
        seen = list(objects.observations())
    except ParseError:
        return
    assert all(isinstance(o, Node | NodeState | Fact | Event | Job | Note) for o in seen)
