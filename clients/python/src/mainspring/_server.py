"""Where the server is and how to reach it: URLs, access token, TLS, unix socket."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .errors import InvalidArgument

if TYPE_CHECKING:
    import ssl

DEFAULT_URL = "http://127.0.0.1:8080"
DAY = 86400.0
WARN_BEFORE = 7 * DAY
MAX_URLS = 16
# With several servers: a machine that is off does not refuse connections, so this bounds the time
# until the next server is tried.
CONNECT_TO_ONE_OF = 1.0


@dataclass(frozen=True)
class Server:
    """Addresses and credentials of a server. Plain data: other processes can get it.

    The URL may list several servers of one store, separated by commas: see `Failover`.
    """

    url: str
    token: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    timeout: float = 30.0
    connect_timeout: float = 5.0
    retry_for: float = 15.0

    def __post_init__(self) -> None:
        if "," in self.url:
            if self.url.count(",") >= MAX_URLS:
                raise InvalidArgument(f"url: must list at most {MAX_URLS} URLs", field="url")
            self.each  # checks them
            return
        if self.unix_path:
            return
        parts = urlsplit(self.url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        odd = not all(" " < c < "\x7f" for c in parts.path)
        extra = parts.query or parts.fragment or parts.username or odd
        if parts.scheme not in ("http", "https") or not parts.hostname or extra or port == -1:
            shown = self.url if "@" not in self.url else "…@" + self.url.rpartition("@")[2]
            raise InvalidArgument(
                f'url "{shown}": must be http://HOST:PORT, https://HOST:PORT or unix:PATH,'
                " without user or query",
                field="url",
            )
        if self.token and not all(" " < c < "\x7f" for c in self.token):
            raise InvalidArgument("token: must be visible ASCII without spaces", field="token")
        if self.token and parts.scheme == "http" and not _is_local(parts.hostname):
            raise InvalidArgument(
                f'url "{self.url}": a token over plain HTTP could be read by other machines; use'
                f" https://{parts.netloc}",
                field="url",
            )

    def __repr__(self) -> str:  # never the token
        return f"Server({self.url!r})"

    @cached_property
    def each(self) -> tuple[Server, ...]:
        """The servers of the list."""
        urls = self.url.split(",")
        if len(urls) == 1:
            return (self,)
        wait = min(self.connect_timeout, CONNECT_TO_ONE_OF)
        found = tuple(replace(self, url=one, connect_timeout=wait) for one in urls)
        for one in found:
            one.__dict__["tls_files"] = self.tls_files
        return found

    @cached_property
    def _at(self) -> list[int]:
        return [0]

    @property
    def current(self) -> Server:
        """The server of the list that calls go to."""
        return self.each[self._at[0]]

    def leave(self, failed: Server) -> None:
        """Makes the next server the current one, unless another call has done so."""
        if self.current is failed:
            self._at[0] = (self._at[0] + 1) % len(self.each)

    @cached_property
    def prefix(self) -> str:
        """Comes before each path: "/jobs"."""
        return "" if self.unix_path else urlsplit(self.url).path.rstrip("/")

    @property
    def unix_path(self) -> str:
        return self.url[5:] if self.url.startswith("unix:") else ""

    @property
    def tls(self) -> bool:
        return any(one.startswith("https://") for one in self.url.split(","))

    @property
    def netloc(self) -> str:
        return "localhost" if self.unix_path else urlsplit(self.url).netloc

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or "localhost"

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or (443 if self.tls else 80)

    @cached_property
    def tls_files(self) -> TlsFiles:
        return TlsFiles(self)

    @cached_property
    def head(self) -> bytes:
        """The headers that all requests have."""
        head = f"Host: {self.netloc}\r\nUser-Agent: mainspring-python/0.1\r\n"
        if self.token:
            head += f"Authorization: Bearer {self.token}\r\n"
        return head.encode("latin-1")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class TlsFiles:
    """What connections over TLS need, from the files of a server's options.

    The files are read again when they have changed, so a renewed certificate is used for the next
    connection. Files that cannot be read any more, such as half of a renewal, leave the last ones
    in use. Safe for threads.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.warns = True
        self._context: ssl.SSLContext | None = None
        self._seen: list[Any] = []
        self._warn_at = 0.0

    def _versions(self) -> list[Any]:
        server = self._server
        found: list[Any] = []
        for path in filter(None, (server.ca_file, server.certificate_file, server.key_file)):
            try:
                stat = os.stat(path)
                found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
            except OSError:
                found.append(None)
        return found

    def context(self) -> ssl.SSLContext:
        """For the next connection. InvalidArgument if a file cannot be used."""
        seen = self._versions()
        if self._context is None or seen != self._seen:
            try:
                self._context = self._read()
            except InvalidArgument as error:
                if self._context is None:
                    raise
                self._log("%s; the files that were read before are used", error)
            self._seen = seen
            self._warn_at = 0.0
        self.check_end()
        return self._context

    def _read(self) -> ssl.SSLContext:
        import ssl

        server = self._server
        try:
            context = ssl.create_default_context(cafile=server.ca_file or None)
        except OSError as error:
            raise _unusable("ca_file", server.ca_file, error) from error
        try:
            if server.certificate_file:
                context.load_cert_chain(server.certificate_file, server.key_file or None)
        except OSError as error:
            files = " and ".join(filter(None, (server.certificate_file, server.key_file)))
            raise _unusable("certificate_file", files, error) from error
        return context

    def check_end(self) -> None:
        """Warns once a day of a client certificate that ends soon."""
        path = self._server.certificate_file
        now = time.time()
        if not path or now < self._warn_at:
            return
        self._warn_at = now + DAY
        end = end_of_certificate(path)
        if end is not None and end - now < WARN_BEFORE:
            day = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))
            what = "ended at" if end <= now else "ends at"
            self._log("the client certificate %s %s %s: renew it", path, what, day)

    def _log(self, message: str, *values: object) -> None:
        if not self.warns:
            return
        import logging

        logging.getLogger("mainspring").warning(message, *values)


def end_of_certificate(path: str) -> float | None:
    """When the first certificate of a PEM file ends, as Unix time. None if that is unknown."""
    import ssl

    try:
        # The standard library has no public function for a file.
        document = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]
        return float(ssl.cert_time_to_seconds(document["notAfter"]))
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def _unusable(field: str, file: str, error: OSError) -> InvalidArgument:
    text = f"{field} {file}: must be a PEM file that can be read: {error}"
    return InvalidArgument(text, field=field, status=-1)  # trying again cannot help


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def from_environment(url: str | None, token: str | None) -> tuple[str, str]:
    """The URL and the token: what the caller gives, else the environment, else the default."""
    if url is None:
        url = os.environ.get("MAINSPRING_SERVER") or DEFAULT_URL
    if token is None:
        token = os.environ.get("MAINSPRING_ACCESS_TOKEN", "")
    return url, token
