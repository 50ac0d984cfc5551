"""Types: API types match the server's OpenAPI document, and users' code is typed."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.request
from typing import Any

import pytest

from mainspring import Options, options
from mainspring._worker import WorkerOptions
from mainspring.testing import TestServer

ROOT = pathlib.Path(__file__).resolve().parents[1]
USER_CODE = """
from typing import Any
from mainspring import AsyncContext, Context, Mainspring, Snooze

ms = Mainspring()

@ms.job(queue="photos")
def thumbnail(ctx: Context, path: str, width: int = 200) -> dict[str, int] | Snooze:
    size: int = ctx.step("size", len, path)
    return {"size": size}

@ms.job()
async def double(ctx: AsyncContext, n: int) -> int:
    return await ctx.step("twice", lambda: n * 2)

@ms.define(queue="photos")
def resize(path: str) -> int: ...  # type: ignore[empty-body]

reveal_type(thumbnail.enqueue("a.jpg", width=400).result())
reveal_type(double.enqueue(1).result())
reveal_type(resize.options(delay="1m").enqueue("a").result())
reveal_type(ms.get(1)["state"])
thumbnail.enqueue(7)
double.enqueue("x")
resize.options(key="a").enqueue()
"""

# mypy must find each line that ends with a comment: its text is in the message.
OPTIONS_CODE = """
import datetime as dt
from typing_extensions import Unpack
from mainspring import Context, Mainspring
from mainspring.options import JobOptions
from mainspring.workflows import ref, step

ms = Mainspring()

@ms.job(queue="photos", timeout=dt.timedelta(minutes=5), on_conflict="keep", aliases=["thumb"])
def thumbnail(ctx: Context, path: str) -> int:
    return 1

@ms.define("resize", then=[{"queue": "done", "kind": "told", "on": ["completed"]}], tags=["a"])
def resize(path: str) -> None: ...

def later(path: str, **options: Unpack[JobOptions]) -> None:
    thumbnail.options(**options).enqueue(path)

later("a.jpg", priority=2)
thumbnail.options(key="a", key_for=60, fence=("lock", 1), callback="https://a.example").enqueue("a")
ms.new("mail", {"to": "anna"}, run_at=dt.datetime.now(dt.timezone.utc)).options(priority=1)
ms.schedules.put("nightly", thumbnail.new("a"), every="1h", jitter=30, overlap="buffer_one")
ms.queues.set_limits("photos", concurrency=5, rate={"count": 100, "per": "1s"}, costs={"render": 4})
first = step("first", thumbnail.new("a"), deadline="1h", if_={"ref": "input.express"})
ms.workflows.start("order", [first], input={"express": True}, result=ref("first"), deadline=3600)
for record in ms.jobs(state=["dead", "cancelled"], queue="photos"): print(record["id"])
for event in ms.events(queue=["photos", "films"], type="dead"): print(event)
ms.work(slots=4, renewals="thread", lease="1m")

async def coroutine() -> None:
    async with ms.lock("report/eu", wait="10s") as lock, ms.sessions.accept("orders") as session:
        lock.check()
        await session.afinish(await session.anext())
    reveal_type(await ms.schedules.atrigger("nightly"))
    await ms.workflows.astart("order", [first], inputs=1)  # Unexpected keyword argument "inputs"
    async for job in ms.ajobs(ques="photos"): pass  # Unexpected keyword argument "ques"

