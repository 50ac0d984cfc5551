"""Tasks of a Django project for tests."""

from __future__ import annotations

from typing import Any

from django.tasks import task


@task(priority=20)
def add(a: int, b: int = 0) -> int:
    return a + b


again = add
calls: list[str] = []


def plain(text: str) -> None:
    """Not a task."""
    calls.append(text)


@task
async def double(n: int) -> int:
    return n * 2


@task(takes_context=True)
def attempts(context: Any, name: str) -> list[Any]:
    step = context.job.step(name, lambda: "stepped")
    return [context.attempt, context.task_result.id, step]


class Broken(ValueError):
    pass


@task
def fail(text: str) -> None:
    raise Broken(text)
