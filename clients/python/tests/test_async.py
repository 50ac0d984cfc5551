"""The forms for coroutines of what a program asks of the server."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
from typing import Any, Callable

import pytest

from mainspring import Conflict, Job, JobFailed, LeaseHeld, Mainspring, NotFound
from mainspring._admin import Queues, Schedules, Workflow, Workflows
from mainspring._locks import Lock, Session, Sessions
from mainspring._renewer import now
from mainspring.options import PlannedSchedule
from mainspring.testing import Namespace, eventually
from mainspring.workflows import step

Start = Callable[..., Any]
# These send no request, or run a worker.
LOCAL = {"job", "define", "new", "find", "lock", "worker", "work", "check", "use", "accept"}
OTHER_NAMES = {(Mainspring, "wait"): "await_job", (Workflow, "wait"): "await_end"}
OTHER_NAMES[Schedules, "sync"] = "await_sync"


@pytest.mark.parametrize(
    "group", [Mainspring, Job, Queues, Schedules, Workflows, Workflow, Lock, Session, Sessions]
)
def test_every_call_has_a_form_for_coroutines_with_the_same_parameters(group: type) -> None:
    calls = inspect.getmembers(group, inspect.isfunction)
    plain = [
        (name, call)
        for name, call in calls
        if name[0] != "_" and not name.startswith("await_") and name not in LOCAL
        and not (name[0] == "a" and hasattr(group, name[1:]))
    ]  # fmt: skip
    assert plain
    for name, call in plain:
        form = getattr(group, OTHER_NAMES.get((group, name), "a" + name))
        parameters = inspect.signature(call).parameters
        assert inspect.signature(form).parameters == parameters, f"{group.__name__}.{name}"
        yields = str(inspect.signature(form).return_annotation).startswith("AsyncIterator")
        assert inspect.iscoroutinefunction(form) or yields, f"{group.__name__}.{name}"


def test_a_lock_has_one_holder(
    mainspring: Mainspring, mainspring_namespace: Namespace
) -> None:
    name = mainspring_namespace.queue("lock")

    async def main() -> None:
        async with mainspring.lock(name) as lock:
            with pytest.raises(LeaseHeld):
                await mainspring.lock(name).aacquire()
            lock.check()
            await lock.arelease("a note")
        again = await mainspring.lock(name).aacquire()
        assert again.token > lock.token and again.value == "a note"
        await again.arelease()
        await again.arelease()  # is released already
        await mainspring.aclose()

    asyncio.run(main())


def test_a_busy_event_loop_does_not_lose_its_lock(
    mainspring: Mainspring, mainspring_namespace: Namespace
) -> None:
    name = mainspring_namespace.queue("lock")

    def left() -> int:
        record = mainspring.request("GET", f"/v1/leases/{name}", repeat=True)
        return int(record["expires_in_ms"])

    async def main() -> None:
        async with mainspring.lock(name, ttl="5s") as lock:
            last = left()

            def is_renewed() -> bool:
                nonlocal last
                before, last = last, left()
                return last > before

            assert eventually(is_renewed)  # it blocks the loop
            lock.check()
        await mainspring.aclose()

    asyncio.run(main())


def test_a_wait_for_a_lock_that_is_cancelled_gets_no_lock(
    mainspring: Mainspring, mainspring_namespace: Namespace
) -> None:
    name = mainspring_namespace.queue("lock")

    async def main() -> None:
        async with mainspring.lock(name):
            waiting = mainspring.lock(name, ttl="10m", wait="60s")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(waiting.aacquire(), 0.3)
        async with mainspring.lock(name, wait="20s"):
            pass
        await mainspring.aclose()

    asyncio.run(main())


def test_the_answer_to_an_acquire_may_be_late(
    mainspring: Mainspring, mainspring_namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine may be slow: the lease is renewed, not taken for lost."""
    name = mainspring_namespace.queue("lock")
    late = [0.0]
    monkeypatch.setattr("mainspring._locks.now", lambda: now() + late[0])
    inner = mainspring.requests.run

    def run(call: Any) -> Any:
        answer = inner(call)
        if call.path.endswith("/acquire"):
            late[0] = 14.9
        return answer

    monkeypatch.setattr(mainspring.requests, "run", run)
    with mainspring.lock(name, ttl="15s") as lock:
        lock.check()


