"""sql/queries/*.sql: the generator reports bad files, and each statement is used and written once.

    python3 queries_test.py ROOT [CMAKE]
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
CMAKE = sys.argv[2] if len(sys.argv) > 2 else "cmake"


def generate(text):
    """Returns the header and the messages of the generator for one file `jobs.sql`."""
    with tempfile.TemporaryDirectory() as directory:
        source, header = pathlib.Path(directory, "jobs.sql"), pathlib.Path(directory, "out.h")
        source.write_text(text)
        run = subprocess.run(
            [CMAKE, f"-DHEADER={header}", f"-DFILES={source}", "-P", ROOT / "cmake/queries.cmake"],
            capture_output=True, text=True, check=False)
        # CMake wraps its messages.
        messages = " ".join(run.stderr.split())
        if run.returncode == 0:
            return header.read_text(), messages
        return None, messages


def check_generator():
    header, messages = generate(
        "-- About a.\n-- name: a\nSELECT '[;\\' || x\n  -- why\n  FROM t\n WHERE y = ?;\n"
        "-- postgres: SELECT other\n-- postgres:   FROM t;\n\n-- name: b\nDELETE FROM t;\n")
    assert header is not None, messages
    assert "namespace mainspring::queries::jobs {" in header, header
    assert ('Query a{"jobs.a",\n    R"sql(SELECT \'[;\\\' || x FROM t WHERE y = ?)sql",\n'
            '    R"sql(SELECT other FROM t)sql"};') in header, header
    assert 'Query b{"jobs.b",\n    R"sql(DELETE FROM t)sql",\n    nullptr};' in header, header
    header, messages = generate(
        "-- part: c\na,\n  b;\n-- name: x\nSELECT {c} FROM t;\n-- postgres: SELECT 1, {c};\n")
    assert header is not None, messages
    assert ('Query x{"jobs.x",\n    R"sql(SELECT a, b FROM t)sql",\n'
            '    R"sql(SELECT 1, a, b)sql"};') in header, header
    assert "Query c" not in header, header
    for text, message in [
            ("-- name: a\nSELECT {b};\n-- part: b\nx;\n", "statement a: no part {b} before it"),
            ("-- part: a\nx;\n-- name: a\nSELECT 2;\n", "name a: used twice in this file"),
            ("-- part: a\nx;\n-- postgres: y;\n", "postgres: must follow a complete statement"),
            ("-- name: a\nSELECT 1;\n-- name: a\nSELECT 2;\n", "name a: used twice in this file"),
            ("SELECT 1;\n", "statement without a `-- name:` line"),
            ("-- name: a\nSELECT 1;\nSELECT 2;\n", "statement without a `-- name:` line"),
            ("-- name: a\nSELECT 1\n-- name: b\nSELECT 2;\n", "statement a: no ; at its end"),
            ("-- name: a\nSELECT 1\n", "statement a: no ; at its end"),
            ("-- name: a\n;\n", "statement a: empty"),
            ("-- name: A b\nSELECT 1;\n", "name 'A b': must be lower case"),
            ("-- postgres: SELECT 1;\n", "postgres: must follow a complete statement"),
            ("-- name: a\nSELECT 1;\n-- postgres: SELECT\n", "no ; at the end of its form for"),
    ]:
        header, messages = generate(text)
        assert header is None and message in messages, (text, messages)


def check_names():
    uses = set()
    for pattern in ("*.cc", "*.h"):
        for path in (ROOT / "src").rglob(pattern):
            uses.update(re.findall(r"queries::(\w+::\w+)", path.read_text()))
    problems, texts = [], {}
    for path in sorted((ROOT / "sql/queries").glob("*.sql")):
        for part in re.split(r"^-- (?=name:|part:)", path.read_text(), flags=re.M)[1:]:
            kind, name, rest = re.match(r"(name|part):(.*)\n([^;]*)", part).groups()
            used = uses if kind == "name" else {
                f"{path.stem}::{of}" for of in re.findall(r"{(\w+)}", path.read_text())}
            name = f"{path.stem}::{name.strip()}"
            if name not in used:
                problems.append(f"{path.name}: queries::{name}: no use; delete the {kind}")
            lines = [line for line in rest.splitlines() if not line.strip().startswith("--")]
            text = " ".join(" ".join(lines).split())
            if text in texts:
                problems.append(f"{path.name}: queries::{name}: same text as queries::{texts[text]}")
            texts[text] = name
    assert not problems, "\n".join(problems)


check_generator()
check_names()
