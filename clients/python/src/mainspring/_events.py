"""Server-sent events as dicts, across lost connections."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, AsyncIterator, Iterator

from ._requests import Requests
from ._values import decode
from ._wire import Call, Pauses, check_header, query
from .errors import MainspringError, ServerError

log = logging.getLogger("mainspring")

SILENCE = 40.0  # the server sends a comment every 15 s


class Blocks:
    """Parses lines of a stream into events. Keeps the last id for reconnecting."""

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self.received = 0  # blocks with an id
        self._data: list[str] = []
        self._id = ""

    def start(self) -> None:
        """Drops a block that was cut off with the last connection."""
        self._data.clear()
        self._id = ""

    def line(self, text: str) -> dict[str, Any] | None:
        text = text.rstrip("\r\n")
        if text == "":
            data, self._data = "\n".join(self._data), []
            if self._id:
                self.last_id, self._id = self._id, ""
                self.received += 1
            if not data:
                return None
            try:
                event = decode(data.encode())
            except ValueError:
                return None
            return event if isinstance(event, dict) else None
        name, _, value = text.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        return None


class Stream:
    """The requests of one stream, and how long to wait between them."""

    def __init__(self, filter: dict[str, Any]) -> None:
        after = filter.get("after") or ""
        self._filter = {name: value for name, value in filter.items() if name != "after"}
        self._pauses = Pauses()
        self._failing = False
        self._before = 0
        self.blocks = Blocks(check_header("after", str(after)) if after else "")

    def call(self) -> Call:
        headers = {"Accept": "text/event-stream"}
        if self.blocks.last_id:
            headers["Last-Event-ID"] = self.blocks.last_id
        self.blocks.start()
        return Call("GET", "/v1/events" + query(self._filter), headers=headers, wait=SILENCE)

    def pause(self, error: MainspringError | None = None) -> float:
        """Seconds before the next request. Raises the error if the server refuses for good."""
        known = self.blocks.received > 0  # this is the server, although a proxy answered now
        if error is not None and _is_final(error) and not (known and type(error) is ServerError):
            raise error
        if self.blocks.received > self._before:  # the connection was good
            self._before = self.blocks.received
            self._pauses.reset()
            self._failing = False
        if error is not None and not self._failing:
            self._failing = True
            log.warning("events stopped; reconnecting: %s", error)
        return self._pauses.next(error)


def _is_final(error: MainspringError) -> bool:
    """Whether another attempt cannot help: a refusal, or a certificate that is not trusted."""
    return error.status < 0 or 400 <= error.status < 500 and error.status not in (408, 429)


def follow(requests: Requests, filter: dict[str, Any]) -> Iterator[dict[str, Any]]:
    stream = Stream(filter)
    while True:
        failure: MainspringError | None = None
        try:
            with requests.stream(stream.call()) as lines:
                for line in lines:
                    event = stream.blocks.line(line)
                    if event is not None:
                        yield event
        except MainspringError as error:
            failure = error
        time.sleep(stream.pause(failure))


async def afollow(requests: Requests, filter: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    stream = Stream(filter)
    while True:
        failure: MainspringError | None = None
        try:
            async with requests.astream(stream.call()) as lines:
                async for line in lines:
                    event = stream.blocks.line(line)
                    if event is not None:
                        yield event
        except MainspringError as error:
            failure = error
        await asyncio.sleep(stream.pause(failure))
