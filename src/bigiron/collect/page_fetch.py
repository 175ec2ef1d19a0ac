"""A page fetched over plain HTTP from this machine: one deadline for all of it, and a limit.

HTTP/1.0, so that a server sends the page as it is and closes (RFC 9112, 9.3 and C.2.2). No library:
what an exporter needs is forty lines, and a client with all there is to HTTP takes megabytes.
"""

import socket
from time import monotonic
from urllib.parse import urlsplit

from bigiron.errors import NoData, Permanent, Temporary

PAGE_BYTES = 8 * 1024 * 1024
_HEAD_BYTES = 65_536
_CHUNK = 262_144
_ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def fetch(url: str, *, timeout_s: float, limit_bytes: int = PAGE_BYTES) -> bytes:
    """The page. Raises NoData (nobody listens there), Temporary, Permanent (a person must look).

    A redirect is not followed, a certificate not asked for: this is for loopback.
    """
    host, port, path = _place(url)
    until = monotonic() + timeout_s
    try:
        with socket.create_connection((host, port), timeout_s) as there:
            request = f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: {_ACCEPT}\r\n\r\n"
            there.sendall(request.encode("ascii", "replace"))
            answer = _all(there, until, limit_bytes + _HEAD_BYTES)
    except ConnectionRefusedError as error:
        raise NoData(f"{url}: nobody listens") from error
    except TimeoutError as error:
        raise Temporary(f"{url}: no answer in {timeout_s:g} s") from error
    except OSError as error:
        raise Temporary(f"{url}: {error.strerror or error}") from error
    return _body(url, answer, limit_bytes)


def _place(url: str) -> tuple[str, int, str]:
    try:
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname and url.isascii() and url.isprintable():
            path = parts.path or "/metrics"
            return parts.hostname, parts.port or 80, f"{path}?{parts.query}".rstrip("?")
    except ValueError:
        pass
    raise Permanent(f"{url}: not an address: want http://127.0.0.1:PORT/PATH")


def _all(there: socket.socket, until: float, most: int) -> bytes:
    """All that comes until it is closed, no more than needed to see that it is too long."""
    got, size = [], 0
    while size <= most:
        left = until - monotonic()
        if left <= 0:
            raise TimeoutError
        there.settimeout(left)
        chunk = there.recv(_CHUNK)
        if not chunk:
            break
        got.append(chunk)
        size += len(chunk)
    return b"".join(got)


def _body(url: str, answer: bytes, limit_bytes: int) -> bytes:
    head, end, body = answer.partition(b"\r\n\r\n")
    status, *lines = head[:_HEAD_BYTES].decode("latin-1").split("\r\n")
    words = status.split(" ", 2)
    if not end or len(words) < 2 or not words[0].startswith("HTTP/"):
        raise Temporary(f"{url}: the answer is not HTTP, or cut short")
    if words[1] != "200":
        said = f"{url}: {' '.join(words[1:])[:100]}"
        raise Temporary(said) if words[1][:1] == "5" else Permanent(said)
    fields = {
        name.strip().lower(): value.strip() for name, _, value in (s.partition(":") for s in lines)
    }
    if len(body) > limit_bytes:
        raise Permanent(f"{url}: the page is larger than {limit_bytes:,} bytes")
    if fields.get("transfer-encoding", "identity") != "identity":
        raise Permanent(f"{url}: answers HTTP/1.0 in pieces: {fields['transfer-encoding'][:40]}")
    length = fields.get("content-length", "")
    if length.isascii() and length.isdecimal() and len(body) < int(length[:18]):
        raise Temporary(f"{url}: the page is cut short: {len(body):,} of {length[:18]} bytes")
    return body
