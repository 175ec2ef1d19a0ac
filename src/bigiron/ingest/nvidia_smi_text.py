"""``nvidia-smi -q``: the indented text of drivers 450 to 610."""

import re
from collections.abc import Iterator

from bigiron.errors import ParseError
from bigiron.ingest import Document, Head, reader
from bigiron.ingest.nvidia_failures import failure, failures
from bigiron.ingest.nvidia_gpu import Reading
from bigiron.ingest.nvidia_smi_log import Log, observe_log
from bigiron.model import Note, Observation

BANNER = "==NVSMI LOG=="

PATHS: dict[str, str] = {
    "product name": "name",
    "product brand": "brand",
    "product architecture": "architecture",
    "persistence mode": "persistence_mode",
    "addressing mode": "addressing_mode",
    "mig mode/current": "mig.mode.current",
    "mig mode/pending": "mig.mode.pending",
    "driver model/current": "driver_model.current",
    "serial number": "serial",
    "gpu uuid": "uuid",
    "minor number": "minor_number",
    "vbios version": "vbios_version",
    "board part number": "part_number",
    "gpu part number": "gpu_part_number",
    "module id": "platform.module_id",
    "platform info/module id": "platform.module_id",
    "platform info/chassis serial number": "platform.chassis_serial_number",
    "platform info/slot number": "platform.slot_number",
    "platform info/tray index": "platform.tray_index",
    "inforom version/image version": "inforom.img",
    "gpu c2c mode": "c2c.mode",
    "gpu virtualization mode/virtualization mode": "virtualization_mode",
    "gpu recovery action": "gpu_recovery_action",
    "gpu reset status/reset required": "reset_required",
    "gpu reset status/drain and reset recommended": "drain_and_reset_recommended",
    "gsp firmware version": "gsp_firmware_version",
    "pci/bus id": "pci.bus_id",
    "pci/gpu link info/pcie generation/max": "pcie.link.gen.max",
    "pci/gpu link info/pcie generation/current": "pcie.link.gen.current",
    "pci/gpu link info/link width/max": "pcie.link.width.max",
    "pci/gpu link info/link width/current": "pcie.link.width.current",
    "pci/replays since reset": "pcie.replay",
    "pci/replay number rollovers": "pcie.replay_rollover",
    "pci/tx throughput": "pcie.tx",
    "pci/rx throughput": "pcie.rx",
    "fan speed": "fan.speed",
    "performance state": "pstate",
    "fb memory usage/total": "memory.total",
    "fb memory usage/reserved": "memory.reserved",
    "fb memory usage/used": "memory.used",
    "fb memory usage/free": "memory.free",
    "compute mode": "compute_mode",
    "utilization/gpu": "utilization.gpu",
    "utilization/memory": "utilization.memory",
    "utilization/encoder": "utilization.encoder",
    "utilization/decoder": "utilization.decoder",
    "ecc mode/current": "ecc.mode.current",
    "ecc mode/pending": "ecc.mode.pending",
    "ecc errors/channel repair pending": "channel_repair_pending",
    "ecc errors/tpc repair pending": "tpc_repair_pending",
    "ecc errors/unrepairable memory": "unrepairable_memory",
    "retired pages/single bit ecc": "retired_pages.single_bit_ecc.count",
    "retired pages/double bit ecc": "retired_pages.double_bit.count",
    "retired pages/pending": "retired_pages.pending",
    "retired pages/pending page blacklist": "retired_pages.pending_blacklist",
    "remapped rows/correctable error": "remapped_rows.correctable",
    "remapped rows/uncorrectable error": "remapped_rows.uncorrectable",
    "remapped rows/pending": "remapped_rows.pending",
    "remapped rows/remapping failure occurred": "remapped_rows.failure",
    "temperature/gpu current temp": "temperature.gpu",
    "temperature/gpu t.limit temp": "temperature.gpu.tlimit",
    "temperature/gpu shutdown temp": "temperature.shutdown",
    "temperature/gpu slowdown temp": "temperature.slowdown",
    "temperature/gpu shutdown t.limit temp": "temperature.tlimit.shutdown",
    "temperature/gpu slowdown t.limit temp": "temperature.tlimit.slowdown",
    "temperature/gpu max operating temp": "temperature.max_operating",
    "temperature/memory current temp": "temperature.memory",
    "temperature/memory max operating temp": "temperature.memory.max_operating",
    "power readings/power draw": "power.draw",
    "power readings/power limit": "power.limit",
    "power readings/enforced power limit": "enforced.power.limit",
    "power readings/default power limit": "power.default_limit",
    "power readings/max power limit": "power.max_limit",
    "gpu power readings/power draw": "power.draw",
    "gpu power readings/average power draw": "power.draw.average",
    "gpu power readings/instantaneous power draw": "power.draw.instant",
    "gpu power readings/current power limit": "enforced.power.limit",
    "gpu power readings/requested power limit": "power.limit",
    "gpu power readings/default power limit": "power.default_limit",
    "gpu power readings/max power limit": "power.max_limit",
    "clocks/graphics": "clocks.current.graphics",
    "clocks/sm": "clocks.current.sm",
    "clocks/memory": "clocks.current.memory",
    "max clocks/graphics": "clocks.max.graphics",
    "max clocks/sm": "clocks.max.sm",
    "max clocks/memory": "clocks.max.memory",
    "voltage/graphics": "voltage.graphics",
    "fabric/state": "fabric.state",
    "fabric/status": "fabric.status",
    "fabric/cliqueid": "fabric.cliqueId",
    "fabric/clusteruuid": "fabric.clusterUuid",
}
"""Where each query field stands below a GPU; those with regular names are added below."""

