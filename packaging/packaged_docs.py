#!/usr/bin/env python3
"""Copies pages of docs into one directory, with links that work there. Usage: packaged_docs.py TO PAGE…

A link to another of the pages names its file, one to packaging/ leads to examples/. Of other links the text remains.
"""
import pathlib
import posixpath
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")
EXAMPLES = ("prometheus", "grafana", "nginx", "caddy", "haproxy")


def rewritten(page, pages):
    """The text of `page`, a path below ROOT."""

    def link(found):
        text, target, anchor = found[1], found[2], found[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if path in pages:
            return f"[{text}]({posixpath.basename(path)}{anchor})"
        parts = path.split("/")
        if parts[0] == "packaging" and parts[1] in EXAMPLES:
            return f"[{text}]({'/'.join(['examples'] + parts[1:])})"
        return text

    return LINK.sub(link, (ROOT / page).read_text())


def main():
    to, *pages = sys.argv[1:]
    for page in pages:
        (pathlib.Path(to) / posixpath.basename(page)).write_text(rewritten(page, pages))


if __name__ == "__main__":
    main()
