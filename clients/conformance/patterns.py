"""Patterns that answers are compared with, and values that steps refer to."""

from __future__ import annotations

import re
from typing import Any


class Mismatch(Exception):
    """An expectation that was not met."""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "…"


def check(pattern: Any, value: Any, where: str) -> None:
    """Raises Mismatch unless `value` fits the pattern. See README.md."""
    if isinstance(pattern, dict) and len(pattern) == 1 and next(iter(pattern)).startswith("$"):
        [(name, wanted)] = pattern.items()
        if name in _OPERATORS:
            return _OPERATORS[name](wanted, value, where)
    if isinstance(pattern, dict):
        if not isinstance(value, dict):
            raise Mismatch(f"{where}: expected {_short(pattern)}, got {_short(value)}")
        for name, wanted in pattern.items():
            if name not in value and wanted != {"$missing": True}:
                raise Mismatch(f"{where}.{name}: is missing in {_short(value)}")
            check(wanted, value.get(name, MISSING), f"{where}.{name}")
        return
    if isinstance(pattern, list):
        if not isinstance(value, list) or len(value) != len(pattern):
            raise Mismatch(f"{where}: expected {_short(pattern)}, got {_short(value)}")
        for i, (wanted, one) in enumerate(zip(pattern, value)):
            check(wanted, one, f"{where}[{i}]")
        return
    same = pattern == value and isinstance(pattern, bool) == isinstance(value, bool)
    if not same:
        raise Mismatch(f"{where}: expected {_short(pattern)}, got {_short(value)}")


MISSING = object()


def _require(good: bool, wanted: Any, value: Any, where: str) -> None:
    if not good:
        raise Mismatch(f"{where}: expected {_short(wanted)}, got {_short(value)}")


def _missing(wanted: Any, value: Any, where: str) -> None:
    _require(value is MISSING or value is None, "nothing", value, where)


def _compare(wanted: Any, value: Any, where: str, sign: int) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    good = number and (value >= wanted if sign > 0 else value <= wanted)
    _require(good, f"{'at least' if sign > 0 else 'at most'} {wanted}", value, where)


def _contains(wanted: Any, value: Any, where: str) -> None:
    for one in value if isinstance(value, list) else []:
        try:
            return check(wanted, one, where)
        except Mismatch:
            continue
    raise Mismatch(f"{where}: nothing in {_short(value)} fits {_short(wanted)}")


def _exact(wanted: Any, value: Any, where: str) -> None:
    check(wanted, value, where)
    _require(isinstance(value, dict) and set(value) == set(wanted), wanted, value, where)


def _not(wanted: Any, value: Any, where: str) -> None:
    try:
        check(wanted, value, where)
    except Mismatch:
        return
    raise Mismatch(f"{where}: must not be {_short(value)}")


_OPERATORS: dict[str, Any] = {
    "$any": lambda _, value, where: _require(value is not MISSING, "a value", value, where),
    "$gte": lambda wanted, value, where: _compare(wanted, value, where, 1),
    "$lte": lambda wanted, value, where: _compare(wanted, value, where, -1),
    "$match": lambda wanted, value, where: _require(
        isinstance(value, str) and re.search(wanted, value, re.S) is not None, wanted, value, where
    ),
    "$count": lambda wanted, value, where: check(
        wanted, len(value) if isinstance(value, list) else value, f"{where} (count)"
    ),
    "$len": lambda wanted, value, where: check(
        wanted, len(value) if isinstance(value, str) else value, f"{where} (length)"
    ),
    "$contains": _contains,
    "$missing": _missing,
    "$exact": _exact,
    "$not": _not,
}


def look_up(path: str, values: dict[str, Any]) -> Any:
    at: Any = values
    for part in path.split("."):
        at = at[int(part)] if isinstance(at, list) else at[part]
    return at


def fill(value: Any, values: dict[str, Any]) -> Any:
    """Replaces `"$job.id"` and `{job.id}` by what was kept."""
    if isinstance(value, dict):
        return {name: fill(one, values) for name, one in value.items()}
    if isinstance(value, list):
        return [fill(one, values) for one in value]
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"\$[a-z][a-z_0-9]*(\.[a-z_0-9]+)*", value):
        return look_up(value[1:], values)

    def one(found: re.Match[str]) -> str:
        return str(look_up(found.group(1), values))

    return re.sub(r"\{([a-z][a-z_0-9]*(?:\.[a-z_0-9]+)*)\}", one, value)


def expand(value: Any) -> Any:
    """Long texts written short, and ids as the numbers that they are on the wire."""
    if isinstance(value, dict):
        if set(value) == {"$text", "times"}:
            return value["$text"] * value["times"]
        if set(value) == {"$number"}:
            return int(value["$number"])
        return {name: expand(one) for name, one in value.items()}
    if isinstance(value, list):
        return [expand(one) for one in value]
    return value
