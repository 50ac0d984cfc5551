"""Converts durations, instants and JSON to their form in requests."""

from __future__ import annotations

import datetime as dt
import inspect
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
    known = inspect.signature(kind).parameters
    for name in options:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 1)
            rule = f'did you mean "{near[0]}"?' if near else f"must be one of {', '.join(known)}"
            raise InvalidArgument(f'option "{name}": is unknown; {rule}', field=name)
    return kind(**options)


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


def _refuse(value: object) -> Any:
    hint = ""
    if isinstance(value, dt.timedelta):
        hint = ": send .total_seconds()"
    elif isinstance(value, (dt.datetime, dt.date, dt.time)):
        hint = ": send .isoformat() and parse it in the handler"
    elif isinstance(value, (bytes, bytearray)):
        hint = ": send text, such as base64"
    elif isinstance(value, (set, frozenset)):
        hint = ": send a list"
    raise InvalidArgument(f"{type(value).__name__} is not JSON{hint}")


def encode(value: Any, field: str = "args", limit: int | None = None) -> bytes:
    """Compact JSON in UTF-8. Refuses values that other languages cannot read."""
    try:
        text = json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_refuse
        )
        data = text.encode()
    except InvalidArgument as error:
        raise InvalidArgument(f"{field}: {error.message}", field=field) from None
    except UnicodeEncodeError:
        raise InvalidArgument(f"{field}: has a lone surrogate", field=field) from None
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArgument(f"{field}: not JSON: {error}", field=field) from None
    if limit is not None and len(data) > limit:
        from .errors import TooLarge

        raise TooLarge(f"{field}: has {len(data)} bytes, must be at most {limit}", field=field)
    return data


def decode(data: bytes) -> Any:
    return json.loads(data)
