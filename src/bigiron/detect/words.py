"""Sentences an operator would say: who, what, when, and what followed."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from bigiron.detect import Window
from bigiron.detect.incidents import Incident, Stamped
from bigiron.faults import catalogue
from bigiron.model import Event

VERBS = {
    "xid.13": "stopped a program: exception in its graphics engine",
    "xid.31": "stopped a program: page fault in GPU memory",
    "xid.43": "stopped a program that failed",
    "xid.45": "ended a program's channels",
    "xid.48": "had an uncorrectable memory error",
    "xid.62": "had its internal micro-controller halt",
    "xid.63": "queued a row remap",
    "xid.64": "failed to remap a memory row",
    "xid.74": "reported an NVLink error",
    "xid.79": "fell off the bus",
    "xid.94": "had a contained memory error",
    "xid.95": "had an uncontained memory error",
    "xid.119": "did not answer: its GSP timed out",
    "xid.120": "had a GSP error",
    "ib.link_down": "lost its link",
    "amdgpu.lost": "was lost from the bus",
    "k8s.gpu_unhealthy": "is unhealthy by Kubernetes' word",
    "nvrm.gpu_lost": "was lost",
}
"""What a fault does, where saying so reads better than the catalogue's name for it."""

KINDS = {
    "gpu": "GPU",
    "switch": "NVSwitch",
    "ibswitch": "InfiniBand switch",
    "nic": "network adapter",
    "nvme": "NVMe drive",
    "dimm": "memory module",
    "cpu": "CPU",
    "psu": "power supply",
    "fan": "fan",
}


PREFIXES = (
    ("gpu", "gpu"),
    ("kfd", "gpu"),
    ("nvswitch", "switch"),
    ("nvme", "nvme"),
    ("mlx", "nic"),
    ("nic", "nic"),
    ("ib", "nic"),
    ("eth", "nic"),
    ("en", "nic"),
    ("bond", "nic"),
    ("roce", "nic"),
    ("psu", "psu"),
    ("fan", "fan"),
)


def label(code: str) -> str:
    """``XID 79``, ``SXid 20034``, ``recovery action 2``; other codes as they are."""
    family, _, rest = code.partition(".")
    if family == "xid" and rest[:1].isdigit():
        number, _, more = rest.partition(".")
        return f"XID {number}" + (f" {more}" if more else "")
    if family == "sxid" and rest.isdigit():
        return f"SXid {rest}"
    if family == "recovery" and rest.isdigit():
        return f"XID 154, recovery action {rest}"
    return code


def device_words(window: Window, node: str, device: str, kind: str = "") -> str:
    """``GPU 9b:00 (gpu4)``, as far as its address and name are known."""
    known = window.fleet.devices.get((node, device))
    kind = kind or (known.kind if known is not None else "") or kind_of(device)
    noun = KINDS.get(kind, "PCIe device" if ":" in device else "device")
    bus = known.bus if known is not None else ""
    if not bus and (fact := window.facts.get((node, device), {}).get("bus")):
        bus = str(fact.value)
    if ":" in device:
        return f"{noun} {short(device)}"
    if bus:
        return f"{noun} {short(bus)} ({device})"
    if noun.lower().endswith(device):
        return noun
    number = device.removeprefix("gpu")
    return f"{noun} {number if number.isdigit() else device}"


def kind_of(device: str) -> str:
    """What a device of this name is; "" if its name does not tell."""
    return next((kind for prefix, kind in PREFIXES if device.startswith(prefix)), "")


def short(bus: str) -> str:
    """``9b:00`` of ``0000:9b:00.0``: how people name a GPU."""
    bus = bus.removeprefix("0000:")
    return bus.removesuffix(".0")


def when(event: Event) -> str:
    """`` at 2026-03-02 16:24:18``, or by the kernel's own clock, or the line; "" if none helps."""
    if event.time is not None:
        return f" at {at(event.time)}"
    if event.uptime_s is not None:
        return f" {event.uptime_s:.0f} s after boot"
    tabled = event.code.startswith(("slurm.", "k8s."))  # a row's number says nothing of time
    return f" in line {event.line}" if event.line and not tabled else ""


def at(time: datetime) -> str:
    """Date and time to the second, UTC, as one greps for it."""
    return f"{time:%Y-%m-%d %H:%M:%S}"


def _times(incident: Incident) -> str:
    """``, 5 times until 16:30:13``: the day only if it is another; "" for once on each device."""
    if incident.count <= max(1, len(incident.devices)):
        return ""
    first, last = incident.first.event, incident.last.event
    text = f", {incident.count:,} times"
    if first.time is not None and last.time is not None:
        same_day = first.time.date() == last.time.date()
        if last.time - first.time >= timedelta(seconds=1):
            text += f" until {last.time:%H:%M:%S}" if same_day else f" until {at(last.time)}"
    elif last.uptime_s is not None and last.uptime_s - (first.uptime_s or 0.0) >= 1:
        text += f" until {last.uptime_s:.0f} s"
    return text


