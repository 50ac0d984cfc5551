"""Runs Celery applications on Mainspring, as broker and as result backend.

    import mainspring.contrib.celery  # registers mainspring:// with Celery

    app = Celery("shop", broker="mainspring://127.0.0.1:8080", backend="mainspring://")

Each message is a job whose kind is the task's name. A worker holds a lease for each message that
it has not acknowledged, and renews it. The lease of a worker that dies ends, and another worker
receives the message.
"""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import unquote, urlsplit

import celery.app.backends
import kombu.transport

from .._client import Mainspring
from ..errors import InvalidArgument

__all__ = ["client_of"]
NAME = "mainspring"
CLIENT_OPTIONS = ("token", "ca_file", "certificate_file", "key_file", "retry_for")


def client_of(url: str, options: dict[str, Any]) -> Mainspring:
    """The client of a broker or backend URL.

    `mainspring://HOST:PORT`, `mainspring+https://HOST:PORT`, `mainspring+unix:///PATH`, each with
    an access token as its password. Without a host, MAINSPRING_SERVER is used.
    """
    url = url.removeprefix(f"{NAME}+")
    parts = urlsplit(url)
    chosen = {name: options[name] for name in CLIENT_OPTIONS if name in options}
    if parts.password:
        chosen.setdefault("token", unquote(parts.password))
    place = parts.netloc.rpartition("@")[2]
    scheme = "http" if parts.scheme in ("", NAME) else parts.scheme
    if scheme == "unix":
        return Mainspring("unix:" + unquote(parts.path), **chosen)
    if scheme not in ("http", "https"):
        known = f"{NAME}://, {NAME}+https:// or {NAME}+unix://"
        raise InvalidArgument(f"url {NAME}+{scheme}: must be {known}", field="url")
    return Mainspring(f"{scheme}://{place}" if place else None, **chosen)


kombu.transport.TRANSPORT_ALIASES[NAME] = "mainspring.contrib.celery_broker:Transport"
celery.app.backends.BACKEND_ALIASES[NAME] = "mainspring.contrib.celery_results:MainspringBackend"

if __name__ == "__main__":  # python3 -m mainspring.contrib.celery -A shop worker
    from celery.__main__ import main

    sys.argv[0] = "celery"
    main()
