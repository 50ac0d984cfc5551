"""Types: API types match the server's OpenAPI document, and users' code is typed."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

import pytest

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


def mypy(*arguments: str, cache: pathlib.Path) -> str:
    pytest.importorskip("mypy")
    cache = pathlib.Path(os.environ.get("MAINSPRING_MYPY_CACHE", cache))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), *arguments]
    config = ["--config-file", str(ROOT / "pyproject.toml")]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command + config, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_the_package_and_the_types_that_users_see_are_strict(tmp_path: pathlib.Path) -> None:
    user = tmp_path / "user.py"
    user.write_text(USER_CODE)
    out = mypy(str(ROOT / "src/mainspring"), str(user), cache=tmp_path / "cache")
    assert 'Revealed type is "builtins.dict[builtins.str, builtins.int]"' in out, out
    assert out.count('Revealed type is "builtins.int"') == 2, out
    assert "Literal['running']" in out, out
    errors = [line for line in out.splitlines() if " error: " in line]
    assert len(errors) == 3 and all("user.py" in error for error in errors), out
    assert 'incompatible type "int"; expected "str"' in errors[0]
    assert 'incompatible type "str"; expected "int"' in errors[1]
    assert "Missing positional argument" in errors[2] or "Too few arguments" in errors[2]
