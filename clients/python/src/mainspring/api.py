"""Types of the HTTP API. Made by tools/generate_types.py from /openapi.json: do not edit.

What `Mainspring.get`, `why` and the like return has these shapes. Servers leave out fields that
have nothing to say, and newer ones send more fields.
"""

from __future__ import annotations

from typing import Any, Dict, List, Literal, TypedDict, Union


Unique = TypedDict(
    "Unique",
    {
        'key': str,
        'for': "Duration",
        'on_conflict': Literal["keep", "replace", "postpone"],
    },
    total=False,
)


class _FollowUp(TypedDict):
    queue: "Name"
    kind: "Name"


class FollowUp(_FollowUp, total=False):
    on: "Occasions"
    session: Union[str, None]
    expires_in: Union["Duration", None]
    priority: int
    data: Any


class _Callback(TypedDict):
    url: Union[str, None]


class Callback(_Callback, total=False):
    on: "Occasions"


class _NewJob(TypedDict):
    kind: "Name"


class NewJob(_NewJob, total=False):
    queue: "Name"
    args: Any
    delay: "Duration"
    run_at: str
    priority: int
    max_attempts: int
    unique: "Unique"
    expires_in: "Duration"
    on_expiry: Literal["cancel", "dead", None]
    timeout: str
    tags: List[str]
    headers: Dict[str, str]
    correlation_id: str
    reply_to: "Name"
    then: Union[List["FollowUp"], None]
    callback: Union["Callback", None]
    session: Union["SessionName", None]
    session_on_dead: Literal["skip", "block", "park", None]
    reply_session: Union["SessionName", None]
    reply_progress: Union[bool, None]
    reply_expires_in: Union["Duration", None]
    limit_key: Union[str, None]


class Fence(TypedDict):
    lease: "Name"
    token: int


class _EnqueueRequest(TypedDict):
    jobs: List["NewJob"]


class EnqueueRequest(_EnqueueRequest, total=False):
    fence: "Fence"


class _EnqueuedJob(TypedDict):
    id: int
    state: "JobState"


class EnqueuedJob(_EnqueuedJob, total=False):
    duplicate: bool
    replayed: bool


class _EnqueueResponse1(TypedDict):
    jobs: List["EnqueuedJob"]


class EnqueueResponse1(_EnqueueResponse1, total=False):
    replayed: bool


class Progress(TypedDict, total=False):
    value: float
    text: str


class AttemptError(TypedDict, total=False):
    attempt: int
    at: str
    worker: str
    message: str
    after_ms: Union[int, None]
    exit_code: int
    signal: str
    oom: bool
    peak_memory: int


class JobQuarantined(TypedDict, total=False):
    since: str
    lost: int
    released: bool


class _Job(TypedDict):
    id: int
    queue: "Name"
    kind: "Name"
    state: "JobState"


class Job(_Job, total=False):
    args: Any
    args_omitted: int
    priority: int
    run_at: str
    attempt: int
    max_attempts: int
    token: int
    version: int
    worker: str
    cancel_requested: bool
    unique_key: str
    deferred: bool
    quarantined: "JobQuarantined"
    headers: Dict[str, Any]
    tags: List[str]
    correlation_id: str
    reply_to: str
    reply_session: str
    session: str
    session_on_dead: Literal["skip", "block", "park"]
    limit_key: str
    then: List["FollowUp"]
    callback: "Callback"
    timeout: str
    expires_at: str
    on_expiry: Literal["cancel", "dead"]
    trigger_depth: int
    created_at: str
    started_at: str
    finished_at: str
    progress: "Progress"
    warning: str
    checkpoint: Any
    result: Any
    reason: str
    description: str
    errors: List["AttemptError"]


class JobPage(TypedDict):
    jobs: List["Job"]
    next_cursor: Union[str, None]
    examined: int
    of: int


class HeldSession(TypedDict):
    queue: "Name"
    key: "SessionName"
    token: int


class ClaimRequest(TypedDict, total=False):
    session: Union["HeldSession", None]
    worker: "Name"
    queues: List[str]
    job: Union[int, None]
    kinds: List["Name"]
    max: int
    wait: "Duration"
    lease: "Duration"
    host: Union[str, None]
    pid: Union[int, None]
    version: Union[str, None]
    language: Union[str, None]
    slots: Union[int, None]
    trouble: Union[str, None]
    stuck: Union[int, None]


