"""Streams of events: they continue across lost connections until the caller stops."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from conftest import Serve

from mainspring import (
    Forbidden,
    InvalidArgument,
    Mainspring,
    MainspringError,
    NotFound,
    ServerError,
    Unauthenticated,
)


def stream(*blocks: str) -> bytes:
    """An answer with these events. The server ends it after them."""
    body = "".join(blocks).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


def event(id: str) -> str:
    return f'id: {id}\nevent: dead\ndata: {{"id":"{id}","type":"dead"}}\n\n'


def refusal(status: int, code: str = "") -> bytes:
    """An answer of the server, or of a proxy if there is no code."""
    body = b'{"error":{"code":"%s","message":"no"}}' % code.encode() if code else b"<h1>no</h1>"
    head = b"HTTP/1.1 %d Refused\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


def first(ms: Mainspring, count: int, how: str, **filter: Any) -> list[str]:
    """The ids of the first events."""
    if how == "sync":
        return [one["id"] for one in itertools.islice(ms.events(**filter), count)]

    async def read() -> list[str]:
        found: list[str] = []
        async with ms:
            events = ms.aevents(**filter)
            while len(found) < count:
                found.append((await events.__anext__())["id"])
            await events.aclose()  # type: ignore[attr-defined]
        return found

    return asyncio.run(read())


def last_ids(requests: list[bytes]) -> list[str]:
    lines = [request.decode().lower().split("\r\n") for request in requests]
    return [
        next((one[15:].strip() for one in head if one.startswith("last-event-id:")), "")
        for head in lines
    ]


@pytest.mark.parametrize("how", ["sync", "async"])
def test_events_reconnect_from_the_last_one_however_long_there_is_no_server(
    serve: Serve, how: str
) -> None:
    broken = stream(event("a"), "id: b\n")  # cut off: "b" has not been received
    url, requests = serve(broken, b"", refusal(503), refusal(404), b"", stream(event("b")))
    with Mainspring(url, token="", retry_for="0s") as ms:
        assert first(ms, 2, how) == ["a", "b"]
    assert last_ids(requests) == ["", "a", "a", "a", "a", "a"]


@pytest.mark.parametrize("how", ["sync", "async"])
def test_events_start_after_the_given_one(serve: Serve, how: str) -> None:
    url, requests = serve(stream(), stream(event("8")))
    with Mainspring(url, token="") as ms:
        assert first(ms, 1, how, after="7", queue=["a", "b"]) == ["8"]
    assert last_ids(requests) == ["7", "7"]
    assert all(one.startswith(b"GET /v1/events?queue=a&queue=b HTTP") for one in requests)


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize(
    "status, kind",
    [(401, Unauthenticated), (403, Forbidden), (404, NotFound), (400, InvalidArgument)],
)
def test_a_refusal_ends_the_events(
    serve: Serve, how: str, status: int, kind: type[MainspringError]
) -> None:
    url, requests = serve(stream(event("a")), refusal(status, kind.code))
    with Mainspring(url, token="") as ms, pytest.raises(kind):
        first(ms, 2, how)
    assert len(requests) == 2


def test_events_of_a_server_that_is_not_mainspring_are_an_error(serve: Serve) -> None:
    url, _ = serve(refusal(404))
    with Mainspring(url, token="") as ms, pytest.raises(ServerError, match="not from Mainspring"):
        first(ms, 1, "sync")


def test_a_wait_for_the_server_is_logged_once(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    url, _ = serve(stream(event("a")), b"", b"", b"", stream(event("b")))
    with Mainspring(url, token="", retry_for="0s") as ms:
        assert first(ms, 2, "sync") == ["a", "b"]
    assert [one.message.split(":")[0] for one in caplog.records] == ["events stopped; reconnecting"]


def test_a_task_that_waits_for_a_server_can_be_cancelled(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = serve(*[b""] * 100)

    async def main() -> None:
        waits = asyncio.Event()
        monkeypatch.setattr("mainspring._events.log.warning", lambda *_: waits.set())
        async with Mainspring(url, token="", retry_for="0s") as ms:
            task = asyncio.ensure_future(ms.aevents().__anext__())
            await waits.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
