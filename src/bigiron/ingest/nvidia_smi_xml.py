"""``nvidia-smi -q -x``: the XML of drivers 450 to 610 (nvsmi_device_v10 to v13).

The document type names an external DTD, which is never fetched, and a document that declares
entities of its own is refused. Output that breaks off is used as far as it goes.
"""

from collections.abc import Iterator
from xml.parsers import expat

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.nvidia_failures import failures
from bigiron.ingest.nvidia_gpu import Reading
from bigiron.ingest.nvidia_smi_log import Log, observe_log
from bigiron.model import Note, Observation

LIMIT = 64 * 1024 * 1024
MAX_DEPTH = 32
MAX_TEXT = 1024
"""Longer element texts are cut: no field that is read comes near it."""

_START, _END = "<nvidia_smi_log", "</nvidia_smi_log>"

PATHS: dict[str, str] = {
    "product_name": "name",
    "product_brand": "brand",
    "product_architecture": "architecture",
    "persistence_mode": "persistence_mode",
    "addressing_mode": "addressing_mode",
    "mig_mode/current_mig": "mig.mode.current",
    "mig_mode/pending_mig": "mig.mode.pending",
    "driver_model/current_dm": "driver_model.current",
    "serial": "serial",
    "uuid": "uuid",
    "minor_number": "minor_number",
    "vbios_version": "vbios_version",
    "board_part_number": "part_number",
    "gpu_part_number": "gpu_part_number",
    "platformInfo/chassis_serial_number": "platform.chassis_serial_number",
    "platformInfo/slot_number": "platform.slot_number",
    "platformInfo/tray_index": "platform.tray_index",
    "platformInfo/module_id": "platform.module_id",
    "gpu_module_id": "platform.module_id",
    "inforom_version/img_version": "inforom.img",
    "c2c_mode": "c2c.mode",
    "gpu_virtualization_mode/virtualization_mode": "virtualization_mode",
    "gpu_recovery_action": "gpu_recovery_action",
    "gpu_reset_status/reset_required": "reset_required",
    "gpu_reset_status/drain_and_reset_recommended": "drain_and_reset_recommended",
    "gsp_firmware_version": "gsp_firmware_version",
    "pci/pci_bus_id": "pci.bus_id",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "pcie.link.gen.max",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "pcie.link.gen.current",
    "pci/pci_gpu_link_info/link_widths/max_link_width": "pcie.link.width.max",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "pcie.link.width.current",
    "pci/replay_counter": "pcie.replay",
    "pci/replay_rollover_counter": "pcie.replay_rollover",
    "pci/tx_util": "pcie.tx",
    "pci/rx_util": "pcie.rx",
    "fan_speed": "fan.speed",
    "performance_state": "pstate",
    "fb_memory_usage/total": "memory.total",
    "fb_memory_usage/reserved": "memory.reserved",
    "fb_memory_usage/used": "memory.used",
    "fb_memory_usage/free": "memory.free",
    "compute_mode": "compute_mode",
    "utilization/gpu_util": "utilization.gpu",
    "utilization/memory_util": "utilization.memory",
    "utilization/encoder_util": "utilization.encoder",
    "utilization/decoder_util": "utilization.decoder",
    "ecc_mode/current_ecc": "ecc.mode.current",
    "ecc_mode/pending_ecc": "ecc.mode.pending",
    "ecc_errors/channel_repair_pending": "channel_repair_pending",
    "ecc_errors/tpc_repair_pending": "tpc_repair_pending",
    "ecc_errors/unrepairable_memory": "unrepairable_memory",
    "retired_pages/multiple_single_bit_retirement/retired_count": (
        "retired_pages.single_bit_ecc.count"
    ),
    "retired_pages/double_bit_retirement/retired_count": "retired_pages.double_bit.count",
    "retired_pages/pending_retirement": "retired_pages.pending",
    "retired_pages/pending_blacklist": "retired_pages.pending_blacklist",
    "remapped_rows/remapped_row_corr": "remapped_rows.correctable",
    "remapped_rows/remapped_row_unc": "remapped_rows.uncorrectable",
    "remapped_rows/remapped_row_pending": "remapped_rows.pending",
    "remapped_rows/remapped_row_failure": "remapped_rows.failure",
    "temperature/gpu_temp": "temperature.gpu",
    "temperature/gpu_temp_tlimit": "temperature.gpu.tlimit",
    "temperature/gpu_temp_max_threshold": "temperature.shutdown",
    "temperature/gpu_temp_slow_threshold": "temperature.slowdown",
    "temperature/gpu_temp_max_tlimit_threshold": "temperature.tlimit.shutdown",
    "temperature/gpu_temp_slow_tlimit_threshold": "temperature.tlimit.slowdown",
    "temperature/gpu_temp_max_gpu_threshold": "temperature.max_operating",
    "temperature/memory_temp": "temperature.memory",
    "temperature/gpu_temp_max_mem_threshold": "temperature.memory.max_operating",
    "power_readings/power_draw": "power.draw",
    "power_readings/power_limit": "power.limit",
    "power_readings/enforced_power_limit": "enforced.power.limit",
    "power_readings/default_power_limit": "power.default_limit",
    "power_readings/max_power_limit": "power.max_limit",
    "gpu_power_readings/power_draw": "power.draw",
    "gpu_power_readings/average_power_draw": "power.draw.average",
    "gpu_power_readings/instant_power_draw": "power.draw.instant",
    "gpu_power_readings/current_power_limit": "enforced.power.limit",
    "gpu_power_readings/requested_power_limit": "power.limit",
    "gpu_power_readings/default_power_limit": "power.default_limit",
    "gpu_power_readings/max_power_limit": "power.max_limit",
    "clocks/graphics_clock": "clocks.current.graphics",
    "clocks/sm_clock": "clocks.current.sm",
    "clocks/mem_clock": "clocks.current.memory",
    "max_clocks/graphics_clock": "clocks.max.graphics",
    "max_clocks/sm_clock": "clocks.max.sm",
    "max_clocks/mem_clock": "clocks.max.memory",
    "voltage/graphics_volt": "voltage.graphics",
    "fabric/state": "fabric.state",
    "fabric/status": "fabric.status",
    "fabric/cliqueId": "fabric.cliqueId",
    "fabric/clusterUuid": "fabric.clusterUuid",
}
"""Where each query field stands below <gpu>; those with regular names are added below."""

