// Request and response shapes of the HTTP API to and from JSON. A server decodes requests and
// encodes responses, a client encodes requests and decodes responses.
//
// encode_… appends to `out`. decode_…_request is strict: unknown and repeated fields, wrong types,
// numbers out of range, bad UTF-8, nesting over kMaxJsonDepth and text after the document are
// refused as invalid_argument, with `field` as the path of what broke the rule, for example
// jobs[3].priority; texts of errors, reasons and progress are cut to their limit instead.
// decode_…_response ignores fields it does not know, so that an old client understands a new
// server; what is not JSON or lacks a field that every server sends is `internal`.
//
// Payloads (args, result, checkpoint, headers) pass through byte for byte. Durations in fields that
// end in _ms are whole milliseconds, rounded up; kForever is null. Empty fields are omitted. All
// functions are thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/name_page.h"
#include "api/payload.h"
#include "model/access.h"
#include "store/operations.h"

namespace mainspring {

class JsonWriter;

// -- POST /v1/jobs --------------------------------------------------------------------------------

// {"queue", "kind", …} or {"jobs": [{…}, …]}, either with "fence"?: {"lease", "token"}. Every job
// has passed validate().
// The key and the fingerprint are not part of the body: the caller sets them from the header.
struct EnqueueRequest {
  Enqueue operation;
  bool single = false;  // one job without "jobs" around it; it is answered the same way
};
Result<EnqueueRequest> decode_enqueue_request(std::string_view body);
// A single job has no "jobs" around it.
void encode_enqueue_request(const Enqueue& request, std::string& out);
void encode_enqueue_response(const EnqueueResult& result, bool single, std::string& out);
Result<EnqueueResult> decode_enqueue_response(std::string_view body);  // reads both forms

// -- POST /v1/claim -------------------------------------------------------------------------------

// {"worker", "queues" or "session": {"queue", "key", "token"}, "kinds"?, "max"?, "wait"?,
// "lease"?}. With a session, which the worker holds: its one job that can begin.
struct ClaimRequest {
  Claim operation;
  Duration wait{0};       // how long the claim may wait; 0 = answer at once; at most kMaxClaimWait
  std::string session{};  // while it is read: the ready queue of the session
};
Result<ClaimRequest> decode_claim_request(std::string_view body);
void encode_claim_request(const ClaimRequest& request, std::string& out);
// {"jobs": […], "cancel"?: [ids]}
void encode_claim_response(const ClaimResult& result, std::string& out);
// `unreadable`: receives jobs of the claim that must not run, with an outcome that makes them dead:
// a member is missing or invalid, or a payload has a number beyond the range of a double. nullptr =
// they are left out.
Result<ClaimResult> decode_claim_response(std::string_view body,
                                          std::vector<JobOutcome>* unreadable = nullptr);

// -- POST /v1/finish ------------------------------------------------------------------------------

// {"worker", "results": […], "claim"?: {…}}. The claim's worker may be omitted: it is the same.
struct FinishRequest {
  Finish operation;  // without refused results
  std::optional<ClaimRequest> claim;
  // Bad results and those over a limit, by their index in the request. The others count.
  struct Refused {
    std::size_t place = 0;
    RefusedPart part;
  };
  std::vector<Refused> refused{};
};
struct FinishResponse {
  std::vector<JobId> ids;  // of the request's results, in order
  FinishResult result;     // one status per id
  std::optional<ClaimResult> claim;
};
Result<FinishRequest> decode_finish_request(std::string_view body);
void encode_finish_request(const Finish& request, const ClaimRequest* claim, std::string& out);
// Inserts refused results into the answer for the others: `ids` and `result` get their entries.
void add_refused(std::span<const FinishRequest::Refused> refused, std::vector<JobId>& ids,
                 FinishResult& result);
// `claim` nullptr = no claim was requested.
void encode_finish_response(std::span<const JobId> ids, const FinishResult& result,
                            const ClaimResult* claim, std::string& out);
Result<FinishResponse> decode_finish_response(std::string_view body);

// -- POST /v1/claim/end ---------------------------------------------------------------------------

struct EndClaimsRequest {
  std::string worker;
};
Result<EndClaimsRequest> decode_end_claims_request(std::string_view body);
void encode_end_claims_request(const EndClaimsRequest& request, std::string& out);
void encode_end_claims_response(std::size_t ended, std::string& out);

// -- POST /v1/renew -------------------------------------------------------------------------------

struct RenewRequest : Renew {
  std::vector<RefusedPart> refused{};  // bad reports and those over a limit, left out
};
Result<RenewRequest> decode_renew_request(std::string_view body);
void encode_renew_request(const Renew& request, std::string& out);
// "quiet" for a command, "terminate" for stop.
void encode_renew_response(const RenewResult& result, std::string& out);
Result<RenewResult> decode_renew_response(std::string_view body);

// -- GET /v1/jobs/{id}/memos ----------------------------------------------------------------------

void encode_memo_page(const MemoPage& page, std::string& out);
Result<MemoPage> decode_memo_page(std::string_view body);

// -- jobs -----------------------------------------------------------------------------------------

enum class JobDetail {
  full,              // GET /v1/jobs/{id}
  full_with_result,  // the same; its result is shown in any case
  summary,           // in lists: without errors, result, checkpoint
  outcome,           // id, queue, state, and the result of one that has it
  state,             // id, queue, state
};
void encode_job(const Job& job, JobDetail detail, std::string& out,
                Payload payload = Payload::shown);
Result<Job> decode_job(std::string_view body);
// {"jobs": […], "next_cursor": "…" | null}
// `payloads`: the queues whose payloads are shown.
void encode_job_page(const JobPage& page, std::string& out, const Within& payloads = {});
Result<JobPage> decode_job_page(std::string_view body);
std::string encode_cursor(JobId before);
Result<JobId> decode_cursor(std::string_view cursor);  // "" = 0, from the newest

// {"reason"?}; an empty body is no reason.
Result<Cancel> decode_cancel_request(JobId id, std::string_view body);
void encode_cancel_request(const Cancel& request, std::string& out);
void encode_cancel_response(JobId id, const CancelResult& result, std::string& out);
Result<CancelResult> decode_cancel_response(std::string_view body);

void encode_retry_response(JobId id, const RetryResult& result, std::string& out);
Result<RetryResult> decode_retry_response(std::string_view body);

// -- queues, workers, the dead letter -------------------------------------------------------------

// oldest_available_ms is measured from `now`.
void encode_queue(const QueueStats& queue, WallTime now, std::string& out);
// `more`: there are more by name after the last of these.
void encode_queues(std::span<const QueueStats> queues, WallTime now, bool more, std::string& out);
Result<QueueStats> decode_queue(std::string_view body);
Result<NamePage<QueueStats>> decode_queues(std::string_view body);
// {"name", "paused"}
// Why a job does not run: {"id", "state", "gate", "why", "until"?, "ahead"?, "estimated_start"?}.
struct WhyAnswer {
  JobId id = 0;
  std::string state, gate, why;
  std::optional<WallTime> until;
  std::optional<std::int64_t> ahead{};
  std::optional<WallTime> estimated_start{};
};
void encode_why(const WhyAnswer& answer, std::string& out);
Result<WhyAnswer> decode_why(std::string_view body);
void encode_paused(const PauseQueue& queue, std::string& out);
void encode_queue_removed(const std::string& name, std::string& out);
// {"retention": {"completed"?: "24h" | null, "dead"?: "30d" | null}}; null or absent = default.
Result<SetRetention> decode_retention_request(std::string queue, std::string_view body);
void encode_retention_request(const SetRetention& request, std::string& out);
// {"name", "retention"}
void encode_retention_response(const SetRetention& request, std::string& out);

// The known facts, host, pid, version, language and slots, as members of an object.
void write_facts(JsonWriter& w, const WorkerFacts& facts);
void write_worker(JsonWriter& w, const WorkerInfo& worker);
void write_command(JsonWriter& w, WorkerCommand command);  // "quiet", "stop" or null
Result<WorkerInfo> decode_worker(std::string_view body);
void encode_workers(std::span<const WorkerInfo> workers, std::string& out);
Result<std::vector<WorkerInfo>> decode_workers(std::string_view body);

// {"queue"?, "kind"?, "tag"?, "limit"?, "after"?, "dry_run"?}; an empty body = every dead job, at
// most 1000.
struct RedriveRequest {
  Redrive operation;
  bool dry_run = false;  // only report the effect
};
Result<RedriveRequest> decode_redrive_request(std::string_view body);
void encode_redrive_request(const RedriveRequest& request, std::string& out);
// {"redriven", "next": id | null, "ids": […]}
void encode_redrive_response(const RedriveResult& result, std::string& out);
Result<RedriveResult> decode_redrive_response(std::string_view body);

// {"jobs", "problems": […]}
void encode_verify(const VerifyReport& report, std::string& out);
Result<VerifyReport> decode_verify(std::string_view body);

// -- errors ---------------------------------------------------------------------------------------

// {"error": {"code", "message", "field"?, "retry_after_ms"?}}
void encode_error(const Error& error, std::string& out);
// The error of a server that answered `http_status` with `body`. A body of another format (a
// proxy's page) gives the first code with that status, else `internal`, with the start of the body
// as message.
Error decode_error(int http_status, std::string_view body);

// -- for the OpenAPI document and the tests -------------------------------------------------------

// The fields that a strict decoder knows, by the name of its schema in /openapi.json: NewJob,
// SingleJob, Unique, FollowUp, Fence, EnqueueRequest, ClaimRequest, FinishRequest, Outcome,
// RenewRequest, Lease, Progress, CancelRequest, RedriveRequest, RedriveOrder, RetentionRequest,
// Retention, AcquireLeaseRequest, RenewLeaseRequest, ReleaseLeaseRequest, HeldSession,
// AcceptSessionRequest, RenewSessionRequest, ReleaseSessionRequest, SessionStateRequest,
// ScheduleDefinition, Continuous, ScheduleRequest, PauseRequest, TimerRequest, TriggerRequest,
// BackfillRequest, PreviewRequest.
// Empty for other names.
std::vector<std::string_view> request_fields(std::string_view schema);

inline constexpr int kMaxJsonDepth = 64;
inline constexpr int kMaxRedriveJobs = 10'000;
// Results and leases in one finish or renew are bounded by kMaxFinishResults and kMaxRenewLeases.

}  // namespace mainspring
