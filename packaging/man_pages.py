#!/usr/bin/env python3
"""Splits the man page of all commands into one page per command group. Usage: man_pages.py MAINSPRING.1 DIRECTORY

mainspring(1) keeps the description, the flags of every command, the exit codes, the settings and a list of the other
pages. mainspring-jobs(1) has `mainspring jobs list` and the other commands of that group.
"""
import pathlib
import re
import sys

source, directory = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
text = source.read_text()
version = re.search(r'^\.TH MAINSPRING 1 "" "(.*?)"', text, re.M)[1]
before, rest = text.split(".SH COMMANDS\n", 1)
commands, after = rest.split(".SH FLAGS OF EVERY COMMAND\n", 1)

groups = {}  # "jobs": the sections of its commands
for section in re.split(r"^(?=\.SS )", commands, flags=re.M):
    if not section.strip():
        continue
    group = re.match(r"\.SS mainspring ([a-z\\-]+)", section)[1].replace("\\-", "-")
    groups.setdefault(group, []).append(section)


def summary(section):
    """The first sentence of a command's description."""
    line = section.split("\n")[1]
    return re.match(r".*?(?:\.(?= |$)|$)", line)[0].rstrip(".")


directory.mkdir(parents=True, exist_ok=True)
listing = ""
for group, sections in groups.items():
    page = f"mainspring-{group}"
    escaped = page.replace("-", "\\-")
    words = [re.match(r"\.SS mainspring ((?:[a-z\\-]+ ?)+)", section)[1].strip() for section in sections]
    synopsis = ".br\n".join(re.sub(r"\.SS (mainspring (?:[a-z\\-]+ ?)+)(.*)", r".B \1\n\2", one.split("\n")[0]) + "\n" for one in sections)
    about = summary(sections[0]) if len(sections) == 1 else ", ".join(f"{word}" for word in words)
    (directory / f"{page}.1").write_text(
        f'.\\" Made by packaging/man_pages.py from the output of `mainspring man`.\n'
        f'.TH {page.upper()} 1 "" "{version}" "User Commands"\n.nh\n.ad l\n'
        f".SH NAME\n{escaped} \\- {about[0].lower() + about[1:]}\n"
        f".SH SYNOPSIS\n{synopsis}.SH COMMANDS\n{''.join(sections)}"
        f".SH SEE ALSO\n.BR mainspring (1)\nfor flags of every command, exit codes and settings\n"
    )
    listing += f".SS {escaped}(1)\n"
    for word, section in zip(words, sections):
        listing += f".TP\n.B mainspring {word}\n{summary(section)}.\n"
(directory / "mainspring.1").write_text(before + ".SH COMMANDS\n" + listing + ".SH FLAGS OF EVERY COMMAND\n" + after)
