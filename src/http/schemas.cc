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
      "reply_to":{"$ref":"#/components/schemas/Name",
        "description":"A queue that gets a job of kind reply when this one ends."},
      "then":{"type":["array","null"],"maxItems":8,
        "items":{"$ref":"#/components/schemas/FollowUp"},
        "description":"Jobs that are made when this one ends."},
      "callback":{"oneOf":[{"$ref":"#/components/schemas/Callback"},{"type":"null"}]},
      "session":{"type":"null","description":"Reserved."})";
constexpr std::string_view kJobHead =
    R"({"type":"object","additionalProperties":false,"required":["kind"],"properties":{)";
constexpr std::string_view kFenceMember = R"("fence":{"$ref":"#/components/schemas/Fence"},)";
constexpr std::string_view kTail = "}}";

// A schedule's members: defined, put, and told.
constexpr std::string_view kScheduleMembers = R"(
      "name":{"$ref":"#/components/schemas/Name",
        "description":"As in the path; may be left out."},
      "cron":{"type":"string",
        "description":"5 fields, or 6 with seconds first. Exactly one of cron, every and at.",
        "examples":["30 2 * * *","*/10 * * * * *","@daily"]},
      "every":{"$ref":"#/components/schemas/Duration",
        "description":"At multiples of it since start_at, or since 1970; at least 1s."},
      "at":{"type":"string","format":"date-time","description":"Once."},
      "time_zone":{"type":"string","default":"UTC","description":"IANA name, for cron.",
        "examples":["Europe/Berlin"]},
      "job":{"$ref":"#/components/schemas/NewJob",
        "description":"What each tick enqueues; without run_at, delay and unique."},
      "misfire":{"enum":["skip","once","all"],"default":"once",
        "description":"What happens to ticks that nobody could fire in time."},
      "misfire_window":{"$ref":"#/components/schemas/Duration","default":"24h",
        "description":"What is later than that never fires."},
      "misfire_cap":{"type":"integer","minimum":1,"maximum":1000,"default":100,
        "description":"Of misfire all: the last so many."},
      "overlap":{"$ref":"#/components/schemas/Overlap","default":"skip"},
      "jitter":{"$ref":"#/components/schemas/Duration","default":"0s",
        "description":"Each tick fires later by one fixed part of this."},
      "start_at":{"type":"string","format":"date-time","description":"No tick before."},
      "end_at":{"type":"string","format":"date-time","description":"No tick at or after."},
      "max_runs":{"type":"integer","minimum":0,"default":0,
        "description":"Ends after so many jobs; 0: no limit."},
      "pause_on_failure":{"type":"boolean","default":false,
        "description":"Pauses when a job of it is dead."},
      "continuous":{"$ref":"#/components/schemas/Continuous"})";
constexpr std::string_view kDefinitionHead =
    R"({"type":"object","additionalProperties":false,"properties":{)";
constexpr std::string_view kPutHead = R"({"type":"object","additionalProperties":false,
      "required":["job"],"examples":[{"cron":"30 2 * * *","time_zone":"Europe/Berlin",
      "job":{"queue":"reports","kind":"nightly","args":{"region":"eu"}}}],"properties":{
      "paused":{"type":"boolean","description":"Left out: as it is."},)";
