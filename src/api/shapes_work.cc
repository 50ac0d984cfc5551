// The shapes of a worker's calls: claim and finish.
#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "api/fields.h"
#include "api/program_end.h"
#include "api/schedule_fields.h"
#include "api/session_shapes.h"
#include "api/shapes.h"
#include "api/work_fields.h"
#include "mainspring/breaker.h"
#include "model/callback.h"
#include "model/program_end.h"
#include "model/queue_pattern.h"

namespace mainspring {
namespace {

// A list of names, not empty, each once.
bool read_names(JsonReader& in, std::vector<std::string>& out, std::string_view when_empty,
                Result<void> (*check)(std::string_view, std::string_view) = &check_name) {
  const bool read = in.array(kMaxClaimQueues, [&](std::size_t) {
    std::string& name = out.emplace_back();
    if (!in.string(name)) return false;
    auto ok = check("name", name);
    return ok ? true : in.fail(ok.error().code, ok.error().message, in.path());
  });
  if (!read) return false;
  if (out.empty()) return in.fail_here(when_empty);
  std::vector<std::string_view> sorted(out.begin(), out.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  return twice == sorted.end() || in.fail_here(fmt::format("\"{}\": given twice", *twice));
}

// -- claim

bool read_claim_wait(JsonReader& in, ClaimRequest& request) {
  if (!in.duration(request.wait)) return false;
  return request.wait <= kMaxClaimWait ||
         in.fail_value(fmt::format("must be at most {}", format_duration(kMaxClaimWait)));
}

bool read_claim_queues(JsonReader& in, ClaimRequest& r) {
  if (!read_names(in, r.operation.queues, "must not be empty", &check_queue_or_pattern))
    return false;
  const std::vector<std::string>& queues = r.operation.queues;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    auto ok = check_not_reserved("queue", queues[i]);
    if (!ok)
      return in.fail(ok.error().code, ok.error().message, fmt::format("{}[{}]", in.path(), i));
  }
  return true;
}

// A claim of the next job in a session that the worker holds.
struct HeldSession {
  SessionKey session;
  Token token = 0;
};
constexpr JsonField<HeldSession> kHeldSession[] = {
    {"queue", [](JsonReader& in, HeldSession& s) { return in.string(s.session.queue); }},
    {"key", [](JsonReader& in, HeldSession& s) { return in.string(s.session.key); }},
    {"token", &as_id<&HeldSession::token>},
};

bool read_held_session(JsonReader& in, ClaimRequest& r) {
  if (in.null()) return true;
  HeldSession held;
  if (!in.object(kHeldSession, held)) return false;
  if (held.token == 0) return in.missing("token");
  auto good = check_name("queue", held.session.queue);
  if (good) good = check_session_key("key", held.session.key);
  if (!good) return in.fail(good.error().code, good.error().message, in.path(good.error().field));
  r.operation.session_token = held.token;
  r.session = session_queue(held.session);
  return true;
}

// A claim of one job by its id.
bool check_named_claim(JsonReader& in, const ClaimRequest& r) {
  const auto refuse = [&](std::string_view field, std::string_view rule) {
    return in.fail(ErrorCode::invalid_argument, fmt::format("{}: {}", field, rule), in.path(field));
  };
  if (!r.session.empty()) return refuse("session", "cannot be given with job");
  if (!r.operation.kinds.empty()) return refuse("kinds", "cannot be given with job");
  if (r.operation.max != 1) return refuse("max", "must be 1 with job");
  const std::vector<std::string>& queues = r.operation.queues;
  if (std::any_of(queues.begin(), queues.end(), is_pattern))
    return refuse("queues", "must be names, without *, with job");
  return r.wait == Duration(0) ||
         refuse("wait", "cannot be given with job, which is answered at once");
}

// Checks of a claim beyond its members.
bool check_claim(JsonReader& in, ClaimRequest& r) {
  Claim& claim = r.operation;
  if (claim.job != 0 && !check_named_claim(in, r)) return false;
  if (r.session.empty()) return !claim.queues.empty() || in.missing("queues");
  const auto refuse = [&](std::string_view field, std::string_view rule) {
    return in.fail(ErrorCode::invalid_argument, fmt::format("{}: {}", field, rule), in.path(field));
  };
  if (!claim.queues.empty()) return refuse("queues", "cannot be given with session");
  if (!claim.kinds.empty()) return refuse("kinds", "cannot be given with session");
  if (claim.max != 1) return refuse("max", "must be 1 with session");
  claim.queues.push_back(std::move(r.session));
  return true;
}

// The worker's facts, created for the first of them.
WorkerFacts& facts_of(ClaimRequest& r) {
  if (r.operation.facts == nullptr) r.operation.facts = std::make_shared<WorkerFacts>();
  return *std::const_pointer_cast<WorkerFacts>(r.operation.facts);  // not shared yet
}

template <auto Member, std::size_t MaxBytes>
bool read_fact(JsonReader& in, ClaimRequest& r) {
  if (in.null()) return true;
  std::string& text = facts_of(r).*Member;
  if (!in.string(text)) return false;
  auto ok = check_fact(in.path(), text, MaxBytes);
  return ok || in.fail(ok.error().code, ok.error().message, in.path());
}

bool read_claimed_id(JsonReader& in, ClaimRequest& r) {
  return as_id<&Claim::job>(in, r.operation);
}

constexpr JsonField<ClaimRequest> kClaimRequest[] = {
    {"worker", [](JsonReader& in, ClaimRequest& r) { return in.string(r.operation.worker); }},
    {"queues", &read_claim_queues},
    {"kinds",
     [](JsonReader& in, ClaimRequest& r) {
       return in.null() || read_names(in, r.operation.kinds,
                                      "must not be empty; leave it out to take every kind");
     }},
    {"max",
     [](JsonReader& in, ClaimRequest& r) { return in.integer(r.operation.max, 1, kMaxClaimJobs); }},
    {"wait", &read_claim_wait},
    {"lease", [](JsonReader& in,
                 ClaimRequest& r) { return in.null() || read_claim_lease(in, r.operation.lease); }},
    {"session", &read_held_session},
    {"job", [](JsonReader& in, ClaimRequest& r) { return in.null() || read_claimed_id(in, r); }},
    {"host", &read_fact<&WorkerFacts::host, kMaxHostBytes>},
    {"pid",
     [](JsonReader& in, ClaimRequest& r) {
       return in.null() || in.integer(facts_of(r).pid, std::int64_t{1}, kMaxPid);
     }},
    {"version", &read_fact<&WorkerFacts::version, kMaxFactBytes>},
    {"language", &read_fact<&WorkerFacts::language, kMaxFactBytes>},
    {"slots",
     [](JsonReader& in, ClaimRequest& r) {
       return in.null() || in.integer(facts_of(r).slots, 1, kMaxWorkerSlots);
     }},
    {"trouble", &read_fact<&WorkerFacts::trouble, kMaxTroubleBytes>},
    {"stuck",
     [](JsonReader& in, ClaimRequest& r) {
       return in.null() || in.integer(facts_of(r).stuck, 0, kMaxWorkerSlots);
     }},
};

void write_names(JsonWriter& w, std::string_view key, const std::vector<std::string>& names) {
  w.key(key).begin_array();
  for (const std::string& name : names) w.string(name);
  w.end_array();
}

void write_claim(JsonWriter& w, const ClaimRequest& request) {
  const Claim& claim = request.operation;
  w.begin_object().key("worker").string(claim.worker);
  if (const auto held = parse_session_queue(claim.queues.empty() ? "" : claim.queues.front())) {
    w.key("session").begin_object().key("queue").string(held->queue);
    w.key("key").string(held->key).key("token").number(claim.session_token).end_object();
  } else {
    write_names(w, "queues", claim.queues);
  }
  const bool named = claim.job != 0;
  if (!claim.kinds.empty() && !named) write_names(w, "kinds", claim.kinds);
  w.key("max").number(named ? 1 : claim.max);
  if (request.wait.count() != 0 && !named) w.key("wait").duration(request.wait);
  if (named) w.key("job").number(claim.job);
  if (claim.lease != kDefaultLease) w.key("lease").duration(claim.lease);
  if (claim.facts != nullptr) write_facts(w, *claim.facts);
  w.end_object();
}

constexpr JsonField<ClaimedJob> kClaimedJob[] = {
    {"id", &as_id<&ClaimedJob::id>},
    {"token", &as_id<&ClaimedJob::token>},
    {"attempt", &as_integer<&ClaimedJob::attempt, 0, INT_MAX>},
    {"max_attempts", &as_integer<&ClaimedJob::max_attempts, 0, INT_MAX>},
    {"queue", &as_string<&ClaimedJob::queue>},
    {"kind", &as_string<&ClaimedJob::kind>},
    {"args", &as_raw<&ClaimedJob::args>},
    {"priority", &as_integer<&ClaimedJob::priority, 0, kLowestPriority>},
    {"run_at", &as_time<&ClaimedJob::run_at>},
    {"timeout_ms", &as_milliseconds<&ClaimedJob::timeout>},
    {"lease_expires_in_ms", &as_milliseconds<&ClaimedJob::lease>},
    {"checkpoint", &as_optional_raw<&ClaimedJob::checkpoint>},
    {"headers", &as_optional_raw<&ClaimedJob::headers>},
    {"tags", [](JsonReader& in, ClaimedJob& job) { return read_strings(in, job.tags, kMaxTags); }},
    {"correlation_id", &as_string<&ClaimedJob::correlation_id>},
    {"reply_to", &as_string<&ClaimedJob::reply_to>},
    {"session", &as_string<&ClaimedJob::session>},
    {"session_state", &as_optional_raw<&ClaimedJob::session_state>},
    {"has_memos", &as_boolean<&ClaimedJob::has_memos>},
    {"deferred", &as_boolean<&ClaimedJob::deferred>},
    {"cost", &as_integer<&ClaimedJob::cost, 1, kMaxCost>},
};

bool read_claimed_job(JsonReader& in, ClaimedJob& job) {
  if (!in.object(kClaimedJob, job)) return false;
  if (job.id == 0) return in.missing("id");
  if (job.token == 0) return in.missing("token");
  return !job.kind.empty() || in.missing("kind");
}

bool read_claimed(JsonReader& in, std::vector<ClaimedJob>& jobs) {
  return in.array(kMaxClaimJobs,
                  [&](std::size_t) { return read_claimed_job(in, jobs.emplace_back()); });
}

constexpr JsonField<ClaimResult> kClaimAnswer[] = {
    {"quiet", &as_command<WorkerCommand::quiet, ClaimResult>},
    {"terminate", &as_command<WorkerCommand::stop, ClaimResult>},
    {"jobs", [](JsonReader& in, ClaimResult& r) { return read_claimed(in, r.jobs); }},
    {"cancel", [](JsonReader& in, ClaimResult& r) { return read_ids(in, r.cancel); }},
    {"session", [](JsonReader& in, ClaimResult& r) { return read_grant(in, r.session); }},
};

void write_claimed(JsonWriter& w, const ClaimedJob& job) {
  w.begin_object().key("id").number(job.id).key("token").number(job.token);
  w.key("attempt").number(job.attempt).key("max_attempts").number(job.max_attempts);
  w.key("queue").string(job.queue).key("kind").string(job.kind);
  w.key("args").raw(job.args.empty() ? "{}" : job.args);
  w.key("priority").number(job.priority).key("run_at").time(job.run_at);
  w.key("timeout_ms").milliseconds(job.timeout);
  w.key("lease_expires_in_ms").milliseconds(job.lease);
  if (!job.checkpoint.empty()) w.key("checkpoint").raw(job.checkpoint);
  if (!job.headers.empty()) w.key("headers").raw(job.headers);
  if (!job.tags.empty()) write_names(w, "tags", job.tags);
  if (!job.correlation_id.empty()) w.key("correlation_id").string(job.correlation_id);
  if (!job.reply_to.empty()) w.key("reply_to").string(job.reply_to);
  if (!job.session.empty()) w.key("session").string(job.session);
  if (!job.session_state.empty()) w.key("session_state").raw(job.session_state);
  if (job.has_memos) w.key("has_memos").boolean(true);
  if (job.deferred) w.key("deferred").boolean(true);
  if (job.cost != 1) w.key("cost").number(job.cost);
  w.end_object();
}

// Members of an open object: "jobs"; "cancel", "quiet" and "terminate" if they are not empty.
void write_claim_result(JsonWriter& w, const ClaimResult& result) {
  w.key("jobs").begin_array();
  for (const ClaimedJob& job : result.jobs) write_claimed(w, job);
  w.end_array();
  if (!result.cancel.empty()) {
    w.key("cancel").begin_array();
    for (const JobId id : result.cancel) w.number(id);
    w.end_array();
  }
  if (result.command == WorkerCommand::none) return;
  w.key("quiet").boolean(true);
  w.key("terminate").boolean(result.command == WorkerCommand::stop);
}

void reserve_for(const ClaimResult& result, std::string& out) {
  constexpr std::size_t kFrame = 320;  // of a job without its payloads
  std::size_t bytes = 64;
  for (const ClaimedJob& job : result.jobs) {
    bytes += kFrame + job.args.size() + job.checkpoint.size() + job.headers.size() +
             job.session.size() + job.session_state.size();
  }
  out.reserve(out.size() + bytes);
}

// -- finish

// An outcome as it is sent, before its type is known.
struct WireOutcome {
  JobId id = 0;
  Token token = 0;
  std::string outcome;
  std::optional<std::string> result, error, reason, description;
  std::optional<Duration> after, open_breaker_for;
  std::optional<std::string> session_state;
  std::vector<NewJob> next;
  ProgramEnd program;
  std::optional<Error> refused;  // a payload is over its limit
};

template <auto Member>
bool as_cut_text(JsonReader& in, WireOutcome& o) {
  return in.null() || in.text((o.*Member).emplace(), kMaxTextBytes);
}

bool read_result(JsonReader& in, WireOutcome& o) {
  if (in.null()) return true;
  std::string& result = o.result.emplace();
  if (!in.raw(result)) return false;
  if (result.size() > kMaxResultBytes) {
    o.refused = over_limit(in, "result", result.size(), kMaxResultBytes);
    result.clear();
  }
  return true;
}

bool read_left_state(JsonReader& in, WireOutcome& o) {
  std::string& state = o.session_state.emplace();
  if (in.null()) return true;
  if (!in.raw(state)) return false;
  if (state.size() > kMaxSessionStateBytes) {
    o.refused = over_limit(in, "the state of a session", state.size(), kMaxSessionStateBytes);
    state.clear();
  }
  return true;
}

// null = none.
bool read_next(JsonReader& in, WireOutcome& o) {
  if (in.null()) return true;
  std::size_t bytes = 0;
  return in.array(kMaxNextJobs, [&](std::size_t) {
    NewJob& job = o.next.emplace_back();
    if (!read_new_job(in, job)) return false;
    if (job.unique) {
      return in.fail(ErrorCode::invalid_argument,
                     "unique: cannot be given with a job that a completion makes",
                     in.path("unique"));
    }
    bytes += job.args.size() + job.headers.size();
    if (bytes > kMaxNextBytes) {
      o.refused = over_limit(in, "next: args and headers", bytes, kMaxNextBytes);
      o.next.clear();
    }
    return true;
  });
}

constexpr JsonField<WireOutcome> kOutcome[] = {
    {"id", &as_id<&WireOutcome::id>},
    {"token", &as_id<&WireOutcome::token>},
    {"outcome", &as_string<&WireOutcome::outcome>},
    {"result", &read_result},
    {"error", &as_cut_text<&WireOutcome::error>},
    {"after", &as_optional_duration<&WireOutcome::after>},
    {"open_breaker_for", &as_optional_duration<&WireOutcome::open_breaker_for>},
    {"reason", &as_cut_text<&WireOutcome::reason>},
    {"description", &as_cut_text<&WireOutcome::description>},
    {"exit_code", &as_exit_code<&WireOutcome::program>},
    {"signal", &as_signal<&WireOutcome::program>},
    {"oom", &as_oom<&WireOutcome::program>},
    {"peak_memory", &as_peak_memory<&WireOutcome::program>},
    {"session_state", &read_left_state},
    {"next", &read_next},
};

// Which fields an outcome accepts besides id, token and outcome.
struct OutcomeRule {
  std::string_view name;
  bool result, error, after, reason, description;
};
constexpr OutcomeRule kOutcomeRules[] = {
    {"complete", true, false, false, false, false}, {"retry", false, true, true, false, false},
    {"snooze", false, false, true, false, false},   {"cancel", false, false, false, true, false},
    {"dead", false, false, false, true, true},      {"defer", false, false, false, true, false},
};

bool check_open_breaker_for(JsonReader& in, const WireOutcome& o) {
  if (!o.open_breaker_for) return true;
  const auto good = check_open_for("open_breaker_for", *o.open_breaker_for);
  return good || in.fail(good.error().code, good.error().message, in.path("open_breaker_for"));
}

bool check_program(JsonReader& in, const WireOutcome& o) {
  const auto good = check_program_end(o.program);
  return good || in.fail(good.error().code, good.error().message, in.path(good.error().field));
}

bool check_outcome(JsonReader& in, const WireOutcome& o) {
  if (o.id == 0) return in.missing("id");
  if (o.token == 0) return in.missing("token");
  if (o.outcome.empty()) return in.missing("outcome");
  const auto* rule = std::find_if(std::begin(kOutcomeRules), std::end(kOutcomeRules),
                                  [&](const OutcomeRule& r) { return r.name == o.outcome; });
  if (rule == std::end(kOutcomeRules)) {
    return in.fail(ErrorCode::invalid_argument,
                   fmt::format("outcome \"{}\": must be complete, retry, snooze, defer, cancel or "
                               "dead",
                               cut_text(o.outcome, 64)),
                   in.path("outcome"));
  }
  const bool of_error = rule->error || rule->description;
  const auto allow = [&](bool given, bool allowed, std::string_view field) {
    return !given || allowed ||
           in.fail(ErrorCode::invalid_argument,
                   fmt::format("{}: cannot be given with outcome \"{}\"", field, o.outcome),
                   in.path(field));
  };
  return allow(o.result.has_value(), rule->result, "result") &&
         allow(o.error.has_value(), rule->error, "error") &&
         allow(o.after.has_value(), rule->after, "after") &&
         allow(o.open_breaker_for.has_value(), rule->after, "open_breaker_for") &&
         check_open_breaker_for(in, o) && allow(o.reason.has_value(), rule->reason, "reason") &&
         allow(o.description.has_value(), rule->description, "description") &&
         allow(!o.next.empty(), rule->result, "next") &&
         allow(o.program.exit_code.has_value(), of_error, "exit_code") &&
         allow(o.program.signal != 0, of_error, "signal") &&
         allow(o.program.oom, of_error, "oom") &&
         allow(o.program.peak_memory.has_value(), of_error, "peak_memory") &&
         check_program(in, o) &&
         (o.after.has_value() || o.outcome != "snooze" || in.missing("after"));
}

Outcome to_outcome(WireOutcome& o) {
  const auto take = [](std::optional<std::string>& text) { return std::move(text).value_or(""); };
  if (o.outcome == "complete") return Complete{take(o.result), std::move(o.next)};
  if (o.outcome == "retry") return Retry{take(o.error), o.after, o.open_breaker_for, o.program};
  if (o.outcome == "snooze") return Snooze{*o.after, o.open_breaker_for};
  if (o.outcome == "defer") return Defer{take(o.reason)};
  if (o.outcome == "cancel") return CancelJob{take(o.reason)};
  return Dead{take(o.reason), take(o.description), o.program};
}

bool read_outcome(JsonReader& in, FinishRequest& request, std::size_t place) {
  WireOutcome wire;
  if (!in.object(kOutcome, wire) || !check_outcome(in, wire)) return false;
  if (wire.refused) {
    request.refused.push_back({place, {wire.id, std::move(*wire.refused)}});
    return true;
  }
  request.operation.results.push_back(
      {wire.id, wire.token, to_outcome(wire), std::move(wire.session_state)});
  return true;
}

bool read_results(JsonReader& in, FinishRequest& request) {
  return in.array(kMaxFinishResults,
                  [&](std::size_t place) { return read_outcome(in, request, place); });
}

// The same, and refuses bad results alone if it can read which jobs they are about.
bool read_good_results(JsonReader& in, FinishRequest& request) {
  return in.array(kMaxFinishResults, [&](std::size_t place) {
    std::string text;
    if (!in.raw(text)) return false;
    JsonReader one(text, JsonReader::Unknown::refuse);
    const std::size_t before = request.refused.size();
    if (!read_outcome(one, request, place)) {
      const std::optional<JobOutcome> job = only_ids(text);
      if (!job) return in.missing("id");
      request.refused.push_back({place, {job->id, one.error()}});
    }
    if (request.refused.size() != before)
      put_below(fmt::format("results[{}]", place), request.refused.back().part.error);
    return true;
  });
}

bool read_finishing_worker(JsonReader& in, FinishRequest& r) {
  return in.string(r.operation.worker);
}
bool read_finishing_claim(JsonReader& in, FinishRequest& r) {
  if (in.null()) return true;
  ClaimRequest& claim = r.claim.emplace();
  return in.object(kClaimRequest, claim) && check_claim(in, claim);
}

constexpr JsonField<FinishRequest> kFinishRequest[] = {{"worker", &read_finishing_worker},
                                                       {"results", &read_results},
                                                       {"claim", &read_finishing_claim}};
constexpr JsonField<FinishRequest> kMixedFinishRequest[] = {{"worker", &read_finishing_worker},
                                                            {"results", &read_good_results},
                                                            {"claim", &read_finishing_claim}};

struct OutcomeWriter {
  JsonWriter& w;
  void operator()(const Complete& o) const {
    w.key("outcome").string("complete");
    if (!o.result.empty()) w.key("result").raw(o.result);
    if (o.next.empty()) return;
    w.key("next").begin_array();
    for (const NewJob& job : o.next) write_new_job(w, job);
    w.end_array();
  }
  void operator()(const Retry& o) const {
    w.key("outcome").string("retry").key("error").string(cut_text(o.error, kMaxTextBytes));
    if (o.after) w.key("after").duration(*o.after);
    if (o.open_breaker_for) w.key("open_breaker_for").duration(*o.open_breaker_for);
    write_program_end(w, o.program);
  }
  void operator()(const Snooze& o) const {
    w.key("outcome").string("snooze").key("after").duration(o.after);
    if (o.open_breaker_for) w.key("open_breaker_for").duration(*o.open_breaker_for);
  }
  void operator()(const Defer& o) const {
    w.key("outcome").string("defer");
    if (!o.reason.empty()) w.key("reason").string(cut_text(o.reason, kMaxTextBytes));
  }
  void operator()(const CancelJob& o) const {
    w.key("outcome").string("cancel").key("reason").string(cut_text(o.reason, kMaxTextBytes));
  }
  void operator()(const Dead& o) const {
    w.key("outcome").string("dead").key("reason").string(cut_text(o.reason, kMaxTextBytes));
    w.key("description").string(cut_text(o.description, kMaxTextBytes));
    write_program_end(w, o.program);
  }
};

constexpr std::string_view kStatusNames[] = {"ok", "stale", "not_found", "refused"};

struct WireStatus {
  JobId id = 0;
  FinishStatus status = FinishStatus::ok;
  Error error;  // of a refused one
};
constexpr JsonField<WireStatus> kStatus[] = {
    {"id", &as_id<&WireStatus::id>},
    {"status",
     [](JsonReader& in, WireStatus& s) {
       std::string text;
       if (!in.string(text)) return false;
       const auto* found = std::find(std::begin(kStatusNames), std::end(kStatusNames), text);
       if (found == std::end(kStatusNames))
         return in.fail_here("must be ok, stale, not_found or refused");
       s.status = static_cast<FinishStatus>(found - std::begin(kStatusNames));
       return true;
     }},
    {"error", [](JsonReader& in, WireStatus& s) { return read_part_error(in, s.error); }},
};

constexpr JsonField<FinishResponse> kFinishAnswer[] = {
    {"results",
     [](JsonReader& in, FinishResponse& r) {
       return in.array(kMaxFinishResults, [&](std::size_t) {
         WireStatus status;
         if (!in.object(kStatus, status)) return false;
         r.ids.push_back(status.id);
         r.result.results.push_back(status.status);
         if (status.status == FinishStatus::refused)
           r.result.refused.push_back({status.id, std::move(status.error)});
         return true;
       });
     }},
    {"jobs",
     [](JsonReader& in, FinishResponse& r) {
       if (!r.claim) r.claim.emplace();
       return read_claimed(in, r.claim->jobs);
     }},
    {"cancel",
     [](JsonReader& in, FinishResponse& r) {
       if (!r.claim) r.claim.emplace();
       return read_ids(in, r.claim->cancel);
     }},
    {"quiet",
     [](JsonReader& in, FinishResponse& r) {
       if (!r.claim) r.claim.emplace();
       return as_command<WorkerCommand::quiet>(in, *r.claim);
     }},
    {"terminate",
     [](JsonReader& in, FinishResponse& r) {
       if (!r.claim) r.claim.emplace();
       return as_command<WorkerCommand::stop>(in, *r.claim);
     }},
};

constexpr JsonField<EndClaimsRequest> kEndClaimsRequest[] = {
    {"worker", &as_string<&EndClaimsRequest::worker>},
};

}  // namespace

std::optional<JobOutcome> only_ids(std::string_view text) {
  static constexpr JsonField<JobOutcome> kIds[] = {{"id", &as_id<&JobOutcome::id>},
                                                   {"token", &as_id<&JobOutcome::token>}};
  JsonReader in(text, JsonReader::Unknown::skip);
  JobOutcome job;
  const bool read = in.object(kIds, job) && job.id != 0 && job.token != 0;
  return read ? std::optional(std::move(job)) : std::nullopt;
}

void put_below(std::string place, Error& error) {
  error.field = error.field.empty() ? std::move(place) : std::move(place) + "." + error.field;
}

Result<ClaimRequest> decode_claim_request(std::string_view body) {
  JsonReader in(body, JsonReader::Unknown::refuse);
  ClaimRequest request;
  if (!in.object(kClaimRequest, request) || !check_worker(in, request.operation.worker) ||
      !check_claim(in, request) || !in.end()) {
    return in.error();
  }
  return request;
}

void encode_claim_request(const ClaimRequest& request, std::string& out) {
  JsonWriter w(out);
  write_claim(w, request);
}

void encode_claim_response(const ClaimResult& result, std::string& out) {
  reserve_for(result, out);
  JsonWriter w(out);
  w.begin_object();
  write_claim_result(w, result);
  w.end_object();
}

struct BrokenClaimAnswer {
  ClaimResult result;
  std::vector<JobOutcome> unreadable;
};

// One of the claimed jobs, as a value of its own.
void read_apart(std::string_view text, BrokenClaimAnswer& answer) {
  JsonReader in(text, JsonReader::Unknown::skip);
  ClaimedJob job;
  const bool read = read_claimed_job(in, job) && in.end();
  if (read && !in.beyond()) {
    answer.result.jobs.push_back(std::move(job));
    return;
  }
  const Error why = in.failed() ? in.error() : check_json("job", text).error();
  std::optional<JobOutcome> dead = only_ids(text);
  if (!dead) return;
  dead->outcome = Dead{"unreadable", why.message};
  answer.unreadable.push_back(std::move(*dead));
}

constexpr JsonField<BrokenClaimAnswer> kBrokenClaimAnswer[] = {
    {"quiet", [](JsonReader& in, auto& a) { return kClaimAnswer[0].read(in, a.result); }},
    {"terminate", [](JsonReader& in, auto& a) { return kClaimAnswer[1].read(in, a.result); }},
    {"jobs",
     [](JsonReader& in, BrokenClaimAnswer& a) {
       return in.array(kMaxClaimJobs, [&](std::size_t) {
         std::string text;
         if (!in.raw(text, JsonReader::Null::take)) return false;
         read_apart(text, a);
         return true;
       });
     }},
    {"cancel", [](JsonReader& in, auto& a) { return read_ids(in, a.result.cancel); }},
    {"session", [](JsonReader& in, auto& a) { return read_grant(in, a.result.session); }},
};

// An unreadable job must not lose the others: they belong to this worker already. If there is no
// job, the whole answer is an error.
Result<ClaimResult> decode_claim_response(std::string_view body,
                                          std::vector<JobOutcome>* unreadable) {
  JsonReader in(body, JsonReader::Unknown::skip);
  ClaimResult whole;
  const bool read = in.object(kClaimAnswer, whole) && in.end();
  if (read && !in.beyond()) return whole;
  Result<BrokenClaimAnswer> parts = decode_response(body, kBrokenClaimAnswer);
  if (!parts || (parts->result.jobs.empty() && (!unreadable || parts->unreadable.empty())))
    return in.failed() ? bad_response(in.error()) : Result<ClaimResult>(std::move(whole));
  if (unreadable != nullptr) *unreadable = std::move(parts->unreadable);
  return std::move(parts->result);
}

void encode_accept_response(const ClaimResult& result, std::string& out) {
  reserve_for(result, out);
  JsonWriter w(out);
  w.begin_object().key("session");
  result.session ? write_grant(w, *result.session) : void(w.null());
  write_claim_result(w, result);
  w.end_object();
}

Result<ClaimResult> decode_accept_response(std::string_view body) {
  return decode_response(body, kClaimAnswer);
}

Result<FinishRequest> decode_finish_request(std::string_view body) {
  const auto read = [&](FinishRequest& into, const auto& fields) -> Result<void> {
    JsonReader in(body, JsonReader::Unknown::refuse);
    if (in.object(fields, into) && check_worker(in, into.operation.worker) && in.end()) return {};
    return in.error();
  };
  FinishRequest request;
  if (auto whole = read(request, kFinishRequest); !whole) {
    request = {};
    const bool mixed = read(request, kMixedFinishRequest).has_value();
    if (!mixed || request.operation.results.empty()) return std::move(whole.error());
  }
  if (request.claim) {
    std::string& worker = request.claim->operation.worker;
    if (worker.empty()) worker = request.operation.worker;
    if (worker != request.operation.worker) {
      return invalid("claim.worker", "claim.worker: must be the same as worker");
    }
  }
  return request;
}

void encode_finish_request(const Finish& request, const ClaimRequest* claim, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("worker").string(request.worker).key("results").begin_array();
  for (const JobOutcome& result : request.results) {
    w.begin_object().key("id").number(result.id).key("token").number(result.token);
    std::visit(OutcomeWriter{w}, result.outcome);
    if (result.session_state) {
      const std::string& state = *result.session_state;
      w.key("session_state").raw(state.empty() ? "null" : std::string_view(state));
    }
    w.end_object();
  }
  w.end_array();
  if (claim != nullptr) {
    w.key("claim");
    write_claim(w, *claim);
  }
  w.end_object();
}

void add_refused(std::span<const FinishRequest::Refused> refused, std::vector<JobId>& ids,
                 FinishResult& result) {
  if (refused.empty()) return;
  std::vector<JobId> all_ids;
  std::vector<FinishStatus> all;
  std::size_t done = 0;
  for (std::size_t next = 0; next < refused.size() || done < ids.size();) {
    if (next < refused.size() && refused[next].place == all.size()) {
      all_ids.push_back(refused[next].part.id);
      all.push_back(FinishStatus::refused);
      result.refused.push_back(refused[next++].part);
    } else {
      all_ids.push_back(ids.at(done));
      all.push_back(result.results.at(done++));
    }
  }
  ids = std::move(all_ids);
  result.results = std::move(all);
}

void encode_finish_response(std::span<const JobId> ids, const FinishResult& result,
                            const ClaimResult* claim, std::string& out) {
  std::size_t refused = 0;
  if (claim != nullptr) reserve_for(*claim, out);
  JsonWriter w(out);
  w.begin_object().key("results").begin_array();
  for (std::size_t i = 0; i < ids.size() && i < result.results.size(); ++i) {
    w.begin_object().key("id").number(ids[i]);
    w.key("status").string(kStatusNames[static_cast<std::size_t>(result.results[i])]);
    if (result.results[i] == FinishStatus::refused && refused < result.refused.size())
      write_part_error(w, result.refused[refused++].error);
    w.end_object();
  }
  w.end_array();
  if (claim != nullptr) write_claim_result(w, *claim);
  w.end_object();
}

Result<FinishResponse> decode_finish_response(std::string_view body) {
  return decode_response(body, kFinishAnswer);
}

Result<EndClaimsRequest> decode_end_claims_request(std::string_view body) {
  JsonReader in(body, JsonReader::Unknown::refuse);
  EndClaimsRequest request;
  if (!in.object(kEndClaimsRequest, request) || !check_worker(in, request.worker) || !in.end())
    return in.error();
  return request;
}

void encode_end_claims_request(const EndClaimsRequest& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("worker").string(request.worker).end_object();
}

void encode_end_claims_response(std::size_t ended, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("ended").number(static_cast<std::int64_t>(ended)).end_object();
}

std::vector<std::string_view> work_request_fields(std::string_view schema) {
  if (schema == "ClaimRequest") return field_names(kClaimRequest);
  if (schema == "HeldSession") return field_names(kHeldSession);
  if (schema == "FinishRequest") return field_names(kFinishRequest);
  if (schema == "Outcome") return field_names(kOutcome);
  if (schema == "EndClaimsRequest") return field_names(kEndClaimsRequest);
  return renew_request_fields(schema);
}

}  // namespace mainspring