PATHS.update(
    (f"remapped_rows/row_remapper_histogram/row_remapper_histogram_{level}", field)
    for level in ("max", "high", "partial", "low", "none")
    for field in (f"remapped_rows.histogram.{level}",)
)
PATHS.update(
    (f"fabric/health/{name}", f"fabric.health.{name}")
    for name in (
        "summary",
        "bandwidth",
        "route_recovery_in_progress",
        "route_unhealthy",
        "access_timeout_recovery",
        "incorrect_configuration",
    )
)
for _event in ("event", "throttle"):
    PATHS.update(
        (f"clocks_{_event}_reasons/clocks_{_event}_reason_{name}", f"clocks_event_reasons.{field}")
        for name, field in (
            ("gpu_idle", "gpu_idle"),
            ("applications_clocks_setting", "applications_clocks_setting"),
            ("sw_power_cap", "sw_power_cap"),
            ("hw_slowdown", "hw_slowdown"),
            ("hw_thermal_slowdown", "hw_thermal_slowdown"),
            ("hw_power_brake_slowdown", "hw_power_brake_slowdown"),
            ("sync_boost", "sync_boost"),
            ("sw_thermal_slowdown", "sw_thermal_slowdown"),
            ("display_clocks_setting", "display_clock_setting"),
        )
    )
PATHS.update(
    (
        f"clocks_event_reasons_counters/clocks_event_reasons_counters_{name}",
        f"clocks_event_reasons_counters.{field}",
    )
    for name, field in (
        ("sw_power_cap", "sw_power_cap"),
        ("sync_boost", "sync_boost"),
        ("sw_therm_slowdown", "sw_thermal_slowdown"),
        ("hw_therm_slowdown", "hw_thermal_slowdown"),
        ("hw_power_brake", "hw_power_brake_slowdown"),
    )
)
for _scope in ("volatile", "aggregate"):
    _corrected, _uncorrected = (f"ecc.errors.{k}.{_scope}" for k in ("corrected", "uncorrected"))
    PATHS.update(
        (f"ecc_errors/{_scope}/{name}", field)
        for name, field in (
            ("sram_correctable", f"{_corrected}.sram"),
            ("sram_uncorrectable", f"{_uncorrected}.sram"),
            ("sram_uncorrectable_parity", f"{_uncorrected}.sram.parity"),
            ("sram_uncorrectable_secded", f"{_uncorrected}.sram.secded"),
            ("dram_correctable", f"{_corrected}.dram"),
            ("dram_uncorrectable", f"{_uncorrected}.dram"),
            ("sram_threshold_exceeded", f"{_uncorrected}.sram.thresholdExceeded"),
        )
    )
    PATHS.update(
        (f"ecc_errors/{_scope}/{bits}/{place}", f"ecc.errors.{kind}.{_scope}.{place}")
        for bits, kind in (("single_bit", "corrected"), ("double_bit", "uncorrected"))
        for place in (
            "device_memory",
            "register_file",
            "l1_cache",
            "l2_cache",
            "texture_memory",
            "cbu",
            "total",
        )
    )