constexpr std::string_view kScheduleHead = R"({"type":"object",
      "required":["name","job","version","paused","next"],"properties":{
      "outcome":{"enum":["created","replaced","unchanged"],"description":"Of PUT."},
      "version":{"type":"integer","format":"int64",
        "description":"Grows with every other definition, never used twice for a name."},
      "paused":{"type":"boolean"},"paused_reason":{"type":"string"},
      "next":{"type":["string","null"],"format":"date-time",
        "description":"Nominal time of the first undecided tick; null: none."},
      "next_fire":{"type":["string","null"],"format":"date-time",
        "description":"When it is decided: with the jitter."},
      "remaining":{"type":"integer","description":"Jobs it may still make."},
      "fired":{"type":"integer","description":"Jobs made, ever."},
      "last_fired":{"type":"string","format":"date-time"},
      "last_job":{"type":"integer","format":"int64"},
      "live":{"type":"array","items":{"type":"integer","format":"int64"},
        "description":"Its jobs that have not ended and do not wait: the first 100."},
      "live_count":{"type":"integer"},
      "buffered":{"type":"integer","description":"Its jobs that wait for the end of others."},
      "timeout_override":{"type":"string","description":"Of a continuous timer."},
      "created_at":{"type":"string","format":"date-time"},
      "updated_at":{"type":"string","format":"date-time"},)";

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
    {"FollowUp", R"({"type":"object","additionalProperties":false,"required":["queue","kind"],
      "description":"A job that is made in the transaction that ends another one.",
      "properties":{
      "queue":{"$ref":"#/components/schemas/Name"},
      "kind":{"$ref":"#/components/schemas/Name"},
      "on":{"type":["array","null"],"minItems":1,"maxItems":3,
        "items":{"enum":["completed","cancelled","dead"]},
        "description":"The ends that it follows. Left out: every one."},
      "priority":{"type":"integer","minimum":0,"maximum":9,"default":5},
      "data":{"description":"Any JSON value, up to 64 KiB of text; it is in the args."}}})"},
    {"Callback", R"({"type":"object","additionalProperties":false,"required":["url"],
      "description":"A signed request that is made when this job ends.",
      "properties":{
      "url":{"type":["string","null"],"format":"uri","maxLength":2048,
        "description":"http or https, of a public address. Null: it is not shown."},
      "on":{"type":["array","null"],"minItems":1,"maxItems":3,
        "items":{"enum":["completed","cancelled","dead"]},
        "description":"The ends that are told. Left out: every one."}}})"},
    {"NewJob", Joined<kJobHead, kJobMembers, kTail>::kView},
    {"SingleJob", Joined<kJobHead, kFenceMember, kJobMembers, kTail>::kView},
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
      "then":{"type":"array","items":{"$ref":"#/components/schemas/FollowUp"}},
      "callback":{"$ref":"#/components/schemas/Callback"},
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
    {"Why", R"({"type":"object","required":["id","state","gate","why"],"properties":{
      "id":{"type":"integer","format":"int64"},"state":{"$ref":"#/components/schemas/JobState"},
      "gate":{"enum":["ended","running","time","earlier_run","queue_paused","no_worker",
        "busy_workers","claim"]},
      "why":{"type":"string"},
      "until":{"type":"string","format":"date-time","description":"When it opens by itself."}}})"},
    {"WorkerList", R"({"type":"object","required":["workers"],"properties":{
      "workers":{"type":"array","items":{"type":"object","properties":{
        "id":{"type":"string"},"queues":{"type":"array","items":{"type":"string"}},
        "running":{"type":"integer"},"last_seen_ms":{"type":"integer"},
        "parked":{"type":"boolean"}}}}}})"},
    {"CreateTokenRequest", R"({"type":"object","additionalProperties":false,
      "required":["name","scopes"],
      "examples":[{"name":"ci","scopes":["enqueue=photos","result=photos"],"expires_in":"30d"}],
      "properties":{"name":{"$ref":"#/components/schemas/Name"},
      "scopes":{"$ref":"#/components/schemas/Scopes"},
      "expires_in":{"$ref":"#/components/schemas/Duration",
        "description":"Without this and expires_at it does not expire."},
      "expires_at":{"type":"string","format":"date-time"},
      "rate":{"type":"integer","minimum":0,"maximum":1000000,
        "description":"Requests per second; 0 is the server's."}}})"},
    {"Scopes", R"({"type":"array","minItems":1,"maxItems":100,"items":{"type":"string",
      "examples":["enqueue=photos","work=img-*","read"],
      "description":"VERB, or VERB=PATTERN."}})"},
    {"Token", R"({"type":"object","required":["name","scopes"],"properties":{
      "name":{"$ref":"#/components/schemas/Name"},"scopes":{"$ref":"#/components/schemas/Scopes"},
      "rate":{"type":"integer"},"created_at":{"type":"string","format":"date-time"},
      "created_by":{"type":"string"},
      "expires_at":{"type":["string","null"],"format":"date-time"},
      "revoked_at":{"type":"string","format":"date-time"},"usable":{"type":"boolean"}}})"},
    {"CreatedToken", R"({"allOf":[{"$ref":"#/components/schemas/Token"},{"type":"object",
      "required":["token"],"properties":{"token":{"type":"string",
        "description":"The text; it is kept nowhere."}}}]})"},
    {"TokenList", R"({"type":"object","required":["tokens"],"properties":{
      "tokens":{"type":"array","items":{"$ref":"#/components/schemas/Token"}}}})"},
    {"TokenRevoked", R"({"type":"object","properties":{"name":{"type":"string"},
      "revoked":{"const":true}}})"},
    {"AuditPage", R"({"type":"object","required":["records"],"properties":{
      "records":{"type":"array","items":{"type":"object","properties":{
        "seq":{"type":"integer","format":"int64"},"at":{"type":"string","format":"date-time"},
        "who":{"type":"string","description":"A token's name, or local: none was needed."},
        "from":{"type":"string"},"action":{"type":"string"},"object":{"type":"string"},
        "before":{"description":"null: there was nothing."},
        "after":{"description":"null: there is nothing."},
        "hash":{"type":"string","description":"SHA-256 of the record and the hash before it."}}}},
      "next":{"type":["integer","null"]}}})"},
    {"AuditHead", R"({"type":"object","required":["base","head","records"],"properties":{
      "base":{"$ref":"#/components/schemas/AuditMark"},
      "head":{"$ref":"#/components/schemas/AuditMark"},"records":{"type":"integer"}}})"},
    {"AuditMark", R"({"type":"object","properties":{"seq":{"type":"integer","format":"int64"},
      "hash":{"type":"string"}}})"},
    {"VerifyReport", R"({"type":"object","required":["jobs","problems"],"properties":{
      "jobs":{"type":"integer"},
      "problems":{"type":"array","items":{"type":"string"},"description":"Empty: sound."}}})"},
    {"AcquireLeaseRequest", R"({"type":"object","additionalProperties":false,
      "required":["holder"],"examples":[{"holder":"3f1c-host-7","ttl":"15s","wait":"10s"}],
      "properties":{
      "holder":{"type":"string","minLength":1,"maxLength":128,
        "description":"Random, new for each holding: who says it again gets the same lease."},
      "ttl":{"$ref":"#/components/schemas/Duration","default":"15s","description":"1s to 12h."},
      "wait":{"$ref":"#/components/schemas/Duration",
        "description":"While somebody else has it; at most 60s."}}})"},
    {"RenewLeaseRequest", R"({"type":"object","additionalProperties":false,
      "required":["holder","token"],"properties":{
      "holder":{"type":"string"},"token":{"type":"integer","format":"int64"},
      "ttl":{"$ref":"#/components/schemas/Duration","description":"Left out: as long as before."},
      "value":{
        "description":"Any JSON up to 64 KiB, kept after the release; null removes it."}}})"},
    {"ReleaseLeaseRequest", R"({"type":"object","additionalProperties":false,
      "required":["holder","token"],"properties":{
      "holder":{"type":"string"},"token":{"type":"integer","format":"int64"},
      "value":{"description":"As in renew."}}})"},
    {"LeaseGrant", R"({"type":"object","required":["name","token","expires_in_ms"],"properties":{
      "name":{"type":"string"},
      "token":{"type":"integer","format":"int64",
        "description":"Larger than that of every holder before: for fences."},
      "expires_in_ms":{"type":"integer","description":"Renew at a third of it."},
      "value":{"description":"What holders before left."},
      "held":{"type":"boolean","description":"This holder had it already."}}})"},
    {"LeaseReleased", R"({"type":"object","properties":{"name":{"type":"string"},
      "released":{"const":true}}})"},
    {"NamedLease", R"({"type":"object","required":["name","holder","token","expires_in_ms"],
      "properties":{"name":{"type":"string"},
      "holder":{"type":"string","description":"Empty: free."},
      "token":{"type":"integer","format":"int64","description":"Of the present or last holder."},
      "expires_in_ms":{"type":"integer"},"since":{"type":"string","format":"date-time"},
      "value":{}}})"},
    {"NamedLeaseList", R"({"type":"object","required":["leases","next"],"properties":{
      "leases":{"type":"array","items":{"$ref":"#/components/schemas/NamedLease"}},
      "next":{"type":["string","null"],"description":"Pass as after; null: there is no more."}}})"},
    {"Overlap", R"({"enum":["skip","buffer_one","buffer_all","cancel_other","terminate_other",
      "allow"],"description":"What happens to a tick when jobs of earlier ones have not ended."})"},
    {"Continuous", R"({"type":"object","additionalProperties":false,
      "description":"A timer that runs almost without a pause.","properties":{
      "timeout":{"$ref":"#/components/schemas/Duration","default":"20m"},
      "margin":{"$ref":"#/components/schemas/Duration","default":"60s",
        "description":"No batch begins in the last margin of a run."},
      "handoff":{"$ref":"#/components/schemas/Duration","default":"30s",
        "description":"The twin is started so long before that; 0s: no twin."}}})"},
    {"ScheduleDefinition", Joined<kDefinitionHead, kScheduleMembers, kTail>::kView},
    {"ScheduleRequest", Joined<kPutHead, kScheduleMembers, kTail>::kView},
    {"Schedule", Joined<kScheduleHead, kScheduleMembers, kTail>::kView},
    {"ScheduleList", R"({"type":"object","required":["schedules","next"],"properties":{
      "schedules":{"type":"array","items":{"$ref":"#/components/schemas/Schedule"}},
      "next":{"type":["string","null"],"description":"Pass as after; null: there is no more."}}})"},
    {"ScheduleRemoved", R"({"type":"object","properties":{"name":{"type":"string"},
      "removed":{"const":true}}})"},
    {"PauseRequest", R"({"type":"object","additionalProperties":false,"properties":{
      "reason":{"type":"string","description":"Kept while it is paused."}}})"},
    {"TimerRequest", R"({"type":"object","additionalProperties":false,"required":["timeout"],
      "properties":{"timeout":{"type":["string","null"],
        "description":"Instead of the timer's own, at once; null: its own again."}}})"},
    {"TriggerRequest", R"({"type":"object","additionalProperties":false,"properties":{
      "overlap":{"$ref":"#/components/schemas/Overlap",
        "description":"Left out: the schedule's own."}}})"},
    {"TriggerResponse", R"({"type":"object","required":["job"],"properties":{
      "job":{"type":"integer","format":"int64"}}})"},
    {"BackfillRequest", R"({"type":"object","additionalProperties":false,"required":["from","to"],
      "examples":[{"from":"2026-01-01T00:00:00Z","to":"2026-02-01T00:00:00Z"}],"properties":{
      "from":{"type":"string","format":"date-time"},
      "to":{"type":"string","format":"date-time","description":"Not included."},
      "overlap":{"$ref":"#/components/schemas/Overlap","default":"buffer_all"}}})"},
    {"BackfillResponse", R"({"type":"object","required":["fired","skipped","next"],"properties":{
      "fired":{"type":"integer"},
      "skipped":{"type":"integer","description":"Had run before, or no runs remained."},
      "next":{"type":["string","null"],"format":"date-time",
        "description":"Call again from here; null: all done."}}})"},
    {"PreviewRequest", R"({"type":"object","additionalProperties":false,"required":["schedule"],
      "properties":{"schedule":{"$ref":"#/components/schemas/ScheduleDefinition"},
      "from":{"type":"string","format":"date-time","description":"Left out: now."},
      "count":{"type":"integer","minimum":1,"maximum":1000,"default":10}}})"},
    {"Preview", R"({"type":"object","required":["ticks"],"properties":{
      "ticks":{"type":"array","items":{"type":"object","properties":{
        "nominal":{"type":"string","format":"date-time"},
        "fires_at":{"type":"string","format":"date-time","description":"With the jitter."},
        "note":{"type":"string",
          "description":"How a clock change moves it: shifted: 02:30 does not exist."}}}}}})"},
    {"Ledger", R"({"type":"object","required":["ticks","next_cursor"],"properties":{
      "ticks":{"type":"array","items":{"$ref":"#/components/schemas/LedgerRow"}},
      "next_cursor":{"type":["string","null"],"description":"null: there is no more."}}})"},
    {"LedgerRow", R"({"type":"object","properties":{
      "seq":{"type":"integer","format":"int64"},"version":{"type":"integer","format":"int64"},
      "nominal":{"type":"string","format":"date-time"},
      "until":{"type":"string","format":"date-time",
        "description":"The last tick, where the row stands for several."},
      "count":{"type":["integer","null"],
        "description":"Ticks; left out: 1; null: too many to count."},
      "source":{"enum":["schedule","trigger","backfill","wake"]},
      "state":{"enum":["fired","skipped"]},"past_due":{"type":"boolean"},
      "job":{"type":"integer","format":"int64"},
      "job_state":{"$ref":"#/components/schemas/JobState"},
      "reason":{"type":"string","description":"Why it was skipped."},
      "note":{"type":"string"},"decided_at":{"type":"string","format":"date-time"}}})"},
    {"Version", R"({"type":"object","properties":{"name":{"type":"string"},
      "version":{"type":"string"},"api":{"type":"string"}}})"},
    {"HostLayers", R"({"type":"array","items":{"type":"object","properties":{
      "name":{"type":"string"},"active":{"type":"boolean"},
      "detail":{"type":"string","description":"Why not, or how."}}}})"},
    {"Health", R"({"type":"object","properties":{"status":{"const":"ok"},
      "host":{"type":"object","description":"Where job folders are run.","properties":{
        "layers":{"$ref":"#/components/schemas/HostLayers"},
        "running":{"type":"integer","description":"Children now."}}}}})"},
    {"Host", R"({"type":"object","required":["instance","directory","layers"],"properties":{
      "instance":{"type":"string","description":"As in logs: six characters."},
      "directory":{"type":"string"},
      "stopped":{"type":"boolean","description":"WEBJOBS_STOPPED: nothing runs."},
      "strict":{"type":"boolean","description":"--strict-webjobs"},
      "continuous":{"type":"integer"},"triggered":{"type":"integer"},
      "queues":{"type":"integer"},"running":{"type":"integer"},
      "layers":{"$ref":"#/components/schemas/HostLayers"},
      "problems":{"type":"array","items":{"type":"string"},
        "description":"Folders that are left out, and settings that are not obeyed."}}})"},
    {"HostJob", R"({"type":"object","required":["type","name"],"properties":{
      "type":{"enum":["continuous","triggered","queue"]},"name":{"type":"string"},
      "directory":{"type":"string"},"run_file":{"type":"string"},
      "host":{"type":"string","description":"Who runs it: BashScriptHost."},
      "pool":{"type":"string"},"disabled":{"type":"boolean"},"frozen":{"type":"boolean"},
      "error":{"type":"string","description":"Why it cannot be run."},
      "status":{"type":"string","description":"Of a continuous job."},
      "detailed_status":{"type":"string"},"port":{"type":"integer"},
      "latest_run":{"$ref":"#/components/schemas/HostRun"},
      "children":{"type":"integer","description":"Of a queue's folder."},
      "job":{"type":"integer","format":"int64","description":"Of the present or last run."},
      "settings":{"$ref":"#/components/schemas/HostSettings"},
      "warnings":{"type":"array","items":{"type":"string"}}}})"},
    {"HostJobList", R"({"type":"object","required":["jobs"],"properties":{
      "jobs":{"type":"array","items":{"$ref":"#/components/schemas/HostJob"}}}})"},
    {"HostJobRemoved", R"({"type":"object","properties":{"type":{"type":"string"},
      "name":{"type":"string"},"removed":{"const":true}}})"},
    {"HostFiles", R"({"type":"string","format":"binary",
      "description":"A zip; of any other type: one file."})"},
    {"HostSettings", R"({"type":"object","description":"settings.job; unknown keys are kept."})"},
    {"HostRunRequest", R"({"type":"object","additionalProperties":false,"properties":{
      "arguments":{"type":"string","description":"Appended to the command; at most 64 KiB."}}})"},
    {"HostRunStarted", R"({"type":"object","required":["run"],"properties":{
      "run":{"type":"string","description":"The run's id."}}})"},
    {"HostRun", R"({"type":"object","required":["id","status","started"],"properties":{
      "id":{"type":"string"},
      "status":{"enum":["Initializing","Running","Success","Failed","Aborted","Stopped"]},
      "trigger":{"type":"string"},"started":{"type":"string","format":"date-time"},
      "ended":{"type":"string","format":"date-time","description":"Left out while it runs."},
      "job":{"type":"integer","format":"int64"},
      "exit_code":{"type":"integer","description":"Left out if a signal ended it."}}})"},
    {"HostHistory", R"({"type":"object","required":["runs"],"properties":{
      "runs":{"type":"array","items":{"$ref":"#/components/schemas/HostRun"}}}})"},
    {"HostLog", R"({"type":"object","required":["text","next","at_end","ended"],"properties":{
      "text":{"type":"string"},
      "next":{"type":"integer","format":"int64","description":"Pass as position."},
      "skipped":{"type":"integer","format":"int64",
        "description":"Bytes from position on that are not kept any more."},
      "at_end":{"type":"boolean","description":"Nothing more now."},
      "ended":{"type":"boolean","description":"Nothing more will be written."},
      "run":{"type":"string"}}})"},
    {"Ready", R"({"type":"object","properties":{"status":{"const":"ready"},
      "durability":{"type":"string"},
      "store":{"type":"object","description":"Of a store that several servers share.",
        "properties":{"kind":{"const":"postgres"},"away":{"type":"boolean"},
        "durability":{"type":"object","properties":{"synchronous_commit":{"type":"string"},
          "standbys":{"type":"integer","description":"That a commit waits for now."}}},
        "node":{"type":"integer","format":"int64"},"others":{"type":"integer"},
        "bell_reaches":{"type":"integer"},
        "listen":{"enum":["not_yet","works","does_not_work","away"]}}}}})"},
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
