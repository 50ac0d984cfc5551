"""Text of a job is data: it never chooses the code that a worker runs or imports."""

from __future__ import annotations

import pathlib
import re
import sys
import types
from typing import Any, Callable

import pytest

from mainspring import Context, InvalidArgument, Mainspring

Start = Callable[..., Any]
SOURCE = pathlib.Path(__file__).parents[1] / "src/mainspring"
NAMES = ["os.system", "subprocess.getoutput", "mainspring.testing.eventually", "helper_jobs", "helper_jobs:count"]


@pytest.mark.parametrize("processes", [False, True])
def test_a_kind_without_a_handler_is_not_claimed(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start, processes: bool
) -> None:
    import helper_jobs

    known = mainspring
    known.definitions["count"] = helper_jobs.count
    jobs = [known.enqueue(known.new(name, {"text": "x"}, queue=mainspring_queue)) for name in NAMES]
    last = known.enqueue(known.new("count", {"text": "os.system"}, queue=mainspring_queue))
    mainspring_worker(known, slots=1, processes=processes, queues=[mainspring_queue])
    assert last.result("30s")["o"] == 1
    assert [job.get()["state"] for job in jobs] == ["available"] * len(NAMES)


def test_args_named_like_code_are_data(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    args = {"function": "subprocess.getoutput", "__class__": "os.system", "args": ["id"], "self": 1}

    @mainspring.job(queue=mainspring_queue)
    def keep(ctx: Context, **values: Any) -> Any:
        return values

    job = mainspring.enqueue(mainspring.new("keep", args, queue=mainspring_queue))
    mainspring_worker(mainspring, slots=1)
    assert job.result("30s") == args


def test_a_django_task_must_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fake of Django 6's class; test_django_tasks.py has the real one."""
    from mainspring.contrib import django

    class Task:
        def __init__(self, path: str) -> None:
            self.module_path = path

    module: Any = types.ModuleType("shop_tasks")
    module.add, module.other = Task("shop_tasks.add"), Task("elsewhere.other")
    module.plain = lambda: 1
    module.__getattr__ = lambda name: Task(f"shop_tasks.{name}")
    monkeypatch.setitem(sys.modules, "shop_tasks", module)
    monkeypatch.setattr(django, "Task", Task)
    monkeypatch.setattr(django.MainspringBackend, "import_tasks", lambda self: None)
    backend = django.MainspringBackend.__new__(django.MainspringBackend)
    assert backend.task_named("shop_tasks.add") is module.add
    unknown: list[Any] = ["subprocess.getoutput", "shop_tasks.plain", "shop_tasks.other", "add", ""]
    for path in [*unknown, "shop_tasks.made_up", "antigravity.geohash", None, ["shop_tasks.add"]]:
        with pytest.raises(InvalidArgument, match="is not a task of this program"):
            backend.task_named(path)
    assert "antigravity" not in sys.modules


def test_nothing_else_in_the_package_turns_text_into_code() -> None:
    """Modules are imported for the command line, the worker's options and Django's settings, and
    one of the standard library by a fixed name."""
    code = re.compile(r"import_module\(|__import__|\beval\(|\bexec\(|pickle|import_string|compile\(")
    found = {
        (path.relative_to(SOURCE).as_posix(), match.group())
        for path in SOURCE.rglob("*.py")
        for match in code.finditer(re.sub(r"re\.compile\(", "", path.read_text()))
    }
    assert found == {
        ("__main__.py", "import_module("),
        ("_pool.py", "import_module("),
        ("_convert.py", "import_module("),  # annotationlib
        ("contrib/django.py", "import_module("),
        ("contrib/django_admin/admin.py", "import_string"),
    }
