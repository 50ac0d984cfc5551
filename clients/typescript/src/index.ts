// The client of Mainspring, the durable job engine.
export {
  type CallOptions,
  type EnqueueCall,
  type JobFilter,
  Mainspring,
  type MainspringOptions,
} from "./client.js";
export { type Codec, codec, toJson } from "./codec.js";
export type { ClaimedJob, JobContext } from "./attempt.js";
export {
  type ArgsAnd,
  defineJob,
  type DefinitionOptions,
  type EnqueueOptions,
  type FollowUp,
  type HandlerResult,
  type JobDefinition,
  type JobOptions,
  newJob,
  type NewJob,
} from "./define.js";
export { type Duration, durationMs, type Id } from "./durations.js";
export {
  type Again,
  AnswerTimeout,
  AttemptEnded,
  Cancelled,
  Conflict,
  type ErrorCode,
  Expired,
  Forbidden,
  InvalidArgument,
  JobFailed,
  LeaseHeld,
  LeaseLost,
  LockLost,
  MainspringError,
  NotFound,
  QueueFull,
  ServerError,
  ShuttingDown,
  TimedOut,
  TooLarge,
  Unauthenticated,
  Unavailable,
  ValidationError,
  ResultTimeout,
} from "./errors.js";
export type { EventFilter, EventType, JobEvent } from "./events.js";
export type { TlsOptions } from "./certificates.js";
export type { JobHandle, JobInfo, JobState, WaitOptions, Why } from "./job.js";
export { formatJson, parseJson } from "./json.js";
export type { HeldLock, LockOptions } from "./locks.js";
export { jsonLogger, type LogFields, type Logger, type LogLevel } from "./log.js";
export { openTelemetry, sentry, type SentrySdk, type Tracer } from "./integrations.js";
export type { Middleware } from "./middleware.js";
export { cancel, complete, dead, defer, Outcome, retry, snooze } from "./outcomes.js";
export type { Backoff, RetryPolicy } from "./policy.js";
export type { QueueInfo, QueueLimits, Queues, Retention } from "./queues.js";
export type {
  LedgerRow,
  PlannedSchedule,
  ScheduleInfo,
  ScheduleJob,
  ScheduleOptions,
  Schedules,
  SyncOutcome,
  Tick,
} from "./schedules.js";
export { type SchemaIssue, type SchemaResult, type StandardSchema, type } from "./schema.js";
export type { AcceptOptions, HeldSession, SessionInfo, Sessions } from "./sessions.js";
export type { Worker } from "./worker.js";
export {
  handle,
  type Handler,
  type HandlerOptions,
  type JobHandler,
  type WorkerOptions,
  type WorkerStats,
} from "./worker_options.js";
export {
  type JobStep,
  ref,
  step,
  type StepDefinition,
  type StartedWorkflow,
  type StepJob,
  type StepOptions,
  type StepResults,
  type WorkflowDefinition,
  type WorkflowInfo,
  type Workflows,
  type WorkflowState,
  type WorkflowStepInfo,
} from "./workflows.js";
