// The table, and the matching of requests to it.
#include "http/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/json.h"
#include "http/parser.h"

namespace mainspring::http {
namespace {

constexpr std::string_view kText = R"({"type":"string"})";
constexpr QueryParameter kWait[] = {
    {"wait", R"({"type":"string","example":"30s"})",
     "How long to wait for the job's end, at most 60s. The answer is the job as it is then."}};
constexpr QueryParameter kListJobs[] = {
    {"queue", kText, "Only jobs of this queue."},
    {"state", R"({"$ref":"#/components/schemas/JobState"})", "Only jobs in this state."},
    {"kind", kText, "Only jobs of this kind."},
    {"tag", kText, "Only jobs with this tag."},
    {"limit", R"({"type":"integer","minimum":1,"maximum":1000,"default":100})",
     "At most so many jobs. A page may be shorter and still not be the last."},
    {"cursor", kText, "The next_cursor of the page before."}};
constexpr QueryParameter kListDead[] = {kListJobs[0], kListJobs[2], kListJobs[3], kListJobs[4],
                                        kListJobs[5]};

constexpr QueryParameter kListNames[] = {
    {"after", kText, "Begin after this name: the next of the page before."}, kListJobs[4]};
constexpr QueryParameter kPreviewQuery[] = {
    {"from", R"({"type":"string","format":"date-time"})", "Ticks after this instant [now]."},
    {"count", R"({"type":"integer","minimum":1,"maximum":1000,"default":10})", "At most so many."}};
constexpr QueryParameter kLedgerQuery[] = {kListJobs[4], kListJobs[5]};

constexpr Success kEnqueued[] = {{201, "EnqueueResponse", "The jobs are on disk."},
                                 {200, "EnqueueResponse",
                                  "All of them had been there: found by unique or by the "
                                  "Idempotency-Key."}};
constexpr Success kJobOk[] = {{200, "Job", "The job."}};
constexpr Success kPageOk[] = {{200, "JobPage", "One page, newest first."}};
constexpr Success kCancelOk[] = {
    {200, "CancelResponse", "Cancelled, or, of a running job, the wish is noted."}};
constexpr Success kRetryOk[] = {{200, "RetryResponse", "The job is available."}};
constexpr Success kClaimOk[] = {
    {200, "ClaimResponse", "Up to max jobs; none when the wait is over."}};
constexpr Success kFinishOk[] = {{200, "FinishResponse", "A status per result, in order."}};
constexpr Success kRenewOk[] = {{200, "RenewResponse", "What was renewed, lost, to be stopped."}};
constexpr Success kQueuesOk[] = {{200, "QueueList", "Every queue."}};
constexpr Success kQueueOk[] = {{200, "Queue", "The queue."}};
constexpr Success kPausedOk[] = {{200, "QueuePaused", "What the queue is now."}};
constexpr Success kRetentionOk[] = {{200, "QueueRetention", "What the queue has now."}};
constexpr Success kRedriveOk[] = {{200, "RedriveResponse", "How many became available."}};
constexpr Success kWorkersOk[] = {{200, "WorkerList", "Workers heard of lately."}};
constexpr Success kGrantOk[] = {{200, "LeaseGrant", "It is the caller's until it expires."}};
constexpr Success kReleasedOk[] = {{200, "LeaseReleased", "It is free."}};
constexpr Success kLeaseOk[] = {{200, "NamedLease", "The lease."}};
constexpr Success kLeasesOk[] = {{200, "NamedLeaseList", "Held ones and those with a value."}};
constexpr Success kPutOk[] = {{201, "Schedule", "It is new."},
                              {200, "Schedule", "It was there: see its outcome."}};
constexpr Success kScheduleOk[] = {{200, "Schedule", "The schedule as it is then."}};
constexpr Success kSchedulesOk[] = {{200, "ScheduleList", "One page, by name."}};
constexpr Success kRemovedOk[] = {{200, "ScheduleRemoved", "It is gone; its jobs stay."}};
constexpr Success kTriggerOk[] = {{201, "TriggerResponse", "The job."}};
constexpr Success kBackfillOk[] = {{200, "BackfillResponse", "Up to 1000 ticks are decided."}};
constexpr Success kPreviewOk[] = {{200, "Preview", "Ticks to come, in order."}};
constexpr Success kLedgerOk[] = {{200, "Ledger", "One page, newest first."}};
constexpr Success kVerifyOk[] = {{200, "VerifyReport", "What was found."}};
constexpr Success kVersionOk[] = {{200, "Version", "Name and version."}};
constexpr Success kHostOk[] = {{200, "Host", "The job host."}};
constexpr Success kHostJobsOk[] = {{200, "HostJobList", "By type, then name."}};
constexpr Success kHostJobOk[] = {{200, "HostJob", "The job as it is then."}};
constexpr Success kHostRemovedOk[] = {{200, "HostJobRemoved", "It is gone, or was not there."}};
constexpr Success kHostSettingsOk[] = {{200, "HostSettings", "settings.job as it is."}};
constexpr Success kHostStartedOk[] = {{202, "HostRunStarted", "It runs; see its history."}};
constexpr Success kHostHistoryOk[] = {{200, "HostHistory", "Newest first."}};
constexpr Success kHostRunOk[] = {{200, "HostRun", "The run."}};
constexpr Success kHostLogOk[] = {
    {200, "HostLog", "A part of the log; with follow=true text/plain, as it is written."}};
constexpr QueryParameter kHostJobsQuery[] = {
    {"type", R"({"enum":["continuous","triggered","queue"]})", "Only jobs of this type."}};
constexpr QueryParameter kHostLogQuery[] = {
    {"run", kText, "Of a triggered job: which run [the latest]."},
    {"position", R"({"type":"integer","format":"int64","default":0})",
     "From this byte on: the next of the answer before; below 0: from the end."},
    {"max", R"({"type":"integer","minimum":1,"maximum":1048576,"default":65536})",
     "At most so many bytes, in whole lines."},
    {"wait", R"({"type":"string","example":"30s"})",
     "How long to wait for more if there is none, at most 60s."},
    {"follow", R"({"type":"boolean","default":false})",
     "A stream of text/plain, until the log ends."}};
constexpr Success kHealthOk[] = {{200, "Health", "The process is alive."}};
constexpr Success kReadyOk[] = {{200, "Ready", "Requests are taken."}};
constexpr Success kTextOk[] = {{200, "", "Prometheus' text format."}};
constexpr Success kDocumentOk[] = {{200, "Document", "This document."}};

constexpr ErrorCode kEnqueueErrors[] = {ErrorCode::conflict, ErrorCode::too_large,
                                        ErrorCode::storage_full, ErrorCode::lease_lost};
constexpr ErrorCode kJobErrors[] = {ErrorCode::not_found, ErrorCode::expired};
constexpr ErrorCode kChangeJobErrors[] = {ErrorCode::not_found, ErrorCode::expired,
                                          ErrorCode::conflict};
constexpr ErrorCode kBatchErrors[] = {ErrorCode::too_large};
constexpr ErrorCode kQueueErrors[] = {ErrorCode::not_found};
constexpr ErrorCode kAcquireErrors[] = {ErrorCode::lease_held};
constexpr ErrorCode kHoldErrors[] = {ErrorCode::lease_lost, ErrorCode::too_large};
constexpr ErrorCode kNameErrors[] = {ErrorCode::not_found};
constexpr ErrorCode kPutErrors[] = {ErrorCode::too_large, ErrorCode::storage_full};
constexpr ErrorCode kRunErrors[] = {ErrorCode::not_found, ErrorCode::conflict,
                                    ErrorCode::storage_full};

constexpr ErrorCode kHostErrors[] = {ErrorCode::not_found};
constexpr ErrorCode kDeployErrors[] = {ErrorCode::not_found, ErrorCode::too_large,
                                       ErrorCode::storage_full};
constexpr ErrorCode kHostChangeErrors[] = {ErrorCode::not_found, ErrorCode::conflict};

constexpr Route kRoutes[] = {
    {.method = "POST",
     .pattern = "/v1/jobs",
     .id = "enqueue",
     .summary = "Enqueue one job, or up to 10,000, all or none",
     .plan = &plan_enqueue,
     .body = BodyRule::required,
     .batch = true,
     .request_schema = "Enqueue",
     .successes = kEnqueued,
     .errors = kEnqueueErrors,
     .query = kWait,
     .idempotency_key = true},
    {.method = "GET",
     .pattern = "/v1/jobs/{id}",
     .id = "get_job",
     .summary = "A job with its result and errors",
     .plan = &plan_get_job,
     .successes = kJobOk,
     .errors = kJobErrors,
     .query = kWait},
    {.method = "POST",
     .pattern = "/v1/claim",
     .id = "claim",
     .summary = "Take jobs to run, waiting for them if there are none",
     .plan = &plan_claim,
     .body = BodyRule::required,
     .request_schema = "ClaimRequest",
     .successes = kClaimOk},
    {.method = "POST",
     .pattern = "/v1/finish",
     .id = "finish",
     .summary = "Report the outcomes of attempts, and optionally claim the next jobs",
     .plan = &plan_finish,
     .body = BodyRule::required,
     .batch = true,
     .request_schema = "FinishRequest",
     .successes = kFinishOk,
     .errors = kBatchErrors},
    {.method = "POST",
     .pattern = "/v1/renew",
     .id = "renew",
     .summary = "Keep leases, report progress, keep checkpoints",
     .plan = &plan_renew,
     .body = BodyRule::required,
     .batch = true,
     .request_schema = "RenewRequest",
     .successes = kRenewOk,
     .errors = kBatchErrors},
    {.method = "GET",
     .pattern = "/v1/jobs",
     .id = "list_jobs",
     .summary = "Jobs, newest first, page by page",
     .plan = &plan_list_jobs,
     .successes = kPageOk,
     .query = kListJobs},
    {.method = "POST",
     .pattern = "/v1/jobs/{id}/cancel",
     .id = "cancel_job",
     .summary = "Cancel a job, also a running one",
     .plan = &plan_cancel_job,
     .body = BodyRule::optional,
     .request_schema = "CancelRequest",
     .successes = kCancelOk,
     .errors = kChangeJobErrors},
    {.method = "POST",
     .pattern = "/v1/jobs/{id}/retry",
     .id = "retry_job",
     .summary = "Make a dead, cancelled, retryable or scheduled job available now",
     .plan = &plan_retry_job,
     .successes = kRetryOk,
     .errors = kChangeJobErrors},
    {.method = "GET",
     .pattern = "/v1/queues",
     .id = "list_queues",
     .summary = "Every queue with its counters",
     .plan = &plan_list_queues,
     .successes = kQueuesOk},
    {.method = "GET",
     .pattern = "/v1/queues/{name}",
     .id = "get_queue",
     .summary = "One queue with its counters",
     .plan = &plan_get_queue,
     .successes = kQueueOk,
     .errors = kQueueErrors},
    {.method = "PUT",
     .pattern = "/v1/queues/{name}",
     .id = "set_retention",
     .summary = "Set how long a queue's ended jobs are kept",
     .plan = &plan_set_retention,
     .body = BodyRule::required,
     .request_schema = "RetentionRequest",
     .successes = kRetentionOk},
    {.method = "POST",
     .pattern = "/v1/queues/{name}/pause",
     .id = "pause_queue",
     .summary = "Give out no jobs of this queue",
     .plan = &plan_pause_queue,
     .successes = kPausedOk},
    {.method = "POST",
     .pattern = "/v1/queues/{name}/resume",
     .id = "resume_queue",
     .summary = "Give out jobs of this queue again",
     .plan = &plan_resume_queue,
     .successes = kPausedOk},
    {.method = "POST",
     .pattern = "/v1/leases/{name}/acquire",
     .id = "acquire_lease",
     .summary = "Take a lease, or wait for it",
     .plan = &plan_acquire_lease,
     .body = BodyRule::required,
     .request_schema = "AcquireLeaseRequest",
     .successes = kGrantOk,
     .errors = kAcquireErrors},
    {.method = "POST",
     .pattern = "/v1/leases/{name}/renew",
     .id = "renew_lease",
     .summary = "Keep a lease, leave a value with it",
     .plan = &plan_renew_lease,
     .body = BodyRule::required,
     .request_schema = "RenewLeaseRequest",
     .successes = kGrantOk,
     .errors = kHoldErrors},
    {.method = "POST",
     .pattern = "/v1/leases/{name}/release",
     .id = "release_lease",
     .summary = "Give a lease back",
     .plan = &plan_release_lease,
     .body = BodyRule::required,
     .request_schema = "ReleaseLeaseRequest",
     .successes = kReleasedOk,
     .errors = kHoldErrors},
    {.method = "GET",
     .pattern = "/v1/leases/{name}",
     .id = "get_lease",
     .summary = "Who holds a lease",
     .plan = &plan_get_lease,
     .successes = kLeaseOk,
     .errors = kNameErrors},
    {.method = "GET",
     .pattern = "/v1/leases",
     .id = "list_leases",
     .summary = "Leases by name, page by page",
     .plan = &plan_list_leases,
     .successes = kLeasesOk,
     .query = kListNames},
    {.method = "PUT",
     .pattern = "/v1/schedules/{name}",
     .id = "put_schedule",
     .summary = "Define a schedule; the same definition again changes nothing",
     .plan = &plan_put_schedule,
     .body = BodyRule::required,
     .request_schema = "ScheduleRequest",
     .successes = kPutOk,
     .errors = kPutErrors},
    {.method = "GET",
     .pattern = "/v1/schedules/{name}",
     .id = "get_schedule",
     .summary = "A schedule and its state",
     .plan = &plan_get_schedule,
     .successes = kScheduleOk,
     .errors = kNameErrors},
    {.method = "GET",
     .pattern = "/v1/schedules",
     .id = "list_schedules",
     .summary = "Schedules by name, page by page",
     .plan = &plan_list_schedules,
     .successes = kSchedulesOk,
     .query = kListNames},
    {.method = "DELETE",
     .pattern = "/v1/schedules/{name}",
     .id = "remove_schedule",
     .summary = "Remove a schedule and its ledger; its jobs stay",
     .plan = &plan_remove_schedule,
     .successes = kRemovedOk,
     .errors = kNameErrors},
    {.method = "POST",
     .pattern = "/v1/schedules/{name}/pause",
     .id = "pause_schedule",
     .summary = "Fire no ticks; of a continuous timer the kill switch",
     .plan = &plan_pause_schedule,
     .body = BodyRule::optional,
     .request_schema = "PauseRequest",
     .successes = kScheduleOk,
     .errors = kNameErrors},
    {.method = "POST",
     .pattern = "/v1/schedules/{name}/resume",
     .id = "resume_schedule",
     .summary = "Fire ticks again; those of the pause are skipped",
     .plan = &plan_resume_schedule,
     .successes = kScheduleOk,
     .errors = kNameErrors},
    {.method = "POST",
     .pattern = "/v1/schedules/{name}/trigger",
     .id = "trigger_schedule",
     .summary = "Run its job now, also while it is paused",
     .plan = &plan_trigger_schedule,
     .body = BodyRule::optional,
     .request_schema = "TriggerRequest",
     .successes = kTriggerOk,
     .errors = kRunErrors},
    {.method = "POST",
     .pattern = "/v1/schedules/{name}/wake",
     .id = "wake_schedule",
     .summary = "Run a continuous timer now, or its twin",
     .plan = &plan_wake_schedule,
     .successes = kTriggerOk,
     .errors = kRunErrors},
    {.method = "POST",
     .pattern = "/v1/schedules/{name}/backfill",
     .id = "backfill_schedule",
     .summary = "Run the ticks of a time that has passed",
     .plan = &plan_backfill_schedule,
     .body = BodyRule::required,
     .request_schema = "BackfillRequest",
     .successes = kBackfillOk,
     .errors = kRunErrors},
    {.method = "PUT",
     .pattern = "/v1/schedules/{name}/timer",
     .id = "set_timer",
     .summary = "Change a continuous timer's timeout while it runs",
     .plan = &plan_set_timer,
     .body = BodyRule::required,
     .request_schema = "TimerRequest",
     .successes = kScheduleOk,
     .errors = kRunErrors},
    {.method = "GET",
     .pattern = "/v1/schedules/{name}/preview",
     .id = "preview_schedule",
     .summary = "Its ticks to come",
     .plan = &plan_preview_schedule,
     .successes = kPreviewOk,
     .errors = kNameErrors,
     .query = kPreviewQuery},
    {.method = "POST",
     .pattern = "/v1/schedules/preview",
     .id = "preview_definition",
     .summary = "The ticks of a definition that is not stored",
     .plan = &plan_preview_definition,
     .body = BodyRule::required,
     .request_schema = "PreviewRequest",
     .successes = kPreviewOk},
    {.method = "GET",
     .pattern = "/v1/schedules/{name}/ledger",
     .id = "ledger",
     .summary = "What became of every tick",
     .plan = &plan_ledger,
     .successes = kLedgerOk,
     .errors = kNameErrors,
     .query = kLedgerQuery},
    {.method = "GET",
     .pattern = "/v1/dead",
     .id = "list_dead",
     .summary = "The dead letter, newest first, page by page",
     .plan = &plan_list_dead,
     .successes = kPageOk,
     .query = kListDead},
    {.method = "POST",
     .pattern = "/v1/dead/redrive",
     .id = "redrive",
     .summary = "Make dead jobs available again, by filter",
     .plan = &plan_redrive,
     .body = BodyRule::optional,
     .request_schema = "RedriveRequest",
     .successes = kRedriveOk},
    {.method = "GET",
     .pattern = "/v1/workers",
     .id = "list_workers",
     .summary = "Workers and what they hold",
     .plan = &plan_list_workers,
     .successes = kWorkersOk},
    {.method = "GET",
     .pattern = "/v1/host",
     .id = "host",
     .summary = "The job host: its layers of isolation, its problems",
     .plan = &plan_host,
     .successes = kHostOk,
     .errors = kHostErrors},
    {.method = "GET",
     .pattern = "/v1/host/jobs",
     .id = "host_jobs",
     .summary = "Job folders",
     .plan = &plan_host_jobs,
     .successes = kHostJobsOk,
     .errors = kHostErrors,
     .query = kHostJobsQuery},
    {.method = "GET",
     .pattern = "/v1/host/jobs/{type}/{name}",
     .id = "host_job",
     .summary = "One job folder",
     .plan = &plan_host_job,
     .successes = kHostJobOk,
     .errors = kHostErrors},
    {.method = "PUT",
     .pattern = "/v1/host/jobs/{type}/{name}",
     .id = "deploy_host_job",
     .summary = "Replace a job's files by a zip, or by the file that Content-Disposition names",
     .plan = &plan_deploy_host_job,
     .body = BodyRule::bytes,
     .upload = true,
     .request_type = "application/zip",
     .request_schema = "HostFiles",
     .successes = kHostJobOk,
     .errors = kDeployErrors,
     .headers = true},
    {.method = "DELETE",
     .pattern = "/v1/host/jobs/{type}/{name}",
     .id = "remove_host_job",
     .summary = "Remove a job folder with its data",
     .plan = &plan_remove_host_job,
     .successes = kHostRemovedOk,
     .errors = kHostErrors},
    {.method = "GET",
     .pattern = "/v1/host/jobs/{type}/{name}/settings",
     .id = "host_settings",
     .summary = "Its settings.job",
     .plan = &plan_host_settings,
     .successes = kHostSettingsOk,
     .errors = kHostChangeErrors},
    {.method = "PUT",
     .pattern = "/v1/host/jobs/{type}/{name}/settings",
     .id = "put_host_settings",
     .summary = "Replace its settings.job",
     .plan = &plan_put_host_settings,
     .body = BodyRule::required,
     .request_schema = "HostSettings",
     .successes = kHostSettingsOk,
     .errors = kHostErrors},
    {.method = "POST",
     .pattern = "/v1/host/jobs/{type}/{name}/run",
     .id = "run_host_job",
     .summary = "Start a run of a triggered job",
     .plan = &plan_run_host_job,
     .body = BodyRule::optional,
     .request_schema = "HostRunRequest",
     .successes = kHostStartedOk,
     .errors = kHostChangeErrors,
     .headers = true},
    {.method = "POST",
     .pattern = "/v1/host/jobs/{type}/{name}/stop",
     .id = "stop_host_job",
     .summary = "Cancel a triggered job's run; disable a continuous job",
     .plan = &plan_stop_host_job,
     .successes = kHostJobOk,
     .errors = kHostChangeErrors},
    {.method = "POST",
     .pattern = "/v1/host/jobs/{type}/{name}/start",
     .id = "start_host_job",
     .summary = "Enable a continuous job; thaws it too",
     .plan = &plan_start_host_job,
     .successes = kHostJobOk,
     .errors = kHostChangeErrors},
    {.method = "GET",
     .pattern = "/v1/host/jobs/{type}/{name}/history",
     .id = "host_history",
     .summary = "The runs of a triggered job",
     .plan = &plan_host_history,
     .successes = kHostHistoryOk,
     .errors = kHostErrors},
    {.method = "GET",
     .pattern = "/v1/host/jobs/{type}/{name}/history/{run}",
     .id = "host_run",
     .summary = "One run",
     .plan = &plan_host_run,
     .successes = kHostRunOk,
     .errors = kHostErrors},
    {.method = "GET",
     .pattern = "/v1/host/jobs/{type}/{name}/log",
     .id = "host_log",
     .summary = "What a job wrote: a part, or followed as it grows",
     .plan = &plan_host_log,
     .successes = kHostLogOk,
     .errors = kHostErrors,
     .query = kHostLogQuery},
    {.method = "GET",
     .pattern = "/v1/verify",
     .id = "verify",
     .summary = "Recount the store and check its laws; slow",
     .plan = &plan_verify,
     .successes = kVerifyOk},
    {.method = "GET",
     .pattern = "/v1/version",
     .id = "version",
     .summary = "What this server is",
     .plan = &plan_version,
     .successes = kVersionOk},
    {.method = "GET",
     .pattern = "/healthz",
     .id = "healthz",
     .summary = "Is the process alive?",
     .plan = &plan_healthz,
     .successes = kHealthOk},
    {.method = "GET",
     .pattern = "/readyz",
     .id = "readyz",
     .summary = "Does it take requests? 503 while it stops or when its store failed",
     .plan = &plan_readyz,
     .successes = kReadyOk},
    {.method = "GET",
     .pattern = "/metrics",
     .id = "metrics",
     .summary = "Metrics",
     .plan = &plan_metrics,
     .successes = kTextOk},
    {.method = "GET",
     .pattern = "/openapi.json",
     .id = "openapi",
     .summary = "This interface as OpenAPI 3.1",
     .plan = &plan_openapi,
     .successes = kDocumentOk},
};

constexpr std::size_t kMaxSegments = 7;

struct Path {
  std::array<std::string, kMaxSegments> segments;
  std::array<std::string_view, kMaxSegments> rests;  // from a segment on, not decoded
  std::size_t count = 0;
  bool longer = false;  // than any route without a {rest*}
};

// "/a/b%2Fc" is {"a", "b/c"}. nullopt: a bad escape.
std::optional<Path> split_path(std::string_view path) {
  Path out;
  if (!path.starts_with('/')) return std::nullopt;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::string_view segment = path.substr(0, path.find('/'));
    out.longer = out.count == kMaxSegments;
    if (out.longer) break;
    out.rests[out.count] = path;
    if (segment.find('%') == std::string_view::npos) {
      out.segments[out.count] = segment;
    } else {
      auto decoded = percent_decode(segment, Plus::plain);
      if (!decoded) return std::nullopt;
      out.segments[out.count] = std::move(*decoded);
    }
    ++out.count;
    path.remove_prefix(segment.size());
  }
  return out;
}

bool fits(std::string_view pattern, const Path& path) {
  std::size_t i = 0;
  while (!pattern.empty()) {
    pattern.remove_prefix(1);
    const std::string_view segment = pattern.substr(0, pattern.find('/'));
    if (segment.ends_with("*}")) return i < path.count;
    if (i == path.count) return false;
    if (segment.front() == '{') {
      if (path.segments[i].empty()) return false;
    } else if (segment != path.segments[i]) {
      return false;
    }
    ++i;
    pattern.remove_prefix(segment.size());
  }
  return i == path.count && !path.longer;
}

// Of a path that fits.
void take_params(std::string_view pattern, Path& path, Request& request) {
  bool first = true;
  for (std::size_t i = 0; !pattern.empty(); ++i) {
    pattern.remove_prefix(1);
    const std::string_view segment = pattern.substr(0, pattern.find('/'));
    pattern.remove_prefix(segment.size());
    if (segment.front() != '{') continue;
    std::string value = segment.ends_with("*}") ? std::string(path.rests[i])  // its '/' count
                                                : std::move(path.segments[i]);
    if (first) {
      request.param = std::move(value);
    } else {
      request.more_params.push_back(std::move(value));
    }
    first = false;
  }
}

// What is wrong with a query is an invalid_argument with the parameter as its field.
Result<void> read_query(std::string_view text, const Route& route, Request& request) {
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    auto name = percent_decode(pair.substr(0, equals), Plus::space);
    auto value = percent_decode(
        equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1),
        Plus::space);
    if (!name || !value) return invalid("", "the query: a % must be followed by two hex digits");
    const auto known = std::find_if(route.query.begin(), route.query.end(),
                                    [&](const QueryParameter& p) { return p.name == *name; });
    if (known == route.query.end() && route.any_query) continue;
    if (known == route.query.end()) {
      std::vector<std::string_view> names;
      for (const QueryParameter& p : route.query) names.push_back(p.name);
      return invalid(
          *name, fmt::format("query parameter \"{}\": {}", cut_text(*name, 64),
                             names.empty() ? "this path takes none"
                                           : fmt::format("known are {}", fmt::join(names, ", "))));
    }
    for (const auto& earlier : request.query) {
      if (earlier.first == *name) return invalid(*name, fmt::format("{}: given twice", *name));
    }
    request.query.emplace_back(std::move(*name), std::move(*value));
  }
  return {};
}

