"""Converts values to JSON and back, by the annotations of a handler.

A `Codec` exists only for types that JSON does not have: values of other parameters pass as they
are. `dump` refuses what `load` could not give back. Both name the place of a fault.
"""

from __future__ import annotations

import base64
import collections.abc as abc
import dataclasses
import datetime as dt
import decimal
import enum
import importlib
import inspect
import json
import pathlib
import sys
import types
import typing
import uuid
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping

from .errors import InvalidArgument
from .outcomes import OUTCOMES

_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Codec:
    name: str  # of the type, for messages
    is_one: Callable[[Any], bool]  # whether a value is of the type
    to_json: Callable[[Any, str], Any]
    from_json: Callable[[Any, str], Any]

    def dump(self, value: Any, path: str) -> Any:
        if _is_reference(value):
            return value
        if self.is_one(value):
            try:
                return self.to_json(value, path)
            except (ValueError, TypeError, AttributeError) as error:
                if isinstance(error, InvalidArgument):
                    raise
                raise InvalidArgument(f"{path}: {error!s:.200}", field=path) from error
        self.load(value, path)  # it has the form of JSON already
        return value

    def load(self, value: Any, path: str) -> Any:
        if _is_reference(value):  # by_reference, for `ctx.results`
            return value
        try:
            return self.from_json(value, path)
        except InvalidArgument:
            raise
        except (ValueError, TypeError, ArithmeticError, KeyError, AttributeError) as error:
            first = str(error).partition("\n")[0]
            why = "" if isinstance(error, ArithmeticError) else f": {first:.200}"
            text = f"{path} {value!r:.60}: must be {self.name}{why}"
            raise InvalidArgument(text, field=path) from error


def _is_reference(value: Any) -> bool:
    """Whether the value is one of a later step of a workflow."""
    return isinstance(value, dict) and ("$ref" in value or "$result" in value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"as JSON it is text, not {type(value).__name__}")
    return value


def _iso(text: Any) -> str:
    return _text(text).replace("Z", "+00:00")  # Python 3.10 does not know Z


_SCALARS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    dt.datetime: (dt.datetime.isoformat, lambda text: dt.datetime.fromisoformat(_iso(text))),
    dt.date: (dt.date.isoformat, lambda text: dt.date.fromisoformat(_text(text))),
    dt.time: (dt.time.isoformat, lambda text: dt.time.fromisoformat(_iso(text))),
    dt.timedelta: (dt.timedelta.total_seconds, lambda number: dt.timedelta(seconds=number)),
    uuid.UUID: (str, lambda text: uuid.UUID(_text(text))),
    decimal.Decimal: (str, lambda text: decimal.Decimal(_text(text))),
    pathlib.Path: (str, lambda text: pathlib.Path(_text(text))),
    bytes: (
        lambda value: base64.b64encode(value).decode(),
        lambda text: base64.b64decode(_text(text), validate=True),
    ),
}


def codec_of(kind: Any) -> Codec | None:
    """None: values of the type pass as they are."""
    return _of(kind, {})


def _of(kind: Any, seen: dict[Any, Codec]) -> Codec | None:
    """`seen`: dataclasses that are being read, for those that contain themselves."""
    while hasattr(kind, "__supertype__") or typing.get_origin(kind) is typing.Annotated:
        kind = kind.__supertype__ if hasattr(kind, "__supertype__") else kind.__origin__
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _union([one for one in inner if one not in OUTCOMES], seen)
    if origin is not None and isinstance(origin, type):
        if issubclass(origin, (abc.Sequence, abc.Set)):
            return _many(origin, inner, seen)
        return _mapping(inner, seen) if issubclass(origin, abc.Mapping) else None
    if not isinstance(kind, type) or kind in _PLAIN or kind in OUTCOMES:
        return None
    if kind in (tuple, set, frozenset):
        return _many(kind, (Any, ...), seen)
    if hasattr(kind, "model_validate") or hasattr(kind, "parse_obj"):
        return _pydantic(kind)
    if issubclass(kind, enum.Enum):
        is_one = lambda value: isinstance(value, kind)  # noqa: E731
        return Codec(kind.__name__, is_one, lambda value, _: value.value, lambda v, _: kind(v))
    if dataclasses.is_dataclass(kind):
        return seen.get(kind) or _fields(kind, seen)
    if typing.is_typeddict(kind):
        return seen.get(kind) or _fields(kind, seen)
    for known, (write, read) in _SCALARS.items():
        if issubclass(kind, known):
            return _scalar(known, write, read)
    return None


