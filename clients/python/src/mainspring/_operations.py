"""Operations of the API, written once for calls that block and for coroutines.

An operation is a generator. It yields requests, receives the document of each answer, and returns
a value. `Requests.complete` sends the requests on the caller's thread, `Requests.acomplete` in an
event loop. An error of a request ends the operation.
"""

from __future__ import annotations

import time
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Collection,
    Generator,
    Iterator,
    TypeAlias,
    TypeVar,
)

from ._values import Duration, duration, encode, seconds
from ._wire import Call, query, require

if TYPE_CHECKING:
    from ._requests import Requests

T = TypeVar("T")
Operation: TypeAlias = Generator[Call, Any, T]

WAIT_SLICE = 30.0  # of a longer wait


def request(method: str, path: str, body: Any = None, repeat: str = "yes") -> Call:
    """A request with `body` as JSON. None: no body."""
    return Call(method, path, b"" if body is None else encode(body, "body"), repeat=repeat)


def until_state(path: str, states: Collection[str], timeout: Duration | None) -> Operation[Any]:
    """Waits until the record at `path` is in one of the states, or until `timeout`."""
    within = float("inf") if timeout is None else seconds(timeout, "timeout")
    until = time.monotonic() + within
    while True:
        left = max(0.0, until - time.monotonic())
        wait = min(left, WAIT_SLICE)
        record = yield Call("GET", f"{path}?wait={duration(round(wait, 3))}", wait=wait)
        ended = require(record, "state", str) in states
        if ended or left <= WAIT_SLICE:
            return record


class Pages:
    """A list that the server sends in pages. Pages are read while you iterate."""

    def __init__(
        self, path: str, items: str, cursor: tuple[str, str], filter: dict[str, Any] | None = None
    ) -> None:
        self._path = path
        self._items = items
        self._parameter, self._next = cursor  # of the request, and its field in the answer
        self._filter = filter or {}

    def _page(self, cursor: Any) -> Call:
        return Call("GET", self._path + query({**self._filter, self._parameter: cursor}))

    def whole(self) -> Operation[list[Any]]:
        """All items, inside another operation."""
        items: list[Any] = []
        cursor: Any = None
        while True:
            page = yield self._page(cursor)
            items += require(page, self._items, list)
            cursor = page.get(self._next)
            if cursor is None:
                return items

    def read(self, requests: Requests) -> Iterator[Any]:
        cursor: Any = None
        while True:
            page = requests.run(self._page(cursor))
            yield from require(page, self._items, list)
            cursor = page.get(self._next)
            if cursor is None:
                return

    async def aread(self, requests: Requests) -> AsyncIterator[Any]:
        cursor: Any = None
        while True:
            page = await requests.arun(self._page(cursor))
            for item in require(page, self._items, list):
                yield item
            cursor = page.get(self._next)
            if cursor is None:
                return
