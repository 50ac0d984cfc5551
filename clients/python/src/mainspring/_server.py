"""Where the server is and how to reach it: URL, access token, TLS, unix socket."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .errors import InvalidArgument

if TYPE_CHECKING:
    import ssl

DEFAULT_URL = "http://127.0.0.1:8080"


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
    def base_url(self) -> str:
        return "http://localhost" if self.unix_path else self.url.rstrip("/")

    def headers(self) -> dict[str, str]:
        headers = {"User-Agent": "mainspring-python/0.1"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    def ssl_context(self) -> ssl.SSLContext:
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
        except OSError as error:
            raise _unusable("ca_file", self.ca_file, error) from error
        try:
            if self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file or None)
        except OSError as error:
            files = " and ".join(filter(None, (self.certificate_file, self.key_file)))
            raise _unusable("certificate_file", files, error) from error
        return context

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


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
