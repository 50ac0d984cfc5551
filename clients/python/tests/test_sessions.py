"""Sessions that a program holds itself."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import Complete, InvalidArgument, Mainspring, NewJob, Options, TooLarge
from mainspring.testing import wait_for


@pytest.mark.parametrize("value", [object(), Complete({"at": object()}), float("nan"), {1, 2}])
def test_finish_refuses_a_result_that_is_not_json(
    mainspring: Mainspring, mainspring_queue: str, value: Any
) -> None:
    job = mainspring.enqueue(NewJob("pay", {}, Options(queue=mainspring_queue, session="anna")))
    with mainspring.sessions.accept(mainspring_queue, "anna") as session:
        assert session.next("5s") is not None
        with pytest.raises(InvalidArgument, match="^result") as raised:
            session.finish(value)
        assert raised.value.field.startswith("result")
        with pytest.raises(TooLarge, match="^result: "):
            session.finish("x" * 1_100_000)
        assert job.get()["state"] == "running"  # nothing was sent
        session.finish("paid")
    assert wait_for(job, "completed")["result"] == "paid"


def test_a_part_that_the_server_refuses_leaves_the_job_running(
    mainspring: Mainspring, mainspring_queue: str
) -> None:
    mainspring.enqueue(NewJob("pay", {}, Options(queue=mainspring_queue, session="anna")))
    with mainspring.sessions.accept(mainspring_queue, "anna") as session:
        job = session.next("5s")
        assert job is not None
        error = {"code": "too_large", "message": "result: 9 bytes", "field": "results[0].result"}
        results = [{"id": job["id"], "status": "refused", "error": error}]
        calls = session._finish("paid", ...)  # a newer server may have a lower limit
        next(calls)
        with pytest.raises(TooLarge, match="^result: 9 bytes$") as raised:
            calls.send({"results": results})
        assert raised.value.field == "results[0].result"
        session.finish("paid")


def test_a_finish_that_the_server_refuses_names_its_field(
    mainspring: Mainspring, mainspring_queue: str
) -> None:
    job = mainspring.enqueue(NewJob("pay", {}, Options(queue=mainspring_queue, session="anna")))
    with mainspring.sessions.accept(mainspring_queue, "anna") as session:
        session.next("5s")
        with pytest.raises(InvalidArgument, match="unique: "):
            session.finish(Complete(1, [mainspring.new("pay", key="k")]))
        session.finish("paid")
    wait_for(job, "completed")
