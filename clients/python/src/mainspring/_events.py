"""Server-sent events as dicts, across lost connections."""

from __future__ import annotations

import asyncio
import time
from typing import Any, AsyncIterator, Iterator

from ._httpx import Requests
from ._values import decode
from ._wire import Call, Repeats, may_repeat, query
from .errors import MainspringError

SILENCE = 40.0  # the server sends a comment every 15 s


class Blocks:
    """Parses lines of a stream into events. Keeps the last id for reconnecting."""

    def __init__(self) -> None:
        self.last_id = ""
        self._data: list[str] = []
        self._id = ""

    def line(self, text: str) -> dict[str, Any] | None:
        text = text.rstrip("\r\n")
        if text == "":
            data, self._data = "\n".join(self._data), []
            if self._id:
                self.last_id = self._id
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


def _call(filter: dict[str, Any], last_id: str) -> Call:
    headers = {"Accept": "text/event-stream"}
    if last_id:
        headers["Last-Event-ID"] = last_id
    return Call("GET", "/v1/events" + query(filter), headers=headers, wait=SILENCE)


def _pause(repeats: Repeats, call: Call, error: MainspringError) -> float:
    if not may_repeat(call, error):
        raise error
    pause = repeats.pause(call, error)
    if pause is None:
        raise error
    return pause


def follow(requests: Requests, filter: dict[str, Any]) -> Iterator[dict[str, Any]]:
    blocks = Blocks()
    repeats = Repeats(requests.server.retry_for)
    while True:
        call = _call(filter, blocks.last_id)
        try:
            with requests.stream(call) as lines:
                repeats = Repeats(requests.server.retry_for)
                blocks._data.clear()
                for line in lines:
                    event = blocks.line(line)
                    if event is not None:
                        yield event
        except MainspringError as error:
            time.sleep(_pause(repeats, call, error))
        else:
            time.sleep(0.1)


async def afollow(requests: Requests, filter: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    blocks = Blocks()
    repeats = Repeats(requests.server.retry_for)
    while True:
        call = _call(filter, blocks.last_id)
        try:
            async with requests.astream(call) as lines:
                repeats = Repeats(requests.server.retry_for)
                blocks._data.clear()
                async for line in lines:
                    event = blocks.line(line)
                    if event is not None:
                        yield event
        except MainspringError as error:
            await asyncio.sleep(_pause(repeats, call, error))
        else:
            await asyncio.sleep(0.1)
