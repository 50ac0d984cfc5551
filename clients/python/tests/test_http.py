"""Responses of servers, proxies and broken networks."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest
from conftest import Serve

from mainspring import (
    AnswerTimeout,
    Context,
    InvalidArgument,
    JobFailed,
    Mainspring,
    MainspringError,
    QueueFull,
    ServerError,
    Unavailable,
    _aio,
)
from mainspring._aio import AsyncConnection
from mainspring._http import Closed, Connection, head, whole
from mainspring._wire import Answer, Call, Unanswered
from mainspring.testing import eventually

OK = b"HTTP/1.1 200 OK\r\n"


BOTH = pytest.mark.parametrize("how", ["sync", "async"])


async def aread(ours: socket.socket) -> tuple[Answer, bool]:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: AsyncConnection(loop), sock=ours)
    try:
        answer = await connection.send(b"GET", 10)
        assert connection.head is not None
        return answer, not connection.head.close
    finally:
        connection.close()


def read(data: bytes, step: int = 0, how: str = "sync") -> tuple[Answer, bool]:
    """Reads an answer that comes in pieces of `step` bytes, then the end of the connection."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pieces = [data[i : i + step] for i in range(0, len(data), step)] if step else [data]

        def send() -> None:
            for piece in pieces:
                theirs.sendall(piece)
            theirs.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=send)
        thread.start()
        ours.settimeout(10)
        try:
            if how == "async":
                return asyncio.run(aread(ours))
            with head(ours, "GET") as response:
                return whole(response), not response.will_close
        finally:
            thread.join()


@BOTH
@pytest.mark.parametrize("step", [0, 1, 7])
@pytest.mark.parametrize(
    "data, status, body, keep",
    [
        (OK + b"Content-Length: 5\r\n\r\nhello", 200, b"hello", True),
        (OK + b"content-length:0\r\n\r\n", 200, b"", True),
        (b"HTTP/1.1 404\r\nContent-Length: 2\r\n\r\n{}", 404, b"{}", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\nx", 200, b"x", True),
        (b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" * 2 + OK + b"Content-Length: 1\r\n\r\nx",
         200, b"x", True),
        (OK + b"Connection: Close\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 200, b"x",
         True),
        (OK + b"\r\nuntil the end", 200, b"until the end", False),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
         200, b"abc0123456789", True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nTrailer: a\r\n\r\n", 200, b"x",
         True),
    ],
)  # fmt: skip
def test_an_answer_is_read_however_it_comes(
    data: bytes, status: int, body: bytes, keep: bool, step: int, how: str
) -> None:
    answer, kept = read(data, step, how)
    assert (answer.status, answer.body, kept) == (status, body, keep)


@BOTH
def test_an_answer_may_be_large(how: str) -> None:
    size = 300_000
    answer, keep = read(OK + b"Content-Length: %d\r\n\r\n%s" % (size, b"x" * size), 0, how)
    assert (len(answer.body), keep) == (size, True)


@BOTH
def test_header_names_are_in_lower_case(how: str) -> None:
    data = OK + b"RETRY-After:  7 \r\nX-Odd: \xe9\r\nContent-Length: 0\r\n\r\n"
    answer, _ = read(data, 0, how)
    assert answer.headers == {"retry-after": "7", "x-odd": "\xe9", "content-length": "0"}


@BOTH
@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 2",
        OK + b"Content-Len",
        OK + b"Content-Length: 5\r\n",
        OK + b"Content-Length: 5\r\n\r\nhell",
        OK + b"Content-Length: 5\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: \xb2\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 2000\r\n\r\n",
        OK + b"X: " + b"x" * 100_000 + b"\r\n\r\n",
        OK + b"X: x\r\n" * 200 + b"\r\n",
        OK + b"Transfer-Encoding: gzip\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nab",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_an_answer_that_is_cut_off_or_not_http_is_refused(data: bytes, how: str) -> None:
    with pytest.raises(Unanswered, match="cut off or not HTTP"):
        read(data, 0, how)


