"""HTTP with limits: a deadline for the whole answer, a limit on its size, and no secret in a text.

Every failure is a Temporary (worth trying again) or a Permanent (a person must look), and names
the address without user, password or token.
"""

import re
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from bigiron.errors import Permanent, Temporary

if TYPE_CHECKING:
    import httpx2

_REDIRECTS = 3
_SAID = 300
_LATER = frozenset((408, 425, 429, 500, 502, 503, 504))
_CREDENTIALS = re.compile(r"//[^/@\s]*@")


_READING = threading.Lock()


@cache
def _trusted(ca_file: str) -> ssl.SSLContext:
    """The certificates to trust, read once for every client: each reading takes a megabyte."""
    import httpx2

    return ssl.create_default_context(cafile=ca_file) if ca_file else httpx2.create_ssl_context()


@dataclass(frozen=True, slots=True)
class Access:
    """How to be let in. ``ca_file``: PEM certificates to trust instead of the system's."""

    token: str = field(default="", repr=False)
    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer. ``date`` is the server's own clock, seconds since 1970, or NaN."""

    body: bytes
    content_type: str
    date: float


class HttpClient:
    """Talks to one server. Safe to use from several threads. Raises Permanent on a bad URL."""

    def __init__(
        self,
        url: str,
        access: Access | None = None,
        *,
        timeout_s: float = 10.0,
        limit_bytes: int = 512 * 1024 * 1024,
    ) -> None:
        parts = _split(url)
        self._base = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        self._access = access or Access()
        if parts.username and not self._access.user:
            user, password = unquote(parts.username), unquote(parts.password or "")
            self._access = Access(self._access.token, user, password, self._access.ca_file)
        self._timeout_s = timeout_s
        self._limit = limit_bytes
        self._client: httpx2.Client | None = None

    @property
    def url(self) -> str:
        """The address without credentials."""
        return self._base

    def get(
        self, path: str = "", query: Mapping[str, str] | None = None, accept: str = ""
    ) -> Answer:
        """GET ``path`` below the address. Raises Temporary, Permanent."""
        return self._ask("GET", path, query, None, accept)

    def post(self, path: str, form: Mapping[str, str]) -> Answer:
        """POST a form to ``path`` below the address. Raises Temporary, Permanent."""
        return self._ask("POST", path, None, form, "")

    def close(self) -> None:
        """Let go of the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        form: Mapping[str, str] | None,
        accept: str,
    ) -> Answer:
        deadline = time.monotonic() + self._timeout_s
        url = self._base + path
        headers = {"Accept": accept} if accept else {}
        for _ in range(_REDIRECTS + 1):
            with self._failures(url):
                client = self._connect()
                left = max(deadline - time.monotonic(), 0.001)
                with client.stream(
                    method, url, params=query, data=form, headers=headers, timeout=left
                ) as response:
                    if response.is_redirect:
                        url = self._redirected(url, response.headers.get("location", ""))
                        continue
                    body = self._body(url, response, deadline)
                    _raise_for(url, response, body)
                    kind = response.headers.get("content-type", "")
                    return Answer(body, kind, _date(response.headers.get("date", "")))
        raise Permanent(f"{mask(url)}: redirects without end")

    def _connect(self) -> "httpx2.Client":
        import httpx2

        if self._client is None:
            auth = (self._access.user, self._access.password) if self._access.user else None
            headers = {"User-Agent": "bigiron"}
            if self._access.token:
                headers["Authorization"] = f"Bearer {self._access.token}"
            self._client = httpx2.Client(auth=auth, headers=headers, verify=self._verify())
        return self._client

    def _verify(self) -> ssl.SSLContext:
        try:
            with _READING:
                return _trusted(self._access.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise Permanent(
                f"{self._access.ca_file}: no certificates to be read: {error}"
            ) from None

    @contextmanager
    def _failures(self, url: str) -> Iterator[None]:
        import httpx2

        try:
            yield
        except httpx2.TimeoutException:
            raise Temporary(f"{mask(url)}: no answer in {self._timeout_s:g} s") from None
        except (httpx2.TransportError, httpx2.DecodingError, httpx2.StreamError) as error:
            said = mask(str(error)) or type(error).__name__
            if "CERTIFICATE_VERIFY_FAILED" in said:
                raise Permanent(f"{mask(url)}: {said}") from None
            raise Temporary(f"{mask(url)}: {said}") from None
        except httpx2.InvalidURL as error:
            raise Permanent(f"{mask(url)}: {mask(str(error))}") from None

    def _redirected(self, url: str, location: str) -> str:
        there = urljoin(url, location)
        if urlsplit(there)[:2] != urlsplit(url)[:2]:
            raise Permanent(
                f"{mask(url)}: redirects to {mask(there)[:_SAID]}, another server, "
                "which is not followed: put the right address in the configuration"
            )
        return there

    def _body(self, url: str, response: "httpx2.Response", deadline: float) -> bytes:
        chunks, size = [], 0
        for chunk in response.iter_bytes():
            size += len(chunk)
            if size > self._limit:
                raise Permanent(f"{mask(url)}: the answer is larger than {self._limit:,} bytes")
            if time.monotonic() > deadline:
                raise Temporary(f"{mask(url)}: not finished in {self._timeout_s:g} s")
            chunks.append(chunk)
        return b"".join(chunks)


def mask(text: str) -> str:
    """The text without ``user:password@`` in any address."""
    return _CREDENTIALS.sub("//", text)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1)
    except ValueError:
        usable = False
    if not usable:
        raise Permanent(f"{mask(url)}: not an address: want http://host:port or https://host:port")
    return parts


def _raise_for(url: str, response: "httpx2.Response", body: bytes) -> None:
    status = response.status_code
    if status < 300:
        return
    said = _said(body)
    where = f"{mask(url)}: {status} {response.reason_phrase}"
    if status in (401, 403):
        raise Permanent(f"{where}: not let in: check the token, or user and password{said}")
    if status in _LATER:
        wait = response.headers.get("retry-after", "")
        raise Temporary(where + said, retry_after_s=float(wait) if wait.isdecimal() else 30.0)
    raise Permanent(where + said)


def _said(body: bytes) -> str:
    """The server's own words, short; nothing of a web page."""
    text = mask(body[: 4 * _SAID].decode("utf-8", "replace")).strip()
    if not text or text.startswith("<"):
        return ""
    return ": " + " ".join(text.split())[:_SAID]


def _date(text: str) -> float:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError):
        return float("nan")
