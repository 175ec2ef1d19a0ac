"""Whether a program's error follows the device across users, and so may be the device's after all.

XID 13, 31 and 43 are application-level unless one GPU shows them under several tenants
(NVIDIA's XID workflows; the exclusion of 13/31/43 in the reliability studies).
"""

from collections.abc import Iterable
from math import exp, lgamma, log

from bigiron.detect import Key, Window
from bigiron.detect.incidents import Incident
from bigiron.model import Event, Job

MIN_USERS = 3
"""Users whose programs failed on this device."""

OF_GPUS = ("xid.", "amdgpu.")
"""A switch or a host passes on what any of its GPUs' programs did: that many users meet on it
proves nothing."""

CHANCE = 1e-3
"""Largest chance, over all devices there are, that so many users meet on one of them."""

LEAST_DEVICES = 64
"""Fewer devices are counted as so many: users choose among few by habit, not by chance."""

MIN_DAYS = 3
"""Distinct days on one device, where no job history is known."""


class Tenants:
    """Who ran where, for the events of one window; built when first asked."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._jobs: dict[str, list[Job]] = {}
        self._here: dict[tuple[str, str], list[Event]] | None = None
        self._by_code: dict[str, list[Event]] = {}
        self._places: dict[str, dict[str, set[Key]]] = {}

    def follows_device(self, incident: Incident) -> str:
        """A sentence why the device may be at fault; "" if the programs are.

        With job history: programs of three users or more failed so on this device, more than
        would meet on one by chance (each pair of user and device they failed on is a throw at
        the devices there are). Without: it came on three different days, always on this device
        of its node.
        """
        told_by_gpu = incident.code.startswith(OF_GPUS)
        if not incident.device or not told_by_gpu or incident.count < MIN_USERS:
            return ""
        self._index()
        if not self._window.jobs:
            here = self._here or {}
            return _by_days(incident, here.get((incident.code, incident.node), ()))
        place = (incident.node, incident.device)
        users = self._users(incident.code)
        met = sum(place in places for places in users.values())
        if met < MIN_USERS:
            return ""
        devices = max(LEAST_DEVICES, len(self._window.fleet.devices))
        others = sum(len(places) for places in users.values()) - met
        chance = devices * poisson_tail(met, (others + 1) / devices)
        if chance > CHANCE:
            return ""
        return (
            f"It follows the device: programs of {met} users failed so here, too many for chance."
        )

    def _index(self) -> None:
        """Sort the window's events and jobs once: there may be many incidents to ask about."""
        if self._here is not None:
            return
        self._here = {}
        for event in self._window.events:
            self._by_code.setdefault(event.code, []).append(event)
            self._here.setdefault((event.code, event.node), []).append(event)
        for job in self._window.jobs:
            for node in job.nodes:
                self._jobs.setdefault(node, []).append(job)

    def _users(self, code: str) -> dict[str, set[Key]]:
        """On which devices each user's jobs failed with this code."""
        if code not in self._places:
            places: dict[str, set[Key]] = {}
            for event in self._by_code.get(code, ()):
                user = self._user(event)
                if user:
                    places.setdefault(user, set()).add((event.node, event.device))
            self._places[code] = places
        return self._places[code]

    def _user(self, event: Event) -> str:
        """Who ran on the event's node at its time; "" if nobody or several did."""
        if event.time is None:
            return ""
        users = set()
        for job in self._jobs.get(event.node, ()):
            begun = job.start is not None and job.start <= event.time
            if begun and (job.end is None or job.end >= event.time):
                users.add(job.user)
        return users.pop() if len(users) == 1 else ""


def poisson_tail(count: int, mean: float) -> float:
    """P(``count`` or more) where ``mean`` are expected."""
    below = sum(exp(k * log(mean) - mean - lgamma(k + 1)) for k in range(count))
    return max(0.0, 1.0 - below)


def _by_days(incident: Incident, events: Iterable[Event]) -> str:
    days = set()
    for event in events:
        if event.device != incident.device:
            return ""
        if event.time is not None:
            days.add(event.time.date())
    if len(days) < MIN_DAYS:
        return ""
    return f"It came on {len(days)} different days, each time on this device of the node."