Reply unknown_path(std::string_view path) {
  return error_reply({ErrorCode::not_found,
                      fmt::format("there is no {}; see /openapi.json", cut_text(path, 200))});
}

}  // namespace

std::span<const Route> routes() {
  return kRoutes;
}

Reply error_reply(const Error& error) {
  Reply reply{.status = info(error.code).http_status};
  encode_error(error, reply.body);
  const bool later = reply.status == 429 || reply.status == 503 || reply.status == 507;
  if (later || error.retry_after_ms > 0) {
    reply.retry_after_s = std::max(1, (error.retry_after_ms + 999) / 1000);
  }
  return reply;
}

void add_header(Reply& reply, std::string_view name, std::string_view value) {
  reply.headers.append(name).append(": ");
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    reply.headers += byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
  reply.headers += "\r\n";
}

std::string_view header_value(const HeaderFields& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (iequals(key, name)) return value;
  }
  return {};
}

namespace {

// True when the path is in the table: then `out` has the route or an error.
bool match_in(std::span<const Route> table, std::string_view method, std::string_view target,
              Match& out) {
  const std::string_view raw_path = target.substr(0, target.find('?'));
  auto path = split_path(raw_path);
  if (!path) return false;
  const std::string_view wanted = out.head_only ? "GET" : method;
  std::string allow;
  for (const Route& route : table) {
    if (!fits(route.pattern, *path)) continue;
    if (route.method != wanted && route.method != "*") {
      allow += fmt::format("{}{}", allow.empty() ? "" : ", ", route.method);
      if (route.method == "GET") allow += ", HEAD";
      continue;
    }
    take_params(route.pattern, *path, out.request);
    if (route.method == "*") out.request.method = method;
    const std::string_view query =
        target.size() > raw_path.size() ? target.substr(raw_path.size() + 1) : std::string_view();
    if (route.any_query) out.request.raw_query = query;
    auto read = route.method == "*" ? Result<void>() : read_query(query, route, out.request);
    if (read) {
      out.route = &route;
    } else {
      out.error = error_reply(read.error());
    }
    return true;
  }
  if (allow.empty()) return false;
  out.error = error_reply(
      {ErrorCode::method_not_allowed,
       fmt::format("{} {}: must be {}", cut_text(method, 32), cut_text(raw_path, 200), allow)});
  out.error.allow = std::move(allow);
  return true;
}

}  // namespace

Match match(std::string_view method, std::string_view target, const MoreRoutes& more) {
  Match out;
  if (target.starts_with("http://")) {  // a whole URL: its host was checked with the head
    const std::size_t slash = target.find('/', 7);
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  out.head_only = method == "HEAD";
  if (match_in(kRoutes, method, target, out)) return out;
  if (!more.routes.empty() && match_in(more.routes, method, more.canonical(target), out)) {
    return out;
  }
  out.error = unknown_path(target.substr(0, target.find('?')));
  return out;
}

}  // namespace mainspring::http
