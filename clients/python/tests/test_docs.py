"""Runs the Python code of the documents, in order, as a reader would."""

from __future__ import annotations

import pathlib
import re
import signal
import subprocess
import sys
from typing import Any

import pytest

import mainspring
from mainspring.testing import TestServer

ROOT = pathlib.Path(__file__).resolve().parents[3]
SOURCE = ROOT / "clients/python/src"
RECIPES = [f"docs/guides/recipes/{name}.md" for name in ("fastapi", "django", "celery", "rq")]
DOCUMENTS = [
    "docs/guides/python.md",
    "docs/guides/testing.md",
    "README.md",
    "clients/python/README.md",
    *RECIPES,
]


def blocks(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^```([^\n`]*)\n(.*?)^```$", text, re.M | re.S)


def run_pytest(directory: pathlib.Path, name: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "mainspring.pytest_plugin", name]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_code_of_a_document_runs(
    name: str,
    mainspring_server: TestServer,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (ROOT / name).read_text()
    monkeypatch.setenv("MAINSPRING_SERVER", mainspring_server.url)
    monkeypatch.setenv("MAINSPRING_ACCESS_TOKEN", "")
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    namespace: dict[str, Any] = {"__name__": "reader"}
    workers: list[subprocess.Popen[bytes]] = []
    modules = set(sys.modules)
    ran = 0
    try:
        for info, code in blocks(text):
            if info.startswith("python file="):
                name_of_file = info.removeprefix("python file=")
                (tmp_path / name_of_file).write_text(code)
                if name_of_file.startswith("test_"):
                    ran += 1
                    run_pytest(tmp_path, name_of_file)
            elif info == "shell worker":
                command = code.strip().replace("python3", sys.executable).split()
                workers.append(subprocess.Popen(command))
            elif info == "python":
                ran += 1
                exec(compile(code, f"{name}, block {ran}", "exec"), namespace)
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        ends = [worker.wait(30) for worker in workers]
        for module in set(sys.modules) - modules:
            if getattr(sys.modules[module], "__file__", "") in map(str, tmp_path.glob("*.py")):
                del sys.modules[module]
    assert ends == [0] * len(workers)
    assert ran > 0
    printed = capsys.readouterr().out
    for expected in re.findall(r"print\(.*\)  # (.*)$", text, re.M):
        assert expected in printed


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_short_and_what_it_replaces_is_python(name: str) -> None:
    text = (ROOT / name).read_text()
    assert len(text.split()) <= 600
    for info, code in blocks(text):
        if info == "python before":
            compile(code, name, "exec")


def test_the_guide_is_short_and_has_its_headings() -> None:
    text = (ROOT / "docs/guides/python.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.M)
    wanted = ["What it is for", "Quick start", "Options", "What happens when…", "Limits"]
    assert headings == wanted
    assert len(text.split()) <= 1200


def test_the_guide_names_existing_things() -> None:
    import mainspring
    from mainspring._worker import WorkerOptions

    text = (ROOT / "docs/guides/python.md").read_text()
    table = text.split("| `ms.worker(…)`")[1].split("\n\n")[0]
    for option in re.findall(r"^\| `(\w+)`", table, re.M):
        assert option in WorkerOptions.__dataclass_fields__
    for name in re.findall(r"`(\w+)`", text):
        if name[0].isupper() and name not in ("Exception", "BaseException", "False", "True"):
            known = hasattr(mainspring, name) or name == "MainspringBackend" or name.isupper()
            assert known or name == "ShuttingDown", name


def test_the_errors_of_the_reference_are_in_both_clients() -> None:
    page = (ROOT / "docs/reference/client_names.md").read_text()
    table = page.partition("## Errors")[2]
    names = set(re.findall(r"`([A-Z][A-Za-z]+)`", table))
    index = (ROOT / "clients/typescript/src/index.ts").read_text()
    assert len(names) > 15
    assert {name for name in names if not hasattr(mainspring, name)} == set()
    assert {name for name in names if not re.search(rf"\b{name}\b", index)} == set()


def test_the_api_reference_is_up_to_date() -> None:
    tool = ROOT / "clients/python/tools/reference.py"
    done = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
