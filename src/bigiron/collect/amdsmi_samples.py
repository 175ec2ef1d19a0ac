"""What is measured of an AMD GPU at each look: most of it in one call, ``gpu_metrics``.

The fields are those of the driver (kernel, kgd_pp_interface.h, gpu_metrics v1.3 of MI200 and
v1.4 to v1.8 of MI300): degrees Celsius, watts, MHz, per cent, KiB over XGMI, PCIe rates in tenths
of GT/s, energy in units of 15.259 uJ.
"""

from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from bigiron.collect.amdsmi_gpu import Gpu
from bigiron.collect.amdsmi_library import counted, gauged, mapping
from bigiron.ingest.pcie_link import generation
from bigiron.model import Event, Sample

MIB = 1024.0 * 1024.0
ENERGY_J = 15.259e-6


class Field(NamedTuple):
    """A metric, the fields that may tell it (the preferred first), and what brings its unit."""

    metric: str
    names: tuple[str, ...]
    scale: float = 1.0


GAUGES: tuple[Field, ...] = (
    Field("gpu_temp_celsius", ("temperature_hotspot", "temperature_edge")),
    Field("gpu_edge_temp_celsius", ("temperature_edge",)),
    Field("gpu_memory_temp_celsius", ("temperature_mem",)),
    Field("gpu_power_watts", ("current_socket_power", "average_socket_power")),
    Field("gpu_energy_joules_total", ("energy_accumulator",), ENERGY_J),
    Field("gpu_voltage_volts", ("voltage_gfx",), 1e-3),
    Field("gpu_sm_clock_hertz", ("current_gfxclk", "average_gfxclk_frequency"), 1e6),
    Field("gpu_memory_clock_hertz", ("current_uclk", "average_uclk_frequency"), 1e6),
    Field("gpu_pcie_link_width", ("pcie_link_width",)),
    Field("gpu_xgmi_link_width", ("xgmi_link_width",)),
)
"""0 is no value of these."""

COUNTS: tuple[Field, ...] = (
    Field("gpu_pcie_replays_total", ("pcie_replay_count_acc",)),
    Field("gpu_pcie_replay_rollovers_total", ("pcie_replay_rover_count_acc",)),
    Field("gpu_pcie_nak_sent_total", ("pcie_nak_sent_count_acc",)),
    Field("gpu_pcie_nak_received_total", ("pcie_nak_rcvd_count_acc",)),
    Field("gpu_pcie_recoveries_total", ("pcie_l0_to_recov_count_acc",)),
    Field("gpu_pcie_other_end_recoveries_total", ("pcie_lc_perf_other_end_recovery",)),
)

SHARES: tuple[Field, ...] = (
    Field("gpu_utilization_ratio", ("average_gfx_activity",), 0.01),
    Field("gpu_memory_utilization_ratio", ("average_umc_activity",), 0.01),
)
"""Per cent; more than 100 is no value."""

_LINKS = ("gpu_xgmi_links_up", "gpu_xgmi_links_down")
_REST = (
    *("gpu_vr_temp_celsius", "gpu_decoder_utilization_ratio", "gpu_pcie_link_gen"),
    *("gpu_xgmi_rx_bytes_total", "gpu_xgmi_tx_bytes_total", "gpu_xgmi_speed_bytes_per_second"),
    *("gpu_memory_used_bytes", "gpu_memory_free_bytes", "gpu_memory_total_bytes"),
)
GIVES: frozenset[str] = frozenset(
    {field.metric for fields in (GAUGES, COUNTS, SHARES) for field in fields} | {*_LINKS, *_REST}
)
"""All that is sampled here."""


def samples(gpu: Gpu, leave: Set[str] = frozenset()) -> Iterator[Sample]:
    """Everything measured of a GPU but what is in ``leave``. Of each metric one sample."""
    found = dict(_measured(gpu.metrics))
    if not leave >= {"gpu_memory_used_bytes", "gpu_memory_total_bytes"}:
        found.update(_memory(gpu))
    for metric, value in found.items():
        if metric not in leave:
            yield Sample("", gpu.device, metric, value)