PATHS.update(
    (
        f"ecc_errors/aggregate_uncorrectable_sram_sources/sram_{name}",
        f"ecc.errors.uncorrected.aggregate.sram.{field}",
    )
    for name, field in (
        ("l2", "l2"),
        ("sm", "sm"),
        ("microcontroller", "mcu"),
        ("pcie", "pcie"),
        ("other", "other"),
    )
)


class _Refused(Exception):  # noqa: N818  (a decision, not a mistake)
    """The document asks for something that no nvidia-smi output does."""


class _Builder:
    """Turns the parser's events into a Log; an element counts only once it is closed."""

    def __init__(self, first_line: int) -> None:
        self.log = Log()
        self._first_line = first_line
        self._path: list[str] = []
        self._text = ""
        self._gpu: Reading | None = None
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._entity

    def parse(self, text: str) -> str:
        """ "" if the whole was read, else what is wrong and where."""
        try:
            self._parser.Parse(text, True)
        except expat.ExpatError as error:
            self.log.complete = False
            line = self._first_line + error.lineno - 1
            return f"line {line}: {expat.ErrorString(error.code)}"
        return ""

    @property
    def line(self) -> int:
        return self._first_line + self._parser.CurrentLineNumber - 1

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name)
        self._text = ""
        if len(self._path) > MAX_DEPTH:
            raise _Refused(f"elements nested deeper than {MAX_DEPTH}")
        if name == "gpu" and len(self._path) == 2:
            self._gpu = Reading(line=self.line)
            self._gpu.fields["pci.bus_id"] = attributes.get("id", "")
            self.log.gpus.append(self._gpu)
        elif self._gpu is not None and self._path[2:] == ["processes"]:
            self._gpu.processes = 0
        elif self._gpu is not None and self._path[2:] == ["processes", "process_info"]:
            self._gpu.processes = (self._gpu.processes or 0) + 1

    def _end(self, name: str) -> None:
        text, self._text = self._text.strip(), ""
        if self._gpu is not None:
            field = PATHS.get("/".join(self._path[2:]))
            if field is not None:
                self._gpu.fields[field] = text
        elif len(self._path) == 2:
            self.log.head[name] = text
        if name == "gpu" and len(self._path) == 2:
            self._gpu = None
        self._path.pop()

    def _characters(self, text: str) -> None:
        if len(self._text) < MAX_TEXT:
            self._text += text[:MAX_TEXT]

    def _entity(self, *_: object) -> None:
        raise _Refused("declares entities of its own")


class _Reader:
    def sniff(self, head: Head) -> float:
        return 0.95 if _START in head.text else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        text = document.text(LIMIT)
        outside: list[tuple[int, str]] = []
        at, line = 0, 1
        found = 0
        for begin, end in _documents(text):
            outside += _numbered(text[at:begin], line)
            line += text.count("\n", at, begin)
            found += 1
            yield from _one(document, text[begin:end], line)
            line += text.count("\n", begin, end)
            at = end
        outside += _numbered(text[at:], line)
        events = list(failures(document, iter(outside)))
        if not found and not events:
            raise ParseError(document.name, 1, "no <nvidia_smi_log> in it")
        yield from events


def _documents(text: str) -> Iterator[tuple[int, int]]:
    """Where each run's XML begins and ends: ``-l`` writes one after the other."""
    at = 0
    while (start := text.find(_START, at)) >= 0:
        prolog = max(text.rfind("<?xml", at, start), text.rfind("<!DOCTYPE", at, start))
        first = text.find("<?xml", at, start)
        begin = first if first >= 0 else prolog if prolog >= 0 else start
        end = text.find(_END, start)
        at = len(text) if end < 0 else end + len(_END)
        yield begin, at


def _one(document: Document, text: str, first_line: int) -> Iterator[Observation]:
    builder = _Builder(first_line)
    try:
        problem = builder.parse(text)
    except _Refused as refused:
        raise ParseError(document.name, builder.line, str(refused)) from refused
    if problem and not builder.log.gpus and not builder.log.head:
        raise ParseError(document.name, first_line, f"XML that cannot be read: {problem}")
    yield from observe_log(document, builder.log)
    if problem:
        yield Note(document.name, f"XML cut short or broken, used as far as it goes: {problem}")


def _numbered(text: str, first_line: int) -> list[tuple[int, str]]:
    return list(enumerate(text.splitlines()[:1000], first_line))


@reader()
def nvidia_smi_xml() -> _Reader:
    """nvidia-smi -q -x: everything about each GPU, as XML."""
    return _Reader()
