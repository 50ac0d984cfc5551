"""Durations, JSON, outcomes and responses, without a server."""

from __future__ import annotations

import datetime as dt
import pickle
import sys
from typing import Any

import pytest

from mainspring import Complete, Dead, InvalidArgument, MainspringError, QueueFull, Retry, Snooze
from mainspring._renewer import read_answer
from mainspring._server import Server
from mainspring._values import decode, duration, encode, instant, seconds
from mainspring._wire import Answer, Call, Repeats, error_of, query, retry_after
from mainspring.outcomes import fields


@pytest.mark.parametrize(
    "value, text, number",
    [
        ("30s", "30s", 30.0),
        ("1h30m", "1h30m", 5400.0),
        ("250ms", "250ms", 0.25),
        (90, "90s", 90.0),
        (0.25, "250ms", 0.25),
        (0, "0s", 0.0),
        (0.0000015, "2us", 0.0000015),
        (dt.timedelta(minutes=2), "120s", 120.0),
    ],
)
def test_durations_are_texts_numbers_or_timedeltas(value: Any, text: str, number: float) -> None:
    assert duration(value) == text
    assert seconds(value) == pytest.approx(number)


@pytest.mark.parametrize("value", ["", "30", "s", "-1s", "1 s", -1, float("nan"), True, None, []])
def test_a_bad_duration_is_refused_with_its_value(value: Any) -> None:
    with pytest.raises(InvalidArgument) as error:
        duration(value, "delay")
    assert error.value.field == "delay"


def test_an_instant_needs_a_time_zone() -> None:
    utc = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert instant(utc) == "2026-01-02T02:04:05Z"
    with pytest.raises(InvalidArgument, match="time zone"):
        instant(dt.datetime(2026, 1, 2))


@pytest.mark.parametrize(
    "value, hint",
    [
        ({"at": dt.datetime(2026, 1, 1)}, "isoformat"),
        ({"data": b"x"}, "base64"),
        ({"some": {1, 2}}, "list"),
        (float("nan"), "JSON"),
        ("\ud800", "surrogate"),
        (object(), "object is not JSON"),
    ],
)
def test_what_is_not_json_is_refused_with_a_hint(value: Any, hint: str) -> None:
    with pytest.raises(InvalidArgument, match=hint):
        encode(value)


@pytest.mark.parametrize(
    "value, where, fault",
    [
        (float("nan"), "result", "nan is not a number of JSON"),
        ({"a": [1, {"b c": float("inf")}]}, "result.a[1]['b c']", "inf is not a number of JSON"),
        ({"n": 1e400}, "result.n", "inf is not"),
        ([{"x": {"y": -1e400}}], "result[0].x.y", "-inf is not"),
        ({"n": 10**400}, "result.n", "is beyond the range of a 64-bit floating-point number"),
        ({"a": {"t": ("ok", "\ud800")}}, "result.a.t[1]", "has a lone surrogate"),
        ({"a": {"\udfff": 1}}, "result.a", "the key .*udfff.* has a lone surrogate"),
        ({"a": {1: "x", "1": "y"}}, "result.a", "has the key '1' twice"),
        ({True: 1, "true": 2}, "result", "has the key 'true' twice"),
        ({"a": {None: 1, "null": 2}}, "result.a", "has the key 'null' twice"),
        ({"a": {float("nan"): 1}}, "result.a", "the key nan nan is not a number"),
        ({"a": {(1, 2): 1}}, "result.a", r"the key \(1, 2\) is not a text"),
        ({"a": [0, object()]}, r"result.a[1]", "object is not JSON"),
        ({"when": [dt.date(2030, 1, 1)]}, "result.when[0]", "date is not JSON: annotate it with date, or send .isoformat"),
        ({7: {"z": {1, 2}}}, "result[7].z", "set is not JSON: annotate it with set, or send a list"),
    ],
)
def test_what_json_would_change_is_refused_with_its_path(
    value: Any, where: str, fault: str
) -> None:
    with pytest.raises(InvalidArgument, match=fault) as refused:
        encode(value, "result")
    assert refused.value.field == where
    assert str(refused.value).startswith(f"{where}: ")


def test_the_largest_numbers_and_keys_of_other_types_are_good() -> None:
    largest = int(sys.float_info.max)
    assert decode(encode({"n": [largest, -largest, sys.float_info.max]}))["n"][0] == largest
    assert decode(encode({7: 2, None: 3, True: 4})) == {"7": 2, "null": 3, "true": 4}


def test_json_is_compact_utf8_and_wide_integers_are_exact() -> None:
    assert encode({"ü": [1, None, 2**63 - 1]}) == '{"ü":[1,null,9223372036854775807]}'.encode()


def test_recursion_is_refused_and_does_not_crash() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(InvalidArgument):
        encode(value)


