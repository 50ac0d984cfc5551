"""Compares the server's version with the client's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ._http import Connection
from ._wire import Call, Unanswered, document_of
from .errors import MainspringError

if TYPE_CHECKING:
    from ._server import Server

API = "v1"
ANSWER_WITHIN = 5.0
_UNKNOWN = (401, 403, 408, 429)  # answers that say nothing of the version; 5xx neither


def versions(server: Server) -> tuple[str, bool]:
    """Both versions as a text, "" if the server's is unknown, and whether they fit."""
    from . import __version__

    mine = f"this client is {__version__}"
    connection = Connection(server)
    try:
        answer = connection.send(Call("GET", "/v1/version", answer_within=ANSWER_WITHIN))
    except (Unanswered, MainspringError):
        return "", True
    finally:
        connection.close()
    if answer.status in _UNKNOWN or answer.status >= 500:
        return "", True
    try:
        document = document_of(answer)
    except MainspringError:
        document = {}
    name, version = document.get("name"), str(document.get("version", ""))
    if answer.status != 200 or name != "mainspring":
        what = f"{server.url} answers GET /v1/version with {answer.status}"
        return f"{what}, so it is no Mainspring server or a much older one; {mine}", False
    if document.get("api") != API:
        return f"the server is {version} with API {document.get('api')}; {mine} with {API}", False
    if _numbers(version) < _numbers(__version__):
        return f"the server is {version}, which is older: upgrade it first; {mine}", False
    return f"the server is {version}; {mine}", True


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor version. An unusual version is new enough."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else (999, 0)
