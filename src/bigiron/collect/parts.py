"""What a baseboard controller calls a fan, a supply or a sensor, as the name of a device.

Vendors name as they like: ``FAN1``, ``Fan 1A Tach``, ``SYS_FAN_3``; ``PSU2 Status``, ``PS2 Input
Power``, ``Power Supply 2``. Parts are ``fan1``, ``fan1a``, ``fan:sys_3``, ``psu2``; sensors
``bmc:inlet_temp``.
"""

import re
from functools import lru_cache

_NOT_WORD = re.compile(r"[^a-z0-9]+")
_FAN = re.compile(r"fan(?:s|_tach|_speed|_rpm)?|tach(?:ometer)?|rpm|speed|pwm|_duty_?cycle")
_PSU = re.compile(r"power_suppl(?:y|ies)|pwr_supply|psu|(?:^|_)ps(?=_?\d|_|$)")
_SUPPLY_WORDS = frozenset(
    {
        *("status", "input", "output", "in", "out", "power", "pin", "pout", "watts", "state"),
        *("health", "present", "presence", "temp", "ac", "pwr", "fault", "fail", "bay", "slot"),
        "detected",
    }
)
INLET = re.compile(
    r"inlet|intake|ambient|front.?panel.?temp|air.?in\b|exhaust(?!)|fp_temp", re.IGNORECASE
)
LENGTH = 60


@lru_cache(maxsize=2048)
def slug(name: str) -> str:
    """``Inlet Temp`` as ``inlet_temp``: ASCII letters, digits and underscores."""
    return _NOT_WORD.sub("_", name.casefold().encode("ascii", "ignore").decode()).strip("_")[
        :LENGTH
    ]


def sensor(name: str) -> str:
    """A sensor of the baseboard controller."""
    return f"bmc:{slug(name) or 'sensor'}"


def fan(name: str) -> str:
    """A fan; what remains of its name without the words for a fan tells them apart."""
    return _part("fan", _FAN.sub("_", slug(name)))


def psu(name: str) -> str:
    """A power supply, by whichever of its sensors."""
    words = [w for w in _PSU.sub("_", slug(name)).split("_") if w and w not in _SUPPLY_WORDS]
    return _part("psu", "_".join(words))


def is_psu(name: str) -> bool:
    """Whether a sensor's name is that of a power supply."""
    return _PSU.search(slug(name)) is not None


def is_inlet(name: str) -> bool:
    """Whether a sensor measures the air or coolant that comes in."""
    return INLET.search(name) is not None


def _part(kind: str, rest: str) -> str:
    rest = "_".join(word for word in rest.split("_") if word)
    if not rest:
        return kind
    return f"{kind}{rest}" if rest[0].isdigit() else f"{kind}:{rest}"
