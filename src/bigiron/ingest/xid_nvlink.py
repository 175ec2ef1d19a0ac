"""Which catalogue entry an NVLink 5 error (Xid 144 to 150) belongs to.

The XID catalogue tells these apart by the unit that reported (``RLW_SRC_TRACK``) and the error
status, the second of the hexadecimal words; most units set one bit for each error, some
(``NETIR_BER_EVENT``, ``NETIR_MFDE_EVENT``) write a value.
"""

import re

from bigiron.faults import Catalogue

_NOT_WORD = re.compile(r"[^a-z0-9]+")


class NvlinkCodes:
    """The NVLink 5 codes of one catalogue, by Xid and unit."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def code(self, number: int, unit: str, intr_info: int, status: int) -> str:
        """The most particular code in the catalogue; ``xid.N.unit`` if it has none.

        Of several bits set the worst one counts, of equal ones the lowest. Bits 25 to 20 of
        ``intr_info`` are the reason of a NETIR_LINK_EVT (same source), looked up as ``.rN``.
        """
        slug = _slug(unit)
        for name in _names(unit):
            base = f"xid.{number}.{name}"
            exact = f"{base}.{status:#x}"
            if exact in self._catalogue:
                return exact
            bits = [f"{base}.{1 << bit:#x}" for bit in range(64) if status >> bit & 1]
            known = [fault for code in bits if (fault := self._catalogue.get(code)) is not None]
            if known:
                return max(known, key=lambda fault: fault.severity.rank).code
            reason = f"{base}.r{intr_info >> 20 & 0x3F}"
            if reason in self._catalogue:
                return reason
            if base in self._catalogue:
                return base
        return f"xid.{number}.{slug}"


def _slug(unit: str) -> str:
    return _NOT_WORD.sub("_", unit.lower()).strip("_")


def _names(unit: str) -> list[str]:
    """``A/B`` is known as ``a_b``, ``b`` or ``a``: the first one that is known counts."""
    parts = [_slug(part) for part in unit.split("/")]
    return [_slug(unit), *reversed(parts)] if len(parts) > 1 else [_slug(unit)]