@BOTH
def test_an_answer_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr("mainspring._http.MAX_ANSWER", 10)
    monkeypatch.setattr("mainspring._aio.MAX_ANSWER", 10)
    chunked = b"Transfer-Encoding: chunked\r\n\r\nb\r\n"
    for headers in (b"Content-Length: 11\r\n\r\n", chunked, b"\r\n"):
        with pytest.raises(Unanswered, match="larger than 10 bytes"):
            read(OK + headers + b"x" * 11, 0, how)


@BOTH
def test_the_end_of_an_idle_connection_is_known(how: str) -> None:
    with pytest.raises(Closed):
        read(b"", 0, how)


def ask(ms: Mainspring, how: str, *calls: tuple[str, str, bool]) -> list[object]:
    """The answers, one after the other, over one client."""

    async def main() -> list[object]:
        found = [await ms.arequest(method, path, repeat=repeat) for method, path, repeat in calls]
        await ms.aclose()
        return found

    if how == "async":
        return asyncio.run(main())
    return [ms.request(method, path, repeat=repeat) for method, path, repeat in calls]


GET, POST = ("GET", "/v1/queues", True), ("POST", "/v1/x", False)


GOOD = OK + b"Content-Length: 2\r\n\r\n{}"


@BOTH
def test_bytes_after_an_answer_are_not_the_next_answer(serve: Serve, how: str) -> None:
    other = OK + b'Content-Length: 7\r\n\r\n{"a":1}'
    url, _ = serve(GOOD + other, GOOD)
    with Mainspring(url, token="", retry_for="0s") as ms:
        assert ask(ms, how, GET, GET) == [{}, {}]


@BOTH
def test_a_call_that_may_be_sent_twice_is_sent_again_on_a_new_connection(
    serve: Serve, how: str
) -> None:
    url, requests = serve(GOOD, b"", GOOD)
    with Mainspring(url, token="", retry_for="0s") as ms:
        assert ask(ms, how, GET, GET) == [{}, {}]
    assert len(requests) == 3


@BOTH
def test_a_call_that_may_not_be_sent_twice_fails_when_its_connection_ends(
    serve: Serve, how: str
) -> None:
    url, requests = serve(GOOD, b"", GOOD)
    with Mainspring(url, token="") as ms, pytest.raises(Unavailable) as raised:
        ask(ms, how, POST, POST)
    assert raised.value.maybe_done
    assert len(requests) == 2


def test_threads_have_connections_of_their_own(serve: Serve) -> None:
    slow = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:

        def answer(connection: socket.socket) -> None:
            with connection:
                while request := connection.recv(65536):
                    if b"/slow" in request:
                        slow.wait(10)
                    name = request.split(b" ")[1]
                    body = b'{"path":"%s"}' % name
                    connection.sendall(OK + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=run, daemon=True).start()
        with Mainspring(f"http://127.0.0.1:{listener.getsockname()[1]}", token="") as ms:
            found: list[str] = []
            waiting = threading.Thread(
                target=lambda: found.append(ms.request("GET", "/slow")["path"])
            )
            waiting.start()
            for i in range(20):
                assert ms.request("GET", f"/{i}")["path"] == f"/{i}"
            slow.set()
            waiting.join(10)
            assert found == ["/slow"]


def test_a_time_out_closes_the_connection_and_the_late_answer_is_not_read() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        connection = Connection(Mainspring(f"http://127.0.0.1:{listener.getsockname()[1]}").server)
        accepted: list[socket.socket] = []
        threading.Thread(target=lambda: accepted.append(listener.accept()[0]), daemon=True).start()
        with pytest.raises(MainspringError) as raised:
            connection.run(Call("GET", "/late", answer_within=0.05))
        assert isinstance(raised.value, AnswerTimeout)
        assert connection._socket is None


