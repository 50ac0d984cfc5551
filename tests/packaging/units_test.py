#!/usr/bin/env python3
"""The systemd units are valid, and as confined as docs/guides/install.md says. Usage: units_test.py"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

UNITS = pathlib.Path(__file__).resolve().parents[2] / "packaging/systemd"
# The most exposure that `systemd-analyze security` may report, in tenths. 100 is a unit without a sandbox.
LIMITS = {
    "mainspring.service": 15,
    "mainspring@.service": 15,
    "mainspring-worker@.service": 20,
    "mainspring-host.service": 45,
    "mainspring-backup.service": 15,
    "mainspring-verify.service": 15,
}
JOBS_LIMIT = 45
failures = []


def check(good, what):
    if not good:
        failures.append(what)
    print(("ok: " if good else "FAILED: ") + what)


def run(*words):
    return subprocess.run(words, capture_output=True, text=True)


def exposure(unit):
    """Of a unit file, with the drop-ins beside it, in tenths."""
    done = run("systemd-analyze", "security", "--offline=true", "--no-pager", str(unit))
    found = re.search(r"Overall exposure level for .*: (\d+)\.(\d)", done.stdout)
    if found is None:
        return None
    return int(found[1]) * 10 + int(found[2])


def copy_units(directory):
    """Where programs of the package are replaced by one that is there, so that `verify` finds them."""
    for file in UNITS.glob("mainspring*.*"):
        if file.suffix not in (".service", ".timer"):
            continue
        text = file.read_text()
        text = re.sub(r"/usr/(bin|lib/mainspring)/(mainspring|backup)\b(?! /usr/lib)", "/bin/true", text)
        (directory / file.name).write_text(text)


def values(unit, key):
    return re.findall(rf"^{key}=(.*)$", (UNITS / unit).read_text(), re.M)


with tempfile.TemporaryDirectory(prefix="mainspring-units.") as name:
    directory = pathlib.Path(name)
    copy_units(directory)
    found = sorted(file.name for file in directory.iterdir())
    check(sorted(LIMITS) == [unit for unit in found if unit.endswith(".service")], "every service has a limit of exposure")
    for unit in found:
        done = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(directory / unit))
        # Units of other packages are not installed here.
        complaints = [line for line in done.stderr.splitlines() if "mainspring" in line]
        check(not complaints, f"systemd-analyze verify accepts {unit}" + "".join(f"\n    {line}" for line in complaints))

    for unit, limit in LIMITS.items():
        level = exposure(UNITS / unit)
        check(level is not None and level <= limit, f"{unit}: exposure {level}, at most {limit}")
    drop_in = directory / "mainspring.service.d"
    drop_in.mkdir()
    shutil.copy(UNITS / "serve-jobs.conf", drop_in / "jobs.conf")
    shutil.copy(UNITS / "mainspring.service", directory)
    level = exposure(directory / "mainspring.service")
    check(level is not None and level <= JOBS_LIMIT, f"mainspring.service with job folders: exposure {level}, at most {JOBS_LIMIT}")

for unit in ("mainspring.service", "mainspring@.service", "mainspring-worker@.service"):
    check(values(unit, "Type") == ["notify"], f"{unit}: the process says itself when it is ready")
check(values("mainspring.service", "WatchdogSec") == ["60"], "the server is watched")
for unit in ("mainspring.service", "mainspring@.service"):
    check(values(unit, "RestartPreventExitStatus") == ["64 65 66 74"], f"{unit}: no restart without a person after a bad setting, a store of another version, a missing file, or a failed disk")
for unit in ("mainspring.service", "mainspring@.service", "mainspring-worker@.service", "mainspring-host.service"):
    check(values(unit, "StartLimitIntervalSec") == ["0"], f"{unit}: restarts never stop during an outage")
scripts = {name: (UNITS.parent / f"debian/mainspring.{name}").read_text() for name in ("postinst", "prerm")}
for name, action in (("postinst", "try-restart"), ("prerm", "stop")):
    for template in ("mainspring", "mainspring-worker"):
        found = re.search(rf"deb-systemd-invoke {action} .*'{template}@\*\.service'", scripts[name])
        check(found, f"the package's {name} reaches the instances of {template}@.service: {action}")
for unit in LIMITS:
    text = (UNITS / unit).read_text()
    check("PASSWORD" not in text and "ACCESS_TOKEN" not in text, f"{unit} has no secret in its environment")
for timer in ("backup", "verify"):
    check(values(f"mainspring-{timer}.timer", "WantedBy") == ["timers.target"], f"mainspring-{timer}.timer can be enabled")

print(f"{len(failures)} failed")
sys.exit(1 if failures else 0)
