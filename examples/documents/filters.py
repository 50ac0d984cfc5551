#!/usr/bin/python3
"""The filters of the document pipeline: convert, thumbnail, index.

Each gets a job on standard input and prints the args of the next one. Any of them may be
run twice for an item, or continue after its lease was lost. So what they write is named by the
digest of the document, is put into place by a rename, and is the same in every run; and the index
keeps what is newest, whatever comes last.
"""

import hashlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

OUT = pathlib.Path(os.environ["DOCUMENTS_OUT"])
REJECTED = 65  # dead at once, with what is on standard error
INDEX_WAIT_S = 30


def reject(tool, words):
    print(f"{tool}: {words.strip() or 'failed without a word'}", file=sys.stderr)
    sys.exit(REJECTED)


def run(tool, *arguments):
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, errors="replace")
    if done.returncode < 0:
        sys.exit(1)  # killed: this says nothing about the document
    if done.returncode != 0:
        reject(tool, done.stderr)


def convert(args, work):
    """The text of a PDF. A file that has been replaced meanwhile is dropped: that version has an event of
    its own."""
    copy = work / "document.pdf"
    try:
        shutil.copyfile(args["path"], copy)
    except FileNotFoundError:
        return None
    if copy.stat().st_size != args["size"]:
        return None
    digest = hashlib.sha256(copy.read_bytes()).hexdigest()[:20]
    run("pdftotext", "-enc", "UTF-8", str(copy), str(work / "text"))
    put(copy, OUT / "originals" / f"{digest}.pdf")
    put(work / "text", OUT / "texts" / f"{digest}.txt")
    return {"digest": digest}


def thumbnail(args, work):
    """The first page as a PNG, 160 pixels wide."""
    document = OUT / "originals" / f"{args['digest']}.pdf"
    run("pdftoppm", "-png", "-singlefile", "-scale-to-x", "160", "-scale-to-y", "-1", str(document), str(work / "page"))
    put(work / "page.png", OUT / "thumbnails" / f"{args['digest']}.png")
    return {"thumbnail": f"{args['digest']}.png"}


def index(args, _work):
    """The words of the newest version of each name."""
    text = (OUT / "texts" / f"{args['digest']}.txt").read_text()
    words = sorted(set(text.lower().split()))
    with sqlite3.connect(OUT / "index.sqlite", timeout=INDEX_WAIT_S, isolation_level=None) as books:
        books.execute("BEGIN IMMEDIATE")
        newer = books.execute(
            "SELECT 1 FROM documents WHERE name = ? AND modified_at > ?", (args["name"], args["modified_at"])
        ).fetchone()
        if not newer:
            books.execute("DELETE FROM words WHERE name = ?", (args["name"],))
            books.execute(
                "INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", (args["name"], args["modified_at"], args["digest"])
            )
            books.executemany("INSERT INTO words VALUES (?, ?)", [(word, args["name"]) for word in words])
        books.execute("COMMIT")
    return {"words": len(words)}


def put(source, target):
    """Copies are made beside the target: only a rename within one file system is whole or not at all."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    shutil.copyfile(source, part)
    os.replace(part, target)


def main():
    stage = {"convert": convert, "thumbnail": thumbnail, "index": index}[sys.argv[1]]
    args = json.load(sys.stdin)["args"]
    with tempfile.TemporaryDirectory(prefix="document.") as work:
        said = stage(args, pathlib.Path(work))
    if said is not None:
        print(json.dumps(said))


if __name__ == "__main__":
    main()
