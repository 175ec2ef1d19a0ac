"""Every Xid's action against NVIDIA's published bucket, or a stated reason for differing.

The tables are transcribed from the Xid catalogue at docs.nvidia.com/deploy/xid-errors (workbook of
2025-10-29): the sheet of Xids, and the decode of Xid 144 to 150.
"""

from collections.abc import Iterator

import pytest

from bigiron.faults import Catalogue, shipped
from bigiron.model import ActionKind, Blame, Severity, When

BUCKETS = {
    "CONTACT_SUPPORT": (
        "1-7 9-10 12 15-24 26-30 33-36 42 47 49-53 55-59 61 65 73 81 87 90-91 111-118 "
        "122-125 138 142"
    ),
    "RESTART_APP": "8 11 13 25 31-32 39-41 60 68-72 75-77 80 82-86 88-89 94 96-105 126-135 139",
    "IGNORE": "14 37-38 43-44 63 66-67 92-93 106-108 121 137 141 152-153 157 160-161",
    "RESET_GPU": "46 62 64 95 109-110 119-120 136 140 143 155-156 158",
    "": "162-172",
    "WORKFLOW_NVLINK5_ERR": "144-150",
    "WORKFLOW_XID_45": "45",
    "WORKFLOW_XID_48": "48",
    "CHECK_MECHANICALS": "54",
    "WORKFLOW_NVLINK_ERR": "74",
    "UPDATE_SWFW": "78",
    "RESTART_BM": "79",
    "RESTART_VM": "151",
    "XID_154": "154",
    "CHECK_UVM": "159",
}
"""Immediate action of the sheet -> numbers. Those under "" have none; the sheet ends at 172."""

NVLINK5 = (
    ("144.saw_mvb", "IGNORE", "0x1 0x4 0x8 0x20"),
    ("144.saw_mvb", "RESET_GPU", "0x2 0x10"),
    ("145.rlw_ctrl", "IGNORE", "0x80000000"),
    ("145.rlw_remap", "XID_154_EVAL", "0x1 0x2 0x4 0x8 0x10 0x20"),
    ("145.rlw_remap", "RESET_GPU", "0x40 0x80"),
    ("145.rlw_remap", "IGNORE", "0x100 0x200 0x80000000"),
    ("145.rlw_rspcol", "IGNORE", "0x1 0x80000000"),
    ("145.rlw_rspcol", "RESET_GPU", "0x2"),
    ("145.rlw_rxpipe", "IGNORE", "0x1 0x2 0x4 0x8 0x80000000"),
    ("145.rlw_src_track", "RESET_GPU", "0x1 0x10 0x20"),
    ("145.rlw_src_track", "IGNORE", "0x2 0x80000000"),
    ("145.rlw_src_track", "XID_154_EVAL", "0x4 0x8"),
    ("145.rlw_tagstate", "IGNORE", "0x1 0x10000 0x80000000"),
    ("145.rlw_tagstate", "RESET_GPU", "0x2 0x20000 0x100000"),
    ("146.tlw_ctrl", "IGNORE", "0x1 0x2 0x80000000"),
    ("146.tlw_ctrl", "RESET_GPU", "0x4"),
    ("146.tlw_rx", "IGNORE", "0x1 0x2 0x80000000 0x1 0x2 0x80000000"),
    ("146.tlw_rx_pipe0", "IGNORE", "0x1 0x2 0x80000000"),
    ("146.tlw_rx", "RESET_GPU", "0x4 0x4"),
    ("146.tlw_rx_pipe0", "RESET_GPU", "0x4"),
    ("146.tlw_rx_pipe1", "IGNORE", "0x1 0x2 0x80000000"),
    ("146.tlw_rx_pipe1", "RESET_GPU", "0x4"),
    ("146.tlw_tx", "IGNORE", "0x1 0x2 0x80000000 0x1 0x2 0x80000000"),
    ("146.tlw_tx_pipe0", "IGNORE", "0x1 0x2 0x80000000"),
    ("146.tlw_tx", "RESET_GPU", "0x4 0x4"),
    ("146.tlw_tx_pipe0", "RESET_GPU", "0x4"),
    ("146.tlw_tx_pipe1", "IGNORE", "0x1 0x2 0x80000000"),
    ("146.tlw_tx_pipe1", "RESET_GPU", "0x4"),
    ("147.trex", "IGNORE", "0x1 0x80000000"),
    ("148.nvlpw_ctrl", "IGNORE", "0x80000000"),
    ("148.nvlpw", "IGNORE", "0x80000000"),
    ("149.netir", "RESET_GPU", "-"),
    ("149.netir_int", "RESET_GPU", "-"),
    (
        "149.netir_link_evt",
        "RESET_GPU",
        "r0 r1 r2 r4 r10 r15 r16 r17 r18 r21 r22 r32 r33 r34 r35 r36 r37 r42 r43",
    ),
    (
        "149.netir_link_down",
        "RESET_GPU",
        "r0 r1 r2 r4 r10 r15 r16 r17 r18 r21 r22 r32 r33 r34 r35 r36 r37 r42 r43",
    ),
    ("149.netir_link_evt", "IGNORE", "r38 r40"),
    ("149.netir_link_down", "IGNORE", "r38 r40"),
    ("149.netir_ber_event", "IGNORE", "0x0 0x1 0x2 0x3"),
    ("149.netir_mfde_event", "RESET_GPU", "0x1 0x4 0x5 0x7"),
    ("149.netir_mfde_event", "IGNORE", "0x3"),
    ("150.mse_degraded", "RESET_GPU", "-"),
    ("150.mse_watchdog", "RESET_GPU", "-"),
)
"""Xid and unit, data centre recovery action, error status words (r: reasons of a link event)."""

