"""A captured AMD machine whose answers a test changes between two looks."""

import copy
import json
from typing import Any

from tests.unit.collected import captured

from bigiron.collect.amdsmi_captured import Captured
from bigiron.collect.amdsmi_library import Argument
from bigiron.host import Host

CORE = "amdsmi_get_gpu_metrics_info"


class Machine:
    """The library of a captured host; ``gpus`` and ``every`` are its answers, to be changed."""

    def __init__(self, name: str, host: Host | None = None) -> None:
        self.host = captured(name) if host is None else host
        told = json.loads((captured(name).root / "bigiron/amdsmi.json").read_text())
        self.system: dict[str, Any] = told["system"]
        self.gpus: list[dict[str, Any]] = [{**told["every"], **gpu} for gpu in told["gpus"]]
        self.asked: list[tuple[str, tuple[Argument, ...]]] = []
        self.closed = 0
        self.host.handles["amdsmi"] = self

    def all_say(self, key: str, answer: Any) -> None:
        """The same answer from every GPU."""
        for gpu in self.gpus:
            gpu[key] = copy.deepcopy(answer)

    def metric(self, gpu: int, **fields: Any) -> None:
        """Some fields of a GPU's metrics."""
        self.gpus[gpu][CORE] |= fields

    def count(self) -> int:
        return len(self.gpus)

    def call(self, function: str, *arguments: Argument) -> object:
        self.asked.append((function, arguments))
        told = {"system": self.system, "gpus": self.gpus}
        return Captured(told).call(function, *arguments)

    def close(self) -> None:
        self.closed += 1