def test_a_cancelled_task_leaves_no_answer_to_the_next_one(serve: Serve) -> None:
    url, requests = serve(GOOD, b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a":', GOOD)

    async def main() -> object:
        async with Mainspring(url, token="") as ms:
            assert await ms.arequest("GET", "/1") == {}
            task = asyncio.create_task(ms.arequest("GET", "/2"))
            while len(requests) < 2:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await ms.arequest("GET", "/3")

    assert asyncio.run(main()) == {}


def test_coroutines_have_a_bounded_number_of_connections(
    mainspring: Mainspring, mainspring_queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[AsyncConnection] = []
    made = AsyncConnection.connection_made

    def note(self: AsyncConnection, transport: object) -> None:
        opened.append(self)
        made(self, transport)

    monkeypatch.setattr(AsyncConnection, "connection_made", note)
    monkeypatch.setattr(_aio, "MAX_WAITS", 8)

    async def main() -> None:
        async with mainspring as ms:
            new = [ms.new("none", {"n": n}, queue=mainspring_queue) for n in range(500)]
            jobs = await asyncio.gather(*(ms.aenqueue(one) for one in new))
            assert len({job.id for job in jobs}) == 500
            records = await asyncio.gather(*(job.aget() for job in jobs))
            assert [one["args"]["n"] for one in records] == list(range(500))
            assert len(opened) <= _aio.MAX_CALLS
            # Tasks that wait for results leave room for the calls that they wait for.
            waits = [asyncio.create_task(job.aresult("60s")) for job in jobs[:20]]
            await asyncio.sleep(0)
            for job in jobs[:20]:
                await job.acancel()
            ended = await asyncio.gather(*waits, return_exceptions=True)
            assert all(isinstance(one, JobFailed) for one in ended)
            assert len(opened) <= _aio.MAX_CALLS + 8

    asyncio.run(main())


@BOTH
def test_no_connection_says_what_to_do(how: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with Mainspring(url, token="", retry_for="0s") as ms:
        with pytest.raises(Unavailable, match="Is `mainspring serve` running") as raised:
            ask(ms, how, GET)
    assert not raised.value.maybe_done


def answer(status: int, body: bytes, headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n%s" % (status, headers, len(body), body)


def test_a_full_disk_is_waited_for(serve: Serve) -> None:
    full = b'{"error":{"code":"storage_full","message":"no space left"}}'
    url, requests = serve(answer(507, full), GOOD)
    with Mainspring(url, token="") as ms:
        assert ms.request("GET", "/v1/queues", repeat=True) == {}
    assert len(requests) == 2
    url, _ = serve(answer(507, full, b"Retry-After: 60\r\n"))
    with Mainspring(url, token="") as ms, pytest.raises(QueueFull) as raised:
        ms.enqueue(ms.new("mail"))
    assert raised.value.retry_after == 60


@pytest.mark.parametrize("status", [401, 403, 404, 409, 410])
def test_an_answer_of_another_server_says_nothing_about_a_job(serve: Serve, status: int) -> None:
    url, _ = serve(answer(status, b"<h1>a proxy</h1>"))
    with Mainspring(url, token="") as ms, pytest.raises(ServerError) as raised:
        ms.get(1)
    assert (raised.value.status, raised.value.code) == (status, "internal")
    assert "is not from Mainspring" in str(raised.value)


def test_a_worker_survives_a_refusal_of_a_proxy(serve: Serve) -> None:
    url, requests = serve(*[answer(403, b"<h1>a proxy</h1>")] * 100)
    ms = Mainspring(url, token="")

    @ms.job()
    def mail(ctx: Context) -> None: ...

    with ms.worker(slots=1, renewals="thread", graceful_stop="0s") as worker:
        eventually(lambda: sum(b"/v1/claim " in one for one in requests) > 1)
        assert worker.refused is None


@pytest.mark.parametrize("option", ["ca_file", "certificate_file"])
def test_a_file_of_tls_that_cannot_be_read_is_named_at_once(option: str) -> None:
    ms = Mainspring("https://127.0.0.1:1", token="", **{option: "/no/such.pem"})
    with pytest.raises(InvalidArgument, match=f"^{option} .*/no/such.pem") as raised:
        ms.get(1)
    assert raised.value.field == option
    with pytest.raises(InvalidArgument, match=f"^{option} "):
        asyncio.run(ms.aget(1))
    with pytest.raises(InvalidArgument, match=f"^{option} "):
        next(iter(ms.events()))
    ms.job("mail")(lambda ctx: None)
    with pytest.raises(InvalidArgument, match=f"^{option} "):
        ms.worker().start()
