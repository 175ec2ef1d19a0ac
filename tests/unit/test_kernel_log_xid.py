"""Xid and SXid lines in all their spellings."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.faults import Catalogue, parse
from bigiron.ingest.xid_line import Other, XidLine, XidLines
from bigiron.ingest.xid_nvlink import NvlinkCodes

TOML = Path(__file__).parents[1] / "fixtures" / "kernel_log" / "faults.toml"
XIDS = XidLines(NvlinkCodes(Catalogue(*parse(TOML.read_text("utf-8"), "faults.toml"))))


def read(message: str) -> XidLine:
    found = XIDS.parse(message)
    assert isinstance(found, XidLine), found
    return found


@pytest.mark.parametrize(
    ("where", "device"),
    [
        ("PCI:0000:9b:00", "0000:9b:00.0"),
        ("PCI:0000:9B:00.0", "0000:9b:00.0"),
        ("PCI:9b:00", "0000:9b:00.0"),
        ("0000:9b:00", "0000:9b:00.0"),
        ("PCI:0018:01:00", "0018:01:00.0"),
        ("PCI:00010000:01:00", "10000:01:00.0"),
        ("PCI:0000:10:1c", "0000:10:1c.0"),
        ("0003:00", "0000:03:00.0"),
        ("PCI:0000:9b:00 GPU-I:05", "0000:9b:00.0"),
        (
            "GPU-51c0ffee-1111-2222-3333-444455556666",
            "GPU-51c0ffee-1111-2222-3333-444455556666",
        ),
        ("somewhere", ""),
    ],
)
def test_every_way_to_name_the_device(where: str, device: str) -> None:
    found = read(f"NVRM: Xid ({where}): 48, pid=12, name=train, DBE")
    assert (found.code, found.device) == ("xid.48", device)


def test_mig_instance_and_reset_flags() -> None:
    found = read(
        "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 95, pid=71, Uncontained: LTC TAG (0x2, 0x1)."
        " RST: Yes, D-RST: No"
    )
    assert found.code == "xid.95"
    assert found.attrs["mig"] == "05"
    assert (found.attrs["rst"], found.attrs["drst"]) == ("yes", "no")
    assert found.attrs["pid"] == "71"


@pytest.mark.parametrize(
    ("rest", "attrs"),
    [
        ("", {}),
        (", pid=1234", {"pid": "1234"}),
        (", pid=1234, name=process", {"pid": "1234", "process": "process"}),
        (
            ", pid=7, name=nvc:[driver], Timeout after 6s",
            {"pid": "7", "process": "nvc:[driver]", "detail": "Timeout after 6s"},
        ),
        (
            ", pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            {"detail": "GPU has fallen off the bus."},
        ),
        (
            ", pid='`<unknown>`', name=`<unknown>`, NVLink: fatal error detected on link 14(0x0)",
            {"detail": "NVLink: fatal error detected on link 14(0x0)", "link": "14"},
        ),
        (", Channel 0000001a", {"detail": "Channel 0000001a", "channel": "0000001a"}),
        (
            ", pid=9, name=py, Ch 00000007, intr 00000000.",
            {
                "pid": "9",
                "process": "py",
                "detail": "Ch 00000007, intr 00000000.",
                "channel": "00000007",
            },
        ),
        (
            ", GPU has fallen off the bus.",
            {"detail": "GPU has fallen off the bus."},
        ),
    ],
)
def test_who_and_what(rest: str, attrs: dict[str, str]) -> None:
    assert read(f"NVRM: Xid (PCI:0000:b3:00.0): 79{rest}") == XidLine(
        "xid.79", "0000:b3:00.0", attrs
    )


def test_unknown_number_keeps_its_code() -> None:
    assert read("NVRM: Xid (PCI:0000:05:00): 99999, unknown error").code == "xid.99999"


@pytest.mark.parametrize(
    "message",
    [
        "NVRM: Xid (PCI:0000:66:00): abc, pid=2280636",
        "NVRM: Xid (PCI:0000:b3:00.0): INVALID, pid=1234, name=process",
        "NVRM: Xid error: xyz, invalid data",
        "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): xyz, Fatal error",
        "NVRM: Xid (PCI:0000:66:00): 12345678901234567890, pid=1",
    ],
)
def test_a_number_that_is_none_is_no_event(message: str) -> None:
    assert XIDS.parse(message) is Other.UNREADABLE


@pytest.mark.parametrize("message", ["", "Xid", "all about Xid errors", "XidHardwareFailure"])
def test_talk_of_xids_is_not_an_xid(message: str) -> None:
    assert XIDS.parse(message) is None


def test_recovery_action_is_named_by_its_new_state() -> None:
    found = read(
        "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None)"
        " to 0x4 (Drain and Reset)"
    )
    assert (found.code, found.device) == ("recovery.4", "0009:01:00.0")
    assert found.attrs["xid"] == "154"
    assert (found.attrs["recovery_from"], found.attrs["recovery_to"]) == ("0", "4")
    assert found.attrs["recovery_action"] == "Drain and Reset"


def test_recovery_back_to_none_is_the_all_clear() -> None:
    found = read(
        "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset"
        " Required) to 0x0 (None)"
    )
    assert found.code == "recovery.0"


def test_recovery_without_its_words_is_the_plain_xid() -> None:
    assert read("NVRM: Xid (PCI:0009:01:00): 154, something else").code == "xid.154"


@pytest.mark.parametrize(
    ("unit", "words", "code"),
    [
        ("RLW_SRC_TRACK", "0x040988e2 0x00000002 0x00000000", "xid.145.rlw_src_track.0x2"),
        ("RLW_SRC_TRACK", "0x040988e2 0x00000012 0x00000000", "xid.145.rlw_src_track.0x10"),
        ("RLW_SRC_TRACK", "0x040988e2 0x00000040 0x00000000", "xid.145.rlw_src_track"),
        ("RLW_SRC_TRACK", "0x040988e2", "xid.145.rlw_src_track"),
        ("RLW_NEW_UNIT", "0x040988e2 0x00000001", "xid.145.rlw_new_unit"),
    ],
)
def test_nvlink_code_is_the_most_particular_one_known(unit: str, words: str, code: str) -> None:
    found = read(f"NVRM: Xid (PCI:0008:01:00): 145, {unit} Nonfatal XC1 i0 Link 12 ({words})")
    assert found.code == code
    assert found.attrs["link"] == "12"
    assert found.attrs["severity_word"] == "Nonfatal"
    assert found.attrs["unit"] == unit


def test_nvlink_unit_of_two_names() -> None:
    found = read(
        "NVRM: Xid (PCI:0000:04:00): 146, TLW_RX/TLW_RX_PIPE0 Fatal XC0 i0 Link 00"
        " (0x0000000a 0x00000004 0x00000000 0x00000000)"
    )
    assert found.code == "xid.146.tlw_rx_pipe0.0x4"


def test_nvlink_reason_in_the_first_word() -> None:
    found = read(
        "NVRM: Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01"
        " (0x021425c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
    )
    assert found.code == "xid.149.netir_link_evt.r33"
    assert found.attrs["intr_info"] == "0x021425c6"


def test_nvlink_value_that_is_not_bits() -> None:
    found = read(
        "NVRM: Xid (PCI:0000:04:00): 149, NETIR_MFDE_EVENT Fatal XC0 i0 Link -1"
        " (0x00000014 0x00000005 0x00000000 0x00000000)"
    )
    assert found.code == "xid.149.netir_mfde_event.0x5"
    assert "link" not in found.attrs


def test_sxid_with_link_and_severity() -> None:
    found = read(
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted"
        " PRIV error (First)"
    )
    assert (found.code, found.device) == ("sxid.12028", "0000:05:00.0")
    assert found.attrs["link"] == "32"
    assert found.attrs["severity_word"] == "Non-fatal"
    assert found.attrs["first"] == "yes"
    assert found.attrs["switch"] == "nvswitch3"


@pytest.mark.parametrize(
    "rest",
    [
        "20034, Severity 1 Engine instance 60 Sub-engine instance 00",
        "20034, Data {0x10000000, 0x10000000, 0x00000000}",
        "26006, SOE HALT data[0] = 0x               0",
    ],
)
def test_sxid_registers_are_not_counted_again(rest: str) -> None:
    assert XIDS.parse(f"nvidia-nvswitch2: SXid (PCI:0000:07:00.0): {rest}") is Other.DETAIL


def test_an_xid_that_speaks_of_an_sxid_is_the_xid() -> None:
    found = read("NVRM: Xid (PCI:0000:02:00.0): 31, SXid 00000002: 00000031,")
    assert found.code == "xid.31"


@given(st.text(max_size=200), st.text(max_size=60), st.text(max_size=20))
def test_nothing_in_the_brackets_or_after_breaks_it(where: str, number: str, rest: str) -> None:
    found = XIDS.parse(f"NVRM: Xid ({where}): {number}, {rest}")
    assert found is None or isinstance(found, Other | XidLine)


@given(st.integers(0, 9_999_999), st.integers(0, 0xFF), st.integers(0, 0x1F))
def test_any_number_and_address_come_back(number: int, bus: int, slot: int) -> None:
    found = read(f"NVRM: Xid (PCI:0000:{bus:02x}:{slot:02x}): {number}, pid=1, name=x, y")
    assert found.device == f"0000:{bus:02x}:{slot:02x}.0"
    assert found.code == f"xid.{number}"