def test_outcomes_as_the_server_takes_them() -> None:
    assert fields(Complete({"a": 1})) == {"outcome": "complete", "result": {"a": 1}}
    assert fields(Complete()) == {"outcome": "complete"}
    assert fields(Retry("x", after=2)) == {"outcome": "retry", "error": "x", "after": "2s"}
    assert fields(Snooze("30s", open_breaker_for=0.1))["open_breaker_for"] == "1s"
    assert fields(Dead("r", "d")) == {"outcome": "dead", "reason": "r", "description": "d"}


def test_the_text_of_an_outcome_never_makes_it_fail() -> None:
    encode(fields(Retry("\ud800 \0 " + "x" * 100_000)))
    encode(fields(Dead(str(ValueError("ü")))))


@pytest.mark.parametrize(
    "headers, expected",
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "9" * 400}, None),
        (
            {
                "retry-after": "Mon, 01 Jan 2001 00:00:07 GMT",
                "date": "Mon, 01 Jan 2001 00:00:00 GMT",
            },
            7.0,
        ),
        ({"retry-after": "Mon, 01 Jan 2001 00:00:07 GMT"}, None),
    ],
)
def test_retry_after_is_read_without_a_clock(headers: dict[str, str], expected: Any) -> None:
    assert retry_after(headers) == expected


def test_an_error_of_the_server_has_its_class_code_field_and_time() -> None:
    body = b'{"error":{"code":"overloaded","message":"full","field":"f","retry_after_ms":1500}}'
    error = error_of(Answer(429, {}, body))
    assert isinstance(error, QueueFull)
    assert (error.code, error.field, error.retry_after) == ("overloaded", "f", 1.5)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, again.retry_after) == (QueueFull, "overloaded", 1.5)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error":7}', b'{"error":{}}', b"\xff"])
def test_an_error_that_is_not_the_servers_is_an_error_too(body: bytes) -> None:
    error = error_of(Answer(503, {}, body))
    assert isinstance(error, MainspringError) and error.code == "unavailable"


def test_repeats_grow_and_end() -> None:
    now = [0.0]
    repeats = Repeats(10.0, clock=lambda: now[0], uniform=lambda low, high: high)
    call = Call("POST", "/v1/jobs")
    error = MainspringError("x", code="unavailable", status=503)
    assert [repeats.pause(call, error) for _ in range(4)] == [0.02, 0.04, 0.08, 0.16]
    assert repeats.pause(call, QueueFull("x", status=429, retry_after=3.0)) == 3.0
    assert repeats.pause(call, QueueFull("x", status=429, retry_after=60.0)) is None
    assert repeats.pause(call, MainspringError("x", status=400)) is None
    assert repeats.pause(Call("POST", "/x", repeat="no"), error) is None
    now[0] = 10.0
    assert repeats.pause(call, error) is None


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"renewed": 7, "lost": "all", "cancel": {}},
        {"renewed": [{"id": "1"}, 7, {"id": 1}, {"id": True, "lease_expires_in_ms": 1}]},
        {"lost": [None, "1", True, 2], "renewed": [{"id": 2, "lease_expires_in_ms": 1000}]},
    ],
)
def test_a_broken_renewal_renews_nothing_and_loses_nothing(document: Any) -> None:
    answer = read_answer(document, {1: 11}, 0.0)
    assert (answer["renewed"], answer["lost"]) == ([], [])


def test_queries_and_urls() -> None:
    assert query({"queue": "a b&c", "limit": 3, "x": None, "on": True}) == (
        "?queue=a%20b%26c&limit=3&on=true"
    )
    assert query({"type": ["dead", "completed"]}) == "?type=dead&type=completed"
    assert Server("unix:/run/ms").unix_path == "/run/ms"
    assert "mst_secret" not in repr(Server("http://127.0.0.1:1", token="mst_secret"))


@pytest.mark.parametrize(
    "url",
    ["", "ftp://x", "127.0.0.1:8080", "http://u:p@h", "http://h/a b", "http://h?q",
     "http://h:99999", "http://a,", "http://a,b"],
)  # fmt: skip
def test_a_bad_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        Server(url)
    assert "p@" not in error.value.message


def test_a_url_may_have_a_path_or_be_a_list() -> None:
    assert Server("https://h/jobs/").prefix == "/jobs"
    assert Server("https://h/jobs/").netloc == "h"
    servers = Server("http://127.0.0.1:1,unix:/run/ms")
    assert [one.unix_path for one in servers.each] == ["", "/run/ms"]
    with pytest.raises(InvalidArgument, match="https"):
        Server("http://127.0.0.1:1,http://example.org", token="t")


def test_a_token_must_not_go_over_plain_http_to_another_machine() -> None:
    Server("http://127.0.0.1:1", token="t")
    Server("https://example.org", token="t")
    with pytest.raises(InvalidArgument, match="https"):
        Server("http://example.org", token="t")