def test_jobs_of_a_session_come_in_order(
    mainspring: Mainspring, mainspring_queue: str
) -> None:
    key = "customer-7"

    async def main() -> None:
        new = [mainspring.new("order", n, queue=mainspring_queue, session=key) for n in (1, 2, 3)]
        one, two, three = await mainspring.aenqueue_many(new)
        async with mainspring.sessions.accept(mainspring_queue, key) as session:
            with pytest.raises(Conflict):
                await mainspring.sessions.accept(mainspring_queue, key).aaccept()
            job = await session.anext("10s")
            assert job is not None and job["id"] == one.id
            await session.afinish("done", session_state={"n": 1})
            await session.aset_state({"n": 2})
            job = await session.anext()
            assert job is not None and job["id"] == two.id and session.state == {"n": 2}
            # The session ends with a job that runs: it becomes available again.
        assert await one.aresult() == "done"
        async with mainspring.sessions.accept(mainspring_queue, wait="10s") as session:
            assert session.key == key
            for wanted in (two, three):
                job = await session.anext()
                assert job is not None and job["id"] == wanted.id
                await session.afinish()
            assert await session.anext() is None
        with pytest.raises(Conflict, match="no free session"):
            async with mainspring.sessions.accept(mainspring_queue):
                pass
        await mainspring.aclose()

    asyncio.run(main())


def test_schedules(mainspring: Mainspring, mainspring_namespace: Namespace) -> None:
    name = mainspring_namespace.queue("nightly")
    job = mainspring.new("report", queue=mainspring_namespace.queue())

    async def main() -> None:
        schedules = mainspring.schedules
        made = await schedules.aput(name, job, cron="30 2 * * *", time_zone="Europe/Berlin")
        assert made["outcome"] == "created"
        again = await schedules.aput(name, job, cron="30 2 * * *", time_zone="Europe/Berlin")
        assert again["outcome"] == "unchanged"
        await schedules.apause(name, "holidays")
        assert (await schedules.aget(name))["paused_reason"] == "holidays"
        await schedules.aresume(name)
        assert len(await schedules.apreview(name, 3)) == 3
        fired = await schedules.atrigger(name)
        assert [tick["job"] for tick in await schedules.aledger(name)] == [fired]
        assert name in [one["name"] async for one in schedules.alist()]
        await schedules.aremove(name)
        with pytest.raises(NotFound):
            await schedules.aget(name)
        await mainspring.aclose()

    asyncio.run(main())


def test_durations_and_instants_of_a_schedule_have_the_types_of_all_others(
    mainspring: Mainspring, mainspring_namespace: Namespace
) -> None:
    name = mainspring_namespace.queue("often")
    job = mainspring.new("report", queue=mainspring_namespace.queue())
    end = dt.datetime(2099, 1, 1, tzinfo=dt.timezone.utc)
    how: dict[str, Any] = {"every": 3600, "jitter": dt.timedelta(minutes=1), "end_at": end}
    made = mainspring.schedules.put(name, job, misfire_window="2h", cron=None, **how)
    assert (made["every"], made["jitter"], made["misfire_window"]) == ("1h", "1m", "2h")
    assert made["end_at"].startswith("2099-01-01T00:00:00")


def test_queues(mainspring: Mainspring, mainspring_queue: str) -> None:
    async def main() -> None:
        queues = mainspring.queues
        await queues.aset_limits(mainspring_queue, concurrency=5, rate={"count": 100, "per": "1m"})
        await queues.aset_retention(mainspring_queue, completed="1h")
        await queues.apause(mainspring_queue)
        queue = await queues.aget(mainspring_queue)
        assert queue["paused"] and queue["limits"]["concurrency"] == 5
        assert queue["retention"]["completed"] == "1h"
        await queues.aresume(mainspring_queue)
        assert mainspring_queue in [one["name"] for one in await queues.alist()]
        await mainspring.aclose()

    asyncio.run(main())


