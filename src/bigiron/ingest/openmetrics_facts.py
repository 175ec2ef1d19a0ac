"""What labels tell besides samples: devices, and facts such as driver and firmware versions."""

from datetime import datetime

from bigiron.ingest.openmetrics_series import Place
from bigiron.model import Device, Fact

# Label (lower case) -> fact, of the node and of the GPU. dcgm-exporter writes fields of type
# "label" as labels of every series.
_NODE_FACTS = {
    "dcgm_fi_driver_version": "driver_version",
    "dcgm_fi_system_driver_version": "driver_version",
    "driver_version": "driver_version",
    "dcgm_fi_cuda_driver_version": "cuda_version",
}
_GPU_FACTS = {
    "dcgm_fi_dev_serial": "serial",
    "dcgm_fi_dev_board_serial": "serial",
    "serial_number": "serial",
    "dcgm_fi_dev_vbios_version": "vbios_version",
    "vbios_version": "vbios_version",
    "dcgm_fi_dev_inforom_image_ver": "inforom_version",
    "dcgm_fi_dev_inforom_image_version": "inforom_version",
    "gpu_compute_partition_type": "compute_partition",
    "gpu_memory_partition_type": "memory_partition",
}
# Series that exist for their labels: name -> device label ("" for the node) and facts.
_INFO: dict[str, tuple[str, dict[str, str]]] = {
    "node_uname_info": ("", {"release": "kernel", "nodename": "hostname"}),
    "node_dmi_info": ("", {"bios_version": "bios_version", "product_name": "model"}),
    "node_infiniband_info": ("device", {"firmware_version": "firmware_version"}),
    "node_nvme_info": (
        "device",
        {"firmware_revision": "firmware_version", "model": "model", "serial": "serial"},
    ),
}
INFO_NAMES = (*_INFO, "nvidia_smi_gpu_info", "nvidia_smi_index")
"""Names worth asking for although they measure nothing."""


class Inventory:
    """Devices and facts as they are come across, each once, the last word counting."""

    def __init__(self) -> None:
        self._devices: dict[tuple[str, str], Device] = {}
        self._facts: dict[tuple[str, str, str], str] = {}

    def see_gpu(self, place: Place) -> None:
        """A label block of a GPU's series."""
        gpu = place.gpu()
        if not gpu:
            return
        lower = place.lower
        model = lower.get("modelname") or lower.get("card_model") or lower.get("name", "")
        vendor = "amd" if "card_model" in lower or "card_series" in lower else ""
        if place.uuid().startswith("GPU-") or "modelname" in lower:
            vendor = "nvidia"
        key = (place.node, gpu)
        new = Device(place.node, gpu, "gpu", place.uuid(), place.bus(), model, vendor)
        old = self._devices.get(key)
        self._devices[key] = new if old is None else _joined(old, new)
        self._facts_of(place, "", _NODE_FACTS)
        self._facts_of(place, gpu, _GPU_FACTS)

    def see_info(self, name: str, place: Place) -> None:
        """A series that exists for its labels."""
        if name == "nvidia_smi_gpu_info":
            self.see_gpu(place)
        elif name in _INFO:
            label, facts = _INFO[name]
            self._facts_of(place, place.lower.get(label, "") if label else "", facts)

    def devices(self) -> tuple[Device, ...]:
        """All seen so far."""
        return tuple(self._devices.values())

    def facts(self, time: datetime | None) -> tuple[Fact, ...]:
        """All seen so far, as of ``time``."""
        return tuple(
            Fact(node, name, value, device, time)
            for (node, device, name), value in self._facts.items()
        )

    def _facts_of(self, place: Place, device: str, names: dict[str, str]) -> None:
        for label, fact in names.items():
            if value := place.lower.get(label, ""):
                self._facts[place.node, device, fact] = value


def _joined(old: Device, new: Device) -> Device:
    return Device(
        old.node,
        old.name,
        "gpu",
        new.id or old.id,
        new.bus or old.bus,
        new.model or old.model,
        new.vendor or old.vendor,
    )
