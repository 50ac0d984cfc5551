"""Args and results of annotated types arrive as what they were, or are refused with their path."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import enum
import uuid
from dataclasses import dataclass, field
from typing import Any, Callable, Literal, NewType, Optional, TypedDict, Union

import pytest

from mainspring import AsyncContext, Complete, Context, InvalidArgument, Mainspring, Snooze
from mainspring._convert import codec_of
from mainspring.testing import perform, wait_for
from mainspring.workflows import ref

Start = Callable[..., Any]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Line:
    item: uuid.UUID
    price: decimal.Decimal
    colour: Colour = Colour.RED
    under: list[Line] = field(default_factory=list)


class Stamp(TypedDict, total=False):
    at: dt.datetime
    by: str


OrderId = NewType("OrderId", uuid.UUID)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
NOW = dt.datetime(2026, 11, 28, 21, 30, 5, 123, dt.timezone.utc)
LINE = Line(ID, decimal.Decimal("1.10"), Colour.BLUE, [Line(ID, decimal.Decimal("2"))])

VALUES: list[tuple[Any, Any, Any]] = [
    (dt.datetime, NOW, "2026-11-28T21:30:05.000123+00:00"),
    (dt.date, NOW.date(), "2026-11-28"),
    (dt.time, dt.time(21, 30), "21:30:00"),
    (dt.timedelta, dt.timedelta(days=2, milliseconds=5), 172800.005),
    (OrderId, ID, str(ID)),
    (decimal.Decimal, decimal.Decimal("0.10"), "0.10"),
    (bytes, b"\0\xff", "AP8="),
    (Colour, Colour.RED, "red"),
    (Optional[dt.date], None, None),
    (Union[int, dt.date], 7, 7),
    (set[int], {3}, [3]),
    (tuple[int, dt.date], (1, NOW.date()), [1, "2026-11-28"]),
    (tuple[dt.date, ...], (NOW.date(),) * 2, ["2026-11-28"] * 2),
    (list[Optional[Colour]], [None, Colour.RED], [None, "red"]),
    (dict[int, Colour], {7: Colour.RED}, {"7": "red"}),
    (dict[uuid.UUID, int], {ID: 1}, {str(ID): 1}),
    (Stamp, {"at": NOW}, {"at": "2026-11-28T21:30:05.000123+00:00"}),
    (
        Line,
        LINE,
        {
            "item": str(ID),
            "price": "1.10",
            "colour": "blue",
            "under": [{"item": str(ID), "price": "2", "colour": "red", "under": []}],
        },
    ),
]


@pytest.mark.parametrize("kind, value, text", VALUES)
def test_a_value_is_the_same_after_json(kind: Any, value: Any, text: Any) -> None:
    codec = codec_of(kind)
    assert codec is not None
    assert codec.dump(value, "args.x") == text
    back = codec.load(text, "args.x")
    assert back == value and type(back) is type(value)
    assert codec.dump(text, "args.x") == text  # a producer may send the form of JSON


@pytest.mark.parametrize(
    "kind", [Any, int, str, list[int], dict[str, Any], Optional[str], Literal["a"], Context, Snooze]
)
def test_what_json_has_passes_as_it_is(kind: Any) -> None:
    assert codec_of(kind) is None


@pytest.mark.parametrize(
    "kind, value, where",
    [
        (dt.datetime, "yesterday", "args.x 'yesterday': must be datetime"),
        (dt.date, NOW, "args.x datetime.datetime"),
        (uuid.UUID, 7, "args.x 7: must be UUID"),
        (Colour, "green", "args.x 'green': must be Colour"),
        (list[Line], [{"item": str(ID)}], r"args.x\[0\].price: is missing"),
        (dict[str, list[dt.date]], {"a": ["x"]}, r"args.x.a\[0\] 'x': must be date"),
        (Union[str, dt.date], NOW.date(), "args.x: a date could not be told"),
        (tuple[int, Colour], [1, "red", 3], "args.x .*has more than 2 values"),
        (Line, Line(ID, 1.5), "args.x.price 1.5: must be Decimal"),  # type: ignore[arg-type]
    ],
)
def test_what_could_not_be_given_back_is_refused(kind: Any, value: Any, where: str) -> None:
    codec = codec_of(kind)
    assert codec is not None
    with pytest.raises(InvalidArgument, match=where):
        codec.dump(value, "args.x")


def test_models_of_pydantic() -> None:
    pydantic = pytest.importorskip("pydantic")
    global Order

    class Order(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        id: uuid.UUID
        lines: list[int]
        price: decimal.Decimal = decimal.Decimal("1.10")

    codec = codec_of(Order)
    assert codec is not None
    order = Order(id=ID, lines=[1])
    assert codec.dump(order, "args.o") == {"id": str(ID), "lines": [1], "price": "1.10"}
    assert codec.load({"id": str(ID), "lines": [1]}, "args.o") == order
    with pytest.raises(InvalidArgument, match=r"args.o.lines.1: ") as caught:
        codec.load({"id": str(ID), "lines": [1, "x"]}, "args.o")
    assert caught.value.field == "args.o.lines.1"


def test_args_and_results_of_handlers(
    mainspring: Mainspring, mainspring_queue: str, mainspring_worker: Start
) -> None:
    seen: list[Any] = []

    @mainspring.job(queue=mainspring_queue)
    def sold(ctx: Context, at: dt.datetime, lines: list[Line], note: str = "") -> Line | Snooze:
        seen.append((at, lines))
        return lines[0]

    @mainspring.job(queue=mainspring_queue)
    async def total(ctx: AsyncContext, line: Line) -> decimal.Decimal:
        raise Complete(line.price)

    @mainspring.define(queue=mainspring_queue)
    def when(day: dt.date) -> dt.date: ...  # type: ignore[empty-body]

    @when.handler
    def answer(ctx, day):  # type: ignore[no-untyped-def]
        return day + dt.timedelta(days=1)

    @mainspring.job(queue=mainspring_queue)
    def untyped(ctx: Context) -> Any:
        return LINE

    jobs = mainspring.enqueue_many([sold.new(NOW, [LINE])])
    other, day, bad = total.enqueue(LINE), when.enqueue(NOW.date()), untyped.enqueue()
    mainspring_worker(mainspring, slots=2)
    assert jobs[0].result("30s") == LINE and sold.find(jobs[0].id).result("30s") == LINE
    assert seen == [(NOW, [LINE])]
    assert asyncio.run(_result(mainspring, other)) == decimal.Decimal("1.10")
    assert day.result("30s") == dt.date(2026, 11, 29)
    reason = wait_for(bad, "dead", "30s")
    assert reason["reason"] == "bad_result" and "annotate" in reason["description"]


async def _result(ms: Mainspring, job: Any) -> Any:
    try:
        return await job.aresult("30s")
    finally:
        await ms.aclose()


def test_what_cannot_be_converted_is_refused_at_the_enqueue(mainspring: Mainspring) -> None:
    @mainspring.job(queue="q")
    def sold(ctx: Context, lines: list[Line], at: Any = None) -> Line:
        return lines[0]

    with pytest.raises(InvalidArgument, match=r"args.lines\[1\].item 7: must be UUID"):
        sold.enqueue([LINE, {"item": 7, "price": "1"}])  # type: ignore[list-item]
    with pytest.raises(InvalidArgument, match=r"args.at: datetime is not JSON: annotate it"):
        sold.enqueue([LINE], at=NOW)
    assert sold.new(ref("other.lines")).args == {"lines": {"$ref": "other.lines"}}
    assert perform(sold, [LINE]).result == LINE