def test_workflows(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    @mainspring.job(queue=mainspring_queue)
    def charge(ctx: Any, amount: int) -> int:
        return amount

    async def main() -> None:
        steps = [
            step("charge", charge.new(3)),
            step("approve", signal="approved", after=["charge"], deadline=3600),
            step("gift", charge.new(0), if_={"ref": "approve.gift"}),
        ]
        first = await mainspring.workflows.astart("order", steps, key=mainspring_queue)
        same = await mainspring.workflows.astart("order", steps, key=mainspring_queue)
        assert (same.id, same.duplicate) == (first.id, True)
        await first.apause()
        assert (await first.aget())["paused"]
        await first.aresume()
        await first.asignal("approved", {"gift": False})
        assert (await first.await_end("30s"))["state"] == "completed"
        states = {one["name"]: one["state"] async for one in first.asteps()}
        assert states == {"charge": "completed", "approve": "completed", "gift": "skipped"}

        assert await first.aresult("30s") is None
        fork = await first.afork("approve")
        assert (await fork.acancel("enough"))["id"] == fork.id
        assert (await fork.await_end("30s"))["state"] in ("undone", "cancelled")
        with pytest.raises(JobFailed, match=rf"workflow {fork.id} is (undone|cancelled)"):
            await fork.aresult()
        with pytest.raises(Conflict):
            await fork.aretry()
        await mainspring.aclose()

    mainspring_worker(mainspring)
    asyncio.run(main())


def test_schedules_of_an_owner_are_those_of_the_code(
    mainspring: Mainspring, mainspring_namespace: Namespace
) -> None:
    name = mainspring_namespace.queue
    job = mainspring.new("report", {"full": True}, queue=name("reports"))
    schedules, owner = mainspring.schedules, name("shop")
    code: dict[str, PlannedSchedule] = {
        name("nightly"): {"job": job, "cron": "30 2 * * *"},
        name("hourly"): {"job": job, "every": "1h"},
    }
    created = dict.fromkeys(code, "created")
    assert schedules.sync(owner, code, dry_run=True) == created
    assert [one["name"] for one in schedules.list() if one["name"] in code] == []
    assert schedules.sync(owner, code) == created
    schedules.put(name("other"), job, every="1h")  # without an owner: stays
    assert schedules.sync(owner, code) == dict.fromkeys(code, "unchanged")
    assert schedules.get(name("hourly"))["version"] == 1

    later: dict[str, PlannedSchedule] = {name("hourly"): {"job": job, "every": "2h"}}
    plan = {name("hourly"): "replaced", name("nightly"): "removed"}
    assert schedules.sync(owner, later, dry_run=True) == plan
    assert schedules.get(name("nightly"))["version"] == 1
    with pytest.raises(Conflict, match=f"belongs to {owner}"):
        schedules.sync(name("mail"), {**code, **later})
    assert asyncio.run(schedules.await_sync(owner, later)) == plan
    asyncio.run(mainspring.aclose())
    with pytest.raises(NotFound):
        schedules.get(name("nightly"))
    assert schedules.get(name("hourly"))["every"] == "2h"
    schedules.get(name("other"))
    assert schedules.sync(owner, {}) == {name("hourly"): "removed"}


def test_jobs(mainspring: Mainspring, mainspring_queue: str) -> None:
    async def main() -> None:
        new = [mainspring.new("mail", n, queue=mainspring_queue) for n in range(3)]
        one, two, _ = await mainspring.aenqueue_many(new)
        assert (await one.awhy())["id"] == one.id
        assert await one.acancel("not needed") == "cancelled"
        assert await mainspring.acancel(two.id) == "cancelled"
        assert await two.aretry() == "available"
        cancelled = mainspring.ajobs(state="cancelled", queue=mainspring_queue)
        assert [job["id"] async for job in cancelled] == [one.id]
        answer = await mainspring.arequest("GET", f"/v1/jobs/{one.id}", repeat=True)
        assert answer["id"] == one.id
        await mainspring.aclose()

    asyncio.run(main())


def test_lists_of_jobs_come_in_pages_and_take_lists(
    mainspring: Mainspring, mainspring_queue: str
) -> None:
    new = [mainspring.new("mail", n, queue=mainspring_queue) for n in range(5)]
    jobs = mainspring.enqueue_many(new)
    jobs[0].cancel()
    ids = [job.id for job in jobs[::-1]]
    where: Any = {"queue": mainspring_queue, "limit": 2, "quarantined": False}

    async def listed() -> list[int]:
        found = [job["id"] async for job in mainspring.ajobs(**where)]
        await mainspring.aclose()
        return found

    assert asyncio.run(listed()) == ids
    assert [job["id"] for job in mainspring.jobs(**where)] == ids
    both = mainspring.jobs(queue=mainspring_queue, state=["available", "cancelled"])
    assert [job["id"] for job in both] == ids
    some = mainspring.jobs(queue=mainspring_queue, ids=ids[:2], from_="2001-01-01T00:00:00Z")
    assert [job["id"] for job in some] == ids[:2]
