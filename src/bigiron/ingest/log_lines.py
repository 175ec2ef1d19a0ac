"""What stands before a log message: who wrote it, when, by which clock.

Every form that kernel messages travel in is peeled off layer by layer, since layers nest: a
container's log of ``dmesg -T``, a syslog line with the kernel's own clock inside.

    6,3964,206764307,-;MESSAGE                      /dev/kmsg
    [ 1108.858286] MESSAGE                          dmesg; <6> before it: dmesg -r, pstore
    [Sun Feb 23 16:24:18 2025] MESSAGE              dmesg -T
    2025-01-21T04:41:44,285060+00:00 MESSAGE        dmesg --time-format iso
    kern  :warn  : STAMP MESSAGE                    dmesg -x
    Jul 02 07:10:02 HOST kernel: MESSAGE            journalctl short, rsyslog traditional
    2025-01-21T04:41:44+0000 HOST kernel: MESSAGE   journalctl short-iso, rsyslog RFC 3339
    [ 1108.858286] HOST kernel: MESSAGE             journalctl short-monotonic
    <4>1 STAMP HOST kernel - - - MESSAGE            RFC 5424
    STAMP stdout F MESSAGE                          a container runtime's file
    [Feb 25 2025 13:59:45] [ERROR] [tid 7] MESSAGE  NVIDIA fabric manager

Sources: Documentation/ABI/testing/dev-kmsg and fs/pstore of the Linux kernel, dmesg(1),
journalctl(1), RFC 5424, the CRI logging format of Kubernetes.
"""

import re
from datetime import datetime
from typing import NamedTuple

from bigiron.ingest import log_times
from bigiron.ingest.log_times import MONTH


class LogLine(NamedTuple):
    """A log line taken apart. Empty strings and None are "the line does not say".

    ``program`` is the syslog tag (``kernel``) and ``pid`` its process. ``zoned`` is False if a
    wall clock was read that names no zone, ``times`` is how often a repeated message was said.
    """

    message: str
    host: str = ""
    time: datetime | None = None
    uptime_s: float | None = None
    program: str = ""
    level: str = ""
    boot_id: str = ""
    zoned: bool = True
    times: int = 1
    form: str = ""
    pid: str = ""


_KMSG = re.compile(r"\d{1,4},\d+,(\d+),[^;,\s]{1,8}(?:,[^;\s]*)?;")
_UPTIME = re.compile(
    r"\[ *(\d{1,12}\.\d{1,9})(?: *<[^>]*>)?\] ?(?:\[ *[TC]\d+\] ?)?"  # a caller: [  T104]
)
_DELTA = re.compile(r"\[ *\+\d+\.\d+\] ?")
_MINUTE = re.compile(rf"\[({MONTH}) ?(\d\d?) (\d\d:\d\d)\] ?")
_CTIME = re.compile(
    rf"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ({MONTH}) +(\d\d?) (\d\d:\d\d:\d\d)"
    r" (?:(UTC|GMT) )?(\d{4})\] ?"
)
_FABRIC = re.compile(
    rf"\[({MONTH}) +(\d\d?) (\d{{4}}) (\d\d:\d\d:\d\d)\] \[(\w+)\] (?:\[tid \d+\] ?)?"
)
_BSD = re.compile(rf"({MONTH}) +(\d\d?) (\d\d:\d\d:\d\d)(?:\.(\d+))? ")
_ISO = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:([.,])\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?) ")
_FACILITY = re.compile(
    r"(?:kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local\d)"
    r" *:(emerg|alert|crit|err|warn|notice|info|debug) *: ?"
)
_PRIORITY = re.compile(r"<\d{1,3}>(1 (?=\d{4}-|- ))?")
_RFC5424 = re.compile(
    r"(\S+) (\S+) (\S+) \S+ \S+ (?:-|(?:\[(?:[^\]\\]|\\.)*\])+)(?: |$)(?:\ufeff|BOM)?"
)
_CONTAINER = re.compile(r"(?:stdout|stderr) [FP] ")
_TAGGED = re.compile(r"([\w.:%-]{0,254}[\w%-]) ([^\s:\[\]]{1,128})(?:\[([^\]\s]*)\])?:(?: |$)")
_HOST_KERNEL = re.compile(r"([\w.:%-]{0,254}[\w%-]) kernel: ?")
_KERNEL = re.compile(r"kernel: ?")
_REPEATED = re.compile(r"message repeated (\d{1,9}) times: \[ ?(.*?) ?\]?$")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

_SUBSYSTEMS = frozenset({"nvme", "EDAC", "NETDEV", "EXT4-fs", "XFS", "BTRFS", "amdgpu", "NVRM"})
"""First words of kernel messages that look like ``HOST TAG:`` where a log names no host."""

LAYERS = 6


class Prefixes:
    """Takes lines apart; ``now`` is when the log was taken: stamps without a year need it."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def parse(self, text: str) -> LogLine:
        """The line's message and what its prefixes say. Never fails: at worst all is message."""
        if "\x1b" in text:
            text = _COLOUR.sub("", text)
        peel = _Peel(text, self._now)
        for _ in range(LAYERS):
            if peel.done or not peel.layer():
                break
        return peel.line()


