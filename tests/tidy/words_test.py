#!/usr/bin/env python3
"""Checks the words of everything that people read.

  words_test.py [ROOT]             exit code 1 if a check fails
  words_test.py --list [ROOT]      print every place where a word of the list occurs
  words_test.py --write [ROOT]     write words_excused.txt again from the files that still need it

Checked are README.md and docs/**/*.md as a whole, and comments and string literals of the program,
the public headers, examples, SQL, the clients, the dashboard and tests/. Code blocks of documents
and names in `backquotes` are left out, and `nobody` where it is the name of the Unix user.

tests/tidy/words_excused.txt lists files that still have such words. A file without any must leave
the list, and no file may be added: write the word that the message names instead.
"""

import pathlib
import re
import sys

WORDS = [  # what must not occur, what to write instead
    (r"anew", "again, from scratch"),
    (r"(?<!left )(?<!fall )(?<!falls )(?<!falling )(?<!lag )(?<!lags )(?<!processes )behind(?! (?:a|the|another|some|any) (?:reverse |TLS )?prox)", "after"),
    (r"stands?(?! ?-?by| still| alone| for)", "is, is stored, follows, means"),
    (r"stood(?! still)", "was, was stored"),
    (r"go(?:es|ing)? on|went on", "continue"),
    (r"mend(?:s|ed|ing)?", "fix, repair"),
    (r"whoever|whomever|somebody|someone else's|of whom|whose job it is"
     r"|(?<!runs as )(?<!I am )(?<!file of )(?<!passwd )(?<!nobody )(?<!/)"
     r"(?:(?<![\"'])nobody|nobody(?![\"'\\]))",  # not the Unix user
     "the caller, another node, no worker"),
    (r"begun", "started"),
    (r"let go", "released"),
    (r"taken up|takes up", "loaded, detected"),
    (r"is told|are told|was told|were told|tells(?! apart)", "receives, reports, returns"),
    (r"by turns|in turn", "alternately, one after another"),
    (r"reckon\w*", "measure, count, compute"),
    (r"in earnest|moods?|manners?", "drop the metaphor"),
    (r"so many|so much|as many as", "up to N, the limit, how many"),
    (r"what there is|what is left|what came of|what becomes? of|what became of",
     "the outcome, the remainder"),
    (r"put aside|puts aside", "defer"),
    (r"set apart|sets apart", "quarantine"),
    (r"in good order", "cleanly, properly"),
    (r"sign of life|signs of life", "renewal, activity"),
    (r"doorm[ae]n", "authenticator"),
    (r"neighbours?", "peers, other files"),
    (r"twins?", "standby"),
    (r"in hand", "loaded"),
    (r"seeded defects?", "mutant"),
    (r"for ever|now and then|all the same|ever so", "forever, sometimes, still"),
]
BAD = [(re.compile(rf"\b(?:{pattern})\b", re.I), instead) for pattern, instead in WORDS]

SOURCES = {
    "src": (".cc", ".h", ".py", ".sh"), "include": (".h", ".def"), "examples": (".cc", ".h", ".py", ".sh"),
    "sql": (".sql",), "clients": (".py", ".ts", ".md"), "web/src": (".ts", ".tsx"),
    "packaging": (".sh",), "benchmarks": (".py", ".cc", ".h", ".sh"),
    "tests": (".cc", ".h", ".py", ".sh", ".ts", ".mjs", ".test"),
}
SKIPPED = re.compile(r"node_modules|/dist/|/build/|schema\.ts$|licences\.md$|docs/reference/cli\.md$"
                     r"|^/tests/.*/corpus/|^/tests/tidy/words_test\.py$")
