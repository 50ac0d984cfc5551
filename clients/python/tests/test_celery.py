"""Celery applications with Mainspring as broker and result backend, with Debian's Celery."""

from __future__ import annotations

import datetime as dt
import importlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
from typing import Any, Iterator

import pytest

from mainspring import Mainspring
from mainspring.testing import TestServer, advance, eventually, find_binary

pytest.importorskip("celery", reason="python3-celery is not installed")
pytest.importorskip("kombu")

HERE = pathlib.Path(__file__).parent
TIMEOUT = 60


class Shop:
    """The application of `celery_jobs`, and workers for it."""

    def __init__(self, url: str, queue: str, notes: pathlib.Path) -> None:
        self.url, self.queue, self.notes = url, queue, notes
        self.workers: list[subprocess.Popen[bytes]] = []
        os.environ.update(MAINSPRING_SERVER=url, CELERY_QUEUE=queue, CELERY_NOTES=str(notes))
        sys.modules.pop("celery_jobs", None)
        self.tasks: Any = importlib.import_module("celery_jobs")

    def work(self, pool: str = "prefork", lease: str = "30s", slots: int = 2) -> Any:
        path = os.pathsep.join([str(HERE.parent / "src"), str(HERE)])
        worker = subprocess.Popen(
            [
                sys.executable, "-m", "mainspring.contrib.celery", "-A", "celery_jobs", "worker",
                "--pool", pool, "--concurrency", str(slots), "--loglevel", "info",
            ],
            env={**os.environ, "PYTHONPATH": path, "CELERY_LEASE": lease, "C_FORCE_ROOT": "1"},
            start_new_session=True,
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def kill(self, worker: Any) -> None:
        """The worker and its children, as if the machine had lost its power."""
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def lines(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def go(self) -> None:
        pathlib.Path(f"{self.notes}.go").touch()


@pytest.fixture
def shop(
    mainspring_server: TestServer,
    mainspring_queue: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shop]:
    for name in ("MAINSPRING_SERVER", "CELERY_QUEUE", "CELERY_NOTES"):
        monkeypatch.setenv(name, "")  # and back after the test
    made = Shop(mainspring_server.url, mainspring_queue, tmp_path / "notes")
    yield made
    for worker in made.workers:
        if worker.poll() is None:
            made.kill(worker)
    made.tasks.app.close()


@pytest.mark.parametrize("pool", ["prefork", "solo", "threads"])
def test_an_application_runs_with_chains_groups_chords_and_retries(shop: Shop, pool: str) -> None:
    from celery import chain, chord, group

    tasks = shop.tasks
    worker = shop.work(pool)
    assert tasks.add.delay(1, 2).get(timeout=TIMEOUT) == 3
    assert chain(tasks.add.s(1, 2), tasks.add.s(3), tasks.add.s(4))().get(timeout=TIMEOUT) == 10
    assert group(tasks.add.s(n, n) for n in range(5))().get(timeout=TIMEOUT) == [0, 2, 4, 6, 8]
    assert chord([tasks.add.s(n, 1) for n in range(8)])(tasks.total.s()).get(timeout=TIMEOUT) == 36
    header = [chain(tasks.add.s(1, 2), tasks.add.s(n)) for n in range(3)]
    assert chord(header)(tasks.total.s()).get(timeout=TIMEOUT) == 12
    assert tasks.third_time.delay().get(timeout=TIMEOUT) == 2
    failing = tasks.fail.delay("no paper")
    with pytest.raises(ValueError, match="no paper"):
        failing.get(timeout=TIMEOUT)
    assert failing.state == "FAILURE"
    broken = chord([tasks.add.s(1, 1), tasks.fail.s("torn")])(tasks.total.s())
    with pytest.raises(Exception, match="torn"):
        broken.get(timeout=TIMEOUT)
    worker.terminate()
    assert worker.wait(TIMEOUT) == 0


def test_messages_are_jobs_with_the_name_of_the_task(shop: Shop, mainspring: Mainspring) -> None:
    sent = shop.tasks.add.apply_async((1, 2), priority=9)
    [job] = mainspring.jobs(queue=shop.queue)
    assert job["kind"] == "celery_jobs.add"
    assert job["correlation_id"] == sent.id
    assert job["priority"] == 0
    assert job["args"]["body"].startswith("[[1, 2], {}")
    assert sent.state == "PENDING"


def test_higher_priorities_start_first(shop: Shop) -> None:
    sent = [shop.tasks.named.apply_async((name,), priority=p) for p, name in enumerate("cab")]
    shop.work("solo")
    for one in sent:
        one.get(timeout=TIMEOUT)
    assert shop.lines() == ["b", "a", "c"]


def test_the_server_keeps_tasks_until_their_eta(shop: Shop, mainspring: Mainspring) -> None:
    eta = dt.datetime.now(dt.timezone.utc) + dt.timedelta(days=30)
    shop.tasks.add.apply_async((1, 2), eta=eta)
    shop.tasks.add.apply_async((1, 2), countdown=3600)
    states = {job["state"]: job["run_at"][:16] for job in mainspring.jobs(queue=shop.queue)}
    assert list(states) == ["scheduled"]
    assert eta.isoformat()[:16] in {job["run_at"][:16] for job in mainspring.jobs(queue=shop.queue)}


@pytest.mark.parametrize("pool", ["prefork", "solo"])
def test_a_killed_worker_loses_no_task_that_acknowledges_late(
    shop: Shop, mainspring: Mainspring, pool: str
) -> None:
    worker = shop.work(pool, lease="30s")
    sent = [shop.tasks.slow.delay(f"slow-{n}") for n in range(4)]
    eventually(shop.lines, timeout=TIMEOUT)
    shop.kill(worker)
    shop.go()
    advance(mainspring, "31s", leases="lose")
    shop.work(pool)
    assert [one.get(timeout=TIMEOUT) for one in sent] == [f"slow-{n}" for n in range(4)]


class Served:
    """A server with a store that outlives it, on TLS or a unix socket."""

    def __init__(self, directory: pathlib.Path, how: str) -> None:
        self.place = [f"unix:{directory}/socket"]
        self.url = f"unix://{directory}/socket"
        if how == "tls":
            tls = directory / "tls"
            command = [find_binary(), "tls", "init", "--dir", str(tls)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            with socket.create_server(("127.0.0.1", 0)) as free:
                place = f"127.0.0.1:{free.getsockname()[1]}"
            self.url = f"https://{place}"
            files = ["--tls-cert", str(tls / "server.pem"), "--tls-key", str(tls / "server.key")]
            self.place = [place, *files]
        self._store = ["--data", str(directory / "store")]
        self.start()

    def start(self) -> None:
        command = [find_binary(), "serve", *self._store, "--listen", *self.place, "--json"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None and self._process.stdout.readline()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.mark.parametrize("how", ["tls", "unix"])
def test_a_server_that_restarts_loses_no_task(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    from celery import chain, group

    server = Served(tmp_path, how)
    for name in ("MAINSPRING_SERVER", "CELERY_QUEUE", "CELERY_NOTES"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("CELERY_CA_FILE", str(tmp_path / "tls/ca.pem") if how == "tls" else "")
    shop = Shop(server.url, "restarts", tmp_path / "notes")
    try:
        shop.work()
        slow = [shop.tasks.slow.delay(f"slow-{n}") for n in range(4)]
        sums = chain(group([shop.tasks.add.s(n, n) for n in range(3)]), shop.tasks.total.s()).delay()
        eventually(lambda: len(shop.lines()) == 2, timeout=TIMEOUT)
        server.kill()
        server.start()
        shop.go()
        assert [one.get(timeout=TIMEOUT) for one in slow] == [f"slow-{n}" for n in range(4)]
        assert sums.get(timeout=TIMEOUT) == 6
    finally:
        for worker in shop.workers:
            shop.kill(worker)
        shop.tasks.app.close()
        server.kill()


def test_a_chord_survives_the_death_of_a_worker(shop: Shop, mainspring: Mainspring) -> None:
    from celery import chord

    worker = shop.work("prefork")
    body = chord([shop.tasks.part.s(n) for n in range(4)])(shop.tasks.total.s())
    eventually(lambda: any(line.startswith("part 3") for line in shop.lines()), timeout=TIMEOUT)
    shop.kill(worker)
    shop.go()
    advance(mainspring, "31s", leases="lose")
    shop.work("prefork")
    assert body.get(timeout=TIMEOUT) == 6


def test_leases_are_renewed_until_the_acknowledgement(
    shop: Shop, mainspring: Mainspring
) -> None:
    from mainspring.contrib.celery_broker import Leases

    shop.tasks.add.delay(1, 1)
    leases = Leases(mainspring, "30s")
    [job] = leases.claim([shop.queue], 1, 10)
    for _ in range(3):
        advance(mainspring, "20s", leases="lose")
        leases.renew()
    assert mainspring.get(job["id"])["token"] == job["token"]
    leases.finish([(job["id"], job["token"])], "complete")
    leases.renew()  # of nothing
    assert mainspring.get(job["id"])["state"] == "completed"


def test_a_lost_lease_is_forgotten_and_a_late_outcome_is_no_error(
    shop: Shop, mainspring: Mainspring, caplog: pytest.LogCaptureFixture
) -> None:
    from mainspring.contrib.celery_broker import Leases

    shop.tasks.add.delay(1, 1)
    leases = Leases(mainspring, "30s")
    [job] = leases.claim([shop.queue], 1, 10)
    advance(mainspring, "31s", leases="lose")
    leases.renew()
    leases.finish([(job["id"], job["token"])], "complete")
    assert "its lease is lost" in caplog.text and "too late" in caplog.text
    [again] = leases.claim([shop.queue], 1, 10)
    assert again["token"] > job["token"]


def test_a_task_is_acknowledged_as_it_starts_without_acks_late(
    shop: Shop, mainspring: Mainspring
) -> None:
    worker = shop.work("prefork")
    shop.tasks.slow_early.delay("early")
    eventually(shop.lines, timeout=TIMEOUT)
    [job] = mainspring.jobs(queue=shop.queue)
    assert mainspring.wait(job["id"])["state"] == "completed"
    shop.kill(worker)


def test_rejected_messages_are_kept_as_dead_jobs(shop: Shop, mainspring: Mainspring) -> None:
    with shop.tasks.app.connection_for_write() as connection:
        queue = connection.SimpleQueue(shop.queue)
        queue.put({"n": 1})
        message = queue.get(timeout=TIMEOUT)
        message.requeue()
        message = queue.get(timeout=TIMEOUT)
        assert message.payload == {"n": 1}
        message.reject()
        queue.close()
    [job] = mainspring.jobs(queue=shop.queue)
    assert (job["state"], mainspring.get(job["id"])["reason"]) == ("dead", "rejected")


def test_closing_gives_messages_back(shop: Shop, mainspring: Mainspring) -> None:
    with shop.tasks.app.connection_for_write() as connection:
        queue = connection.SimpleQueue(shop.queue)
        queue.put("kept")
        queue.get(timeout=TIMEOUT)
    with shop.tasks.app.connection_for_write() as connection:
        queue = connection.SimpleQueue(shop.queue)
        message = queue.get(timeout=TIMEOUT)
        assert message.payload == "kept"
        assert message.delivery_info["redelivered"] is False  # given back, not lost
        message.ack()
    [job] = mainspring.jobs(queue=shop.queue)
    assert job["state"] == "completed"


def test_a_purge_cancels_what_waits(shop: Shop, mainspring: Mainspring) -> None:
    for _ in range(3):
        shop.tasks.add.delay(1, 1)
    with shop.tasks.app.connection_for_write() as connection:
        assert connection.default_channel.queue_purge(shop.queue) == 3
    assert {job["state"] for job in mainspring.jobs(queue=shop.queue)} == {"cancelled"}


def test_a_cancelled_job_does_not_start(shop: Shop, mainspring: Mainspring) -> None:
    sent = shop.tasks.named.delay("never")
    [job] = mainspring.jobs(queue=shop.queue)
    mainspring.cancel(job["id"])
    shop.work("solo")
    assert shop.tasks.named.delay("next").get(timeout=TIMEOUT) == "next"
    assert shop.lines() == ["next"]
    assert sent.state == "PENDING"


def test_the_worker_obeys_a_stop_command(shop: Shop, mainspring: Mainspring) -> None:
    worker = shop.work("solo")
    shop.tasks.add.delay(1, 1).get(timeout=TIMEOUT)
    workers = mainspring.request("GET", "/v1/workers", repeat=True)["workers"]
    [name] = [one["id"] for one in workers if one["queues"] == [shop.queue]]
    mainspring.request("POST", f"/v1/workers/{name}/stop")
    assert worker.wait(TIMEOUT) == 0


def test_results_of_unknown_tasks_and_of_binary_serializers(shop: Shop) -> None:
    backend: Any = shop.tasks.app.backend
    assert backend.get_state("no-such-task") == "PENDING"
    backend.set("text", "a")
    backend.set("text", "b")
    backend.set("bytes", b"\x00\xff")
    assert (backend.get("text"), backend.get("bytes")) == ("b", b"\x00\xff")
    backend.store_result("t-1", 1, "SUCCESS")
    backend.store_result("t-1", 2, "FAILURE")  # a late attempt
    assert backend.get_task_meta("t-1", cache=False)["result"] == 1


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("mainspring://127.0.0.1:8123//", "http://127.0.0.1:8123"),
        ("mainspring+https://jobs.example:8443", "https://jobs.example:8443"),
        ("https://jobs.example:8443", "https://jobs.example:8443"),
        ("mainspring+unix:///run/mainspring.sock", "unix:/run/mainspring.sock"),
    ],
)
def test_urls(url: str, place: str) -> None:
    from mainspring.contrib.celery import client_of

    assert client_of(url, {}).server.url == place


def test_the_password_of_a_url_is_the_token() -> None:
    from mainspring.contrib.celery import client_of

    assert client_of("mainspring://:mst_a%2Bb@127.0.0.1:8080", {}).server.token == "mst_a+b"
    with pytest.raises(ValueError, match="must be mainspring://"):
        client_of("mainspring+ftp://a", {})


def test_the_example_of_the_guide(shop: Shop, mainspring: Mainspring) -> None:
    guide = HERE.parents[2] / "docs/guides/recipes/celery_broker.md"
    code = guide.read_text().split("```python\n", 1)[1].split("```", 1)[0]
    shop_module: dict[str, Any] = {"__name__": "shop"}
    exec(code.replace("mainspring://127.0.0.1:8080", "mainspring+" + shop.url), shop_module)
    shop_module["app"].conf.task_default_queue = shop.queue
    sent = shop_module["thumbnail"].delay("a.jpg")
    [job] = mainspring.jobs(queue=shop.queue)
    assert (job["kind"], job["correlation_id"]) == ("shop.thumbnail", sent.id)