class _ClaimedJob(TypedDict):
    id: int
    token: int
    kind: str


class ClaimedJob(_ClaimedJob, total=False):
    attempt: int
    max_attempts: int
    queue: str
    args: Any
    priority: int
    run_at: str
    timeout_ms: Union[int, None]
    lease_expires_in_ms: int
    checkpoint: Any
    headers: Dict[str, Any]
    tags: List[str]
    correlation_id: str
    reply_to: str
    session: str
    session_state: Any
    has_memos: bool
    deferred: bool
    cost: int


class _ClaimResponse(TypedDict):
    jobs: List["ClaimedJob"]


class ClaimResponse(_ClaimResponse, total=False):
    cancel: List[int]
    quiet: bool
    terminate: bool


class _OutcomeFields(TypedDict):
    id: int
    token: int
    outcome: Literal["complete", "retry", "snooze", "defer", "cancel", "dead"]


class OutcomeFields(_OutcomeFields, total=False):
    result: Any
    error: str
    after: "Duration"
    open_breaker_for: "Duration"
    reason: str
    description: str
    exit_code: int
    signal: str
    oom: bool
    peak_memory: int
    session_state: Any
    next: List["NewJob"]


class _FinishRequest(TypedDict):
    worker: "Name"


class FinishRequest(_FinishRequest, total=False):
    results: List["OutcomeFields"]
    claim: "ClaimRequest"


class FinishResponseResultsItemError(TypedDict, total=False):
    code: str
    message: str
    field: str


class _FinishResponseResultsItem(TypedDict):
    id: int
    status: Literal["ok", "stale", "not_found", "refused"]


class FinishResponseResultsItem(_FinishResponseResultsItem, total=False):
    error: "FinishResponseResultsItemError"


class _FinishResponse(TypedDict):
    results: List["FinishResponseResultsItem"]


class FinishResponse(_FinishResponse, total=False):
    jobs: List["ClaimedJob"]
    cancel: List[int]
    quiet: bool
    terminate: bool


class _SessionGrant(TypedDict):
    queue: str
    key: str
    token: int
    lease_expires_in_ms: int


class SessionGrant(_SessionGrant, total=False):
    state: Any
    held: bool


class _AcceptResponse(TypedDict):
    session: Union["SessionGrant", None]
    jobs: List["ClaimedJob"]


class AcceptResponse(_AcceptResponse, total=False):
    cancel: List[int]
    quiet: bool
    terminate: bool


class _Session(TypedDict):
    queue: str
    key: str
    jobs: int
    stop: Literal["none", "blocked", "parked"]
    state_bytes: int


class Session(_Session, total=False):
    head: int
    stopped_by: int
    worker: str
    token: int
    expires_in_ms: int
    state: Any
    changed_at: str
    masked: bool


class _Lease(TypedDict):
    id: int
    token: int


class Lease(_Lease, total=False):
    progress: "Progress"
    checkpoint: Any
    messages: Union[List[Any], None]
    first_seq: int
    memos: Union[List["Memo"], None]
    warning: Union["IgnoredRemarks", None]


class IgnoredRemarksCounts(TypedDict, total=False):
    progress: int
    checkpoint: int
    message: int
    session_state: int
    step: int
    outcome: int
    unknown_field: int
    not_json: int
    too_long: int
    unasked: int


class IgnoredRemarks(TypedDict, total=False):
    text: str
    counts: "IgnoredRemarksCounts"


class Memo(TypedDict):
    name: str
    result: Any


class _MemoPage(TypedDict):
    memos: List["Memo"]


class MemoPage(_MemoPage, total=False):
    next: str


class _RenewRequest(TypedDict):
    worker: "Name"


class RenewRequest(_RenewRequest, total=False):
    leases: List["Lease"]
    lease: "Duration"
    stuck: Union[int, None]


class RenewResponseRenewedItem(TypedDict, total=False):
    id: int
    lease_expires_in_ms: int


class RenewResponseRefusedItemError(TypedDict, total=False):
    code: str
    message: str
    field: str


class RenewResponseRefusedItem(TypedDict, total=False):
    id: int
    error: "RenewResponseRefusedItemError"


