#!/usr/bin/env python3
"""Writes docs/images/first_minute.svg: what a terminal shows in the first minute, from a real session.

Usage: packaging/first_minute.py PROGRAM [OUTPUT]
"""

import html
import os
import pathlib
import subprocess
import sys
import tempfile

COMMANDS = [
    "mainspring enqueue hello greet '{\"name\":\"you\"}'",
    "mainspring enqueue hello greet --delay 1h",
    "mainspring work --queue hello --exec 'sh -c \"echo hello from job $MAINSPRING_JOB_ID\"' --drain",
    "mainspring jobs show 1",
    "mainspring why 2",
]
WIDTH, LINE, COLUMN = 110, 18, 7.8


def session(program):
    """Pairs of a command and the lines that it prints."""
    with tempfile.TemporaryDirectory() as directory:
        data = ["--data", f"{directory}/store"]
        server = subprocess.Popen(
            [program, "serve", *data, "--listen", "127.0.0.1:0", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            url = next(
                word.strip('",{}')
                for line in server.stdout
                for word in [line[line.find("http://") :].split('"')[0]]
                if "http://" in line
            )
            path = f"{pathlib.Path(program).resolve().parent}:{os.environ['PATH']}"
            env = {**os.environ, "MAINSPRING_SERVER": url, "PATH": path, "NO_COLOR": "1"}
            for command in COMMANDS:
                done = subprocess.run(
                    command, shell=True, env=env, text=True, check=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                )  # fmt: skip
                yield command, done.stdout.rstrip("\n").split("\n")
        finally:
            server.terminate()
            server.wait()


def picture(lines):
    height = LINE * len(lines) + 24
    width = int(WIDTH * COLUMN) + 24
    rows = []
    for number, (text, kind) in enumerate(lines, 1):
        shown = text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
        fill = "#7ee787" if kind == "command" else "#e6edf3"
        rows.append(
            f'<text x="12" y="{number * LINE + 8}" fill="{fill}" xml:space="preserve">'
            f"{html.escape(shown)}</text>"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        ' font-family="ui-monospace,DejaVu Sans Mono,monospace" font-size="13">'
        '<rect width="100%" height="100%" rx="6" fill="#0d1117"/>\n' + "\n".join(rows) + "\n</svg>\n"
    )


if __name__ == "__main__":
    program = sys.argv[1]
    root = pathlib.Path(__file__).resolve().parent.parent
    output = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else root / "docs/images/first_minute.svg"
    lines = []
    for command, printed in session(program):
        lines.append((f"$ {command}", "command"))
        lines += [(line.expandtabs(), "output") for line in printed]
    output.write_text(picture(lines))
