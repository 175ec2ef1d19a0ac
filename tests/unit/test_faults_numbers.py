"""DCGM's codes against its own severities, and NVSwitch's against the Fabric Manager guide.

Tables transcribed from dcgm_errors.h (DCGM 4.6) and from the SXid tables of NVIDIA's Fabric
Manager user guide.
"""

from collections.abc import Iterator

import pytest

from bigiron.faults import shipped
from bigiron.model import ActionKind, Severity, When

DCGM = {
    "UNKNOWN": "0-2 21",
    "ISOLATE": (
        "3-4 7-8 13 15 24 33 35-36 38-39 52 57-58 70-71 79 81 86-88 95 98 102-107 109 "
        "111 113-116 118-122 126"
    ),
    "MONITOR": "5 10-12 16-17 19 26-27 32 34 40-43 51 53 61 69 74-76 108 123 131",
    "RESET": "6 25 80 83-85 125 127-129",
    "TRIAGE": ("9 14 22 30-31 37 44-45 49-50 54 56 59 62-67 73 77 89-94 97 99-101 110 124 130 132"),
    "CONFIG": "18 20 23 28-29 46-48 55 60 68 72 78 82 96 112 117",
}
"""Severity in dcgm_errors.h -> index of the code."""

SXID = {
    "not": (
        "10001-10002 10004-10005 11004 11012 11021-11023 12021 12023 12028 12030 15008 "
        "15011 19049 19055 19057 19059 19062 19065 19068 19071 19084 20001 20009 20012 "
        "22013 24001-24003"
    ),
    "always": "10003 12020 22003 22011 23001-23017",
    "port": (
        "11001 11009 11013 11018-11020 12001-12002 12022 12024-12027 12031-12032 14017 "
        "15001 15006 15009-15010 15012-15013 19047-19048 19054 19056 19058 19060-19061 "
        "19063-19064 19066-19067 19069-19070 20034 24004-24007"
    ),
}
"""always: fatal to the whole fabric. port: fatal to the partition of a port. not: neither."""

DCGM_ACTIONS = {
    "NONE": {ActionKind.NONE},
    "UNKNOWN": {ActionKind.NONE, ActionKind.CHECK},
    "MONITOR": {ActionKind.NONE, ActionKind.CHECK},
    "CONFIG": {ActionKind.NONE, ActionKind.CHECK},
    "TRIAGE": {ActionKind.CHECK, ActionKind.DRAIN},
    "RESET": {ActionKind.RESET_GPU},
    "ISOLATE": {
        ActionKind.DRAIN,
        ActionKind.DRAIN_NOW,
        ActionKind.REBOOT,
        ActionKind.REPAIR,
        ActionKind.RESET_GPU,
    },
}


def numbers(text: str) -> Iterator[int]:
    for part in text.split():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def test_the_dcgm_table_has_every_code() -> None:
    assert sorted(n for text in DCGM.values() for n in numbers(text)) == list(range(133))


@pytest.mark.parametrize(
    ("number", "severity"), [(n, rating) for rating, text in DCGM.items() for n in numbers(text)]
)
def test_dcgm_code_follows_its_severity_or_says_why_not(number: int, severity: str) -> None:
    fault = shipped().get(f"dcgm.{number}")
    assert fault is not None
    assert fault.bucket == severity
    assert fault.mnemonic.startswith("DCGM_FR_")
    assert fault.action in DCGM_ACTIONS[severity] or len(fault.action_why) > 20


@pytest.mark.parametrize("number", list(numbers(SXID["always"])))
def test_what_is_fatal_to_the_fabric_restarts_the_node_at_once(number: int) -> None:
    fault = shipped().get(f"sxid.{number}")
    assert fault is not None
    assert (fault.severity, fault.action, fault.when) == (
        Severity.FATAL,
        ActionKind.REBOOT,
        When.NOW,
    )


@pytest.mark.parametrize("number", list(numbers(SXID["port"])))
def test_what_is_fatal_to_a_port_restarts_the_node(number: int) -> None:
    fault = shipped().get(f"sxid.{number}")
    assert fault is not None
    assert (fault.severity, fault.action) == (Severity.FATAL, ActionKind.REBOOT)


@pytest.mark.parametrize("number", list(numbers(SXID["not"])))
def test_what_the_switch_corrected_takes_no_node_out(number: int) -> None:
    fault = shipped().get(f"sxid.{number}")
    assert fault is not None
    assert fault.severity.rank <= Severity.WARNING.rank
    assert fault.action in {ActionKind.NONE, ActionKind.CHECK}


def test_an_sxid_of_no_guide_says_whence_its_rating() -> None:
    unlisted = [
        fault
        for fault in shipped()
        if fault.code.startswith("sxid.") and fault.source == "nvswitch"
    ]
    assert len(unlisted) > 250
    acting = {ActionKind.DRAIN, ActionKind.REBOOT}
    assert [f.code for f in unlisted if f.action in acting and not f.action_why] == []