class RenewResponse(TypedDict, total=False):
    renewed: List["RenewResponseRenewedItem"]
    lost: List[int]
    cancel: List[int]
    memos_full: List[int]
    refused: List["RenewResponseRefusedItem"]
    quiet: bool
    terminate: bool


class Retention(TypedDict, total=False):
    completed: Union[str, None]
    dead: Union[str, None]


class _Queue(TypedDict):
    name: str
    paused: bool
    counts: Dict[str, int]


class Queue(_Queue, total=False):
    pause: Union["QueuePause", None]
    oldest_available_ms: Union[int, None]
    oldest_available_at: str
    enqueued: int
    pruned: int
    expired: int
    retention: "Retention"
    limits: "QueueLimits"
    quarantined: int
    slots_taken: int
    opens_at: str
    backlog: "Backlog"


class _QueueList(TypedDict):
    queues: List["Queue"]


class QueueList(_QueueList, total=False):
    next: Union[str, None]


class _WorkflowCondition(TypedDict):
    ref: str


class WorkflowCondition(_WorkflowCondition, total=False):
    equals: Any
    negate: bool


WorkflowStepDefinition = TypedDict(
    "WorkflowStepDefinition",
    {
        'name': str,
        'after': Union[List[str], None],
        'job': Union["NewJob", None],
        'workflow': Union["WorkflowDefinition", None],
        'sleep': Union[str, None],
        'signal': Union[str, None],
        'each': Any,
        'if': Union["WorkflowCondition", None],
        'deadline': Union[str, None],
        'on_failure': Literal["undo", "continue", "park"],
        'undo': Union["NewJob", None],
        'undo_if_failed': bool,
    },
    total=False,
)


class _WorkflowDefinition(TypedDict):
    name: "Name"
    steps: List["WorkflowStepDefinition"]


class WorkflowDefinition(_WorkflowDefinition, total=False):
    input: Any
    undo_order: Literal["reverse", "parallel"]
    deadline: Union[str, None]
    result: Any
    key: Union[str, None]
    key_for: str


class WorkflowStarted(TypedDict):
    id: int
    duplicate: bool


class WorkflowSteps(TypedDict, total=False):
    all: int
    completed: int
    failed: int
    skipped: int
    running: int
    undone: int
    undo_failed: int


class WorkflowForkedFrom(TypedDict):
    id: int
    step: str


class WorkflowParent(TypedDict):
    workflow: int
    step: str


class _Workflow(TypedDict):
    id: int
    name: "Name"
    state: "WorkflowState"
    paused: bool
    steps: "WorkflowSteps"
    started_at: str
    version: int


class Workflow(_Workflow, total=False):
    key: str
    reason: str
    input: Any
    result: Any
    finished_at: str
    deadline_at: str
    forked_from: "WorkflowForkedFrom"
    parent: "WorkflowParent"


class _WorkflowStep(TypedDict):
    number: int
    name: str
    state: Literal[
        "waiting",
        "running",
        "completed",
        "failed",
        "skipped",
        "undoing",
        "undone",
        "undo_failed",
    ]


class WorkflowStep(_WorkflowStep, total=False):
    after: List[str]
    job: int
    undo_job: int
    workflow: int
    of: int
    index: int
    result: Any
    reason: str
    started_at: str
    ended_at: str
    taken_over: bool
    job_state: "JobState"
    attempt: int
    max_attempts: int
    worker: str
    complete_by: str


class WorkflowStepList(TypedDict):
    steps: List["WorkflowStep"]
    next: Union[int, None]


class _LeaseGrant(TypedDict):
    name: str
    token: int
    expires_in_ms: int


class LeaseGrant(_LeaseGrant, total=False):
    value: Any
    held: bool


class _NamedLease(TypedDict):
    name: str
    holder: str
    token: int
    expires_in_ms: int


class NamedLease(_NamedLease, total=False):
    since: str
    value: Any


class Continuous(TypedDict, total=False):
    timeout: "Duration"
    margin: "Duration"
    handoff: "Duration"


class _ScheduleRequest(TypedDict):
    job: "NewJob"


class ScheduleRequest(_ScheduleRequest, total=False):
    paused: bool
    restart_count: bool
    name: "Name"
    cron: str
    every: "Duration"
    at: str
    time_zone: str
    repeated_hour: Literal["once", "twice"]
    misfire: Literal["skip", "once", "all"]
    misfire_window: "Duration"
    misfire_cap: int
    overlap: "Overlap"
    jitter: "Duration"
    start_at: str
    end_at: str
    max_runs: int
    pause_on_failure: bool
    continuous: "Continuous"


