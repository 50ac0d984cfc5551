#!/usr/bin/env python3
"""Checks documents against the source tree.

  documents_test.py [ROOT]    exit code 1 if a check fails

modules    docs/internals/floors.md has every folder of src/, with its floor in tidy.cc.
           docs/internals/route.md has a row for every folder.
           Files that route.md names exist.
records    docs/decisions/NNNN-topic.md has a title with its number, **Context.**, **Decision.** and
           **Consequences.** in this order, and at most 200 words. README.md lists it.
seeds      docs/internals/seeds.md names tests that exist.
libraries  every package that CMakeLists.txt looks for is named in the record of libraries.
"""

import pathlib
import re
import sys

MAX_RECORD_WORDS = 200
PARTS = ["**Context.**", "**Decision.**", "**Consequences.**"]


def check_record(name, text):
    """What is wrong with a decision record."""
    match = re.fullmatch(r"(\d{4})-[a-z][a-z-]*\.md", name)
    if not match:
        return [f"{name}: the name must be NNNN-topic.md"]
    wrong = []
    if not re.match(rf"# {int(match.group(1))}\. \S", text):
        wrong.append(f"{name}: must start with `# {int(match.group(1))}. TITLE`")
    places = [text.find(part) for part in PARTS]
    if -1 in places or places != sorted(places):
        wrong.append(f"{name}: must have {', '.join(PARTS)} in this order")
    if (words := len(text.split())) > MAX_RECORD_WORDS:
        wrong.append(f"{name}: {words} words: must be at most {MAX_RECORD_WORDS}")
    return wrong


def check_records(root):
    folder = root / "docs/decisions"
    listed = (folder / "README.md").read_text()
    wrong, numbers = [], set()
    for record in sorted(folder.glob("*.md")):
        if record.name == "README.md":
            continue
        wrong += check_record(record.name, record.read_text())
        if f"({record.name})" not in listed:
            wrong.append(f"docs/decisions/README.md: does not list {record.name}")
        if record.name[:4] in numbers:
            wrong.append(f"{record.name}: another record has this number")
        numbers.add(record.name[:4])
    return wrong


def modules_of(root):
    return sorted(path.name for path in (root / "src").iterdir()
                  if path.is_dir() and any(path.glob("*.h")))


def floors_of_checker(root):
    table = re.search(r"kFloors = \{(.*?)\};", (root / "tests/tidy/tidy.cc").read_text(), re.S)
    return {name: int(floor) for name, floor in re.findall(r'\{"(\w+)", *(\d+)\}', table.group(1))}


def check_floors(modules, floors, text):
    wrong = []
    found = re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.M)
    rows = [(name, int(floor)) for floor, name in found]
    for module in modules:
        if module not in floors:
            wrong.append(f"tests/tidy/tidy.cc: kFloors has no {module}")
        if module not in dict(rows):
            wrong.append(f"docs/internals/floors.md: has no row for {module}")
    for name, floor in rows:
        if floors.get(name) != floor:
            wrong.append(f"docs/internals/floors.md: {name} is on floor {floor}, but on "
                         f"{floors.get(name)} in tests/tidy/tidy.cc")
    return wrong


def check_rows(modules, where, text):
    return [f"{where}: has no row for {module}" for module in modules
            if f"\n| `{module}` | " not in text]


def check_route(root, text):
    wrong = []
    for path in re.findall(r"`((?:src|include|tests|packaging|docs|sql)/[\w./]*)`", text):
        if not (root / path).exists():
            wrong.append(f"docs/internals/route.md: {path} does not exist")
    for module, files in re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.M):
        for file in re.findall(r"`([\w.]+)`", files):
            if not (root / "src" / module / file).exists():
                wrong.append(f"docs/internals/route.md: src/{module}/{file} does not exist")
    return wrong


def check_modules(root):
    modules = modules_of(root)
    floors, route = ((root / "docs/internals" / name).read_text()
                     for name in ("floors.md", "route.md"))
    return (check_floors(modules, floors_of_checker(root), floors)
            + check_rows(modules, "docs/internals/route.md", route)
            + check_route(root, route))


def check_requirement(row, read):
    """What is wrong with a row of requirements: "| P1 | a requirement | `file`: name of the test |"."""
    match = re.fullmatch(r"\| \w+ \| [^|]+ \| (?:none yet|`([\w./]+)`(?:: (.+))?) \|", row)
    if not match:
        return [f"docs/internals/seeds.md: not a row: {row}"]
    file, test = match.groups()
    text = read(file) if file else ""
    if text is None:
        return [f"docs/internals/seeds.md: {file} does not exist"]
    if test and test not in re.sub(r'"\s*"', "", text):  # a name may be split over lines
        return [f"docs/internals/seeds.md: {file} has no test {test}"]
    return []


def check_requirements(root):
    def read(file):
        return (root / file).read_text() if (root / file).exists() else None

    rows = re.findall(r"^\| \w+ \|.*$", (root / "docs/internals/seeds.md").read_text(), re.M)
    return [problem for row in rows for problem in check_requirement(row, read)]


def check_libraries(root):
    records = list((root / "docs/decisions").glob("*-libraries.md"))
    if len(records) != 1:
        return ["docs/decisions: must have one NNNN-libraries.md"]
    text = records[0].read_text().lower()
    packages = re.findall(r"find_package\((\w+?)\d*[ )]", (root / "CMakeLists.txt").read_text())
    return [f"{records[0].name}: has no line for {package}" for package in packages
            if package != "Threads" and package.lower() not in text]


def check_canary():
    """The checks can fail."""
    good = "# 7. A title\n\n**Context.** a\n**Decision.** b\n**Consequences.** c\n"
    cases = [
        (check_record("0007-a-topic.md", good), False),
        (check_record("0007-a-topic.md", good + "z " * 200), True),
        (check_record("0008-a-topic.md", good), True),
        (check_record("7-topic.md", good), True),
        (check_record("0007-a-topic.md", good.replace("**Context.**", "")), True),
        (check_floors(["base"], {"base": 0}, "| 0 | `base` | x |"), False),
        (check_floors(["base"], {"base": 0}, "| 1 | `base` | x |"), True),
        (check_floors(["base", "env"], {"base": 0, "env": 1}, "| 0 | `base` | x |"), True),
        (check_rows(["base"], "page", "x\n| `base` | y |"), False),
        (check_rows(["base"], "page", "x\n| `bas` | y |"), True),
        (check_requirement("| P1 | a | `t.cc`: one two |", {"t.cc": '"one "\n "two"'}.get), False),
        (check_requirement("| P1 | a | `t.cc`: one three |", {"t.cc": '"one "\n "two"'}.get), True),
        (check_requirement("| P1 | a | `u.cc` |", {"t.cc": ""}.get), True),
        (check_requirement("| P1 | a | none yet |", {}.get), False),
    ]
    return [f"canary {number}: {wrong}" for number, (wrong, must_fail) in enumerate(cases)
            if bool(wrong) != must_fail]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    if root.is_file():
        root = root.parents[2]
    wrong = check_canary() + check_records(root) + check_modules(root) + check_libraries(root)
    wrong += check_requirements(root)
    for line in wrong:
        print(f"FAILED {line}")
    print(f"{len(modules_of(root))} modules, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
