"""Log lines that are JSON objects: journald's export and a container runtime's json-file.

journald writes a message that is not UTF-8 as an array of byte values and a field that is too
large as null (systemd.journal-fields, journalctl -o json).
"""

from datetime import datetime

import msgspec

from bigiron.ingest import log_times
from bigiron.ingest.log_lines import LogLine, Prefixes

_decoder = msgspec.json.Decoder(dict[str, object])

ARRAY_NEEDS = ('"MESSAGE":[', '"MESSAGE" : [')
"""A message written as bytes cannot be searched as text: every such line is looked at."""


def parse(text: str, prefixes: Prefixes) -> LogLine | None:
    """The log record that this JSON line holds; None if it is not one."""
    try:
        record = _decoder.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    if "MESSAGE" in record:
        return _journal(record, prefixes)
    if isinstance(record.get("log"), str) and ("stream" in record or "time" in record):
        return _container(record, prefixes)
    return None


def _journal(record: dict[str, object], prefixes: Prefixes) -> LogLine | None:
    message = _text(record["MESSAGE"])
    if message is None:
        return None
    inner = prefixes.parse(message)  # a relayed message may keep a prefix of its own
    program = _word(record, "SYSLOG_IDENTIFIER") or _word(record, "_TRANSPORT")
    return LogLine(
        inner.message,
        _word(record, "_HOSTNAME") or inner.host,
        log_times.epoch_us(record.get("__REALTIME_TIMESTAMP")) or inner.time,
        _monotonic_s(record, inner),
        program or inner.program,
        "",
        _word(record, "_BOOT_ID"),
        True,
        inner.times,
        "journal-json",
    )


def _monotonic_s(record: dict[str, object], inner: LogLine) -> float | None:
    """The kernel's own clock; the journal's arrival time where the kernel gave none."""
    if inner.uptime_s is not None:
        return inner.uptime_s
    for key in ("_SOURCE_MONOTONIC_TIMESTAMP", "__MONOTONIC_TIMESTAMP"):
        text = _word(record, key)
        if text.isascii() and text.isdigit() and len(text) < 19:
            return int(text) / 1e6
    return None


def _container(record: dict[str, object], prefixes: Prefixes) -> LogLine:
    inner = prefixes.parse(str(record["log"]).rstrip("\r\n"))
    outer: tuple[datetime, bool] | None = log_times.iso(_word(record, "time"))
    if inner.time is not None or outer is None:
        return inner._replace(form="container-json")
    return inner._replace(time=outer[0], zoned=outer[1], form="container-json")


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        if all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
            return bytes(value).decode("utf-8", "replace")
        if value and isinstance(value[0], str):  # a field given several times
            return value[0]
    return None


def _word(record: dict[str, object], key: str) -> str:
    value = record.get(key)
    if isinstance(value, list) and value and isinstance(value[0], str):
        value = value[0]
    return value if isinstance(value, str) else ""


def spellings(literal: str) -> tuple[str, ...]:
    """How a literal may stand in a JSON line: as it is, and with what JSON or Go escapes."""
    quoted = msgspec.json.encode(literal).decode()[1:-1]
    plain = {literal, quoted}
    for sign, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        plain |= {text.replace(sign, escape) for text in plain}
    return tuple(sorted(plain))