def told(window: Window, incident: Incident) -> str:
    """The sentence of an incident: who, what, when, how often, and what follows from it."""
    event = incident.first.event
    who = subject_words(window, incident)
    verb = VERBS.get(incident.code)
    name = lower(incident.fault.name)
    if verb:
        what = f"{who or _some(incident.fault.device)} {verb}"
    elif who:
        noun = KINDS.get(incident.fault.device, "")
        said = name.removeprefix(f"{noun} ").removeprefix("network ")
        what = f"{who}: {lower(said)}"
    else:
        what = name
    text = f"{what}{when(event)} ({label(incident.code)}){_times(incident)}"
    follows = followed(incident)
    if incident.earlier_boot:
        text = f"in an earlier boot, {text}"
    return sentence(f"{text}; {follows}" if follows else text)


def _some(kind: str) -> str:
    """``a GPU``, ``an NVSwitch``, or the host where a fault is about no part."""
    noun = KINDS.get(kind)
    if noun is None:
        return "the host"
    return f"an {noun}" if noun.startswith("NV") else f"a {noun}"


def subject_words(window: Window, incident: Incident) -> str:
    """Whom an incident is about, in words; "" for the host itself."""
    if incident.devices:
        noun = KINDS.get(incident.fault.device, "device")
        names = ", ".join(incident.devices)
        return f"{len(incident.devices)} {noun}s ({names})"
    if not incident.device:
        return ""
    return device_words(window, incident.node, incident.device, incident.fault.device)


def followed(incident: Incident) -> str:
    """``3 NVSwitch faults (SXid 20034) 12 s later follow from it``; "" if nothing did."""
    if not incident.followers:
        return ""
    groups: dict[str, list[Stamped]] = {}
    for stamped in incident.followers:
        groups.setdefault(stamped.event.code, []).append(stamped)
    worse = [code for code, same in groups.items() if code in VERBS and _worse(incident, same[0])]
    then = [f"then it {VERBS[code]} ({label(code)})" for code in worse]
    rest = {code: same for code, same in groups.items() if code not in worse}
    parts = [_group(incident, code, same) for code, same in list(rest.items())[:3]]
    if len(rest) > 3:
        more = len(rest) - 3
        parts.append(f"{more} more code{'s' if more > 1 else ''}")
    if parts and all(KINDS.get(catalogue().find(code).device) for code in rest):
        one = sum(_count(same) for same in rest.values()) == 1
        then.append(f"{_listed(parts)} {'follows' if one else 'follow'} from it")
    elif parts:
        then.append(f"from it came: {_listed(parts)}")
    return "; ".join(then)


def _worse(incident: Incident, stamped: Stamped) -> bool:
    """Whether a follower is on the same device and worse than the cause: an escalation."""
    if not incident.device or stamped.event.device != incident.device:
        return False
    return catalogue().find(stamped.event.code).severity.rank > incident.fault.severity.rank


def _group(incident: Incident, code: str, same: Sequence[Stamped]) -> str:
    fault = catalogue().find(code)
    count = _count(same)
    noun = KINDS.get(fault.device, "")
    what = f"{count} {noun} fault{'s' if count > 1 else ''}" if noun else lower(fault.name)
    times = f", {count} times" if count > 1 and not noun else ""
    after_s = same[0].t - incident.first.t
    delay = f" {after_s:.0f} s later" if after_s >= 1 else ""
    return f"{what} ({label(code)}{times}){delay}"


def _count(same: Sequence[Stamped]) -> int:
    return sum(s.event.count for s in same)


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


PROPER = ("Fabric Manager", "Slurm", "Kubernetes", "Lustre", "Xid")
"""Names that keep their capital within a sentence."""

SMALL = ("amdgpu", "vGPU", "ext4")
"""Names that begin a sentence as they are."""


def lower(name: str) -> str:
    """A catalogue name in the middle of a sentence; names and abbreviations stay as they are."""
    if not name[1:2].islower() or name.startswith(PROPER):
        return name
    return name[:1].lower() + name[1:]


def sentence(text: str) -> str:
    """With a capital, unless it begins with a name of a part (``mlx5_0``), and a full stop."""
    first = text.split(maxsplit=1)[0].rstrip(":") if text.strip() else ""
    own = first in SMALL or any(c.isdigit() or c in "_:/" for c in first)
    text = text if own else text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
