"""A baseboard controller asked over Redfish: what there is, then its sensors look by look.

Resources are found once and again every few minutes: a GPU baseboard alone has thirty chassis.
Collections are asked for whole (``$expand``) where the service says that it can.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bigiron.collect import Seen
from bigiron.collect import redfish_read as read
from bigiron.collect.redfish_client import Get, Session, service_of
from bigiron.collect.sel import Entry
from bigiron.collect.sel_cursor import Cursor, cursor
from bigiron.errors import NoData, Permanent
from bigiron.host import Host
from bigiron.ingest.json_text import JsonMap, at, loads, mapping, number, objects, sequence, text
from bigiron.model import Note

ROOT = "/redfish/v1"
CHASSIS = 48
MEMBERS = 64
PAGES = 8
LOOK_S = 40.0
_LOGS = frozenset({"sel", "log", "eventlog", "event", "iml", "ipmisel", "systemeventlog"})
_PLACES = ("Thermal", "Power", "ThermalSubsystem", "PowerSubsystem", "EnvironmentMetrics")

Reader = Callable[[JsonMap], Iterator[Seen]]


@dataclass(slots=True)
class Places:
    """Which resources to read at each look, and which to read for facts."""

    single: list[tuple[str, Reader]] = field(default_factory=list)
    several: list[tuple[str, Reader]] = field(default_factory=list)
    managers: list[str] = field(default_factory=list)
    firmware: str = ""
    logs: list[str] = field(default_factory=list)
    expand: bool = False


@dataclass(slots=True)
class Redfish:
    """One service; what is kept between looks."""

    open: Callable[[], Session | None]
    get: Get | None
    cursors: dict[str, Cursor] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    places: Places | None = None

    def look(self, host: Host, *, facts: bool) -> Iterator[Seen | Entry]:
        """Sensors, log entries since the last look and, if asked for, facts.

        Raises Temporary, Permanent, and NoData where it is no Redfish service.
        """
        session = self.open()
        get = self.get or (session.get if session is not None else None)
        if get is None:
            raise NoData("no Redfish service")
        try:
            if facts or self.places is None:
                self.places = discover(get)
                yield from self._facts(get, self.places)
            yield from self._sensors(get, self.places)
            for path in self.places.logs:
                yield from self._log(get, host, path)
            if session is not None and session.failed:
                yield Note("redfish", "resources that the service fails to give", session.failed)
        finally:
            if session is not None:
                session.close()

    def _sensors(self, get: Get, places: Places) -> Iterator[Seen]:
        for path, reader in places.single:
            found = _maybe(get, path)
            if found is not None:
                yield from reader(found)
        for path, reader in places.several:
            for member in members(get, path, expand=places.expand):
                yield from reader(member)
                if reader is read.supply:
                    yield from _metrics(get, member)

    def _facts(self, get: Get, places: Places) -> Iterator[Seen]:
        for path in places.managers:
            found = _maybe(get, path)
            if found is not None:
                yield from read.manager(found)
        if places.firmware:
            for member in members(get, places.firmware, expand=places.expand):
                yield from read.firmware(member)

    def _log(self, get: Get, host: Host, path: str) -> Iterator[Entry | Note]:
        """The entries, page by page: read whole only when their number has changed."""
        first = _maybe(get, path)
        if first is None:
            return
        count = int(number(first.get("Members@odata.count")) or 0)
        if self.counts.get(path) == count and path in self.cursors:
            return
        self.counts[path] = count
        entries = [e for page in _pages(get, first) for e in map(read.log_entry, page) if e]
        known = self.cursors.setdefault(path, cursor(host))
        yield from known.new(sorted(entries, key=_age))


def _age(entry: Entry) -> tuple[bool, float, str]:
    return entry.time is None, entry.time.timestamp() if entry.time else 0.0, entry.id.zfill(12)


def _pages(get: Get, first: JsonMap) -> Iterator[Iterator[JsonMap]]:
    page: JsonMap | None = first
    for _ in range(PAGES):
        if page is None:
            return
        yield objects(page.get("Members"))
        following = text(page.get("Members@odata.nextLink"))
        page = _maybe(get, following) if following else None


def _metrics(get: Get, found: JsonMap) -> Iterator[Seen]:
    path = _link(found, "Metrics")
    metrics = _maybe(get, path) if path else None
    if metrics is not None:
        yield from read.supply_metrics(text(found.get("Name")) or text(found.get("Id")), metrics)


def discover(get: Get) -> Places:
    """What a service has. Raises NoData, Permanent, Temporary."""
    root = get(f"{ROOT}/")
    places = Places()
    places.expand = at(root, "ProtocolFeaturesSupported", "ExpandQuery", "NoLinks") is True
    for path in _collection(get, _link(root, "Chassis"))[:CHASSIS]:
        chassis = _maybe(get, path)
        if chassis is not None:
            _chassis(get, places, chassis)
    for path in _collection(get, _link(root, "Managers")):
        places.managers.append(path)
        _logs(get, places, path)
    for path in _collection(get, _link(root, "Systems")):
        _logs(get, places, path)
    update = _maybe(get, _link(root, "UpdateService"))
    places.firmware = _link(update, "FirmwareInventory") if update is not None else ""
    return places


def _chassis(get: Get, places: Places, chassis: JsonMap) -> None:
    """The newer resources where a chassis has them, else the older ones."""
    links = {name: _link(chassis, name) for name in _PLACES}
    cooling = _maybe(get, links["ThermalSubsystem"])
    if cooling is not None:
        places.single.append((links["ThermalSubsystem"], read.thermal_subsystem))
        _add(places.single, _link(cooling, "ThermalMetrics"), read.thermal_metrics)
        _add(places.several, _link(cooling, "Fans"), read.fan)
    else:
        _add(places.single, links["Thermal"], read.thermal)
    supply = _maybe(get, links["PowerSubsystem"])
    if supply is not None:
        places.single.append((links["PowerSubsystem"], read.power_subsystem))
        _add(places.several, _link(supply, "PowerSupplies"), read.supply)
        if places.expand:
            _add(places.several, _link(chassis, "Sensors"), read.sensor)
    else:
        _add(places.single, links["Power"], read.power)
    if supply is not None and text(chassis.get("ChassisType")) in ("RackMount", "Sled", "Blade"):
        _add(places.single, links["EnvironmentMetrics"], read.environment)


def _logs(get: Get, places: Places, path: str) -> None:
    owner = _maybe(get, path)
    for log in _collection(get, _link(owner, "LogServices")) if owner is not None else ():
        name = log.rstrip("/").rpartition("/")[2].casefold()
        service = _maybe(get, log) if name in _LOGS else None
        entries = _link(service, "Entries") if service is not None else ""
        if entries and entries not in places.logs:
            places.logs.append(entries)


def members(get: Get, path: str, *, expand: bool) -> Iterator[JsonMap]:
    """The members of a collection, whole."""
    if expand:
        found = _maybe(get, f"{path}?$expand=.($levels=1)")
        whole = [one for one in objects(mapping(found).get("Members")) if len(one) > 1]
        if whole:
            yield from whole[: 8 * MEMBERS]
            return
    for member in _collection(get, path):
        one = _maybe(get, member)
        if one is not None:
            yield one


def _collection(get: Get, path: str) -> list[str]:
    found = _maybe(get, path) if path else None
    if found is None:
        return []
    listed = (text(mapping(one).get("@odata.id")) for one in sequence(found.get("Members")))
    return [one for one in listed if one][:MEMBERS]


def _maybe(get: Get, path: str) -> JsonMap | None:
    """A resource, or None where the service has none there."""
    if not path:
        return None
    try:
        return get(path)
    except NoData:
        return None


def _add(to: list[tuple[str, Reader]], path: str, reader: Reader) -> None:
    if path:
        to.append((path, reader))


def _link(found: JsonMap, name: str) -> str:
    return text(at(found, name, "@odata.id"))


def redfish(host: Host) -> Redfish:
    """The service of this host. Raises NoData: none, or nobody gave us credentials."""
    return host.held("redfish", lambda: _make(host))


def _make(host: Host) -> Redfish:
    try:
        told = mapping(loads(host.read("/bigiron/redfish.json"), "redfish.json"))
    except (NoData, Permanent):
        service = service_of(host)
        return Redfish(lambda: service.session(LOOK_S), None)

    def get(path: str) -> JsonMap:
        if path.rstrip("/") not in told:
            raise NoData(path)
        return mapping(told[path.rstrip("/")])

    return Redfish(lambda: None, get)
