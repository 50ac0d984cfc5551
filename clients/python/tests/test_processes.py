"""Handlers in processes: how they start, what they may start, and how all of it ends."""

from __future__ import annotations

import importlib
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any, Callable, Iterator

import pytest

from mainspring import InvalidArgument, Mainspring, _groups, _pool
from mainspring._renewal_link import RENEWER
from mainspring.workflows import ref, step
from mainspring.testing import TestServer, eventually, wait_for
from test_worker import HERE, SOURCE, helper, regex_of  # noqa: F401

Start = Callable[..., Any]


@pytest.fixture
def programs(
    helper: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> Iterator[Callable[[], list[int]]]:
    """The programs that helper_jobs.starts_programs has started."""
    path = tmp_path / "programs"
    monkeypatch.setenv("HELPER_FILE", str(path))
    found: list[int] = []

    def read() -> list[int]:
        eventually(path.exists, "60s")
        found.extend(int(pid) for pid in path.read_text().split())
        return found

    yield read
    for pid in filter(is_running, found):
        os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Whether there is such a process that is no zombie."""
    try:
        return " Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except OSError:
        return False


def ended(pids: list[int]) -> None:
    eventually(lambda: not any(is_running(pid) for pid in pids), "20s")


def test_a_handler_in_a_process_may_start_processes(
    helper: Any, mainspring_worker: Start  # noqa: F811
) -> None:
    job = helper.uses_processes.enqueue()
    mainspring_worker(helper.ms, slots=1, processes=True)
    assert job.result("60s") == [1, 2, 3]


@pytest.mark.parametrize("where", ["processes", "command"])
def test_programs_and_forks_of_a_handler_end_at_sigterm(
    helper: Any, mainspring_worker: Start, where: str  # noqa: F811
) -> None:
    job = helper.shows_signals.enqueue()
    if where == "processes":
        mainspring_worker(helper.ms, slots=1, processes=True)
        assert job.result("60s") == "True True -15"
        return
    command = [sys.executable, "-m", "mainspring", "work", "helper_jobs", "--slots", "1"]
    process = subprocess.Popen(command)
    try:
        assert job.result("60s") == "True True -15"
    finally:
        process.terminate()
        assert process.wait(30) == 0


@pytest.mark.parametrize("why", ["timeout", "cancelled"])
def test_programs_of_a_handler_end_with_its_time_limit_and_its_cancel(
    helper: Any,  # noqa: F811
    programs: Callable[[], list[int]],
    mainspring_worker: Start,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
) -> None:
    monkeypatch.setitem(_pool.GRACES, why, 0.1)
    limit = {"timeout": "2s"} if why == "timeout" else {}
    job = helper.starts_programs.options(**limit).enqueue("waits")
    mainspring_worker(helper.ms, slots=1, processes=True, lease="1s")
    pids = programs()
    if why == "cancelled":
        job.cancel()
    ended(pids)
    record = helper.ms.wait(job.id, "20s")
    assert record["state"] == {"timeout": "dead", "cancelled": "cancelled"}[why]


@pytest.mark.parametrize("how", ["waits", "holds"])  # the interpreter's lock
def test_programs_of_a_handler_end_when_the_worker_is_killed(
    helper: Any, programs: Callable[[], list[int]], how: str  # noqa: F811
) -> None:
    length = regex_of(120) if how == "holds" else 0
    job = helper.starts_programs.enqueue(how, length)
    flags = ["--slots", "1", "--processes"]
    process = subprocess.Popen([sys.executable, "-m", "mainspring", "work", "helper_jobs", *flags])
    try:
        pids = programs()
        parents = {int(pathlib.Path(f"/proc/{pid}/stat").read_text().split()[3]) for pid in pids}
        assert len(parents) == 1  # it has adopted the daemon
        assert process.pid not in parents
    finally:
        process.kill()
        process.wait()
    ended([*pids, *parents])
    job.cancel()


def test_a_process_removes_the_zombies_that_it_adopted(
    helper: Any, mainspring_worker: Start  # noqa: F811
) -> None:
    kept = _groups.KEPT_ZOMBIES
    jobs = [helper.leaves_zombies.enqueue(kept + 20) for _ in range(3)]
    mainspring_worker(helper.ms, slots=1, processes=True)
    assert all(job.result("60s") for job in jobs)
    assert helper.leaves_zombies.enqueue(0).result("60s") <= kept


@pytest.mark.parametrize("kind", ["runs_a_program", "awaits_a_program"])
@pytest.mark.parametrize("why", ["timeout", "cancelled", "kill", "shutdown"])
def test_programs_that_a_context_runs_end_with_the_attempt(
    helper: Any, programs: Callable[[], list[int]], kind: str, why: str  # noqa: F811
) -> None:
    limit = {"timeout": "2s"} if why == "timeout" else {}
    job = getattr(helper, kind).options(**limit).enqueue()
    command = [sys.executable, "-m", "mainspring", "work", "helper_jobs", "--slots", "1"]
    process = subprocess.Popen([*command, "--graceful-stop", "1s"])
    try:
        pids = programs()
        if why == "cancelled":
            job.cancel()
        elif why == "kill":
            process.kill()
        elif why == "shutdown":
            process.terminate()
        ended(pids)
        if why in ("timeout", "cancelled"):
            record = helper.ms.wait(job.id, "20s")
            assert record["state"] == {"timeout": "dead", "cancelled": "cancelled"}[why]
        else:
            process.wait(30)
            job.cancel()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("processes", [False, True])
def test_results_by_reference(
    helper: Any, mainspring_worker: Start, processes: bool  # noqa: F811
) -> None:
    mainspring_worker(helper.ms, slots=2, processes=processes)
    steps = [
        step("part", helper.part.new(ref("item")), each=[1, 2, 39]),
        step("sum", helper.summed.new(ref("part", by_reference=True))),
    ]
    flow = helper.ms.workflows.start("sums", steps, result=ref("sum"))
    assert flow.result("60s") == 42


def test_a_killed_process_is_noticed_while_its_forks_live(
    helper: Any, programs: Callable[[], list[int]], mainspring_worker: Start  # noqa: F811
) -> None:
    """A fork keeps the pipe to the worker open."""
    job = helper.forks_and_dies.enqueue()
    mainspring_worker(helper.ms, slots=1, processes=True)
    pids = programs()
    record = helper.ms.wait(job.id, "30s")
    assert "SIGKILL" in record["errors"][0]["message"]
    ended(pids)


def test_a_script_without_a_guard_claims_nothing(
    mainspring: Mainspring,
    mainspring_server: TestServer,
    mainspring_queue: str,
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "script.py").write_text(f"""
from mainspring import Mainspring
ms = Mainspring({mainspring_server.url!r})
@ms.job("runs", queue={mainspring_queue!r})
def runs(ctx):
    return 1
ms.work(slots=2, processes=True)
""")
    job = mainspring.enqueue(mainspring.new("runs", queue=mainspring_queue))
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "script.py"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        text = 'start workers under `if __name__ == "__main__":`'
        assert any(text in line for line in process.stderr)
        record = job.get()
        assert (record["state"], record["attempt"]) == ("available", 0)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_process_that_cannot_start_costs_no_attempt_and_no_slot(
    helper: Any, mainspring_worker: Start, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    start, failures = _pool.SlotProcess._start, iter([RuntimeError("no room"), OSError("none")])

    def fail_first(self: Any) -> None:
        for error in failures:
            raise error
        start(self)

    monkeypatch.setattr(_pool.SlotProcess, "_start", fail_first)
    job = helper.count.enqueue("aa")
    worker = mainspring_worker(helper.ms, slots=1, processes=True)
    assert job.result("60s") == {"a": 2}
    assert worker.stats["claimed"] == 1 and job.get()["attempt"] == 1


def test_a_worker_whose_processes_cannot_start_claims_nothing(
    helper: Any, caplog: pytest.LogCaptureFixture  # noqa: F811
) -> None:
    job = helper.count.enqueue("aa")
    with helper.ms.worker(slots=1, processes=True, modules=["no_such_module"]) as worker:
        eventually(lambda: "did not start, no job is claimed for it" in caplog.text, "60s")
    assert worker.stats["claimed"] == 0 and job.get()["state"] == "available"


def test_a_frozen_program_renews_in_a_thread(
    helper: Any, mainspring_worker: Start, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    job = helper.count.enqueue("aa")
    worker = mainspring_worker(helper.ms, slots=1, lease="1s")
    assert worker.link.pid == 0
    assert job.result("20s") == {"a": 2}


@pytest.mark.parametrize("how", ["renewer", "frozen"])
def test_a_program_that_a_worker_started_instead_of_its_helper_starts_no_worker(
    helper: Any, monkeypatch: pytest.MonkeyPatch, how: str  # noqa: F811
) -> None:
    if how == "renewer":
        monkeypatch.setenv(RENEWER, "1")
    else:
        monkeypatch.setattr(sys, "argv", ["program", "--multiprocessing-fork", "fd=1"])
    worker = helper.ms.worker()
    with pytest.raises(InvalidArgument, match="cannot start in a process that a worker has"):
        worker.start()


@pytest.mark.parametrize("processes", [False, True])
def test_two_clients_with_the_same_kind_run_their_own_handlers(
    helper: Any, mainspring_worker: Start, processes: bool  # noqa: F811
) -> None:
    import two_clients

    clients = importlib.reload(two_clients)
    jobs = [clients.left_send.enqueue(), clients.send.enqueue()]
    for ms in (clients.left, clients.right):
        mainspring_worker(ms, slots=1, processes=processes)
    assert [job.result("60s") for job in jobs] == ["left", "right"]


def test_a_program_ends_without_stopping_its_worker(
    mainspring_server: TestServer, mainspring_queue: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "script.py").write_text(f"""
from mainspring import Mainspring
ms = Mainspring({mainspring_server.url!r})
@ms.job("runs", queue={mainspring_queue!r})
def runs(ctx):
    return 1
if __name__ == "__main__":
    ms.worker(slots=1, processes=True).start()
    print(runs.enqueue().result("30s"))
""")
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "script.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=90
    )
    assert (done.stdout, done.returncode) == ("1\n", 0)


def test_one_ctrl_c_with_watch_lets_handlers_end(
    mainspring: Mainspring,
    mainspring_server: TestServer,
    mainspring_queue: str,
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "watched.py").write_text(f"""
import os, time
from mainspring import Mainspring
ms = Mainspring({mainspring_server.url!r})
@ms.job("waits", queue={mainspring_queue!r})
def waits(ctx):
    while not os.path.exists("go"):
        time.sleep(0.01)
    return "drained"
""")
    job = mainspring.enqueue(mainspring.new("waits", queue=mainspring_queue))
    command = [sys.executable, "-m", "mainspring", "work", "watched", "--watch", "--slots", "1"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as a terminal's foreground group
    )
    try:
        wait_for(job, "running", "60s")
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr is not None
        line = next(line for line in process.stderr if "stopping" in line)
        assert "Ctrl-C again ends it now" in line
        (tmp_path / "go").touch()
        assert process.wait(60) == 0
        assert job.result("10s") == "drained"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("notices", [True, False])
def test_watch_sees_files_of_the_program_and_no_others(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, notices: bool
) -> None:
    from mainspring import _watch

    monkeypatch.chdir(tmp_path)
    for name in ("app", "app/node_modules/a", "venv/lib", ".git", "site-packages"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "venv/pyvenv.cfg").touch()
    monkeypatch.setattr(_watch, "EVERY", 0.02)
    changes = _watch.Changes()
    if not notices:
        changes.close()
        changes._due = 0.0
    for path in ("app/node_modules/a/b.py", "venv/lib/c.py", ".git/d.py", "app/e.txt"):
        (tmp_path / path).touch()
    assert not changes.wait(0.1)
    if notices:  # no scan for what is ignored, except once for the text beside the program
        assert changes.scans <= 2
    (tmp_path / "app/new.py").touch()
    eventually(lambda: changes.wait(1.0), "20s")
    changes.close()
    again = _watch.Changes()
    (tmp_path / "app/new.py").unlink()
    eventually(lambda: again.wait(1.0), "20s")
    again.close()
