"""Findings are told as a person would say them."""

from datetime import UTC, datetime, timedelta

import pytest

from bigiron.detect import Fleet, Window
from bigiron.detect.incidents import incidents
from bigiron.detect.words import device_words, lower, sentence, told
from bigiron.model import Device, Event

T0 = datetime(2026, 3, 2, 16, 24, 18, tzinfo=UTC)
WINDOW = Window(
    now=T0,
    fleet=Fleet(devices={("g1", "gpu4"): Device("g1", "gpu4", "gpu", bus="0000:9b:00.0")}),
)


def happening(code: str, device: str = "", after_s: float = 0.0, text: str = "") -> Event:
    return Event("g1", code, text, device, T0 + timedelta(seconds=after_s))


def said(*events: Event) -> str:
    (incident,) = incidents(events)
    return told(WINDOW, incident)


@pytest.mark.parametrize(
    ("name", "within"),
    [
        ("Fabric Manager saw a fatal NVSwitch error", "Fabric Manager saw a fatal NVSwitch error"),
        ("Fabric key error", "fabric key error"),
        ("GPU reset failed", "GPU reset failed"),
        ("NVLink error", "NVLink error"),
        ("Kernel panic", "kernel panic"),
        ("vGPU could not start", "vGPU could not start"),
    ],
)
def test_names_keep_their_capitals_within_a_sentence(name: str, within: str) -> None:
    assert lower(name) == within


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("kernel panic", "Kernel panic."),
        ("mlx5_0 is down", "mlx5_0 is down."),
        ("gpu3: gone", "gpu3: gone."),
        ("amdgpu error", "amdgpu error."),
        ("Is it over?", "Is it over?"),
        ("", "."),
    ],
)
def test_a_sentence_has_a_capital_and_a_stop(text: str, whole: str) -> None:
    assert sentence(text) == whole


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("gpu4", "GPU 9b:00 (gpu4)"),
        ("gpu5", "GPU 5"),
        ("kfd42583", "GPU kfd42583"),
        ("nvswitch1", "NVSwitch nvswitch1"),
        ("mlx5_3", "network adapter mlx5_3"),
        ("enp97s0f0", "network adapter enp97s0f0"),
        ("nvme9", "NVMe drive nvme9"),
        ("0000:c3:00.0", "PCIe device c3:00"),
    ],
)
def test_parts_are_called_what_they_are(device: str, words: str) -> None:
    assert device_words(WINDOW, "g1", device) == words


def test_the_day_is_told_again_only_if_it_is_another() -> None:
    day_s = 86_400.0
    today = said(happening("xid.119", "gpu4"), happening("xid.119", "gpu4", 355))
    assert today == (
        "GPU 9b:00 (gpu4) did not answer: its GSP timed out at 2026-03-02 16:24:18 (XID 119), "
        "2 times until 16:30:13."
    )
    later = said(happening("xid.119", "gpu4"), happening("xid.119", "gpu4", day_s))
    assert later.endswith(", 2 times until 2026-03-03 16:24:18.")
    at_once = said(happening("xid.119", "gpu4"), happening("xid.119", "gpu4", 0.0, "other"))
    assert at_once.endswith("(XID 119), 2 times.")


def test_once_on_each_device_is_not_counted() -> None:
    devices = ("mlx5_0", "mlx5_1", "mlx5_2")
    assert said(*(happening("nic.rate", device) for device in devices)) == (
        "3 network adapters (mlx5_0, mlx5_1, mlx5_2): port slow at 2026-03-02 16:24:18 (nic.rate)."
    )


def test_the_host_is_not_named_where_a_fault_is_about_it() -> None:
    assert said(happening("kernel.panic")) == "Kernel panic at 2026-03-02 16:24:18 (kernel.panic)."


def test_a_fault_of_a_part_that_is_not_told_is_not_the_hosts() -> None:
    assert said(happening("xid.79")).startswith("A GPU fell off the bus at ")


def test_a_row_of_a_table_has_no_time_to_tell() -> None:
    event = Event("g1", "slurm.node_drain", "fan swap", line=7)
    assert said(event) == "Node drained in Slurm (slurm.node_drain)."
    log = Event("g1", "kernel.panic", "Kernel panic", line=7)
    assert said(log) == "Kernel panic in line 7 (kernel.panic)."


def test_what_follows_is_named_by_what_it_is() -> None:
    text = said(happening("xid.119", "gpu4"), happening("kernel.call_trace", after_s=3))
    assert text.endswith(
        "; from it came: kernel warning with a stack trace (kernel.call_trace) 3 s later."
    )


def test_what_follows_and_is_named_by_a_sentence_is_counted_behind_it() -> None:
    waits = [happening("slurm.not_responding", after_s=s, text=f"{s}") for s in (40, 70)]
    text = said(happening("kernel.soft_lockup"), *waits)
    came = "; from it came: node does not answer Slurm (slurm.not_responding, 2 times) 40 s later."
    assert text.endswith(came)


def test_an_escalation_on_the_same_device_is_told_as_one() -> None:
    text = said(happening("xid.94", "gpu4"), happening("xid.95", "gpu4", 9))
    assert text == (
        "GPU 9b:00 (gpu4) had a contained memory error at 2026-03-02 16:24:18 (XID 94); "
        "then it had an uncontained memory error (XID 95)."
    )