EXCUSED = "tests/tidy/words_excused.txt"


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def prose_of_document(text):
    text = re.sub(r"^```.*?^```", blank, text, flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`|\]\([^)\n]*\)", blank, text)


CPP = re.compile(r"""(?P<keep>//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\2"|"(?:\\.|[^"\\\n])*")"""
                 r"|\b\d[\d']*|'(?:\\.|[^'\\\n])+'", re.S)  # 10'000 is not a character
PYTHON = re.compile(r'''(?P<keep>\#[^\n]*|""".*?"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')''', re.S)
SQL = re.compile(r"(?P<keep>--[^\n]*|'(?:[^'])*')", re.S)
SCRIPT = re.compile(r"(?P<keep>(?:^|\s)\#[^\n]*|//[^\n]*|/\*.*?\*/|`[^`]*`"
                    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')", re.S)
LANGUAGES = {".cc": CPP, ".h": CPP, ".def": CPP, ".py": PYTHON, ".sql": SQL, ".sh": SCRIPT,
             ".ts": SCRIPT, ".tsx": SCRIPT, ".mjs": SCRIPT, ".test": SCRIPT}


def prose_of_source(text, suffix):
    """Comments and string literals at their places; everything else as blanks."""
    out, at = [], 0
    for match in LANGUAGES[suffix].finditer(text):
        out.append(re.sub(r"[^\n]", " ", text[at:match.start()]))
        out.append(match.group() if match.group("keep") else blank(match))
        at = match.end()
    out.append(re.sub(r"[^\n]", " ", text[at:]))
    prose = "".join(out)
    return prose if suffix in (".ts", ".mjs") else re.sub(r"`[^`\n]*`", blank, prose)


def hits(text, suffix):
    """(line number, word, what to write) of each word of the list."""
    prose = prose_of_document(text) if suffix == ".md" else prose_of_source(text, suffix)
    prose = re.sub(r"[^\S\n]+", " ", prose)  # code is long runs of blanks
    found = []
    for pattern, instead in BAD:  # the whole text at once: most files have none
        found += [(prose.count("\n", 0, match.start()) + 1, match.group(), instead)
                  for match in pattern.finditer(prose)]
    return sorted(found)


def files(root):
    found = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    for folder, suffixes in SOURCES.items():
        found += sorted(path for path in (root / folder).rglob("*") if path.suffix in suffixes)
    return [path for path in found if path.is_file()
            and not SKIPPED.search("/" + str(path.relative_to(root)))]


def check_canary():
    """The checks can fail."""
    cases = [
        ("The job begins anew.\n", ".md", 1),
        ("The job `begins anew` again.\n\n```\nanew\n```\n", ".md", 0),
        ("int anew = 1;  // starts again\n", ".cc", 0),
        ("// starts anew\nlog(\"nobody is there\");\n", ".cc", 2),
        ("run_as(\"nobody\");  // nobody else\n", ".cc", 1),
        ("# goes on\nwhoever = 'x'\n", ".py", 1),
        ("SELECT 1 -- tells it\n", ".sql", 1),
        ("run_as(\"nobody\");  // runs as nobody, waits for nobody\n", ".cc", 1),
        ("It runs behind a proxy.\n", ".md", 0),
        ("It runs behind the other.\n", ".md", 1),
        ("It stands for a name. It falls behind, and is left behind.\n", ".md", 0),
        ("The server stood still, the standby waits.\n", ".md", 0),
    ]
    return [f"canary {text!r}: {hits(text, suffix)}" for text, suffix, count in cases
            if len(hits(text, suffix)) != count]


def main():
    options = [argument for argument in sys.argv[1:] if argument.startswith("--")]
    places = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    root = pathlib.Path(places[0] if places else __file__).resolve()
    if root.is_file():
        root = root.parents[2]
    list_file = root / EXCUSED
    excused = set(list_file.read_text().split()) if list_file.exists() else set()
    wrong, needed, total = check_canary(), set(), 0
    for path in files(root):
        name = str(path.relative_to(root))
        found = hits(path.read_text(), path.suffix)
        total += len(found)
        if found:
            needed.add(name)
        for number, word, instead in found:
            if "--list" in options:
                print(f"{name}:{number}: {word} → {instead}")
            if name not in excused:
                wrong.append(f"{name}:{number}: \"{word}\": write: {instead}")
    if "--write" in options:
        list_file.write_text("".join(f"{name}\n" for name in sorted(needed)))
        return 0
    wrong += [f"{name}: has none of the words: remove it from {EXCUSED}"
              for name in sorted(excused - needed)]
    for line in wrong:
        print(f"FAILED {line}")
    print(f"{len(needed)} files with {total} words of the list, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
