"""Programs that a handler runs with its context."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mainspring import AsyncContext, Cancelled, Context, Mainspring
from mainspring.testing import perform

ms = Mainspring()


@ms.job()
def runs(ctx: Context, code: str, text: str = "") -> list[str | int]:
    done = ctx.run([sys.executable, "-c", code], input=text, capture_output=True, text=True)
    return [done.stdout, done.stderr, done.returncode]


@ms.job()
async def awaits(ctx: AsyncContext, code: str) -> str:
    done = await ctx.run([sys.executable, "-c", code], capture_output=True, text=True)
    return str(done.stdout)


def test_a_program_gets_its_input_and_gives_its_output() -> None:
    code = "import sys; print(len(sys.stdin.read())); print('x', file=sys.stderr)"
    assert perform(runs, code, "a" * 300_000).result == ["300000\n", "x\n", 0]
    assert perform(awaits, "print(7)").result == "7\n"


def test_a_program_that_fails_raises() -> None:
    with pytest.raises(subprocess.CalledProcessError, match="status 3"):
        perform(runs, "raise SystemExit(3)")
    with pytest.raises(subprocess.CalledProcessError):
        perform(awaits, "raise SystemExit(3)")
    with pytest.raises(FileNotFoundError):
        perform(missing)


@ms.job()
def missing(ctx: Context) -> None:
    ctx.run(["/no/such/program"])


def test_a_handler_that_should_stop_starts_no_program() -> None:
    with pytest.raises(Cancelled):
        perform(runs, "print(1)", stop="cancelled")
