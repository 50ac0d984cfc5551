#!/usr/bin/env python3
"""Measures how easy the guides are to read.

  readability.py [ROOT]            check the guides; exit code 1 if a check fails
  readability.py --list [ROOT]     also print every document with its words and reading ease

words       a guide (docs/guides/*.md) has at most 1,200 words, code and tables included
ease        its Flesch reading ease is at least 50: prose only, without code, tables and headings
headings    its headings of the second level are those of HEADINGS, in this order

Flesch reading ease is 206.835 - 1.015 * (words per sentence) - 84.6 * (syllables per word).
100 is very easy, 50 suits a high-school graduate, 30 a university graduate. Inline code counts as
a word, but not towards the syllables.
"""

import pathlib
import re
import sys

MAX_GUIDE_WORDS = 1200
MIN_EASE = 50
HEADINGS = ["What it is for", "Quick start", "Options", "What happens when…", "Limits"]
NOT_GUIDES = {"README.md"}

# Guides that do not keep a rule yet, by rule. A guide that keeps it must leave the list.
EXCUSES = {
    "words": set(),
    "ease": set(),
    "headings": set(),
}

CODE = "`code`"


def prose(text):
    """Sentences of a document: a list of lists of words."""
    text = re.sub(r"^```.*?^```[^\n]*$", "\n\n", text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    lines = []
    for line in text.split("\n"):
        if line.startswith("#") or line.lstrip().startswith("|"):
            line = ""
        lines.append(re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n\n", line))
    text = "\n".join(lines)
    text = re.sub(r"`[^`]+`", CODE, text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"https?://\S+", CODE, text)
    sentences = []
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.!?])[\"')*_]*\s+", paragraph.replace("\n", " ")):
            words = [word for word in re.findall(r"`code`|[\w'’-]+", sentence)
                     if word == CODE or re.search(r"[^\W_]", word)]
            if words:
                sentences.append(words)
    return sentences


def syllables(word):
    """Estimate for an English word; digits count as one syllable."""
    total = 0
    for part in re.split(r"[-'’_]", word.lower()):
        part = re.sub(r"[^a-z]", "", part)
        if not part:
            continue
        count = len(re.findall(r"[aeiouy]+", part))
        if re.search(r"[^aeiouyl]e$|[^aeiouy]l?es$|[^aeioutdy]ed$", part) and not re.search(
                r"(?:s|x|z|ch|sh|c|g|[^aeiouy]l)es$", part):
            count -= 1
        if re.search(r"[aeiouy]le$", part):
            count -= 1
        total += max(count, 1)
    return max(total, 1)


def reading_ease(text):
    sentences = prose(text)
    words = [word for sentence in sentences for word in sentence]
    plain = [word for word in words if word != CODE]
    if not plain:
        return 100.0
    return (206.835 - 1.015 * len(words) / len(sentences)
            - 84.6 * sum(map(syllables, plain)) / len(plain))


def headings(text):
    text = re.sub(r"^```.*?^```[^\n]*$", "", text, flags=re.S | re.M)
    return re.findall(r"^## (.*?)\s*$", text, re.M)


def check_guide(name, text, excuses):
    """What is wrong with a guide."""
    words, ease = len(text.split()), reading_ease(text)
    broken = {
        "words": words > MAX_GUIDE_WORDS and f"{words} words: must be at most {MAX_GUIDE_WORDS}",
        "ease": ease < MIN_EASE and f"reading ease {ease:.0f}: must be at least {MIN_EASE}",
        "headings": headings(text) != HEADINGS
        and f"headings {', '.join(headings(text))}: must be {', '.join(HEADINGS)}",
    }
    wrong = []
    for rule, message in broken.items():
        if message and name not in excuses[rule]:
            wrong.append(f"{name}: {message}")
        if not message and name in excuses[rule]:
            wrong.append(f"{name}: keeps the rule `{rule}` now: remove it from EXCUSES")
    return wrong


def check_canary():
    """The checks can fail."""
    none = {"words": set(), "ease": set(), "headings": set()}
    excused = {rule: {"x.md"} for rule in none}
    good = "# T\n\n" + "".join(f"## {heading}\n\nThe cat sat on the mat.\n\n" for heading in HEADINGS)
    hard = good + "Organizational interoperability necessitates comprehensive documentation.\n" * 9
    cases = [
        (check_guide("x.md", good, none), False),
        (check_guide("x.md", good + "a cat. " * 1200, none), True),
        (check_guide("x.md", hard, none), True),
        (check_guide("x.md", good.replace("## Limits", "## Bounds"), none), True),
        (check_guide("x.md", good, excused), True),
        (check_guide("x.md", good + "```\n## no heading\n" + "interoperability " * 99 + "\n```\n",
                     none), False),
    ]
    wrong = [f"canary {number}: {found}" for number, (found, must_fail) in enumerate(cases)
             if bool(found) != must_fail]
    for word, count in (("cat", 1), ("table", 2), ("makes", 1), ("started", 2), ("boxes", 2),
                        ("lease", 1), ("queue", 1), ("retried", 2), ("tables", 2), ("stopped", 1)):
        if syllables(word) != count:
            wrong.append(f"canary: {word} has {syllables(word)} syllables instead of {count}")
    return wrong


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--list"]
    root = pathlib.Path(arguments[0] if arguments else __file__).resolve()
    if root.is_file():
        root = root.parents[2]
    docs = sorted((root / "docs").rglob("*.md"))
    if "--list" in sys.argv:
        print("words  ease  document")
        for document in [root / "README.md", *docs]:
            text = document.read_text()
            print(f"{len(text.split()):5}  {reading_ease(text):4.0f}  {document.relative_to(root)}")
    guides = [path for path in docs if path.parent.name == "guides" and path.name not in NOT_GUIDES]
    wrong = check_canary()
    for guide in guides:
        wrong += check_guide(guide.name, guide.read_text(), EXCUSES)
    for rule, names in EXCUSES.items():
        wrong += [f"EXCUSES: there is no guide {name} ({rule})"
                  for name in sorted(names - {guide.name for guide in guides})]
    for line in wrong:
        print(f"FAILED {line}")
    total = sum(len(path.read_text().split()) for path in docs if path.name != "cli.md")
    print(f"{len(guides)} guides; {total} words in docs without cli.md; {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