PATHS.update(
    (f"remapped rows/bank remap availability histogram/{level}", f"remapped_rows.histogram.{level}")
    for level in ("max", "high", "partial", "low", "none")
)
PATHS.update(
    (f"fabric/health/{name}", f"fabric.health.{name.replace(' ', '_')}")
    for name in (
        "summary",
        "bandwidth",
        "route recovery in progress",
        "route unhealthy",
        "access timeout recovery",
        "incorrect configuration",
    )
)
for _section in ("clocks event reasons", "clocks throttle reasons"):
    PATHS.update(
        (f"{_section}/{name}", f"clocks_event_reasons.{field}")
        for name, field in (
            ("idle", "gpu_idle"),
            ("applications clocks setting", "applications_clocks_setting"),
            ("sw power cap", "sw_power_cap"),
            ("hw slowdown", "hw_slowdown"),
            ("hw slowdown/hw thermal slowdown", "hw_thermal_slowdown"),
            ("hw slowdown/hw power brake slowdown", "hw_power_brake_slowdown"),
            ("sync boost", "sync_boost"),
            ("sw thermal slowdown", "sw_thermal_slowdown"),
            ("display clock setting", "display_clock_setting"),
        )
    )
PATHS.update(
    (f"clocks event reasons counters/{name}", f"clocks_event_reasons_counters.{field}")
    for name, field in (
        ("sw power capping", "sw_power_cap"),
        ("sync boost", "sync_boost"),
        ("sw thermal slowdown", "sw_thermal_slowdown"),
        ("hw thermal slowdown", "hw_thermal_slowdown"),
        ("hw power braking", "hw_power_brake_slowdown"),
    )
)
for _scope in ("volatile", "aggregate"):
    _corrected, _uncorrected = (f"ecc.errors.{k}.{_scope}" for k in ("corrected", "uncorrected"))
    PATHS.update(
        (f"ecc errors/{_scope}/{name}", field)
        for name, field in (
            ("sram correctable", f"{_corrected}.sram"),
            ("sram uncorrectable", f"{_uncorrected}.sram"),
            ("sram uncorrectable parity", f"{_uncorrected}.sram.parity"),
            ("sram uncorrectable sec-ded", f"{_uncorrected}.sram.secded"),
            ("dram correctable", f"{_corrected}.dram"),
            ("dram uncorrectable", f"{_uncorrected}.dram"),
            ("sram threshold exceeded", f"{_uncorrected}.sram.thresholdExceeded"),
        )
    )
    PATHS.update(
        (f"ecc errors/{_scope}/{bits}/{name}", f"ecc.errors.{kind}.{_scope}.{place}")
        for bits, kind in (("single bit", "corrected"), ("double bit", "uncorrected"))
        for name, place in (
            ("device memory", "device_memory"),
            ("register file", "register_file"),
            ("l1 cache", "l1_cache"),
            ("l2 cache", "l2_cache"),
            ("texture memory", "texture_memory"),
            ("cbu", "cbu"),
            ("total", "total"),
        )
    )