class _Peel:
    """One line while its prefixes are taken off; each kind of knowledge is taken once."""

    def __init__(self, text: str, now: datetime) -> None:
        self.text, self.now = text, now
        self.pos = 0
        self.done = False
        self.host = self.program = self.pid = self.level = self.form = ""
        self.time: datetime | None = None
        self.outer: datetime | None = None
        self.uptime_s: float | None = None
        self.zoned = True
        self.escaped = False

    def layer(self) -> bool:
        """Take one prefix off; False if there is none."""
        first = self.text[self.pos : self.pos + 1]
        if first == "[":
            return self._bracket()
        if self.host and self.program:
            return False  # after HOST TAG: only the kernel's own clock may follow
        if first == "<":
            return self._priority()
        if first.isdigit():
            return self._kmsg() or self._iso()
        return first.isalpha() and (self._bsd() or self._facility() or self._kernel())

    def line(self) -> LogLine:
        """What was found."""
        message, times = self.text[self.pos :], 1
        if self.escaped and "\\x" in message:
            message = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), message)
        if message.startswith("message repeated "):
            match = _REPEATED.match(message)
            if match:
                times = max(1, int(match[1]))
                message = match[2]
        return LogLine(
            message,
            self.host,
            self.time or self.outer,
            self.uptime_s,
            self.program,
            self.level,
            "",
            self.zoned,
            times,
            self.form,
            self.pid,
        )

    def _take(self, match: re.Match[str], form: str) -> bool:
        self.pos = match.end()
        self.form = self.form or form
        return True

    def _bracket(self) -> bool:
        text, pos = self.text, self.pos
        if self.uptime_s is None and (match := _UPTIME.match(text, pos)):
            self.uptime_s = float(match[1])
            self._take(match, "dmesg")
            return self._host_kernel()
        if self.time is None and (match := _CTIME.match(text, pos)):
            self.time = log_times.with_year(match[1], match[2], match[3], match[5])
            self.zoned = match[4] is not None
            self._take(match, "ctime")
            return self._host_kernel()
        if self.time is None and (match := _FABRIC.match(text, pos)):
            self.time = log_times.with_year(match[1], match[2], match[4], match[3])
            self.zoned, self.level, self.program = False, match[5], "fabricmanager"
            self.done = True
            return self._take(match, "fabric")
        if match := _DELTA.match(text, pos):
            return self._take(match, "dmesg")
        if self.time is None and (match := _MINUTE.match(text, pos)):
            self.time = log_times.without_year(match[1], match[2], f"{match[3]}:00", self.now)
            self.zoned = False
            return self._take(match, "ctime")
        return False

    def _host_kernel(self) -> bool:
        """After a dmesg stamp a host is only believed if the kernel is named with it."""
        if not self.host and (match := _HOST_KERNEL.match(self.text, self.pos)):
            self.host, self.program = match[1], "kernel"
            self.pos = match.end()
        return True

    def _priority(self) -> bool:
        match = _PRIORITY.match(self.text, self.pos)
        if match is None:
            return False
        if match[1] is None:
            return self._take(match, "")
        header = _RFC5424.match(self.text, match.end())
        if header is None:
            return self._take(match, "")
        self._set_iso(header[1])
        self.host = "" if header[2] == "-" else header[2]
        self.program = "" if header[3] == "-" else header[3]
        return self._take(header, "rfc5424")

    def _kmsg(self) -> bool:
        if self.uptime_s is not None or not (match := _KMSG.match(self.text, self.pos)):
            return False
        self.uptime_s = int(match[1][:18]) / 1e6
        self.done = self.escaped = True
        return self._take(match, "kmsg")

    def _iso(self) -> bool:
        if self.time is not None or not (match := _ISO.match(self.text, self.pos)):
            return False
        if not self._set_iso(match[1]):
            return False
        self._take(match, "iso" if match[2] != "," else "dmesg-iso")
        if match[2] == ",":
            return self._host_kernel()
        if container := _CONTAINER.match(self.text, self.pos):
            self.outer, self.time = self.time, None
            self.form = "container"
            return self._take(container, "container")
        return self._tagged()

    def _set_iso(self, text: str) -> bool:
        found = log_times.iso(text)
        if found is None:
            return False
        self.time, self.zoned = found
        return True

    def _bsd(self) -> bool:
        if self.time is not None or not (match := _BSD.match(self.text, self.pos)):
            return False
        second = log_times.without_year(match[1], match[2], match[3], self.now)
        if second is None:
            return False
        time = log_times.add_fraction(second, match[4])
        self.time = min(time, self.now) if time is not None else None
        self.zoned = False
        self._take(match, "bsd")
        return self._tagged()

    def _tagged(self) -> bool:
        """``HOST TAG[PID]: ``; True even without one, the stamp before it was taken."""
        if self.host or not (match := _TAGGED.match(self.text, self.pos)):
            return True
        if match[1] in _SUBSYSTEMS:
            return True
        self.host, self.program, self.pid = match[1], match[2], match[3] or ""
        self.pos = match.end()
        return True

    def _facility(self) -> bool:
        if self.level or not (match := _FACILITY.match(self.text, self.pos)):
            return False
        self.level = match[1]
        return self._take(match, "dmesg-x")

    def _kernel(self) -> bool:
        if match := _KERNEL.match(self.text, self.pos):
            self.program = "kernel"
            return self._take(match, "kernel")
        if not self.host and (match := _HOST_KERNEL.match(self.text, self.pos)):
            self.host, self.program = match[1], "kernel"
            return self._take(match, "kernel")
        return False
