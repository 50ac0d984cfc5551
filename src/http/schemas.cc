// components/schemas of the OpenAPI document. A test holds them against the decoders of src/api.
#include <array>

#include "http/routes.h"

namespace mainspring::http {
namespace {

// A job's members: of one in a list, and of a single one, which has a fence beside them.
constexpr std::string_view kJobMembers =
    R"("queue":{"$ref":"#/components/schemas/Name","default":"default"},
      "kind":{"$ref":"#/components/schemas/Name"},
      "args":{"description":"Any JSON value, up to 1 MiB of text, kept byte for byte.",
        "default":{}},
      "delay":{"$ref":"#/components/schemas/Duration"},
      "run_at":{"type":"string","format":"date-time"},
      "priority":{"type":"integer","minimum":0,"maximum":9,"default":5,
        "description":"0 is first."},
      "max_attempts":{"type":"integer","minimum":1,"maximum":1000,"default":20},
      "unique":{"$ref":"#/components/schemas/Unique"},
      "expires_in":{"$ref":"#/components/schemas/Duration",
        "description":"If it has not started by then it is cancelled."},
      "timeout":{"type":"string","default":"15m",
        "description":"Time limit of one attempt: a duration, or none."},
      "tags":{"type":"array","maxItems":16,
        "items":{"type":"string","minLength":1,"maxLength":64}},
      "headers":{"type":"object","additionalProperties":{"type":"string"}},
      "correlation_id":{"type":"string","maxLength":512},
      "reply_to":{"$ref":"#/components/schemas/Name"},
      "session":{"type":"null","description":"Reserved."})";
constexpr std::string_view kJobHead =
    R"({"type":"object","additionalProperties":false,"required":["kind"],"properties":{)";
constexpr std::string_view kFenceMember = R"("fence":{"$ref":"#/components/schemas/Fence"},)";
constexpr std::string_view kJobTail = "}}";

// One text of several, made by the compiler.
template <const std::string_view&... Parts>
struct Joined {
  static constexpr auto make() {
    std::array<char, (Parts.size() + ...)> out{};
    std::size_t at = 0;
    const auto add = [&](std::string_view part) {
      for (const char c : part) out[at++] = c;
    };
    (add(Parts), ...);
    return out;
  }
  static constexpr auto kText = make();
  static constexpr std::string_view kView{kText.data(), kText.size()};
};

constexpr Schema kSchemas[] = {
    {"Name", R"({"type":"string","minLength":1,"maxLength":128,
      "pattern":"^[A-Za-z0-9][A-Za-z0-9._:/-]*$"})"},
    {"Duration", R"({"type":"string","description":"A number with a unit: us, ms, s, m, h, d.",
      "examples":["250ms","30s","1h30m"]})"},
    {"JobState", R"({"enum":["waiting","scheduled","available","running","completed","retryable",
      "cancelled","dead"]})"},
    {"Unique", R"({"type":"object","additionalProperties":false,"required":["key"],
      "description":"One job per key and queue until the first has ended and the window is over.",
      "properties":{
      "key":{"type":"string","minLength":1,"maxLength":512},
      "for":{"$ref":"#/components/schemas/Duration"},
      "on_conflict":{"enum":["keep","replace","postpone"],"default":"keep"}}})"},
    {"NewJob", Joined<kJobHead, kJobMembers, kJobTail>::kView},
    {"SingleJob", Joined<kJobHead, kFenceMember, kJobMembers, kJobTail>::kView},
    {"Fence", R"({"type":"object","additionalProperties":false,"required":["lease","token"],
      "description":"Refused with lease_lost, unless the lease is held with this token.",
      "properties":{"lease":{"$ref":"#/components/schemas/Name"},
      "token":{"type":"integer","format":"int64"}}})"},
    {"EnqueueRequest", R"({"type":"object","additionalProperties":false,"required":["jobs"],
      "properties":{"jobs":{"type":"array","minItems":1,"maxItems":10000,
        "items":{"$ref":"#/components/schemas/NewJob"}},
      "fence":{"$ref":"#/components/schemas/Fence"}}})"},
    {"Enqueue", R"({"oneOf":[{"$ref":"#/components/schemas/SingleJob"},
      {"$ref":"#/components/schemas/EnqueueRequest"}]})"},
    {"EnqueuedJob", R"({"type":"object","required":["id","state"],"properties":{
      "id":{"type":"integer","format":"int64"},
      "state":{"$ref":"#/components/schemas/JobState"},
      "duplicate":{"type":"boolean"},"replayed":{"type":"boolean"}}})"},
    {"EnqueueResponse", R"({"oneOf":[{"$ref":"#/components/schemas/EnqueuedJob"},
      {"type":"object","required":["jobs"],"properties":{
        "jobs":{"type":"array","items":{"$ref":"#/components/schemas/EnqueuedJob"}},
        "replayed":{"type":"boolean","description":"The Idempotency-Key had been seen."}}},
      {"$ref":"#/components/schemas/Job"}]})"},
    {"Progress", R"({"type":"object","additionalProperties":false,"properties":{
      "value":{"type":"number","minimum":0,"maximum":1},
      "text":{"type":"string","description":"Cut at 1 KiB."}}})"},
    {"AttemptError", R"({"type":"object","properties":{
      "attempt":{"type":"integer"},"at":{"type":"string","format":"date-time"},
      "worker":{"type":"string"},"message":{"type":"string"},
      "after_ms":{"type":["integer","null"],"description":"From the claim to the error."}}})"},
    {"Job", R"({"type":"object","required":["id","queue","kind","state"],"properties":{
      "id":{"type":"integer","format":"int64"},"queue":{"$ref":"#/components/schemas/Name"},
      "kind":{"$ref":"#/components/schemas/Name"},
      "state":{"$ref":"#/components/schemas/JobState"},"args":{},
      "priority":{"type":"integer"},"run_at":{"type":"string","format":"date-time"},
      "attempt":{"type":"integer"},"max_attempts":{"type":"integer"},
      "token":{"type":"integer","format":"int64","description":"Of the last claim."},
      "version":{"type":"integer","format":"int64"},
      "worker":{"type":"string","description":"The holder while it runs."},
      "cancel_requested":{"type":"boolean"},"unique_key":{"type":"string"},
      "headers":{"type":"object"},"tags":{"type":"array","items":{"type":"string"}},
      "correlation_id":{"type":"string"},"reply_to":{"type":"string"},
      "timeout":{"type":"string"},
      "expires_at":{"type":"string","format":"date-time"},
      "created_at":{"type":"string","format":"date-time"},
      "started_at":{"type":"string","format":"date-time"},
      "finished_at":{"type":"string","format":"date-time"},
      "progress":{"$ref":"#/components/schemas/Progress"},
      "checkpoint":{},"result":{},"reason":{"type":"string"},"description":{"type":"string"},
      "errors":{"type":"array","items":{"$ref":"#/components/schemas/AttemptError"},
        "description":"One per failed attempt. Not in lists, as are checkpoint and result."}}})"},
    {"JobPage", R"({"type":"object","required":["jobs","next_cursor"],"properties":{
      "jobs":{"type":"array","items":{"$ref":"#/components/schemas/Job"}},
      "next_cursor":{"type":["string","null"],"description":"null: there is no more."}}})"},
    {"CancelRequest", R"({"type":"object","additionalProperties":false,"properties":{
      "reason":{"type":"string"}}})"},
    {"CancelResponse", R"({"type":"object","required":["id","state"],"properties":{
      "id":{"type":"integer","format":"int64"},
      "state":{"enum":["cancelled","running"]},"cancel_requested":{"type":"boolean"},
      "worker":{"type":"string"}}})"},
    {"RetryResponse", R"({"type":"object","required":["id","state"],"properties":{
      "id":{"type":"integer","format":"int64"},
      "state":{"$ref":"#/components/schemas/JobState"}}})"},
    {"ClaimRequest", R"({"type":"object","additionalProperties":false,"required":["queues"],
      "properties":{
      "worker":{"$ref":"#/components/schemas/Name",
        "description":"A random id per process start. Required; in finish it may be left out."},
      "queues":{"type":"array","minItems":1,"maxItems":1000,"uniqueItems":true,
        "items":{"$ref":"#/components/schemas/Name"}},
      "kinds":{"type":"array","minItems":1,"maxItems":1000,"uniqueItems":true,
        "items":{"$ref":"#/components/schemas/Name"},"description":"Left out: every kind."},
      "max":{"type":"integer","minimum":1,"maximum":1000,"default":1},
      "wait":{"$ref":"#/components/schemas/Duration","description":"At most 60s."},
      "lease":{"$ref":"#/components/schemas/Duration","description":"1s to 12h.",
        "default":"30s"}}})"},
    {"ClaimedJob", R"({"type":"object","required":["id","token","kind"],"properties":{
      "id":{"type":"integer","format":"int64"},
      "token":{"type":"integer","format":"int64",
        "description":"Fences everything that is done with this lease."},
      "attempt":{"type":"integer"},"max_attempts":{"type":"integer"},
      "queue":{"type":"string"},"kind":{"type":"string"},"args":{},
      "priority":{"type":"integer"},"run_at":{"type":"string","format":"date-time"},
      "timeout_ms":{"type":["integer","null"],"description":"null: none."},
      "lease_expires_in_ms":{"type":"integer"},
      "checkpoint":{"description":"What the attempt before left."},
      "headers":{"type":"object"},"tags":{"type":"array","items":{"type":"string"}},
      "correlation_id":{"type":"string"},"reply_to":{"type":"string"}}})"},
    {"ClaimResponse", R"({"type":"object","required":["jobs"],"properties":{
      "jobs":{"type":"array","items":{"$ref":"#/components/schemas/ClaimedJob"}},
      "cancel":{"type":"array","items":{"type":"integer","format":"int64"},
        "description":"Running jobs of this worker that are to be stopped."}}})"},
    {"Outcome", R"({"type":"object","additionalProperties":false,
      "required":["id","token","outcome"],"properties":{
      "id":{"type":"integer","format":"int64"},"token":{"type":"integer","format":"int64"},
      "outcome":{"enum":["complete","retry","snooze","cancel","dead"]},
      "result":{"description":"With complete: any JSON value, up to 1 MiB of text."},
      "error":{"type":"string","description":"With retry. Cut at 16 KiB."},
      "after":{"$ref":"#/components/schemas/Duration",
        "description":"With retry (left out: the back-off) and snooze (required)."},
      "reason":{"type":"string","description":"With cancel and dead."},
      "description":{"type":"string","description":"With dead. Cut at 16 KiB."}}})"},
    {"FinishRequest", R"({"type":"object","additionalProperties":false,"required":["worker"],
      "properties":{"worker":{"$ref":"#/components/schemas/Name"},
      "results":{"type":"array","maxItems":10000,
        "items":{"$ref":"#/components/schemas/Outcome"}},
      "claim":{"$ref":"#/components/schemas/ClaimRequest",
        "description":"The next claim, answered together with the results."}}})"},
    {"FinishResponse", R"({"type":"object","required":["results"],"properties":{
      "results":{"type":"array","items":{"type":"object","required":["id","status"],
        "properties":{"id":{"type":"integer","format":"int64"},
        "status":{"enum":["ok","stale","not_found"]}}}},
      "jobs":{"type":"array","items":{"$ref":"#/components/schemas/ClaimedJob"}},
      "cancel":{"type":"array","items":{"type":"integer","format":"int64"}}}})"},
    {"Lease", R"({"type":"object","additionalProperties":false,"required":["id","token"],
      "properties":{"id":{"type":"integer","format":"int64"},
      "token":{"type":"integer","format":"int64"},
      "progress":{"$ref":"#/components/schemas/Progress"},
      "checkpoint":{"description":"Any JSON value, up to 256 KiB of text."}}})"},
    {"RenewRequest", R"({"type":"object","additionalProperties":false,"required":["worker"],
      "properties":{"worker":{"$ref":"#/components/schemas/Name"},
      "leases":{"type":"array","maxItems":10000,
        "items":{"$ref":"#/components/schemas/Lease"}},
      "lease":{"$ref":"#/components/schemas/Duration","default":"30s"}}})"},
    {"RenewResponse", R"({"type":"object","properties":{
      "renewed":{"type":"array","items":{"type":"object","properties":{
        "id":{"type":"integer","format":"int64"},"lease_expires_in_ms":{"type":"integer"}}}},
      "lost":{"type":"array","items":{"type":"integer","format":"int64"},
        "description":"Not this token's any more: stop working on them."},
      "cancel":{"type":"array","items":{"type":"integer","format":"int64"}},
      "quiet":{"type":"boolean"},"terminate":{"type":"boolean"}}})"},
    {"Retention", R"({"type":"object","additionalProperties":false,"properties":{
      "completed":{"type":["string","null"],"description":"Also of cancelled jobs."},
      "dead":{"type":["string","null"]}}})"},
    {"RetentionRequest", R"({"type":"object","additionalProperties":false,
      "required":["retention"],
      "properties":{"retention":{"$ref":"#/components/schemas/Retention"}}})"},
    {"QueueRetention", R"({"type":"object","properties":{"name":{"type":"string"},
      "retention":{"$ref":"#/components/schemas/Retention"}}})"},
    {"QueuePaused", R"({"type":"object","properties":{"name":{"type":"string"},
      "paused":{"type":"boolean"}}})"},
    {"Queue", R"({"type":"object","required":["name","paused","counts"],"properties":{
      "name":{"type":"string"},"paused":{"type":"boolean"},
      "counts":{"type":"object","additionalProperties":{"type":"integer"},
        "description":"Jobs kept now, by state."},
      "oldest_available_ms":{"type":["integer","null"]},
      "oldest_available_at":{"type":"string","format":"date-time"},
      "enqueued":{"type":"integer"},"pruned":{"type":"integer"},"expired":{"type":"integer"},
      "retention":{"$ref":"#/components/schemas/Retention"}}})"},
    {"QueueList", R"({"type":"object","required":["queues"],"properties":{
      "queues":{"type":"array","items":{"$ref":"#/components/schemas/Queue"}}}})"},
    {"RedriveRequest", R"({"type":"object","additionalProperties":false,"properties":{
      "queue":{"$ref":"#/components/schemas/Name"},"kind":{"$ref":"#/components/schemas/Name"},
      "tag":{"type":"string"},
      "limit":{"type":"integer","minimum":1,"maximum":10000,"default":1000},
      "after":{"type":"integer","format":"int64","description":"The next of the answer before."}
      }})"},
    {"RedriveResponse", R"({"type":"object","required":["redriven","next"],"properties":{
      "redriven":{"type":"integer"},
      "next":{"type":["integer","null"],"description":"null: all have been seen."}}})"},
    {"WorkerList", R"({"type":"object","required":["workers"],"properties":{
      "workers":{"type":"array","items":{"type":"object","properties":{
        "id":{"type":"string"},"queues":{"type":"array","items":{"type":"string"}},
        "running":{"type":"integer"},"last_seen_ms":{"type":"integer"},
        "parked":{"type":"boolean"}}}}}})"},
    {"VerifyReport", R"({"type":"object","required":["jobs","problems"],"properties":{
      "jobs":{"type":"integer"},
      "problems":{"type":"array","items":{"type":"string"},"description":"Empty: sound."}}})"},
    {"Version", R"({"type":"object","properties":{"name":{"type":"string"},
      "version":{"type":"string"},"api":{"type":"string"}}})"},
    {"Health", R"({"type":"object","properties":{"status":{"const":"ok"}}})"},
    {"Ready", R"({"type":"object","properties":{"status":{"const":"ready"},
      "durability":{"type":"string"}}})"},
    {"Document", R"({"type":"object"})"},
    {"Error", R"({"type":"object","required":["error"],"properties":{"error":{"type":"object",
      "required":["code","message"],"properties":{"code":{"type":"string"},
      "message":{"type":"string"},
      "field":{"type":"string","description":"The field that broke a rule: jobs[3].priority."},
      "retry_after_ms":{"type":"integer"}}}}})"},
};

}  // namespace

std::span<const Schema> schemas() {
  return kSchemas;
}

}  // namespace mainspring::http
