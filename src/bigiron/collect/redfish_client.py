"""Questions to a Redfish service: one connection a look, bounded answers, a deadline for all.

A controller that drips bytes, answers without end or with rubbish costs its look and nothing more.
What it takes to ask over HTTP is 4 MB of memory: it is imported where a service is configured.
"""

from binascii import b2a_base64
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bigiron.errors import NoData, ParseError, Permanent, Temporary
from bigiron.host import Host
from bigiron.ingest.json_text import JsonMap, loads, mapping

if TYPE_CHECKING:
    import http.client

ANSWER_BYTES = 4 * 1024 * 1024
REQUESTS = 200
CONNECT_S = 5.0
CREDENTIALS = "/etc/bigiron/redfish.credentials"
HOST_INTERFACE = "/sys/firmware/dmi/entries/42-*/raw"

Get = Callable[[str], JsonMap]
"""A resource by its path. Raises NoData (404), Permanent (refused), Temporary (no answer)."""


@dataclass(slots=True)
class Service:
    """Where a service is and who asks; ``ca`` is a file of authorities, "" the system's own."""

    url: str
    user: str
    password: str = field(repr=False)
    ca: str = ""

    def session(self, deadline_s: float) -> "Session":
        """A connection for one look, which ends so many seconds from now."""
        return Session(self, monotonic() + deadline_s)


class Session:
    """A connection, made at the first question. ``failed`` counts answers that were errors."""

    def __init__(self, service: Service, until: float) -> None:
        self._service = service
        self._until = until
        self._left = REQUESTS
        self._answered = False
        self.failed = 0
        self._connection: http.client.HTTPConnection | None = None
        pair = f"{service.user}:{service.password}".encode()
        self._headers = {
            "Authorization": f"Basic {b2a_base64(pair, newline=False).decode()}",
            "Accept": "application/json",
            "OData-Version": "4.0",
        }

    def get(self, path: str) -> JsonMap:
        """A resource. Raises NoData, Permanent, Temporary."""
        import http.client

        if self._left <= 0:
            raise Temporary(f"{self._service.url}: more than {REQUESTS} questions in one look")
        self._left -= 1
        if not path.startswith("/") or any(c.isspace() or ord(c) < 33 for c in path):
            raise NoData(path)
        try:
            status, body = self._ask(path)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            words = str(error) or type(error).__name__
            raise Temporary(f"{self._service.url}{path}: {words}"[:300]) from error
        if status in (401, 403):
            raise Permanent(f"{self._service.url}{path}: refused ({status})")
        if status in (404, 405, 410, 501):
            raise NoData(path)
        if status != 200:
            if not self._answered:
                raise Temporary(f"{self._service.url}{path}: answers {status}")
            self.failed += 1  # one resource is broken; the others are worth having
            raise NoData(path)
        self._answered = True
        try:
            return mapping(loads(body.decode("utf-8", "replace"), path))
        except ParseError as error:
            raise Temporary(f"{self._service.url}{path}: not JSON: {error}"[:300]) from error

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, path: str) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = _connect(self._service, self._seconds())
        if self._connection.sock is not None:
            self._connection.sock.settimeout(self._seconds())
        self._connection.request("GET", path, headers=self._headers)
        response = self._connection.getresponse()
        body = bytearray()
        while data := response.read1(65_536):
            body += data
            if len(body) > ANSWER_BYTES:
                self.close()
                raise OSError(f"an answer of more than {ANSWER_BYTES:,} bytes")
            self._seconds()
        response.close()  # it is read to its end: the connection is free for the next
        if response.will_close:
            self.close()
        return response.status, bytes(body)

    def _seconds(self) -> float:
        """What is left, at most CONNECT_S. Raises TimeoutError."""
        left = self._until - monotonic()
        if left <= 0:
            raise TimeoutError("no time left for this look")
        return min(left, CONNECT_S)


def _connect(service: Service, timeout_s: float) -> "http.client.HTTPConnection":
    import http.client
    import ssl

    parts = urlsplit(service.url)
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    context = ssl.create_default_context(cafile=service.ca or None)
    if not service.ca and _in_band(host):
        # the machine's own controller over its inner link signs its certificate itself
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)


def _in_band(host: str) -> bool:
    """Whether an address is of a link that ends in this machine (link-local, loopback)."""
    import ipaddress

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_link_local or address.is_loopback


def service_of(host: Host) -> Service:
    """The configured service, else that of the host interface. Raises NoData, Permanent.

    ``BIGIRON_REDFISH_URL``, ``BIGIRON_REDFISH_CREDENTIALS`` (a file: user and password on two
    lines) and ``BIGIRON_REDFISH_CA`` stand in the environment that the host hands to commands.
    """
    path = host.env.get("BIGIRON_REDFISH_CREDENTIALS") or CREDENTIALS
    lines = host.read(path).splitlines()
    if len(lines) < 2 or not lines[0].strip():
        raise Permanent(f"{path}: wanted are a user and a password, on two lines")
    url = host.env.get("BIGIRON_REDFISH_URL", "") or _interface(host)
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise Permanent(f"BIGIRON_REDFISH_URL: {url[:100]!r} is no http or https address")
    ca = host.env.get("BIGIRON_REDFISH_CA", "")
    return Service(url.rstrip("/"), lines[0].strip(), lines[1].strip(), ca)


def _interface(host: Host) -> str:
    for path in host.glob(HOST_INTERFACE):
        try:
            found = host_interface(host.part(path, None, 4096))
        except (NoData, Permanent):
            continue
        if found:
            return found
    raise NoData("no Redfish host interface")


def host_interface(raw: bytes) -> str:
    """The service's address of an SMBIOS structure of type 42 (DMTF DSP0270); "" without one.

    Redfish over IP: after the service's UUID (16 bytes) come the host's address (2 + 16), its mask
    (16), the service's address (2 + 16), mask (16) and port.
    """
    import ipaddress

    if len(raw) < 8 or raw[0] != 42 or raw[4] != 0x40:
        return ""
    at = 6 + raw[5]
    count, at = (raw[at], at + 1) if at < len(raw) else (0, at)
    for _ in range(count):
        if at + 2 > len(raw):
            break
        kind, size = raw[at], raw[at + 1]
        body = raw[at + 2 : at + 2 + size]
        at += 2 + size
        if kind != 4 or len(body) < 86:
            continue
        port = int.from_bytes(body[84:86], "little") or 443
        address = body[52:56] if body[51] == 1 else body[52:68]
        if any(address) and body[51] in (1, 2):
            text = str(ipaddress.ip_address(address))
            return f"https://[{text}]:{port}" if ":" in text else f"https://{text}:{port}"
    return ""
