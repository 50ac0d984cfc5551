#!/usr/bin/env python3
"""Writes src/mainspring/api.py from a server's OpenAPI document.

  generate_types.py FILE            print the module
  generate_types.py --write FILE    write src/mainspring/api.py
FILE is what `curl http://127.0.0.1:8080/openapi.json` prints.
"""

from __future__ import annotations

import json
import keyword
import pathlib
import re
import sys
from typing import Any

TARGET = pathlib.Path(__file__).resolve().parents[1] / "src/mainspring/api.py"
HEAD = '''"""Types of the HTTP API. Made by tools/generate_types.py from /openapi.json: do not edit.

What `Mainspring.get`, `why` and the like return has these shapes. Servers leave out fields that
have nothing to say, and newer ones send more fields.
"""

from __future__ import annotations

from typing import Any, Dict, List, Literal, TypedDict, Union

'''
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
# The only schema whose name a module of Python cannot use for a class of its own.
RENAMED = {"Outcome": "OutcomeFields"}
# What the client sends and receives, and what these refer to. The rest is for administrators.
ROOTS = [
    "NewJob", "EnqueueRequest", "EnqueueResponse", "Job", "JobPage", "Why", "ClaimRequest",
    "ClaimResponse", "FinishRequest", "FinishResponse", "RenewRequest", "RenewResponse",
    "MemoPage", "Queue", "QueueList", "QueueLimits", "AcceptResponse", "Session", "LeaseGrant",
    "NamedLease", "ScheduleRequest", "Schedule", "ScheduleList", "Preview", "Ledger",
    "WorkflowDefinition", "WorkflowStarted", "Workflow", "WorkflowStepList", "Error",
]  # fmt: skip


def name_of(reference: str) -> str:
    name = reference.rpartition("/")[2]
    return RENAMED.get(name, name)


def union(parts: list[str]) -> str:
    unique = list(dict.fromkeys(parts))
    if "Any" in unique:
        return "Any"
    return unique[0] if len(unique) == 1 else f"Union[{', '.join(unique)}]"


class Writer:
    def __init__(self) -> None:
        self.classes: list[str] = []

    def type_of(self, schema: Any, name: str) -> str:
        if not isinstance(schema, dict) or not schema:
            return "Any"
        if "$ref" in schema:
            return f'"{name_of(schema["$ref"])}"'
        if "const" in schema:
            return f"Literal[{schema['const']!r}]"
        if "enum" in schema:
            return f"Literal[{', '.join(json_repr(value) for value in schema['enum'])}]"
        for word in ("oneOf", "anyOf"):
            if word in schema:
                options = enumerate(schema[word])
                return union([self.type_of(one, f"{name}{i or ''}") for i, one in options])
        kind = schema.get("type")
        if kind == "null":
            return "None"
        if isinstance(kind, list):
            return union([self.type_of({**schema, "type": one}, name) for one in kind])
        if kind == "array":
            return f"List[{self.type_of(schema.get('items'), name + 'Item')}]"
        if kind == "object" or "properties" in schema:
            return self.object(schema, name)
        return PLAIN.get(str(kind), "Any")

    def object(self, schema: dict[str, Any], name: str) -> str:
        properties = schema.get("properties")
        if not properties:
            more = schema.get("additionalProperties")
            return f"Dict[str, {self.type_of(more, name + 'Value')}]"
        required = set(schema.get("required", []))
        fields = {
            field: self.type_of(part, name + field.title().replace("_", ""))
            for field, part in properties.items()
        }
        self.classes.append(self.render(name, fields, required))
        return f'"{name}"'

    def render(self, name: str, fields: dict[str, str], required: set[str]) -> str:
        if any(keyword.iskeyword(field) or not field.isidentifier() for field in fields):
            body = "".join(f"        {field!r}: {what},\n" for field, what in fields.items())
            # Names such as "if" and "for" cannot be attributes; all are optional then.
            head = f'{name} = TypedDict(\n    "{name}",\n    {{\n'
            return head + body + "    },\n    total=False,\n)\n"
        must = [(field, what) for field, what in fields.items() if field in required]
        may = [(field, what) for field, what in fields.items() if field not in required]
        base = "TypedDict"
        out = ""
        if must and may:
            base = f"_{name}"
            out += f"class {base}(TypedDict):\n" + lines(must) + "\n\n"
        ends = ", total=False" if may else ""
        return out + f"class {name}({base}{ends}):\n" + lines(may or must)


def json_repr(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def lines(fields: list[tuple[str, str]]) -> str:
    return "".join(wrapped(f"    {field}: {what}\n") for field, what in fields)


def wrapped(line: str) -> str:
    """A long list of texts, one on a line."""
    if len(line) <= 100 or "Literal[" not in line:
        return line
    head, _, rest = line.partition("Literal[")
    values, _, tail = rest.partition("]")
    indent = " " * (len(line) - len(line.lstrip()))
    inner = "".join(f"{indent}    {value},\n" for value in values.split(", "))
    return f"{head}Literal[\n{inner}{indent}]{tail}"


def needed(schemas: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += re.findall(r"#/components/schemas/(\w+)", json.dumps(schemas[name]))
    return found


def module(document: dict[str, Any]) -> str:
    writer = Writer()
    aliases = []
    schemas = document["components"]["schemas"]
    wanted = needed(schemas)
    for schema_name, schema in schemas.items():
        if schema_name not in wanted:
            continue
        name = RENAMED.get(schema_name, schema_name)
        kind = schema.get("type")
        if isinstance(kind, list) and "object" in kind:  # null is said where it is used
            schema = {**schema, "type": "object"}
        before = len(writer.classes)
        what = writer.type_of(schema, name)
        if len(writer.classes) == before or what != f'"{name}"':
            aliases.append(wrapped(f"{name} = {what}\n"))
    parts = [*writer.classes, "".join(aliases)]
    return HEAD + "\n" + "\n\n".join(parts)


def main() -> int:
    arguments = sys.argv[1:]
    write = "--write" in arguments
    files = [one for one in arguments if not one.startswith("--")]
    if len(files) != 1:
        print(__doc__, file=sys.stderr)
        return 64
    text = module(json.loads(pathlib.Path(files[0]).read_text()))
    if write:
        TARGET.write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