PATHS.update(
    (
        f"ecc errors/aggregate uncorrectable sram sources/sram {name}",
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

_HEAD = {
    "timestamp": "timestamp",
    "driver version": "driver_version",
    "kmd version": "driver_version",
    "cuda version": "cuda_version",
    "cuda umd version": "cuda_version",
    "attached gpus": "attached_gpus",
}
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
_PAIR = re.compile(r"^(?P<indent> *)(?P<key>[^:]+?)\s*:(?: (?P<value>.*)|$)")
MAX_LINE = 1024


class _Parser:
    """Reads line after line into logs: ``-l`` writes one run after the other."""

    def __init__(self) -> None:
        self.logs: list[Log] = []
        self.outside: list[tuple[int, str]] = []
        self.last_is_done = True
        self._log: Log | None = None
        self._gpu: Reading | None = None
        self._stack: list[tuple[int, str]] = []

    def feed(self, number: int, line: str) -> None:
        text = line[:MAX_LINE].expandtabs().rstrip()
        if BANNER in text:
            self._log, self._gpu = Log(), None
            self.logs.append(self._log)
            return
        gpu = _GPU.match(text)
        if gpu is not None:
            self._open(number, gpu[1])
        elif self._log is None or (text and failure(text)):
            self.outside.append((number, text))
        elif text:
            self._line(text)

    def _open(self, number: int, bus: str) -> None:
        if self._log is None:
            self._log = Log()
            self.logs.append(self._log)
        self._gpu = Reading(line=number)
        self._gpu.fields["pci.bus_id"] = bus
        self._stack = []
        self._log.gpus.append(self._gpu)

    def _line(self, text: str) -> None:
        indent = len(text) - len(text.lstrip())
        pair = _PAIR.match(text)
        key = (pair["key"] if pair else text).strip().lower()
        value = (pair["value"] or "").strip() if pair else None
        while self._stack and self._stack[-1][0] >= indent:
            self._stack.pop()
        path = "/".join([*(name for _, name in self._stack), key])
        self._stack.append((indent, key))
        if self._gpu is None:
            if self._log is not None and value is not None and key in _HEAD:
                self._log.head[_HEAD[key]] = value
            return
        self._processes(path)
        if value is not None and path in PATHS:
            self._gpu.fields[PATHS[path]] = value

    def _processes(self, path: str) -> None:
        if self._gpu is None:
            return
        if path == "processes":
            self._gpu.processes = 0
        elif path == "processes/process id":
            self._gpu.processes = (self._gpu.processes or 0) + 1


class _Reader:
    def sniff(self, head: Head) -> float:
        if BANNER in head.text:
            return 0.95
        starts = any(_GPU.match(line) for line in head.text.splitlines()[:400])
        return 0.6 if starts and "Product Name" in head.text else 0.0

    def read(self, document: Document) -> Iterator[Observation]:
        parser = _Parser()
        last = ""
        for number, line in enumerate(document.lines(), 1):
            parser.feed(number, line)
            last = line if line.strip() else last
        events = list(failures(document, iter(parser.outside)))
        if not parser.logs and not events:
            raise ParseError(document.name, 1, "no NVSMI LOG in it")
        for log in parser.logs:
            broken = log is parser.logs[-1] and _cut(log)
            log.complete = not broken
            yield from observe_log(document, log)
            if broken:
                yield Note(document.name, "text cut short, used as far as it goes")
        yield from events


def _cut(log: Log) -> bool:
    """Whether the last GPU lacks what comes last: processes, or with ``-d`` what others have."""
    if not log.gpus:
        return log.head.get("attached_gpus", "").strip() != "0"
    first, last = log.gpus[0], log.gpus[-1]
    if "name" in first.fields:
        return last.processes is None
    return len(last.fields) < len(first.fields)


@reader()
def nvidia_smi_text() -> _Reader:
    """nvidia-smi -q: everything about each GPU, as indented text."""
    return _Reader()