NATURAL = {
    "IGNORE": {ActionKind.NONE},
    "RESTART_APP": {ActionKind.NONE},
    "RESET_GPU": {ActionKind.RESET_GPU},
    "RESTART_BM": {ActionKind.REBOOT},
    "RESTART_VM": {ActionKind.REBOOT},
    "CONTACT_SUPPORT": {ActionKind.CHECK},
    "CHECK_MECHANICALS": {ActionKind.REPAIR},
    "UPDATE_SWFW": {ActionKind.CHECK},
    "WORKFLOW_XID_45": {ActionKind.NONE},
    "WORKFLOW_XID_48": {ActionKind.RESET_GPU},
    "XID_154_EVAL": {ActionKind.NONE},
}
"""What a bucket asks of a node. The others are workflows: they always take a stated reason."""


def numbers(text: str) -> Iterator[int]:
    for part in text.split():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


PUBLISHED = {number: bucket for bucket, text in BUCKETS.items() for number in numbers(text)}
DECODED = [
    (f"xid.{unit}" if status == "-" else f"xid.{unit}.{status}", bucket)
    for unit, bucket, text in NVLINK5
    for status in text.split()
]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return shipped()


def test_the_sheet_has_every_number_once() -> None:
    assert sorted(PUBLISHED) == list(range(1, 173))
    assert sum(len(list(numbers(text))) for text in BUCKETS.values()) == 172


@pytest.mark.parametrize("number", range(1, 174))
def test_xid_follows_its_bucket_or_says_why_not(catalogue: Catalogue, number: int) -> None:
    fault = catalogue.get(f"xid.{number}")
    assert fault is not None
    assert fault.bucket == PUBLISHED.get(number, "")
    assert fault.action in NATURAL.get(fault.bucket, set()) or len(fault.action_why) > 20


@pytest.mark.parametrize(("code", "bucket"), DECODED)
def test_nvlink5_follows_its_bucket_or_says_why_not(
    catalogue: Catalogue, code: str, bucket: str
) -> None:
    fault = catalogue.get(code)
    assert fault is not None
    assert fault.bucket == bucket
    assert fault.action in NATURAL[bucket] or len(fault.action_why) > 20


def test_nvlink5_has_every_row_of_the_decode_and_a_word_for_what_it_lacks(
    catalogue: Catalogue,
) -> None:
    listed = {code for code, _ in DECODED}
    held = {fault.code for fault in catalogue if fault.code.count(".") > 1 and "xid." in fault.code}
    beyond = {code for code in held - listed if code.startswith("xid.")}
    assert all(code.count(".") == 2 for code in beyond), "only units themselves go beyond the rows"
    assert all(catalogue.find(f"{code}.0xdead").code == code for code in beyond)
    assert catalogue.find("xid.146.new_unit.0x1").code == "xid.146"


@pytest.mark.parametrize("number", [13, 31, 43, 45, 68, 69, 137])
def test_a_programs_own_xid_never_acts_on_a_node(catalogue: Catalogue, number: int) -> None:
    fault = catalogue.find(f"xid.{number}")
    assert fault.blame is Blame.APPLICATION
    assert fault.action is ActionKind.NONE
    assert fault.severity.rank <= Severity.WARNING.rank


@pytest.mark.parametrize(
    ("number", "action", "when"),
    [
        (48, ActionKind.RESET_GPU, When.NOW),
        (63, ActionKind.RESET_GPU, When.JOB_END),
        (64, ActionKind.RESET_GPU, When.NOW),
        (79, ActionKind.REBOOT, When.NOW),
        (94, ActionKind.RESET_GPU, When.JOB_END),
        (95, ActionKind.RESET_GPU, When.NOW),
        (119, ActionKind.RESET_GPU, When.NOW),
        (120, ActionKind.RESET_GPU, When.NOW),
        (140, ActionKind.RESET_GPU, When.NOW),
        (143, ActionKind.RESET_GPU, When.NOW),
    ],
)
def test_what_breaks_hardware_asks_for_its_cure(
    catalogue: Catalogue, number: int, action: ActionKind, when: When
) -> None:
    fault = catalogue.find(f"xid.{number}")
    assert (fault.action, fault.when) == (action, when)
    assert fault.blame is Blame.DEVICE


def test_a_new_number_is_told_and_not_acted_on(catalogue: Catalogue) -> None:
    fault = catalogue.find("xid.999")
    assert fault.code == "xid.unknown"
    assert fault.severity is Severity.WARNING
    assert fault.action is ActionKind.CHECK


@pytest.mark.parametrize(
    ("effect", "cause"),
    [
        ("xid.45", "xid.79"),
        ("xid.45", "xid.13"),
        ("xid.43", "xid.31"),
        ("xid.63", "xid.48"),
        ("xid.94", "xid.48"),
        ("xid.95", "xid.48"),
        ("xid.74", "xid.79"),
        ("xid.154", "xid.63"),
        ("sxid.20034", "xid.79"),
        ("nvrm.rm_init_failed", "xid.79"),
        ("recovery.1", "xid.119"),
    ],
)
def test_consequences_know_their_causes(catalogue: Catalogue, effect: str, cause: str) -> None:
    assert cause in catalogue.find(effect).follows