class _Schedule(TypedDict):
    version: int
    paused: bool
    next: Union[str, None]
    name: "Name"
    job: "NewJob"


class Schedule(_Schedule, total=False):
    outcome: Literal["created", "replaced", "unchanged"]
    paused_reason: str
    problem: str
    next_fire: Union[str, None]
    remaining: int
    fired: int
    last_fired: str
    last_job: int
    live: List[int]
    live_count: int
    buffered: int
    timeout_override: str
    created_at: str
    updated_at: str
    cron: str
    every: "Duration"
    at: str
    time_zone: str
    repeated_hour: Literal["once", "twice"]
    misfire: Literal["skip", "once", "all"]
    misfire_window: "Duration"
    misfire_cap: int
    overlap: "Overlap"
    jitter: "Duration"
    start_at: str
    end_at: str
    max_runs: int
    pause_on_failure: bool
    continuous: "Continuous"


class ScheduleList(TypedDict):
    schedules: List["Schedule"]
    next: Union[str, None]


class PreviewTicksItem(TypedDict, total=False):
    nominal: str
    fires_at: str
    note: str


class Preview(TypedDict):
    ticks: List["PreviewTicksItem"]


class Ledger(TypedDict):
    ticks: List["LedgerRow"]
    next_cursor: Union[str, None]


class LedgerRow(TypedDict, total=False):
    seq: int
    version: int
    nominal: str
    until: str
    count: Union[int, None]
    source: Literal["schedule", "trigger", "backfill", "wake"]
    state: Literal["fired", "skipped"]
    past_due: bool
    job: int
    job_state: "JobState"
    reason: str
    note: str
    decided_at: str


class _ErrorError(TypedDict):
    code: str
    message: str


class ErrorError(_ErrorError, total=False):
    field: str
    retry_after_ms: int


class Error(TypedDict):
    error: "ErrorError"


class _RateLimit(TypedDict):
    count: int
    per: "Duration"


class RateLimit(_RateLimit, total=False):
    kind: Literal["bucket", "sliding", "fixed"]
    burst: Union[int, None]


class QueueLimitsPerKey(TypedDict, total=False):
    concurrency: Union[int, None]
    rate: "RateLimit"
    fair: Union[bool, None]
    weights: Union[Dict[str, float], None]


class QueueLimits(TypedDict, total=False):
    concurrency: Union[int, None]
    rate: "RateLimit"
    per_key: Union["QueueLimitsPerKey", None]
    ageing: Union["Duration", None]
    breaker: Union[str, None]
    quarantine_after: Union[int, None]
    costs: Union[Dict[str, int], None]
    searchable: Union[List[str], None]


class _Why(TypedDict):
    id: int
    state: "JobState"
    gate: Literal[
        "ended",
        "running",
        "quarantine",
        "deferred",
        "time",
        "earlier_run",
        "session_head",
        "session_stopped",
        "session_held",
        "queue_paused",
        "breaker",
        "concurrency",
        "rate",
        "key_concurrency",
        "key_rate",
        "no_worker",
        "busy_workers",
        "claim",
    ]
    why: str


class Why(_Why, total=False):
    until: str
    ahead: int
    estimated_start: str


class QueuePause(TypedDict):
    reason: str
    by: str
    at: str
    until: Union[str, None]


class Backlog(TypedDict):
    jobs: int
    arrivals_per_second: float
    completions_per_second: float
    service_ms: Union[float, None]
    drain_seconds: Union[float, None]
    oldest_ms: Union[int, None]


Name = str
SessionName = str
Duration = str
JobState = Literal[
    "waiting",
    "scheduled",
    "available",
    "running",
    "completed",
    "retryable",
    "cancelled",
    "dead",
]
Occasions = Union[List[Literal["completed", "cancelled", "dead", "message", "progress"]], None]
EnqueueResponse = Union["EnqueuedJob", "EnqueueResponse1", "Job"]
WorkflowState = Literal[
    "running",
    "undoing",
    "parked",
    "completed",
    "failed",
    "undone",
    "cancelled",
]
Overlap = Literal["skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow"]
