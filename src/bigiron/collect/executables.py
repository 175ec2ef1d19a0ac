"""A site's own checks, run as they are: NHC, plugins as Nagios runs them, any program that ends so.

Only what this node's own configuration names is run, by its absolute path and with the arguments
given there, never through a shell. Each has a deadline, and its output is bounded. A check that
could not be run, or came to no verdict, has an error: that is no pass, and no failure of the node.

NHC takes nodes out of service by itself unless told not to: give it ``MARK_OFFLINE=0``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import monotonic

from bigiron.collect import Seen, collector
from bigiron.collect.plugin_output import said
from bigiron.errors import NoData, Permanent, Temporary
from bigiron.host import Host
from bigiron.model import CheckResult, CheckStatus

CHECKS = "executables:checks"
OUTPUT_BYTES = 256 * 1024
LONGEST_S = 300.0
TURN_S = 60.0
"""No check is begun after so many seconds of one call: the next one goes on."""
MOST = 100
NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Executable:
    """A check by its name, the program with its arguments, and how often it runs at most.

    ``code`` is the catalogued fault that a failure of it is, ``device`` the part it looks at, where
    it is of one. Raises ValueError: not an absolute path, or a limit out of range.
    """

    name: str
    argv: tuple[str, ...]
    every_s: float = 300.0
    timeout_s: float = 30.0
    device: str = ""
    code: str = ""

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0].startswith("/"):
            raise ValueError(f"{self.name}: want a program by its absolute path")
        if any("\0" in word for word in self.argv):
            raise ValueError(f"{self.name}: a NUL byte in an argument")
        if not 0 < self.timeout_s <= LONGEST_S or self.every_s < 1:
            raise ValueError(f"{self.name}: want 0 < timeout_s <= {LONGEST_S:g} and every_s >= 1")


@collector(every_s=10.0, timeout_s=TURN_S + LONGEST_S + 10.0, apart=True)
def executables(host: Host) -> Iterator[Seen]:
    """A site's own checks (NHC, Nagios plugins), as the node's own configuration names them."""
    checks: tuple[Executable, ...] = host.handles.get(CHECKS, ())
    if not checks:
        raise NoData("no executables are configured")
    ran = host.held("executables", dict[Executable, float])
    begin = monotonic()
    waiting = [one for one in checks[:MOST] if begin >= ran.get(one, NEVER) + one.every_s]
    waiting.sort(key=lambda one: ran.get(one, NEVER))  # who has waited longest goes first
    for check in waiting:
        if monotonic() > begin + TURN_S:
            return
        ran[check] = monotonic()
        yield _result(replace(host, output_bytes=OUTPUT_BYTES), check)


def _result(host: Host, check: Executable) -> CheckResult:
    source = " ".join(check.argv)[:200]
    try:
        told = said(*host.outcome(check.argv, timeout_s=check.timeout_s))
    except NoData:
        why = f"{check.argv[0]}: not there, or not to be executed"
        return CheckResult("", check.name, CheckStatus.ERROR, check.device, text=why, source=source)
    except (Temporary, Permanent) as error:
        return CheckResult(
            "", check.name, CheckStatus.ERROR, check.device, text=str(error), source=source
        )
    failed = told.status in (CheckStatus.FAIL, CheckStatus.WARN)
    return CheckResult(
        "",
        check.name,
        told.status,
        check.device,
        check.code if failed else "",
        told.text,
        source=source,
        values=told.values,
    )
