"""Converts durations, instants and JSON to their form in requests."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from typing import Any, Callable, Mapping, TypeVar, Union

from .errors import InvalidArgument

Duration = Union[str, float, int, dt.timedelta]
"""`"30s"`, `"1h30m"`, a number of seconds, or a `timedelta`."""

T = TypeVar("T")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d)")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:us|ms|s|m|h|d))+")
MAX_PAYLOAD = 1024 * 1024  # of args and of a result
MAX_CHECKPOINT = 256 * 1024
MAX_MESSAGE = 64 * 1024  # of a message and of a step's result


def is_count(value: object) -> bool:
    """Whether the value is a whole number from 0 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def check_list(value: object, field: str) -> None:
    """Refuses a text where names are expected: its letters would be taken as names."""
    if isinstance(value, str):
        raise InvalidArgument(f'{field} "{value}": must be a list', field=field)


def from_keywords(kind: Callable[..., T], options: Mapping[str, Any]) -> T:
    """An options object. A mistyped name is refused, with the name that was probably meant."""
    try:
        return kind(**options)
    except TypeError:
        import difflib
        import inspect

        known = inspect.signature(kind).parameters
        for name in options.keys() - known.keys():
            near = difflib.get_close_matches(name, known, 1)
            rule = f'did you mean "{near[0]}"?' if near else f"must be one of {', '.join(known)}"
            text = f'option "{name}": is unknown; {rule}'
            raise InvalidArgument(text, field=name) from None
        raise


def seconds(value: Duration, field: str = "duration") -> float:
    """The number of seconds of a duration."""
    if isinstance(value, bool):
        raise InvalidArgument(f"{field} {value}: must be a duration such as \"30s\"", field=field)
    if isinstance(value, dt.timedelta):
        value = value.total_seconds()
    if isinstance(value, (int, float)):
        if not math.isfinite(value) or value < 0:
            raise InvalidArgument(f"{field} {value}: must be 0 or more seconds", field=field)
        return float(value)
    if not isinstance(value, str) or not _WHOLE.fullmatch(value):
        raise InvalidArgument(
            f'{field} "{value}": must be a duration such as "250ms", "30s" or "1h30m"', field=field
        )
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))


def duration(value: Duration, field: str = "duration") -> str:
    """A duration as text for the server, exact to the microsecond."""
    if isinstance(value, str):
        seconds(value, field)
        return value
    us = round(seconds(value, field) * 1e6)
    for unit, size in (("s", 1_000_000), ("ms", 1000)):
        if us % size == 0:
            return f"{us // size}{unit}"
    return f"{us}us"


def instant(value: str | dt.datetime, field: str = "run_at") -> str:
    """An instant as RFC 3339 in UTC."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        raise InvalidArgument(
            f"{field} {value!r}: must be a datetime with a time zone, such as"
            " datetime.now(timezone.utc)",
            field=field,
        )
    return value.astimezone(dt.timezone.utc).isoformat().replace("+00:00", "Z")


def _hint(value: object) -> str:
    if isinstance(value, dt.timedelta):
        return ": annotate it with timedelta, or send .total_seconds()"
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return f": annotate it with {type(value).__name__}, or send .isoformat()"
    if isinstance(value, (bytes, bytearray)):
        return ": annotate it with bytes, or send base64"
    if isinstance(value, (set, frozenset)):
        return ": annotate it with set, or send a list"
    names = {kind.__name__ for kind in type(value).__mro__}
    convertible = names & {"Enum", "Decimal", "UUID", "PurePath", "BaseModel"}
    if convertible or hasattr(type(value), "__dataclass_fields__"):
        return ": annotate the parameter or the result with its type"
    return ""


def _key_text(key: object) -> str | None:
    """The text that JSON has for a key. None: such a key cannot be."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    return None


_MAX_DEPTH = 500
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,60}\Z")


def _inner(path: str, key: object) -> str:
    text = str(key)
    plain = not isinstance(key, int) and _PLAIN_NAME.match(text) is not None
    return f"{path}.{text}" if plain else f"{path}[{key!r:.60}]"


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_HARMLESS = frozenset((str, float, bool, type(None)))  # `json` and UTF-8 have checked them


def _is_whole(value: Any) -> bool:
    """Whether other languages can read the value. Looks only for what `json` lets pass."""
    left = [value]
    while left:
        one = left.pop()
        if type(one) in _HARMLESS:
            continue
        if isinstance(one, dict):
            if not all(type(key) is str for key in one):
                texts = [_key_text(key) for key in one]
                if len(set(texts)) < len(texts):
                    return False
            left.extend(one.values())
        elif isinstance(one, (list, tuple)):
            left.extend(one)
        elif isinstance(one, int) and one.bit_length() > 1023 and _fault_of(one):
            return False
    return True


def _fault_of(value: object) -> str:
    """What is wrong with a value that has no others in it."""
    if isinstance(value, str):
        return "has a lone surrogate" if _has_surrogate(value) else ""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{value} is not a number of JSON"
    if isinstance(value, int):
        try:
            float(value)
        except OverflowError:
            return "is beyond the range of a 64-bit floating-point number"
        return ""
    return "" if value is None else f"{type(value).__name__} is not JSON{_hint(value)}"


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _explain(value: Any, path: str) -> tuple[str, str]:
    """Where a value has what is not JSON, and what it is."""
    left = [(value, path, 0)]
    while left:
        one, where, depth = left.pop()
        if depth > _MAX_DEPTH:
            return path, f"has more than {_MAX_DEPTH} levels, or contains itself"
        if isinstance(one, dict):
            seen: set[str] = set()
            inner = []
            for key, item in one.items():
                text = _key_text(key)
                if text is None:
                    return where, f"the key {key!r:.60} is not a text"
                if fault := _fault_of(text if isinstance(key, str) else key):
                    return where, f"the key {key!r:.60} {fault}"
                if text in seen:
                    return where, f"has the key {text!r:.60} twice, as two types"
                seen.add(text)
                inner.append((item, _inner(where, key), depth + 1))
            left.extend(reversed(inner))
        elif isinstance(one, (list, tuple)):
            left.extend(
                (item, f"{where}[{i}]", depth + 1) for i, item in reversed([*enumerate(one)])
            )
        elif fault := _fault_of(one):
            return where, fault
    return path, "is not JSON"


def encode(value: Any, field: str = "args", limit: int | None = None) -> bytes:
    """Compact JSON in UTF-8. Refuses values that other languages cannot read, with their path."""
    try:
        data = _COMPACT.encode(value).encode()
        good = _is_whole(value)
    except (ValueError, TypeError, RecursionError):
        good = False
    if not good:
        where, fault = _explain(value, field)
        raise InvalidArgument(f"{where}: {fault}", field=where) from None
    if limit is not None and len(data) > limit:
        from .errors import TooLarge

        raise TooLarge(f"{field}: has {len(data)} bytes, must be at most {limit}", field=field)
    return data


def decode(data: bytes) -> Any:
    return json.loads(data)
