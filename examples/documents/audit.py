#!/usr/bin/python3
"""The auditor: audit.py PROGRAM STAGED OUT [--ready]. Are the documents all there, once each, and right?

With --ready it only says whether all that has to come has come: exit code 0, or 75 for not yet.
"""

import collections
import json
import pathlib
import sqlite3
import struct
import subprocess
import sys

STAGES = ["convert", "thumbnail", "index"]
ENDED = {"completed", "dead", "cancelled"}
NOT_YET = 75
SHOWN = 20


def jobs_of(program, stage):
    lines = subprocess.run(
        [program, "jobs", "list", "--queue", f"documents.{stage}", "--all", "--json"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [json.loads(line) for line in lines if line]


def is_ready(manifest, jobs):
    if any(job["state"] not in ENDED for stage in STAGES for job in jobs[stage]):
        return False
    come = {(job["args"]["name"], job["args"]["size"]) for job in jobs["convert"]}
    return all((name, versions[-1]["size"]) in come for name, versions in manifest.items())


class Audit:
    def __init__(self, program, manifest, out, jobs):
        self.program, self.manifest, self.out, self.jobs = program, manifest, out, jobs
        self.wrong, self.letters = [], {}

    def expect(self, holds, message):
        if not holds:
            self.wrong.append(message)

    def events(self):
        """Each version made one job at most, and the last version of each name one."""
        count = collections.Counter()
        for job in self.jobs["convert"]:
            version = (job["args"]["name"], job["args"]["size"])
            count[version] += 1
            self.letters[version] = job
        for (name, size), times in count.items():
            sizes = [version["size"] for version in self.manifest.get(name, [])]
            # A file that is written in place may pause half written for longer than --stable. Such a
            # state is dropped or fails: way() checks that nothing of it was passed on.
            self.expect(sizes and size <= max(sizes), f"{name} of {size} bytes was never written")
            self.expect(times == 1 or size not in sizes, f"{name} of {size} bytes came {times} times")

    def way(self):
        """What completed was passed on once; what died was not."""
        after = {
            stage: collections.Counter(job["correlation_id"] for job in self.jobs[stage]) for stage in STAGES[1:]
        }
        for name, versions in self.manifest.items():
            for version in versions:
                job = self.letters.get((name, version["size"]))
                last = version is versions[-1]
                if job is None:
                    self.expect(not last, f"{name}: its last version never came")
                    continue
                for stage in STAGES[1:]:
                    times = after[stage].pop(str(job["id"]), 0)
                    least = 1 if last and version["words"] is not None else 0
                    most = 0 if version["words"] is None else 1
                    self.expect(least <= times <= most, f"{name}: came to {stage} {times} times")
        for stage in STAGES[1:]:
            for job in self.jobs[stage]:
                self.expect(job["state"] == "completed", f"{stage} job {job['id']} is {job['state']}")
            self.expect(not after[stage], f"{stage}: items that were never sent: {list(after[stage])[:3]}")

    def broken(self):
        """Broken files are dead, with the tool's words."""
        for name, versions in self.manifest.items():
            job = self.letters.get((name, versions[-1]["size"]))
            if job is None:
                continue
            if versions[-1]["words"] is not None:
                self.expect(job["state"] == "completed", f"{name}: job {job['id']} is {job['state']}")
                continue
            shown = subprocess.run(
                [self.program, "jobs", "show", str(job["id"]), "--json"], capture_output=True, text=True, check=True
            ).stdout
            self.expect(job["state"] == "dead", f"{name} is broken, and its job is {job['state']}")
            self.expect("pdftotext: " in shown, f"{name}: the tool's words are not kept")

    def outputs(self):
        """One text and one thumbnail of each, with the right contents."""
        for name, versions in self.manifest.items():
            last = versions[-1]
            if last["words"] is None:
                continue
            text = self.out / "texts" / f"{last['digest']}.txt"
            picture = self.out / "thumbnails" / f"{last['digest']}.png"
            words = sorted(set(text.read_text().split())) if text.exists() else None
            self.expect(words == last["words"], f"{name}: its text is missing or wrong")
            self.expect(picture.exists() and is_png(picture.read_bytes()), f"{name}: no whole thumbnail")
        known = {version["digest"] for versions in self.manifest.values() for version in versions}
        for folder in ["texts", "thumbnails", "originals"]:
            for path in (self.out / folder).glob("[!.]*"):
                self.expect(path.stem in known, f"{folder}/{path.name} is of no document")

    def index(self):
        """The index has the last version of each name, and all its words, and nothing else."""
        with sqlite3.connect(self.out / "index.sqlite") as books:
            documents = dict(books.execute("SELECT name, digest FROM documents"))
            words = collections.defaultdict(list)
            for word, name in books.execute("SELECT word, name FROM words ORDER BY word"):
                words[name].append(word)
        wanted = {name: versions[-1] for name, versions in self.manifest.items() if versions[-1]["words"] is not None}
        self.expect(set(documents) <= set(wanted), f"the index knows {sorted(set(documents) - set(wanted))[:3]}")
        for name, version in wanted.items():
            self.expect(documents.get(name) == version["digest"], f"{name}: is not in the index as it is now")
            self.expect(words[name] == version["words"], f"{name}: its words in the index are not those it has")

    def run(self):
        for part in [self.events, self.way, self.broken, self.outputs, self.index]:
            part()
        states = collections.Counter(job["state"] for job in self.jobs["convert"])
        dropped = states["completed"] - len(self.jobs["thumbnail"])
        print(
            f"{len(self.manifest)} documents, {len(self.letters)} versions came: {states['completed']} converted"
            f" ({dropped} replaced meanwhile), {states['dead']} broken; {len(self.jobs['thumbnail'])} thumbnails,"
            f" {len(self.jobs['index'])} indexed"
        )
        for message in self.wrong[:SHOWN]:
            print(f"WRONG  {message}")
        if len(self.wrong) > SHOWN:
            print(f"WRONG  and {len(self.wrong) - SHOWN} more")
        if not self.wrong:
            print("Every document is there once, and as it should be.")
        return 1 if self.wrong else 0


def is_png(content):
    whole = content.startswith(b"\x89PNG\r\n\x1a\n") and content.endswith(b"IEND\xaeB`\x82")
    return whole and struct.unpack(">I", content[16:20])[0] == 160


def main():
    program, staged, out = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    manifest = json.loads((staged / "manifest.json").read_text())
    try:
        jobs = {stage: jobs_of(program, stage) for stage in STAGES}
    except subprocess.CalledProcessError as error:
        if "--ready" in sys.argv:
            sys.exit(NOT_YET)  # the server is away
        raise SystemExit(error.stderr) from error
    if "--ready" in sys.argv:
        sys.exit(0 if is_ready(manifest, jobs) else NOT_YET)
    sys.exit(Audit(program, manifest, out, jobs).run())


main()
