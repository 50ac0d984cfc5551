"""Where the server is and how to reach it: URL, access token, TLS, unix socket."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .errors import InvalidArgument

if TYPE_CHECKING:
    import ssl

DEFAULT_URL = "http://127.0.0.1:8080"
DAY = 86400.0
WARN_BEFORE = 7 * DAY


@dataclass(frozen=True)
class Server:
    """Address and credentials of a server. Plain data: other processes can get it."""

    url: str
    token: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    timeout: float = 30.0
    connect_timeout: float = 5.0
    retry_for: float = 15.0

    def __post_init__(self) -> None:
        if self.unix_path:
            return
        parts = urlsplit(self.url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        extra = parts.path not in ("", "/") or parts.query or parts.fragment or parts.username
        if parts.scheme not in ("http", "https") or not parts.hostname or extra or port == -1:
            shown = self.url if "@" not in self.url else "…@" + self.url.rpartition("@")[2]
            raise InvalidArgument(
                f'url "{shown}": must be http://HOST:PORT, https://HOST:PORT or unix:PATH,'
                " without user, path or query",
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

    @property
    def unix_path(self) -> str:
        return self.url[5:] if self.url.startswith("unix:") else ""

    @property
    def tls(self) -> bool:
        return self.url.startswith("https://")

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

    def headers(self) -> dict[str, str]:
        headers = {"User-Agent": "mainspring-python/0.1"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

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
