"""Mistakes of programs: they are named at once, and never run work again and again."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import mainspring
import pytest

from mainspring import AsyncContext, Complete, Context, InvalidArgument, Mainspring, Snooze
from mainspring.outcomes import ready
from mainspring.testing import aperform, perform, wait_for
from mainspring.workflows import step

ms = Mainspring("http://127.0.0.1:1")  # for definitions


def test_a_bad_step_name_is_refused_before_the_step_runs(mainspring, mainspring_queue):
    ran = []

    @mainspring.job(queue=mainspring_queue)
    def pay(ctx: Context) -> None:
        ctx.step("charge card", lambda: ran.append(1))

    with pytest.raises(InvalidArgument, match='step "charge card": must be'):
        perform(pay)
    assert ran == []


@pytest.mark.parametrize("value", [object(), "x" * 70_000])
def test_a_step_result_that_cannot_be_stored_makes_the_job_dead(
    mainspring, mainspring_queue, mainspring_worker, value
):
    ran = []

    @mainspring.job(queue=mainspring_queue, max_attempts=3)
    def pay(ctx: Context) -> None:
        def charge() -> object:
            ran.append(1)
            return value

        ctx.step("charge", charge)

    mainspring_worker(mainspring)
    job = pay.enqueue()
    record = wait_for(job, "dead", "30s")
    assert record["reason"] in ("bad_result", "result_too_large")
    assert "step charge" in record["description"]
    assert ran == [1]


def test_calls_of_an_async_context_can_be_awaited(
    mainspring, mainspring_queue, mainspring_worker
):
    @mainspring.job(queue=mainspring_queue)
    async def work(ctx) -> str:  # type: ignore[no-untyped-def]
        await ctx.check()
        await ctx.progress(0.5, "half")
        ctx.progress(0.6)
        return "done"

    mainspring_worker(mainspring)
    assert work.enqueue().result("30s") == "done"


def test_enqueue_many_refuses_keys_of_single_jobs(mainspring, mainspring_queue):
    @mainspring.define(queue=mainspring_queue)
    def mail(to: str) -> None: ...

    jobs = [mail.options(idempotency_key="order-7").new("anna")]
    with pytest.raises(InvalidArgument, match=r"jobs\[0\].idempotency_key"):
        mainspring.enqueue_many(jobs)


def test_a_decorator_without_parentheses_is_an_error() -> None:
    ms = Mainspring("http://127.0.0.1:1")
    for decorate in (ms.job, ms.define):
        with pytest.raises(TypeError, match="parentheses"):
            decorate(lambda ctx: None)  # type: ignore[arg-type]


@pytest.mark.parametrize("flag", ["--watc", "--w", "--log-level=bogus"])
def test_the_command_refuses_flags_that_it_does_not_know(flag: str) -> None:
    command = [sys.executable, "-m", "mainspring", "work", "no_module", flag]
    env = {**os.environ, "PYTHONPATH": str(Path(mainspring.__file__).parent.parent)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_perform_refuses_a_step_that_runs_twice(mainspring, mainspring_queue):
    @mainspring.job(queue=mainspring_queue)
    def twice(ctx: Context) -> None:
        ctx.step("one", lambda: 1)
        ctx.step("one", lambda: 2)

    with pytest.raises(Exception, match="this attempt has run it before"):
        perform(twice)


def test_a_client_of_the_program_is_pointed_at_the_test_server(
    mainspring, mainspring_use, mainspring_queue, mainspring_worker
):
    ms = Mainspring("http://127.0.0.1:1", retry_for="0s")

    @ms.job(queue=mainspring_queue)
    def double(ctx: Context, n: int) -> int:
        return 2 * n

    mainspring_use(ms)
    mainspring_worker(ms)
    assert double.enqueue(21).result("30s") == 42


def test_a_worker_of_a_kind_also_runs_jobs_of_its_other_names(
    mainspring, mainspring_queue, mainspring_worker
):
    @mainspring.job("resize", queue=mainspring_queue, aliases=["thumbnail"])
    def resize(ctx: Context) -> str:
        return ctx.kind

    @mainspring.job("other", queue=mainspring_queue)
    def other(ctx: Context) -> None: ...

    for kinds in (["resize"], ["thumbnail"], ["resize", "thumbnail"]):
        worker = mainspring_worker(mainspring, kinds=kinds)
        assert list(worker.kinds) == ["resize", "thumbnail"]
        jobs = [mainspring.new(kind, queue=mainspring_queue) for kind in ("resize", "thumbnail")]
        found = [mainspring.enqueue(job).result("30s") for job in jobs]
        assert found == ["resize", "thumbnail"]
        worker.stop()


@pytest.mark.parametrize("kinds", [["resiz"], ["resize", "resiz"], "resiz", ["only_defined"]])
def test_a_worker_refuses_kinds_without_a_handler(kinds) -> None:
    ms = Mainspring("http://127.0.0.1:1")

    @ms.job("resize", aliases=["thumbnail"])
    def resize(ctx: Context) -> None: ...

    @ms.define()
    def only_defined() -> None: ...

    with pytest.raises(InvalidArgument, match=r'^kinds "') as raised:
        ms.worker(kinds=kinds)
    assert raised.value.field == "kinds"
    assert str(kinds if isinstance(kinds, str) else kinds[-1]) in raised.value.message
    if not isinstance(kinds, str):
        assert raised.value.message.endswith("must have a handler here; known: resize, thumbnail")


@pytest.mark.parametrize("option", [{"idempotency_key": "k"}, {"fence": ("lock", 1)}])
def test_options_of_an_enqueue_are_refused_where_the_server_does_not_take_them(option) -> None:
    ms = Mainspring("http://127.0.0.1:1", retry_for="0s")
    job = ms.new("mail", **option)
    [name] = option
    for place, use in (
        ("next[1]", lambda: ready(Complete(1, [ms.new("mail"), job]))),
        ("job", lambda: ms.schedules.put("nightly", job, every="1h")),
        ("job", lambda: step("mail", job)),
        ("undo", lambda: step("mail", ms.new("mail"), undo=job)),
    ):
        with pytest.raises(InvalidArgument, match="is for an enqueue") as raised:
            use()
        assert raised.value.field == f"{place}.{name}"


@pytest.mark.parametrize("option", [{"key_for": "1h"}, {"on_conflict": "replace"}])
def test_options_of_a_unique_key_are_refused_without_a_key(option) -> None:
    ms = Mainspring("http://127.0.0.1:1", retry_for="0s")
    [name] = option

    @ms.define(**option)
    def mail(to: str) -> None: ...

    for use in (
        lambda: mail.enqueue("anna"),
        lambda: ms.enqueue_many([mail.new("anna")]),
        lambda: ms.schedules.put("nightly", mail.new("anna"), every="1h"),
    ):
        with pytest.raises(InvalidArgument, match=f"{name}: needs key") as raised:
            use()
        assert raised.value.field == name
    assert "unique" in mail.options(key="anna").new("anna").fields()


def test_jobs_of_a_completion_are_checked_before_they_are_sent() -> None:
    ms = Mainspring("http://127.0.0.1:1")
    for wrong, field in ((ms.new("mail", {"at": {1}}), "next[0].args.at"), ("mail", "next[0]")):
        with pytest.raises(InvalidArgument) as raised:
            ready(Complete(1, [wrong]))  # type: ignore[list-item]
        assert raised.value.field == field


@pytest.mark.parametrize(
    "value, field",
    [(object(), "result"), ("x" * 1_100_000, "result"), (Snooze("soon"), "after")],
)
def test_perform_refuses_what_a_worker_could_not_report(value: object, field: str) -> None:
    ms = Mainspring("http://127.0.0.1:1")

    @ms.job()
    def odd(ctx: Context) -> object:
        return value

    with pytest.raises(InvalidArgument) as raised:
        perform(odd)
    assert raised.value.field == field


def test_perform_shows_the_state_that_a_handler_sets_for_its_session() -> None:
    ms = Mainspring("http://127.0.0.1:1")

    @ms.job()
    def count(ctx: Context) -> str:
        ctx.set_session_state({"seen": 1})
        return ctx.session

    done = perform(count)
    assert (done.session_state, done.result) == ({"seen": 1}, "test")


@pytest.mark.parametrize("option", [{"claim_ahead": -1}, {"slots": 0}, {"slots": True}])
def test_a_worker_refuses_numbers_that_would_stop_it(option) -> None:
    ms = Mainspring("http://127.0.0.1:1")

    @ms.job()
    def mail(ctx: Context) -> None: ...

    [name] = option
    with pytest.raises(InvalidArgument, match=f"^{name} ") as raised:
        ms.worker(**option)
    assert raised.value.field == name


@pytest.mark.parametrize("concurrency", [-1, 1.5, "2"])
def test_a_job_refuses_a_concurrency_that_is_no_count(concurrency) -> None:
    ms = Mainspring("http://127.0.0.1:1")
    for decorate in (ms.job, ms.define):
        with pytest.raises(InvalidArgument, match="^concurrency ") as raised:
            decorate("mail", concurrency=concurrency)(lambda ctx: None)
        assert raised.value.field == "concurrency"


@pytest.mark.parametrize("option", ["queues", "modules", "aliases"])
def test_a_text_is_no_list_of_names(option) -> None:
    ms = Mainspring("http://127.0.0.1:1")

    @ms.job()
    def mail(ctx: Context) -> None: ...

    with pytest.raises(InvalidArgument, match=f'^{option} "letters": must be a list') as raised:
        if option == "aliases":
            ms.job("letter", aliases="letters")(lambda ctx: None)
        else:
            ms.worker(**{option: "letters"})
    assert raised.value.field == option


def test_a_step_gives_the_same_value_in_each_attempt() -> None:
    """What JSON makes of it: also in the attempt that runs the function."""
    seen: list[Any] = []

    @ms.job()
    def pay(ctx: Context) -> Any:
        seen.append(ctx.step("charge", lambda: {7: (1, 2)}))
        return {7: (seen[-1],)}

    @ms.job()
    async def apay(ctx: AsyncContext) -> Any:
        seen.append(await ctx.step("charge", lambda: {7: (1, 2)}))
        return Complete({7: seen[-1]})

    stored = {"7": [1, 2]}
    first = perform(pay)
    assert first.result == {"7": [stored]}
    assert perform(pay, memos=first.memos).result == first.result
    assert perform(apay).result == Complete({"7": stored})
    assert seen == [stored] * 3


def test_aperform_runs_handlers_in_a_running_loop() -> None:
    @ms.job()
    async def doubles(ctx: AsyncContext, n: int) -> int:
        return await ctx.step("double", asyncio.sleep, 0, n * 2)

    @ms.job()
    def adds(ctx: Context, n: int) -> int:
        return n + 1

    async def main() -> None:
        assert (await aperform(doubles, 2)).result == 4
        assert (await aperform(adds, 2)).result == 3
        with pytest.raises(RuntimeError, match="await aperform"):
            perform(doubles, 2)
        with pytest.raises(ValueError, match="stop"):
            await aperform(doubles, 2, stop="never")

    asyncio.run(main())


def test_a_forgotten_context_is_named() -> None:
    @ms.job()
    def thumbnail(path: str, width: int = 200) -> None: ...

    with pytest.raises(InvalidArgument, match="its first one, path, is the handler's context"):
        thumbnail.new("a.jpg", 400)  # type: ignore[call-arg]

    @ms.job()
    def good(ctx: Context, width: int = 200) -> None: ...

    with pytest.raises(InvalidArgument, match=r"its parameters are \(width: .*int.* = 200\)"):
        good.new(1, 2)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "call",
    [
        lambda: ms.job(quue="x")(lambda ctx: None),
        lambda: ms.define(quue="x")(lambda: None),
        lambda: ms.new("k", quue="x"),
        lambda: ms.new("k").options(quue="x"),
    ],
)
def test_a_mistyped_option_is_named_with_the_right_one(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        call()
    assert str(refused.value) == 'option "quue": is unknown; did you mean "queue"?'
    assert refused.value.field == "quue"


def test_a_mistyped_option_of_a_worker_is_named() -> None:
    with pytest.raises(InvalidArgument, match='"slot": is unknown; did you mean "slots"'):
        ms.worker(slot=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgument, match="must be one of slots, queues"):
        ms.worker(xyzzy=3)  # type: ignore[call-arg]


def test_the_hint_for_a_time_span_is_one_that_works() -> None:
    with pytest.raises(InvalidArgument, match="annotate it with timedelta, or send .total_sec"):
        ms.enqueue(ms.new("k", {"for": dt.timedelta(seconds=1)}))