def _scalar(known: type, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> Codec:
    # A datetime is a date, too.
    def is_one(value: Any) -> bool:
        return isinstance(value, known) and not (known is dt.date and type(value) is dt.datetime)

    return Codec(known.__name__, is_one, lambda value, _: write(value), lambda v, _: read(v))


def _union(kinds: list[Any], seen: dict[Any, Codec]) -> Codec | None:
    codecs = [_of(kind, seen) for kind in kinds]
    if not any(codecs):
        return None
    if len(kinds) == 1:
        return codecs[0]
    members = [codec or _plain(kind) for kind, codec in zip(kinds, codecs)]

    def loaded(value: Any, path: str) -> tuple[Any, Codec]:
        for member in members:
            try:
                return member.load(value, path), member
            except InvalidArgument:
                continue
        raise ValueError("no member fits")

    def dump(value: Any, path: str) -> Any:
        member = next(one for one in members if one.is_one(value))
        written = member.dump(value, path)
        if loaded(written, path)[1] is not member:
            text = f"{path}: a {member.name} could not be told from another type of the union"
            raise InvalidArgument(text, field=path)
        return written

    name = " or ".join(member.name for member in members)
    is_one = lambda value: any(one.is_one(value) for one in members)  # noqa: E731
    return Codec(name, is_one, dump, lambda value, path: loaded(value, path)[0])


def _plain(kind: Any) -> Codec:
    """A member of a union that JSON has."""
    base = typing.get_origin(kind) or kind
    if base is typing.Literal:
        is_one: Callable[[Any], bool] = lambda value: value in typing.get_args(kind)  # noqa: E731
    elif base is float:
        is_one = lambda value: type(value) in (int, float)  # noqa: E731
    elif isinstance(base, type):
        is_one = lambda value: isinstance(value, base)  # noqa: E731
    else:
        is_one = lambda value: True  # noqa: E731

    def load(value: Any, _: str) -> Any:
        if not is_one(value):
            raise ValueError("has another type")
        return value

    return Codec(getattr(kind, "__name__", str(kind)), is_one, lambda value, _: value, load)


def _list_of(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("is not a list")
    return value


def _many(origin: type, inner: tuple[Any, ...], seen: dict[Any, Codec]) -> Codec | None:
    fixed = issubclass(origin, tuple) and (len(inner) != 2 or inner[1] is not Ellipsis)
    codecs = [_of(one, seen) for one in inner] if fixed else [_of(inner[0], seen)]
    made: type = list if inspect.isabstract(origin) else origin
    if issubclass(origin, abc.Set) and made is list:
        made = set
    if made is list and not any(codecs):
        return None

    def each(value: Iterable[Any], path: str, verb: str) -> Iterable[Any]:
        for i, one in enumerate(value):
            if fixed and i >= len(codecs):
                raise ValueError(f"has more than {len(codecs)} values")
            codec = codecs[i if fixed else 0]
            yield getattr(codec, verb)(one, f"{path}[{i}]") if codec else one

    def is_one(value: Any) -> bool:
        if made is list:
            return isinstance(value, abc.Sequence) and not isinstance(value, (str, bytes))
        return isinstance(value, made)

    return Codec(
        origin.__name__,
        is_one,
        lambda value, path: list(each(value, path, "dump")),
        lambda value, path: made(each(_list_of(value), path, "load")),
    )


def _mapping(inner: tuple[Any, ...], seen: dict[Any, Codec]) -> Codec | None:
    of_key = Codec("int", lambda v: type(v) is int, lambda v, _: str(v), lambda v, _: int(v))
    keys = of_key if inner[0] is int else _of(inner[0], seen)
    values = _of(inner[1], seen)
    if keys is None and values is None:
        return None

    def each(value: Any, path: str, verb: str) -> dict[Any, Any]:
        if not isinstance(value, abc.Mapping):
            raise ValueError("is not an object")
        return {
            getattr(keys, verb)(key, f"{path}[{key!r:.60}]") if keys else key: getattr(
                values, verb
            )(one, f"{path}.{key}")
            if values
            else one
            for key, one in value.items()
        }

    return Codec(
        "dict",
        lambda value: isinstance(value, abc.Mapping),
        lambda value, path: each(value, path, "dump"),
        lambda value, path: each(value, path, "load"),
    )


def _pydantic(kind: Any) -> Codec:
    """A model of pydantic, 1 or 2."""

    def dump(value: Any, _: str) -> Any:
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json", by_alias=True)
        # Version 1 would write a Decimal as a float.
        others = type(value).__json_encoder__

        def write(one: Any) -> Any:
            return str(one) if isinstance(one, decimal.Decimal) else others(one)

        return json.loads(value.json(by_alias=True, encoder=write))

    def load(value: Any, path: str) -> Any:
        try:
            return (getattr(kind, "model_validate", None) or kind.parse_obj)(value)
        except ValueError as error:
            faults: list[Any] = getattr(error, "errors", list)()
            at = "".join(f".{part}" for part in faults[0]["loc"]) if faults else ""
            text = f"{path}{at}: {faults[0]['msg'] if faults else error}"
            raise InvalidArgument(text, field=f"{path}{at}") from error

    return Codec(kind.__name__, lambda value: isinstance(value, kind), dump, load)


def _fields(kind: Any, seen: dict[Any, Codec]) -> Codec | None:
    """A dataclass, or a TypedDict that has what JSON does not."""
    is_data = dataclasses.is_dataclass(kind)
    hints = typing.get_type_hints(kind)
    codecs: dict[str, Codec | None] = {}
    required: set[str] = set(getattr(kind, "__required_keys__", ()))
    if is_data:
        fields = [field for field in dataclasses.fields(kind) if field.init]
        hints = {field.name: hints[field.name] for field in fields}
        none = dataclasses.MISSING
        required = {f.name for f in fields if f.default is none and f.default_factory is none}

    def dump(value: Any, path: str) -> dict[str, Any]:
        read = (lambda name: getattr(value, name)) if is_data else value.__getitem__
        names = hints if is_data else [name for name in value]
        return {
            name: codec.dump(read(name), f"{path}.{name}") if (codec := codecs.get(name))
            else read(name)
            for name in names
        }  # fmt: skip

    def load(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise ValueError("is not an object")
        for name in sorted(required - value.keys()):
            raise InvalidArgument(f"{path}.{name}: is missing", field=f"{path}.{name}")
        known = {
            name: codec.load(one, f"{path}.{name}") if (codec := codecs.get(name)) else one
            for name, one in value.items()
            if name in hints or not is_data
        }
        return kind(**known) if is_data else known

    is_one = lambda value: isinstance(value, kind if is_data else dict)  # noqa: E731
    made = Codec(kind.__name__, is_one, dump, load)
    seen[kind] = made
    codecs.update({name: _of(hint, seen) for name, hint in hints.items()})
    return made if is_data or any(codecs.values()) else None


def _written(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return dict(getattr(function, "__annotations__", {}))
    except NameError:  # Python 3.14 evaluates them here
        library = importlib.import_module("annotationlib")
        form = library.Format.FORWARDREF
        return dict(library.get_annotations(function, format=form))


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of a function's parameters, and of what it returns as "return". A name that cannot
    be found, such as one that only type checkers import, is left out."""
    found: dict[str, Any] = {}
    scope = getattr(inspect.unwrap(function), "__globals__", vars(sys.modules[__name__]))
    for name, kind in _written(function).items():
        try:
            [found[name]] = typing.get_type_hints(
                types.SimpleNamespace(__annotations__={"_": kind}), scope, include_extras=True
            ).values()
        except Exception:
            continue
    return found


class Conversions:
    """Of the args and the result of one kind of job."""

    def __init__(self, functions: Iterable[Callable[..., Any]]) -> None:
        self._codecs: dict[str, Codec] = {}
        for function in functions:  # a later one, the handler, wins
            for name, kind in annotations_of(function).items():
                if (codec := codec_of(kind)) is not None:
                    self._codecs[name] = codec

    def dump_args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return self._each(args, "dump")

    def load_args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        return self._each(args, "load")

    def _each(self, args: Mapping[str, Any], verb: str) -> dict[str, Any]:
        out = dict(args)
        for name, codec in self._codecs.items():
            if name in out and name != "return":
                out[name] = getattr(codec, verb)(out[name], f"args.{name}")
        return out

    def dump_result(self, value: Any) -> Any:
        codec = self._codecs.get("return")
        return codec.dump(value, "result") if codec is not None else value

    def load_result(self, value: Any) -> Any:
        codec = self._codecs.get("return")
        return codec.load(value, "result") if codec is not None else value