later("a.jpg", delai="1h")  # Unexpected keyword argument "delai"
thumbnail.options(delai="1h")  # Unexpected keyword argument "delai"
thumbnail.options(delay=[1])  # "delay" to "options"
thumbnail.new("a").options(tag="x")  # Unexpected keyword argument "tag"
ms.new("mail", 1, max_attempts="3")  # "max_attempts" to "new"
ms.job(timeut="5m")  # Unexpected keyword argument "timeut"
ms.define(on_conflict="kept")  # "on_conflict" to "define"
ms.enqueue_many([thumbnail.new("a")], key="x")  # Unexpected keyword argument "key"
ms.schedules.put("nightly", thumbnail.new("a"), crn="@daily")  # Unexpected keyword argument "crn"
ms.schedules.put("nightly", thumbnail.new("a"), overlap="never")  # "overlap" to "put"
ms.queues.set_limits("photos", rate={"count": 1})  # Missing key "per" for TypedDict "RateLimit"
ms.queues.set_limits("photos", concurency=1)  # Unexpected keyword argument "concurency"
step("second", after=["first"], on_failure="retry")  # "on_failure" to "step"
ms.work(slot=4)  # Unexpected keyword argument "slot"
ms.worker(renewals="fork")  # "renewals" to "worker"
ms.lock("report/eu", tll="1s")  # Unexpected keyword argument "tll"
"""


def test_types_of_the_api_follow_the_servers_document(
    mainspring_server: TestServer, tmp_path: pathlib.Path
) -> None:
    document = tmp_path / "openapi.json"
    with urllib.request.urlopen(f"{mainspring_server.url}/openapi.json") as answer:
        document.write_bytes(answer.read())
    command = [sys.executable, ROOT / "tools/generate_types.py", document]
    now = subprocess.check_output(command, text=True)
    kept = (ROOT / "src/mainspring/api.py").read_text()
    assert now == kept, "run clients/python/tools/generate_types.py --write on the new document"
    assert "class Job(" in kept and json.loads(document.read_text())["openapi"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """What mypy knows of the standard library and the package, for all runs."""
    kept = os.environ.get("MAINSPRING_MYPY_CACHE")
    return pathlib.Path(kept) if kept else tmp_path_factory.mktemp("mypy")


def mypy(*arguments: str, cache: pathlib.Path) -> str:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), *arguments]
    config = ["--config-file", str(ROOT / "pyproject.toml")]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command + config, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_a_wrong_option_is_found_by_mypy(tmp_path: pathlib.Path, cache: pathlib.Path) -> None:
    user = tmp_path / "user.py"
    user.write_text(OPTIONS_CODE)
    out = mypy(str(user), cache=cache)
    found = re.findall(r"user\.py:(\d+): error: (.*)", out)
    lines = OPTIONS_CODE.splitlines()
    wanted = [(str(n), line.split("  # ")[1]) for n, line in enumerate(lines, 1) if "  # " in line]
    assert [number for number, _ in found] == [number for number, _ in wanted], out
    for (number, message), (_, text) in zip(found, wanted):
        assert text in message, f"line {number}: {message}"
    assert 'Revealed type is "builtins.int"' in out, out


@pytest.mark.parametrize(
    "keywords, used", [(options.JobOptions, Options), (options.WorkerKeywords, WorkerOptions)]
)
def test_types_of_options_follow_the_options(keywords: Any, used: Any) -> None:
    typed = {name: kind.__forward_arg__ for name, kind in keywords.__annotations__.items()}
    assert typed == {field.name: field.type for field in dataclasses.fields(used) if field.init}


def test_the_package_and_the_types_that_users_see_are_strict(
    tmp_path: pathlib.Path, cache: pathlib.Path
) -> None:
    user = tmp_path / "user.py"
    user.write_text(USER_CODE)
    out = mypy(str(ROOT / "src/mainspring"), str(user), cache=cache)
    assert 'Revealed type is "builtins.dict[builtins.str, builtins.int]"' in out, out
    assert out.count('Revealed type is "builtins.int"') == 2, out
    assert "Literal['running']" in out, out
    errors = [line for line in out.splitlines() if " error: " in line]
    assert len(errors) == 3 and all("user.py" in error for error in errors), out
    assert 'incompatible type "int"; expected "str"' in errors[0]
    assert 'incompatible type "str"; expected "int"' in errors[1]
    assert "Missing positional argument" in errors[2] or "Too few arguments" in errors[2]
