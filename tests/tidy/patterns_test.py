#!/usr/bin/env python3
"""Checks that every test that a mutant names exists.

  patterns_test.py [ROOT]          exit code 1 if a pattern matches no test

A renamed test case silently disables the mutants that it should catch: doctest runs no test and
passes. Therefore each pattern of tests/simulation/mutants_test.cc, each `-tc=` and each
`--test-suite=` must match a test case, suite or scenario of the tree.
"""

import pathlib
import re
import sys

STRING = r'"((?:\\.|[^"\\])*)"'
CASE = re.compile(r"\bTEST_CASE(?:_FIXTURE|_TEMPLATE)?\s*\(\s*(?:\w+\s*,\s*)?((?:" + STRING
                  + r"\s*)+)")
SUITE = re.compile(r"\bTEST_SUITE\s*\(\s*" + STRING)
OPTION = re.compile(r"(-tc|--test-case|-ts|--test-suite)=(?:'([^'{}\n]+)'|([^\s'\"(){}]+))")
UNIT = re.compile(r"\bunit\(\s*\"\w+\",\s*((?:" + STRING + r"\s*)+)\)")
SCENARIO = re.compile(r"\bscenario\(" + STRING + r"\)")
# Functions of mutant_programs.h and of mutants_test.cc that take a pattern of test cases.
HELPERS = re.compile(r"(?:string (\w+)|(\w+) = \[\])\(const std::string& test_case")


def joined(literals):
    text = "".join(re.findall(STRING, literals) if '"' in literals else [literals])
    return text.replace('\\"', '"').replace("\\\\", "\\")


def matches(pattern, names):
    """As doctest: `*` any text, `?` one character, case does not matter."""
    regex = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern)
    return any(re.fullmatch(regex, name, re.I | re.S) for name in names)


def names_of(root, expression):
    """The names of all tests below src and tests."""
    return {joined(match.group(1)) for folder in ("src", "tests")
            for path in (root / folder).rglob("*.cc")
            for match in expression.finditer(path.read_text())}


def patterns(root):
    """(file, kind, pattern) of each use of a test's name."""
    used = []
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix not in (".cc", ".h", ".txt", ".sh") or not path.is_file():
            continue
        text = re.sub(r'"\s*\n\s*"', "", path.read_text(errors="replace"))  # one literal of two
        for option, quoted, bare in OPTION.findall(text):
            kind = "suite" if option in ("-ts", "--test-suite") else "case"
            used += [(path, kind, part) for part in (quoted or bare).split(",")]
    mutants = root / "tests/simulation/mutants_test.cc"
    texts = [mutants.read_text(), (mutants.parent / "mutant_programs.h").read_text()]
    helpers = {name for text in texts for pair in HELPERS.findall(text) for name in pair if name}
    calls = re.compile(rf"\b(?:{'|'.join(sorted(helpers))})\(\s*((?:{STRING}\s*)+)\)")
    for expression, kind in ((calls, "case"), (UNIT, "case"), (SCENARIO, "scenario")):
        used += [(mutants, kind, joined(match.group(1))) for match in expression.finditer(texts[0])]
    return used


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    names = {"case": names_of(root, CASE), "suite": names_of(root, SUITE),
             "scenario": {path.stem for path in (root / "tests/scenarios").glob("*.test")}}
    used = patterns(root)
    wrong = [f"{path.relative_to(root)}: no test {kind} is named {pattern!r}"
             for path, kind, pattern in used if not matches(pattern, names[kind])]
    if matches("no test has this name*", names["case"]) or len(used) < 200:
        wrong.append(f"the check itself: {len(used)} patterns found")
    for line in wrong:
        print(f"FAILED {line}")
    print(f"{len(used)} patterns, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