def links(gpu: Gpu, leave: Set[str] = frozenset()) -> Iterator[Sample | Event]:
    """Which XGMI links of a GPU work: U up, D down, X not used here.

    A GPU of which none ever worked has no partners here: it was given to a guest alone.
    """
    told = mapping(gpu.ask("amdsmi_get_gpu_xgmi_link_status")).get("status")
    states = list(told) if isinstance(told, list) else []
    counts = [states.count(state) for state in ("U", "D")]
    gpu.linked |= counts[0] > 0
    if not gpu.linked or not any(counts):
        return
    for metric, count in zip(_LINKS, counts, strict=True):
        if metric not in leave:
            yield Sample("", gpu.device, metric, float(count))
    if counts[1]:
        down = " ".join(str(index) for index, state in enumerate(states) if state == "D")
        text = f"{gpu.device}: {counts[1]} of {sum(counts)} XGMI links down (number {down})"
        attrs = {"links_down": str(counts[1]), "links": down}
        yield Event("", "amdgpu.xgmi_error", text, gpu.device, source="amdsmi", attrs=attrs)


def _measured(told: dict[str, object]) -> Iterator[tuple[str, float]]:
    for fields, read in ((GAUGES, gauged), (COUNTS, counted)):
        for field in fields:
            value = next((v for n in field.names if (v := read(told.get(n))) is not None), None)
            if value is not None:
                yield field.metric, value * field.scale
    for field in SHARES:
        share = counted(told.get(field.names[0]))
        if share is not None and share <= 100:
            yield field.metric, share * field.scale
    yield from _of_parts(told)
    speed, width = gauged(told.get("xgmi_link_speed")), gauged(told.get("xgmi_link_width"))
    if speed is not None and width is not None:
        yield "gpu_xgmi_speed_bytes_per_second", speed * width * 1e9 / 8
    gen = generation((gauged(told.get("pcie_link_speed")) or 0.0) / 10)
    if gen:
        yield "gpu_pcie_link_gen", float(gen)


def _of_parts(told: dict[str, object]) -> Iterator[tuple[str, float]]:
    """What is told die by die, link by link or rail by rail."""
    clocks = _list(told.get("current_gfxclks"))
    if clocks:  # of dies that run: one asleep is no slow GPU
        yield "gpu_sm_clock_hertz", sum(clocks) / len(clocks) * 1e6
    rails = [gauged(told.get(f"temperature_vr{rail}")) for rail in ("gfx", "soc", "mem")]
    heat = [value for value in rails if value is not None]
    if heat:
        yield "gpu_vr_temp_celsius", max(heat)
    stacks = _list(told.get("temperature_hbm"))
    if stacks and gauged(told.get("temperature_mem")) is None:
        yield "gpu_memory_temp_celsius", max(stacks)
    decoders = [v for v in map(counted, _items(told.get("vcn_activity"))) if v is not None]
    if decoders and max(decoders) <= 100:
        yield "gpu_decoder_utilization_ratio", sum(decoders) / len(decoders) * 0.01
    for way, name in (("rx", "xgmi_read_data_acc"), ("tx", "xgmi_write_data_acc")):
        moved = [v for v in map(counted, _items(told.get(name))) if v is not None]
        if moved:
            yield f"gpu_xgmi_{way}_bytes_total", sum(moved) * 1024.0


def _memory(gpu: Gpu) -> Iterator[tuple[str, float]]:
    told = mapping(gpu.ask("amdsmi_get_gpu_vram_usage"))
    total, used = gauged(told.get("vram_total")), counted(told.get("vram_used"))
    if total is None and type(told.get("vram_total")) is int:
        total = counted(told.get("vram_total")) or None  # 65,535 MiB is a size
    if total is not None:
        yield "gpu_memory_total_bytes", total * MIB
    if used is not None and total is not None and used <= total:
        yield "gpu_memory_used_bytes", used * MIB
        yield "gpu_memory_free_bytes", (total - used) * MIB


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _list(value: object) -> list[float]:
    return [found for one in _items(value) if (found := gauged(one)) is not None]
