"""The read-only page of jobs in Django's admin."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from mainspring import Mainspring

pytest.importorskip("django")
HERE = pathlib.Path(__file__).parent


def pages(server: str, *paths: str) -> Any:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{HERE.parent / 'src'}:{HERE}",
        "MAINSPRING_SERVER": server,
        "MAINSPRING_ACCESS_TOKEN": "",
    }
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    command = [sys.executable, str(HERE / "django_admin_pages.py"), *paths]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_admin_shows_jobs_and_changes_none(
    mainspring: Mainspring, mainspring_queue: str
) -> None:
    hostile = "<script>alert(1)</script>"
    job = mainspring.enqueue(mainspring.new("mail", {"to": hostile}, queue=mainspring_queue))
    other = mainspring.enqueue(mainspring.new("other", queue=mainspring_queue))
    base = "/admin/mainspring/job/"
    paths = (
        "/admin/",
        f"{base}?queue={mainspring_queue}&kind=mail",
        f"{base}{job.id}/",
        f"{base}{job.id}/change/",
        f"{base}999999999/",
        f"{base}?queue={mainspring_queue}&state=dead",
        f"{base}?state=nonsense",
    )
    found = pages(mainspring.server.url, *paths)
    index, listed, shown, change, missing, dead, nonsense = found["reader"]
    assert base in index[1]
    assert listed[0] == 200 and f"{base}{job.id}/" in listed[1]
    assert f"{base}{other.id}/" not in listed[1]
    assert shown[0] == 200 and "&lt;script&gt;" in shown[1] and hostile not in shown[1]
    assert (change[0], missing[0]) == (404, 404)
    assert "No jobs." in dead[1]
    assert nonsense[0] == 200 and "errornote" in nonsense[1]  # what the server says
    assert {status for status, _ in found["stranger"][1:3]} == {403}
    assert set(found["anonymous"][1:3]) == {302}
    assert job.get()["state"] == "available"


def test_the_admin_shows_why_there_are_no_jobs() -> None:
    [[status, text]] = pages("http://127.0.0.1:1", "/admin/mainspring/job/")["reader"]
    assert status == 200 and "no connection to http://127.0.0.1:1" in text
