"""Types of the keyword options of `Mainspring.job`, `Definition.options`, `Schedules.put`, ….

Only type checkers need this module. A function of yours can pass options on:

    if TYPE_CHECKING:
        from mainspring.options import JobOptions
        from typing_extensions import Unpack

    def later(path: str, **options: Unpack[JobOptions]) -> None:
        thumbnail.options(**options).enqueue(path)

None and an absent option are the same.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Literal, Mapping, Sequence, TypedDict

from ._values import Duration

if TYPE_CHECKING:
    from . import api
    from ._jobs import NewJob


class JobOptions(TypedDict, total=False):
    """The fields of `Options`, which says what they mean."""

    queue: str | None
    key: str | None
    key_for: Duration | None
    on_conflict: Literal["keep", "replace", "postpone"] | None
    delay: Duration | None
    run_at: str | dt.datetime | None
    priority: int | None
    max_attempts: int | None
    timeout: Duration | None
    expires_in: Duration | None
    on_expiry: Literal["cancel", "dead"] | None
    tags: Sequence[str] | None
    headers: Mapping[str, str] | None
    correlation_id: str | None
    session: str | None
    session_on_dead: Literal["skip", "block", "park"] | None
    limit_key: str | None
    reply_to: str | None
    reply_session: str | None
    reply_progress: bool | None
    reply_expires_in: Duration | None
    then: Sequence[api.FollowUp] | None
    callback: api.Callback | str | None
    idempotency_key: str | None
    fence: tuple[str, int] | None


class WorkerKeywords(TypedDict, total=False):
    """The fields of `WorkerOptions`, which says what they mean."""

    slots: int
    queues: Sequence[str] | None
    processes: bool
    modules: Sequence[str]
    lease: Duration
    graceful_stop: Duration
    claim_wait: Duration
    claim_ahead: int | None
    renewals: Literal["process", "thread"]
    kinds: Sequence[str] | None
    exit_when_stuck: Duration | None
    log_jobs: bool
    version: str


class JobFilter(TypedDict, total=False):
    """Which jobs `Mainspring.jobs` yields. A job must match all of them."""

    queue: str | None
    state: api.JobState | str | Sequence[api.JobState] | None  # one of these
    kind: str | None
    tag: str | None
    ids: Sequence[int] | None  # at most 1,000
    q: str | None  # a query of the search
    from_: str | dt.datetime | None  # created then or later
    to: str | dt.datetime | None  # created before
    quarantined: bool
    whole_args: bool  # also args above 64 KiB
    limit: int | None  # of one page, not of the jobs


class EventFilter(TypedDict, total=False):
    """Which events `Mainspring.events` yields. Of a list, an event must match one value."""

    queue: str | Sequence[str]
    kind: str | Sequence[str]
    type: str | Sequence[str]
    tag: str | Sequence[str]
    job: int | Sequence[int]
    after: str | None  # the id of an event: continue after it


class ScheduleOptions(TypedDict, total=False):
    """When a schedule fires: one of cron, every and at. What its ticks do."""

    cron: str | None
    every: Duration | None
    at: str | dt.datetime | None
    time_zone: str | None  # of cron
    repeated_hour: Literal["once", "twice"] | None
    paused: bool | None
    misfire: Literal["skip", "once", "all"] | None
    misfire_window: Duration | None
    misfire_cap: int | None
    overlap: api.Overlap | None
    jitter: Duration | None
    start_at: str | dt.datetime | None
    end_at: str | dt.datetime | None
    max_runs: int | None
    pause_on_failure: bool | None
    continuous: api.Continuous | None


class _PlannedSchedule(TypedDict):
    job: NewJob[Any] | Mapping[str, Any]


class PlannedSchedule(_PlannedSchedule, ScheduleOptions, total=False):
    """A schedule for `Schedules.sync`: its job, and when it fires."""


class StepOptions(TypedDict, total=False):
    """The other fields of a workflow's step. A step has one of job, workflow, sleep and signal."""

    workflow: api.WorkflowDefinition | Mapping[str, Any] | None
    sleep: Duration | None
    signal: str | None  # the name of the signal to wait for
    each: Any  # a list, or a `ref` to one: the step runs for each element
    if_: api.WorkflowCondition | None
    deadline: Duration | None
    on_failure: Literal["undo", "continue", "park"] | None
    undo_if_failed: bool | None


class WorkflowOptions(TypedDict, total=False):
    input: Any
    key: str | None  # a start with the same name and key returns the first workflow
    undo_order: Literal["reverse", "parallel"] | None
    deadline: Duration | None
    result: Any  # what the workflow returns: a value with `ref`s


class WorkflowFilter(TypedDict, total=False):
    """Which workflows `Workflows.list` yields."""

    name: str | None
    state: api.WorkflowState | None


class ForkOptions(TypedDict, total=False):
    key: str | None
    input: Any  # instead of the first workflow's
