"""Exporter pages: the grammar, whose a sample is, and the fast way beside the slow one."""

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.openmetrics import OpenMetrics
from bigiron.ingest.openmetrics_line import parse_labels, parse_tail, parse_value, split_line
from bigiron.ingest.openmetrics_page import Page, PageParser
from bigiron.model import Device, Fact, Note, Sample

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
H100 = (
    'gpu="{0}",UUID="GPU-aaaa-{0}",pci_bus_id="00000000:1{0}:00.0",device="nvidia{0}",'
    'modelName="NVIDIA H100 80GB HBM3",Hostname="n007",DCGM_FI_DRIVER_VERSION="570.1"'
)


def read(text: str, node: str = "") -> list[object]:
    return list(OpenMetrics().read(Document.of("page.prom", text.encode(), NOW, node)))


def values(text: str, node: str = "") -> dict[tuple[str, str, str], float]:
    return {
        (one.node, one.device, one.metric): one.value
        for one in read(text, node)
        if isinstance(one, Sample)
    }


def notes(text: str) -> dict[str, int]:
    return {one.what: one.count for one in read(text) if isinstance(one, Note)}


def as_dict(page: Page) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Values and times, NaN made comparable."""
    times: Sequence[float] = page.times or [math.nan] * len(page.values)
    return {
        key: (repr(value), repr(at))
        for key, value, at in zip(page.series, page.values, times, strict=True)
    }


@pytest.mark.parametrize(
    ("line", "name", "labels", "value", "at"),
    [
        ("a 1", "a", {}, 1.0, math.nan),
        ("a\t1", "a", {}, 1.0, math.nan),
        ("a 1 1700000000", "a", {}, 1.0, 1_700_000_000.0),
        ("a 1 1700000000000", "a", {}, 1.0, 1_700_000_000.0),
        ("a 1 1700000000.25", "a", {}, 1.0, 1_700_000_000.25),
        ('a{b="c"} 1', "a", {"b": "c"}, 1.0, math.nan),
        ('a{b="c", d="e"} 1', "a", {"b": "c", "d": "e"}, 1.0, math.nan),
        ('a{b="c",} 1', "a", {"b": "c"}, 1.0, math.nan),
        ('a{ b = "c" , } 1', "a", {"b": "c"}, 1.0, math.nan),
        ("a{} 1", "a", {}, 1.0, math.nan),
        ('a {b="c"} 1', "a ", {"b": "c"}, 1.0, math.nan),
        ('a{b="x\\"y\\\\z\\nw"} 1', "a", {"b": 'x"y\\z\nw'}, 1.0, math.nan),
        ('a{b="} 5"} 1', "a", {"b": "} 5"}, 1.0, math.nan),
        ('a{b="{"} 1', "a", {"b": "{"}, 1.0, math.nan),
        ('a{b="# {"} 1', "a", {"b": "# {"}, 1.0, math.nan),
        ('a{b="c"}1', "a", {"b": "c"}, 1.0, math.nan),
        ('a{b="c"}  1  ', "a", {"b": "c"}, 1.0, math.nan),
        ('a{b="c"} 1\r', "a", {"b": "c"}, 1.0, math.nan),
        ('a{b="c"} 1 # {trace_id="x}"} 0.5 1.2', "a", {"b": "c"}, 1.0, math.nan),
        ('a_bucket{le="+Inf"} 1 7 # {t="x"} 0.5', "a_bucket", {"le": "+Inf"}, 1.0, 7.0),
        ('{"my.metric",a="b"} 1', "", {"a": "b"}, 1.0, math.nan),
        ('{"my.metric","a.b"="c"} 1', "", {"a.b": "c"}, 1.0, math.nan),
        ("a 0x1p-2", "a", {}, 0.25, math.nan),
        ("a +Inf", "a", {}, math.inf, math.nan),
        ("a -Inf", "a", {}, -math.inf, math.nan),
        ("a 1e400", "a", {}, math.inf, math.nan),
        ("a -1.5e-3", "a", {}, -0.0015, math.nan),
        ('a{b="\u00fc\u4e2d"} 1', "a", {"b": "\u00fc\u4e2d"}, 1.0, math.nan),
    ],
)
def test_lines(line: str, name: str, labels: dict[str, str], value: float, at: float) -> None:
    raw = line.encode()
    split = split_line(raw)
    assert split is not None
    assert split[0].decode().strip() == name.strip()
    parsed = parse_labels(split[1])
    assert parsed is not None
    assert parsed[1] == labels
    tail = parse_tail(raw[split[2] :])
    assert tail is not None
    assert tail[0] == value
    assert tail[1] == at or (math.isnan(tail[1]) and math.isnan(at))


@pytest.mark.parametrize(
    "line",
    ["", "a", "a b", "a 1 x", "a 1 2 3", "a 1_000", "{} 1", 'a{b="c} 1', "a{b=c} 1", 'a{b="c"',
     'a{="c"} 1', "1a 1", "<html>", "a 1 nan", "a 1 1e300", "a 1,2", "a 1]", 'a "1"', "a null"],
)  # fmt: skip
def test_what_is_no_sample(line: str) -> None:
    page = PageParser().parse(f"{line}\n".replace("a", "node_load1", 1).encode())
    assert not page.series
    assert page.counts.malformed == (1 if line else 0)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_error(data: bytes) -> None:
    page = PageParser().parse(data)
    again = PageParser(vector=False).parse(data)
    assert as_dict(page) == as_dict(again)


def test_a_long_line_of_quotes_takes_no_long_time() -> None:
    start = time.process_time()
    for data in (b'node_load1{a="' * 40_000, b'{"' + b"\\" * 300_000, b"x#" * 200_000):
        assert not PageParser().parse(data).series
    assert time.process_time() - start < 5.0


def test_dcgm_exporter() -> None:
    page = "\n".join(
        [
            "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).",
            "# TYPE DCGM_FI_DEV_GPU_TEMP gauge",
            *(f"DCGM_FI_DEV_GPU_TEMP{{{H100.format(gpu)}}} {30 + gpu}" for gpu in range(2)),
            f"DCGM_FI_DEV_FB_USED{{{H100.format(0)}}} 1024",
            f"DCGM_FI_DEV_XID_ERRORS{{{H100.format(0)}}} 79",
        ]
    )
    found = read(page)
    assert values(page) == {
        ("n007", "gpu0", "gpu_temp_celsius"): 30.0,
        ("n007", "gpu1", "gpu_temp_celsius"): 31.0,
        ("n007", "gpu0", "gpu_memory_used_bytes"): 2.0**30,
        ("n007", "gpu0", "gpu_xid_last"): 79.0,
    }
    assert [one for one in found if isinstance(one, Fact)] == [
        Fact("n007", "driver_version", "570.1", "", NOW)
    ]
    assert [one for one in found if isinstance(one, Device)][1] == Device(
        "n007", "gpu1", "gpu", "GPU-aaaa-1", "0000:11:00.0", "NVIDIA H100 80GB HBM3", "nvidia"
    )
    assert {one.time for one in found if isinstance(one, Sample)} == {NOW}
    assert notes(page) == {}


def test_blanks_are_no_samples_and_are_counted() -> None:
    page = (
        'DCGM_FI_DEV_MEMORY_TEMP{gpu="0", UUID="GPU-1"} 9223372036854775794\n'
        'DCGM_FI_DEV_FAN_SPEED{gpu="0", UUID="GPU-1"} 2147483634\n'
        'DCGM_FI_DEV_POWER_USAGE{gpu="0", UUID="GPU-1"} 140737488355330.000000\n'
        'DCGM_FI_DEV_SM_CLOCK{gpu="0", UUID="GPU-1"} 139\n'
        "node_memory_MemAvailable_bytes 2147483640\nnode_load1 NaN\n"
    )
    assert values(page) == {
        ("", "gpu0", "gpu_sm_clock_hertz"): 139e6,
        ("", "", "node_memory_available_bytes"): 2147483640.0,
    }
    assert notes(page) == {"values the exporter marks as not supported": 4}


def test_mig_metrics_of_the_whole_gpu_are_read_once() -> None:
    gi = 'gpu="0",UUID="GPU-1",GPU_I_PROFILE="1g.5gb",GPU_I_ID="{}",Hostname="n1"'
    page = "\n".join(
        [
            f"DCGM_FI_DEV_XID_ERRORS{{{gi.format(7)}}} 31",
            'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1",Hostname="n1"} 45',
            f"DCGM_FI_DEV_XID_ERRORS{{{gi.format(8)}}} 31",
            f"DCGM_FI_DEV_GPU_TEMP{{{gi.format(7)}}} 50",
            f"DCGM_FI_DEV_GPU_TEMP{{{gi.format(8)}}} 50",
            f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{gi.format(7)}}} 0.5",
            f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{gi.format(8)}}} 0.7",
            f"DCGM_FI_DEV_FB_USED{{{gi.format(8)}}} 2",
        ]
    )
    assert values(page) == {
        ("n1", "gpu0", "gpu_xid_last"): 45.0,
        ("n1", "gpu0", "gpu_temp_celsius"): 50.0,
        ("n1", "gpu0:gi7", "gpu_graphics_active_ratio"): 0.5,
        ("n1", "gpu0:gi8", "gpu_graphics_active_ratio"): 0.7,
        ("n1", "gpu0:gi8", "gpu_memory_used_bytes"): 2.0 * 2**20,
    }
    assert notes(page) == {}


def test_parts_of_a_device() -> None:
    page = (
        'DCGM_EXP_XID_ERRORS_COUNT{gpu="1",Hostname="n1",xid="79"} 2\n'
        'DCGM_EXP_XID_ERRORS_COUNT{gpu="0",Hostname="n1"} 0\n'
        'DCGM_EXP_CLOCK_EVENTS_COUNT{gpu="1",Hostname="n1",clock_event="hw_thermal"} 4\n'
        'DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L3{gpu="1",Hostname="n1"} 9\n'
        'DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L11_TOTAL{gpu="1",Hostname="n1"} 8\n'
        'DCGM_FI_DEV_NVLINK_REPLAY_ERROR_PER_LINK_TOTAL{gpu="1",nvlink="2",Hostname="n1"} 7\n'
        'node_infiniband_link_downed_total{device="mlx5_0",port="2"} 6\n'
    )
    assert values(page, "n1") == {
        ("n1", "gpu1:xid79", "gpu_xid_count_total"): 2.0,
        ("n1", "gpu0", "gpu_xid_count_total"): 0.0,
        ("n1", "gpu1:hw_thermal", "gpu_clock_events_total"): 4.0,
        ("n1", "gpu1:nvlink3", "gpu_nvlink_crc_flit_errors_total"): 9.0,
        ("n1", "gpu1:nvlink11", "gpu_nvlink_replays_total"): 8.0,
        ("n1", "gpu1:nvlink2", "gpu_nvlink_replays_total"): 7.0,
        ("n1", "mlx5_0:2", "ib_link_downed_total"): 6.0,
    }


def test_health_is_the_worst_of_its_watches() -> None:
    page = "".join(
        f'DCGM_EXP_GPU_HEALTH_STATUS{{gpu="0",health_watch="{watch}"}} {value}\n'
        for watch, value in (("ALL", 0), ("PCIE", 20), ("MEM", 0))
    )
    assert values(page, "n1") == {("n1", "gpu0", "gpu_health"): 0.0}
    well = page.replace(" 20", " 0")
    assert values(well, "n1") == {("n1", "gpu0", "gpu_health"): 1.0}


def test_the_better_name_is_believed_and_the_other_stands_in_for_it() -> None:
    page = 'DCGM_FI_DEV_POWER_USAGE_INSTANT{gpu="0"} 500\nDCGM_FI_DEV_POWER_USAGE{gpu="0"} 400\n'
    assert values(page) == {("", "gpu0", "gpu_power_watts"): 400.0}
    blank = page.replace(" 400", " 140737488355328")
    assert values(blank) == {("", "gpu0", "gpu_power_watts"): 500.0}


def test_amd_exporter() -> None:
    labels = 'gpu_id="3",serial_number="S3",card_model="MI300X",hostname="n2",driver_version="6.1"'
    page = (
        f"gpu_junction_temperature{{{labels}}} 60\n"
        f'gpu_clock{{{labels},clock_index="0",clock_type="GPU_CLOCK_TYPE_SYSTEM"}} 2100\n'
        f'gpu_clock{{{labels},clock_index="7",clock_type="GPU_CLOCK_TYPE_SYSTEM"}} 100\n'
        f'gpu_clock{{{labels},clock_index="8",clock_type="GPU_CLOCK_TYPE_MEMORY"}} 1300\n'
        f'gpu_clock{{{labels},clock_index="9",clock_type="GPU_CLOCK_TYPE_VIDEO"}} 29\n'
        f'gpu_package_power{{{labels},gpu_partition_id="1"}} 0\n'
        f'gpu_package_power{{{labels},gpu_partition_id="0"}} 700\n'
        f"pcie_speed{{{labels}}} 32\n"
        f"gpu_health{{{labels}}} 1\n"
    )
    assert values(page) == {
        ("n2", "gpu3", "gpu_temp_celsius"): 60.0,
        ("n2", "gpu3", "gpu_sm_clock_hertz"): 2.1e9,
        ("n2", "gpu3", "gpu_memory_clock_hertz"): 1.3e9,
        ("n2", "gpu3:p1", "gpu_power_watts"): 0.0,
        ("n2", "gpu3", "gpu_power_watts"): 700.0,
        ("n2", "gpu3", "gpu_pcie_link_gen"): 5.0,
        ("n2", "gpu3", "gpu_health"): 1.0,
    }
    devices = [one for one in read(page) if isinstance(one, Device)]
    assert devices == [Device("n2", "gpu3", "gpu", "S3", "", "MI300X", "amd")]
    assert Fact("n2", "driver_version", "6.1", "", NOW) in read(page)


def test_nvidia_gpu_exporter_tells_the_index_in_a_metric() -> None:
    page = (
        'nvidia_smi_temperature_gpu{uuid="aaaa-1"} 44\n'
        'nvidia_smi_index{uuid="aaaa-1"} 5\n'
        'nvidia_smi_gpu_info{uuid="aaaa-1",name="NVIDIA L40S",driver_version="550.1"} 1\n'
    )
    assert values(page, "n3") == {("n3", "gpu5", "gpu_temp_celsius"): 44.0}
    assert Fact("n3", "driver_version", "550.1", "", NOW) in read(page, "n3")
    parser = PageParser("n3")
    parser.parse(page.encode())
    moved = parser.parse(page.replace(" 5\n", " 6\n").encode())
    assert moved.series == (("gpu_temp_celsius", "n3", "gpu6"),)


def test_node_exporter() -> None:
    page = (
        'node_hwmon_temp_celsius{chip="platform_coretemp_0",sensor="temp1"} 41\n'
        'node_infiniband_state_id{device="mlx5_0",port="1"} 1\n'
        'node_infiniband_rate_bytes_per_second{device="mlx5_0",port="1"} 5e+10\n'
        'node_edac_correctable_errors_total{controller="0"} 2\n'
        'node_filesystem_readonly{device="/dev/sda1",fstype="ext4",mountpoint="/"} 0\n'
        'node_network_carrier_changes_total{device="eth0"} 3\n'
        'node_uname_info{nodename="n4",release="6.8.0-1",sysname="Linux"} 1\n'
        "node_boot_time_seconds 1.7e+09\nnode_vmstat_oom_kill 1\n"
        'go_gc_duration_seconds{quantile="0"} 1.2e-05\n'
        'http_bucket{le="+Inf"} 3 # {trace_id="x"} 1\n'
    )
    assert values(page, "n4") == {
        ("n4", "platform_coretemp_0:temp1", "node_hwmon_temp_celsius"): 41.0,
        ("n4", "mlx5_0", "ib_state"): 0.0,
        ("n4", "mlx5_0", "ib_rate_bits_per_second"): 4e11,
        ("n4", "mc0", "node_edac_correctable_total"): 2.0,
        ("n4", "/", "node_filesystem_readonly"): 0.0,
        ("n4", "eth0", "node_network_carrier_changes_total"): 3.0,
        ("n4", "", "node_boot_time_seconds"): 1.7e9,
        ("n4", "", "node_oom_kills_total"): 1.0,
    }
    facts = {(one.name, one.value) for one in read(page) if isinstance(one, Fact)}
    assert facts == {("kernel", "6.8.0-1"), ("hostname", "n4")}
    assert notes(page) == {"series of metrics that are not catalogued": 2}


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        ('Hostname="a",node="b",instance="c:9400"', "a"),
        ('hostname="a",node="b"', "a"),
        ('node="b",instance="c:9400"', "b"),
        ('nodename="b",instance="c:9400"', "b"),
        ('kubernetes_node="b",instance="c:9400"', "b"),
        ('exported_instance="d:1",instance="c:9400"', "d"),
        ('instance="c.example.org:9400"', "c.example.org"),
        ('instance="10.0.0.7:9400"', "10.0.0.7"),
        ('instance="[fd00::7]:9400"', "fd00::7"),
        ('instance="localhost:9400"', "given"),
        ('instance="127.0.0.1:9400"', "given"),
        ('Hostname="dcgm-exporter-x7k2p",node="b"', "b"),
        ('Hostname="nvidia-dcgm-exporter-x7k2p",pod="train-0"', "given"),
        ('Hostname="gpu-worker-1"', "gpu-worker-1"),
        ('Hostname="gpu-a1b2c"', "gpu-a1b2c"),
        ('foo="bar"', "given"),
    ],
)
def test_the_node_is_named_by_the_first_label_that_tells(labels: str, node: str) -> None:
    found = values(f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",{labels}}} 1\n', "given")
    assert list(found) == [(node, "gpu0", "gpu_temp_celsius")]


@pytest.mark.parametrize(
    ("labels", "device"),
    [
        ('gpu="3"', "gpu3"),
        ('device="nvidia3"', "gpu3"),
        ('gpu="3",device="nvidia5"', "gpu3"),
        ('GPU_ID="3"', "gpu3"),
        ('pci_bus_id="00000000:9B:00.0"', "0000:9b:00.0"),
        ('UUID="GPU-AB12"', "gpu-ab12"),
        (f'gpu="{"9" * 5000}",UUID="GPU-1"', "gpu-1"),
        ('gpu="\u00b2",UUID="GPU-1"', "gpu-1"),
    ],
)
def test_the_gpu_is_named_by_index_address_or_uuid(labels: str, device: str) -> None:
    found = values(f"DCGM_FI_DEV_GPU_TEMP{{{labels}}} 1\n")
    assert list(found) == [("", device, "gpu_temp_celsius")]


def test_a_gpu_that_nothing_names_is_counted() -> None:
    assert values('DCGM_FI_DEV_GPU_TEMP{foo="bar"} 1\n') == {}
    assert notes('DCGM_FI_DEV_GPU_TEMP{foo="bar"} 1\n') == {"series whose labels name no device": 1}


def test_a_series_given_twice_keeps_its_last_value() -> None:
    page = 'node_load1 1\nDCGM_FI_DEV_GPU_TEMP{gpu="0"} 5\nnode_load1 2\n'
    assert values(page)["", "", "node_load1"] == 2.0
    assert notes(page) == {"series given twice: the last value was kept": 1}


def test_lines_that_are_no_samples_are_counted_and_the_first_is_named() -> None:
    page = 'node_load1 1\nnode_load1{a="b} 2\nnode_load5 x\n'
    assert values(page) == {("", "", "node_load1"): 1.0}
    assert notes(page) == {"lines that are not exposition text (first on line 2)": 2}


def test_times_on_lines_are_the_samples_times() -> None:
    page = "node_load1 1 1700000000000\nnode_boot_time_seconds 5\n# EOF\n"
    times = {one.metric: one.time for one in read(page) if isinstance(one, Sample)}
    assert times == {
        "node_load1": datetime.fromtimestamp(1_700_000_000, UTC),
        "node_boot_time_seconds": NOW,
    }


def test_crlf_and_a_byte_order_mark() -> None:
    assert values("\ufeff# TYPE node_load1 gauge\r\nnode_load1 1.5\r\n") == {
        ("", "", "node_load1"): 1.5
    }


def test_indented_lines_are_read_as_others() -> None:
    page = b'\n  # HELP DCGM_FI_DEV_GPU_TEMP t\n\tDCGM_FI_DEV_GPU_TEMP{gpu="1"} 41\n'
    seen = list(OpenMetrics().read(Document.of("x", page, NOW)))
    assert [(s.device, s.value) for s in seen if isinstance(s, Sample)] == [("gpu1", 41)]
    assert not [s for s in seen if isinstance(s, Note)]


def test_openmetrics_adds_total_to_a_counter() -> None:
    assert values('DCGM_FI_DEV_PCIE_REPLAY_COUNTER_total{gpu="0"} 4\n') == {
        ("", "gpu0", "gpu_pcie_replays_total"): 4.0
    }


@pytest.mark.parametrize(
    "text",
    [
        "# HELP DCGM_FI_DEV_GPU_TEMP t\n# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
        'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 30\n',
        'DCGM_FI_DEV_GPU_TEMP{gpu="0", UUID="GPU-1"} 30\n' * 3,
        "\ufeffnode_load1 1\r\n",
        '\t\tDCGM_FI_DEV_XID_ERRORS{gpu="0", UUID="GPU-c0b5694b-2b5d-6b20-f903-558341437f6b"} 0\n',
        '# TYPE node_load1 gauge\nnode_load1{instance="a"} 1 1700000000.1\n# EOF\n',
    ],
)
def test_sniff_knows_pages(text: str) -> None:
    head = Head.of(Document.of("x", text.encode(), NOW))
    assert OpenMetrics().sniff(head) > 0.9


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>\n<h1>502</h1>\n",
        "<html>\n<body>node_load1 1</body>\n",
        "[    0.000000] Linux version 6.8\n[    1.0] NVRM: Xid (PCI:0000:9b:00): 79\n",
        "JobIDRaw|User|State\n1|a|FAILED\n",
        '{"status":"success"}\n',
        "GPU 00000000:9B:00.0\n    Product Name : NVIDIA H100\n",
        "hello world\nthis is text\n",
    ],
)
def test_sniff_leaves_other_documents_alone(text: str) -> None:
    head = Head.of(Document.of("x", text.encode(), NOW))
    assert OpenMetrics().sniff(head) == 0.0


def test_a_page_without_samples_is_an_error_that_names_it() -> None:
    with pytest.raises(ParseError, match=r"page\.prom:1: no line is a sample"):
        read("<html><body>Not found</body></html>\n")


def test_the_reader_is_registered() -> None:
    assert isinstance(reader["openmetrics"].run(), OpenMetrics)


# The fast way and the slow way.

NAMES = (
    "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_POWER_USAGE_INSTANT", "DCGM_EXP_GPU_HEALTH_STATUS", "node_load1",
    "node_infiniband_state_id", "node_uname_info", "nvidia_smi_index",
    "nvidia_smi_temperature_gpu", "unknown_metric", "gpu_clock",
)  # fmt: skip
LABELS = (
    "", "{}", '{gpu="0"}', '{gpu="1",Hostname="n1"}', '{gpu="0",GPU_I_ID="3"}', '{uuid="u1"}',
    '{device="mlx5_0",port="1"}', '{a="x} y"}', '{a="q\\"# {"}', '{a="unclosed}', '{"node_load1"}',
    '{gpu="0",health_watch="PCIE"}', '{gpu="0", clock_type="MEMORY"}',
)  # fmt: skip
VALUES = st.one_of(
    st.floats().map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        ["NaN", "+Inf", "-Inf", "0x1p3", "1_0", "", "x", "1 1700000000000", "2 17.5", "1,2", "01",
         "1.", ".5", "+3", "-0", "9223372036854775794", "2147483634", "140737488355328.0",
         '4 # {t="v"} 1', "5\r", "1e400", "[1]", '{a="b"} 3', "0", "20", "4"]
    ),
)  # fmt: skip
LINES = st.one_of(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(LABELS), st.sampled_from([" ", "  ", "\t"])),
    st.sampled_from(["# HELP a b", "#", "", "   ", "# EOF", "garbage", "node_load1", "}{ 1"]),
)


@st.composite
def scrapes(draw: st.DrawFn) -> list[bytes]:
    """Scrapes of one target: values change each time, the layout now and then."""
    layout = draw(st.lists(LINES, max_size=12))
    pages = []
    for _ in range(draw(st.integers(2, 5))):
        match draw(st.sampled_from(["same", "same", "same", "drop", "add", "swap"])):
            case "drop" if layout:
                layout = layout[:-1]
            case "add":
                layout = [*layout, draw(LINES)]
            case "swap":
                layout = layout[::-1]
        lines = [line if isinstance(line, str) else "".join(line) + draw(VALUES) for line in layout]
        end = draw(st.sampled_from(["\n", ""]))
        pages.append(("\n".join(lines) + end).encode())
    return pages


@given(scrapes())
def test_a_known_layout_is_read_as_an_unknown_one(pages: list[bytes]) -> None:
    parser, plain = PageParser("n0"), PageParser("n0", vector=False)
    for data in pages:
        slow = as_dict(PageParser("n0", vector=False).parse(data))
        assert as_dict(parser.parse(data)) == slow
        assert as_dict(plain.parse(data)) == slow


@given(st.lists(st.floats() | st.integers(-(10**25), 10**25), min_size=1, max_size=20))
def test_numbers_are_read_as_float_reads_them(numbers: list[float]) -> None:
    lines = [
        f'node_hwmon_temp_celsius{{chip="c",sensor="s{i}"}} {number!r}'
        for i, number in enumerate(numbers)
    ]
    page = PageParser().parse("\n".join(lines).encode())
    assert list(map(repr, page.values)) == [repr(float(repr(number))) for number in numbers]


def test_a_known_layout_is_kept_and_a_changed_one_is_learned() -> None:
    parser = PageParser("n0")
    first = parser.parse(b"node_load1 1\nother 5\n")
    second = parser.parse(b"node_load1 2\nother 6\n")
    assert second.series is first.series
    assert list(second.values) == [2.0]
    third = parser.parse(b'node_load1 3\nnode_edac_correctable_errors_total{controller="0"} 1\n')
    assert [one[0] for one in third.series] == ["node_load1", "node_edac_correctable_total"]
    assert list(third.values) == [3.0, 1.0]


def test_fixed_node_overrides_labels() -> None:
    page = PageParser("mine", fixed=True).parse(b'DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="x"} 1\n')
    assert page.series == (("gpu_temp_celsius", "mine", "gpu0"),)


@pytest.mark.parametrize("text", ["0x", "0xzz", "--1", "1e", "inf inity", "\u0661"])
def test_what_is_no_number(text: str) -> None:
    assert parse_value(text.encode()) is None
