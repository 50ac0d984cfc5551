"""Jobs that tasks enqueue at the same time share requests, and no job fails for another one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mainspring import InvalidArgument, Mainspring, MainspringError, QueueFull, _coalesce
from mainspring._requests import Requests
from mainspring._wire import Call
from mainspring.errors import Unavailable


class Server:
    """Answers enqueues by a rule, once `gate` is open. Notes their bodies."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refuse: Any = lambda jobs: None) -> None:
        self.gate = asyncio.Event()
        self.bodies: list[list[Any]] = []
        self.keys: list[str] = []

        async def arun(requests: Requests, call: Call, tried: Any = None) -> Any:
            document = json.loads(call.body)
            jobs = document.get("jobs", [document])
            self.bodies.append([job["args"] for job in jobs])
            self.keys.append(call.headers["Idempotency-Key"])
            await self.gate.wait()
            if tried is not None:
                tried()
            error = refuse([job["args"] for job in jobs])
            if error is not None:
                raise error
            made = [{"id": job["args"]["n"] + 1, "state": "available"} for job in jobs]
            return {"jobs": made} if "jobs" in document else made[0]

        monkeypatch.setattr(Requests, "arun", arun)


async def enqueue(ms: Mainspring, server: Server, count: int) -> list[Any]:
    tasks = [asyncio.create_task(ms.aenqueue(ms.new("k", {"n": n}))) for n in range(count)]
    await asyncio.sleep(0)  # each has sent its job or waits
    server.gate.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


ms = Mainspring("http://127.0.0.1:1")


def test_jobs_share_the_next_request_while_others_are_on_their_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        server = Server(monkeypatch)
        jobs = await enqueue(ms, server, 1300)
        assert [job.id for job in jobs] == [n + 1 for n in range(1300)]
        sizes = [len(body) for body in server.bodies]
        first = _coalesce.MAX_ON_THEIR_WAY
        assert sizes == [1] * first + [500, 500, 300 - first]
        assert len(set(server.keys)) == len(sizes)
        server.bodies.clear()
        for n in range(3):  # one after the other: each at once
            assert (await ms.aenqueue(ms.new("k", {"n": n}))).id == n + 1
        assert [len(body) for body in server.bodies] == [1, 1, 1]

    asyncio.run(main())


@pytest.mark.parametrize("error", [InvalidArgument("no", status=400), QueueFull("no", status=429)])
def test_a_refused_job_fails_alone(
    monkeypatch: pytest.MonkeyPatch, error: MainspringError
) -> None:
    async def main() -> None:
        server = Server(monkeypatch, lambda jobs: error if {"n": 77} in jobs else None)
        ended = await enqueue(ms, server, 100)
        assert isinstance(ended[77], type(error))
        del ended[77]
        assert all(job.id for job in ended)
        assert len(server.bodies) < 25  # halves, not each by itself

    asyncio.run(main())


def test_an_unknown_outcome_is_that_of_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is not divided: its jobs may be there."""
    lost = Unavailable("lost", maybe_done=True)

    async def main() -> None:
        server = Server(monkeypatch, lambda jobs: lost if len(jobs) > 1 else None)
        ended = await enqueue(ms, server, 10)
        batch = ended[_coalesce.MAX_ON_THEIR_WAY :]
        assert all(isinstance(one, Unavailable) and one.maybe_done for one in batch)
        assert len({id(one) for one in batch}) == len(batch)
        assert len(server.bodies) == _coalesce.MAX_ON_THEIR_WAY + 1

    asyncio.run(main())


def test_a_cancelled_task_sends_no_job_that_still_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        server = Server(monkeypatch)
        tasks = [asyncio.create_task(ms.aenqueue(ms.new("k", {"n": n}))) for n in range(8)]
        await asyncio.sleep(0)
        tasks[6].cancel()
        await asyncio.sleep(0)
        server.gate.set()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(ended[6], asyncio.CancelledError)
        assert {"n": 6} not in [args for body in server.bodies for args in body]
        assert sum(len(body) for body in server.bodies) == 7

    asyncio.run(main())


def test_jobs_with_a_key_of_their_own_are_sent_alone(
    mainspring: Mainspring, mainspring_queue: str
) -> None:
    async def main() -> None:
        async with mainspring as real:
            new = [real.new("k", {"n": n}, queue=mainspring_queue) for n in range(50)]
            keyed = [one.options(idempotency_key=f"{mainspring_queue}{n}") for n, one in
                     enumerate(new)]
            for _ in range(2):
                made = await asyncio.gather(*(real.aenqueue(one) for one in keyed))
            assert all(job.duplicate for job in made)
            unique = [one.options(key="same") for one in new]
            made = await asyncio.gather(*(real.aenqueue(one) for one in unique))
            assert len({job.id for job in made}) == 1
            assert sum(not job.duplicate for job in made) == 1
            bad = [one.options(queue="no queue!") if n == 30 else one for n, one in enumerate(new)]
            ended = await asyncio.gather(*map(real.aenqueue, bad), return_exceptions=True)
            wrong = [n for n, one in enumerate(ended) if isinstance(one, BaseException)]
            assert wrong == [30]
            assert isinstance(ended[30], InvalidArgument) and ended[30].field == "queue"

    asyncio.run(main())
