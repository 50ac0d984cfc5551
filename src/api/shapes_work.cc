// The shapes of a worker's calls: claim, finish, renew.
#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "api/fields.h"
#include "api/program_end.h"
#include "api/schedule_fields.h"
#include "api/session_shapes.h"
#include "api/shapes.h"
#include "mainspring/breaker.h"
#include "model/callback.h"
#include "model/program_end.h"

namespace mainspring {
namespace {

bool check_worker(JsonReader& in, const std::string& worker) {
  if (worker.empty()) return in.missing("worker");
  auto ok = check_name("worker", worker);
  return ok ? true : in.fail(ok.error().code, ok.error().message, in.path("worker"));
}

// A list of names, not empty, each once.
bool read_names(JsonReader& in, std::vector<std::string>& out, std::string_view when_empty) {
  const bool read = in.array(kMaxClaimQueues, [&](std::size_t) {
    std::string& name = out.emplace_back();
    if (!in.string(name)) return false;
    auto ok = check_name("name", name);
    return ok ? true : in.fail(ok.error().code, ok.error().message, in.path());
  });
  if (!read) return false;
  if (out.empty()) return in.fail_here(when_empty);
  std::vector<std::string_view> sorted(out.begin(), out.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  return twice == sorted.end() || in.fail_here(fmt::format("\"{}\" is in it twice", *twice));
}

// -- claim

bool read_claim_wait(JsonReader& in, ClaimRequest& request) {
  if (!in.duration(request.wait)) return false;
  return request.wait <= kMaxClaimWait ||
         in.fail_value(fmt::format("must be at most {}", format_duration(kMaxClaimWait)));
}

bool read_claim_lease(JsonReader& in, Duration& lease) {
  if (!in.duration(lease)) return false;
  return (lease >= kMinLease && lease <= kMaxLease) ||
         in.fail_value(fmt::format("must be {} to {}", format_duration(kMinLease),
                                   format_duration(kMaxLease)));
}

bool read_claim_queues(JsonReader& in, ClaimRequest& r) {
  if (!read_names(in, r.operation.queues, "must not be empty")) return false;
  const std::vector<std::string>& queues = r.operation.queues;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    auto ok = check_not_reserved("queue", queues[i]);
    if (!ok)
      return in.fail(ok.error().code, ok.error().message, fmt::format("{}[{}]", in.path(), i));
  }
  return true;
}

// Whose turn it is in a session that the worker holds: a claim of that session's line.
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
  r.session = session_line(held.session);
  return true;
}

// A claim of one job by its id.
bool check_named_claim(JsonReader& in, const ClaimRequest& r) {
  const auto refuse = [&](std::string_view field, std::string_view rule) {
    return in.fail(ErrorCode::invalid_argument, fmt::format("{}: {}", field, rule), in.path(field));
  };
  if (!r.session.empty()) return refuse("session", "does not go with job");
  if (!r.operation.kinds.empty()) return refuse("kinds", "does not go with job");
  if (r.operation.max != 1) return refuse("max", "must be 1 with job");
  return r.wait == Duration(0) || refuse("wait", "does not go with job, for which nothing waits");
}

// What holds of a claim beyond its members.
bool check_claim(JsonReader& in, ClaimRequest& r) {
  Claim& claim = r.operation;
  if (claim.job != 0 && !check_named_claim(in, r)) return false;
  if (r.session.empty()) return !claim.queues.empty() || in.missing("queues");
  const auto refuse = [&](std::string_view field, std::string_view rule) {
    return in.fail(ErrorCode::invalid_argument, fmt::format("{}: {}", field, rule), in.path(field));
  };
  if (!claim.queues.empty()) return refuse("queues", "does not go with session");
  if (!claim.kinds.empty()) return refuse("kinds", "does not go with session");
  if (claim.max != 1) return refuse("max", "must be 1 with session");
  claim.queues.push_back(std::move(r.session));
  return true;
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
};

void write_names(JsonWriter& w, std::string_view key, const std::vector<std::string>& names) {
  w.key(key).begin_array();
  for (const std::string& name : names) w.string(name);
  w.end_array();
}

void write_claim(JsonWriter& w, const ClaimRequest& request) {
  const Claim& claim = request.operation;
  w.begin_object().key("worker").string(claim.worker);
  if (const auto held = parse_session_line(claim.queues.empty() ? "" : claim.queues.front())) {
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

bool read_claimed(JsonReader& in, std::vector<ClaimedJob>& jobs) {
  return in.array(kMaxClaimJobs, [&](std::size_t) {
    ClaimedJob& job = jobs.emplace_back();
    if (!in.object(kClaimedJob, job)) return false;
    if (job.id == 0) return in.missing("id");
    if (job.token == 0) return in.missing("token");
    return !job.kind.empty() || in.missing("kind");
  });
}

constexpr JsonField<ClaimResult> kClaimAnswer[] = {
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

// The members "jobs" and "cancel" of an open object.
void write_claim_result(JsonWriter& w, const ClaimResult& result) {
  w.key("jobs").begin_array();
  for (const ClaimedJob& job : result.jobs) write_claimed(w, job);
  w.end_array();
  if (result.cancel.empty()) return;
  w.key("cancel").begin_array();
  for (const JobId id : result.cancel) w.number(id);
  w.end_array();
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

// An outcome as it is on the wire, before it is known which one it is.
struct WireOutcome {
  JobId id = 0;
  Token token = 0;
  std::string outcome;
  std::optional<std::string> result, error, reason, description;
  std::optional<Duration> after, open_breaker_for;
  std::optional<std::string> session_state;
  std::vector<NewJob> next;
  ProgramEnd program;
};

template <auto Member>
bool as_cut_text(JsonReader& in, WireOutcome& o) {
  return in.null() || in.text((o.*Member).emplace(), kMaxTextBytes);
}

bool read_result(JsonReader& in, WireOutcome& o) {
  if (in.null()) return true;
  std::string& result = o.result.emplace();
  if (!in.raw(result)) return false;
  return result.size() <= kMaxResultBytes ||
         in.fail(
             ErrorCode::too_large,
             fmt::format("result has {} bytes: must be at most {}", result.size(), kMaxResultBytes),
             in.path());
}

// null is none, as everywhere.
bool read_next(JsonReader& in, WireOutcome& o) {
  if (in.null()) return true;
  std::size_t bytes = 0;
  return in.array(kMaxNextJobs, [&](std::size_t) {
    NewJob& job = o.next.emplace_back();
    if (!read_new_job(in, job)) return false;
    if (job.unique) {
      return in.fail(ErrorCode::invalid_argument,
                     "unique: does not go with a job that a completion makes", in.path("unique"));
    }
    bytes += job.args.size() + job.headers.size();
    return bytes <= kMaxNextBytes ||
           in.fail(ErrorCode::too_large,
                   fmt::format("next: args and headers have more than {} bytes", kMaxNextBytes),
                   in.path());
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
    {"session_state",
     [](JsonReader& in, WireOutcome& o) { return read_session_state(in, o.session_state); }},
    {"next", &read_next},
};

// Which fields an outcome takes beside id, token and outcome.
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
                   fmt::format("{}: does not go with outcome \"{}\"", field, o.outcome),
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

bool read_results(JsonReader& in, FinishRequest& request) {
  return in.array(kMaxFinishResults, [&](std::size_t) {
    WireOutcome wire;
    if (!in.object(kOutcome, wire) || !check_outcome(in, wire)) return false;
    request.operation.results.push_back(
        {wire.id, wire.token, to_outcome(wire), std::move(wire.session_state)});
    return true;
  });
}

constexpr JsonField<FinishRequest> kFinishRequest[] = {
    {"worker", [](JsonReader& in, FinishRequest& r) { return in.string(r.operation.worker); }},
    {"results", &read_results},
    {"claim",
     [](JsonReader& in, FinishRequest& r) {
       if (in.null()) return true;
       ClaimRequest& claim = r.claim.emplace();
       return in.object(kClaimRequest, claim) && check_claim(in, claim);
     }},
};

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

constexpr std::string_view kStatusNames[] = {"ok", "stale", "not_found"};

struct WireStatus {
  JobId id = 0;
  FinishStatus status = FinishStatus::ok;
};
constexpr JsonField<WireStatus> kStatus[] = {
    {"id", &as_id<&WireStatus::id>},
    {"status",
     [](JsonReader& in, WireStatus& s) {
       std::string text;
       if (!in.string(text)) return false;
       const auto* found = std::find(std::begin(kStatusNames), std::end(kStatusNames), text);
       if (found == std::end(kStatusNames)) return in.fail_here("must be ok, stale or not_found");
       s.status = static_cast<FinishStatus>(found - std::begin(kStatusNames));
       return true;
     }},
};

constexpr JsonField<FinishResponse> kFinishAnswer[] = {
    {"results",
     [](JsonReader& in, FinishResponse& r) {
       return in.array(kMaxFinishResults, [&](std::size_t) {
         WireStatus status;
         if (!in.object(kStatus, status)) return false;
         r.ids.push_back(status.id);
         r.result.results.push_back(status.status);
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
};

// -- renew

constexpr JsonField<Progress> kProgressRequest[] = {
    {"value", [](JsonReader& in, Progress& p) { return in.number(p.value, 0, 1); }},
    {"text", [](JsonReader& in,
                Progress& p) { return in.null() || in.text(p.text, kMaxProgressTextBytes); }},
};

bool read_checkpoint(JsonReader& in, Renewal& renewal) {
  if (in.null()) return true;
  std::string& checkpoint = renewal.checkpoint.emplace();
  if (!in.raw(checkpoint)) return false;
  return checkpoint.size() <= kMaxCheckpointBytes ||
         in.fail(ErrorCode::too_large,
                 fmt::format("checkpoint has {} bytes: must be at most {}", checkpoint.size(),
                             kMaxCheckpointBytes),
                 in.path());
}

constexpr std::int64_t kMaxSeq = 1LL << 53;  // what every reader of JSON can count to

bool read_messages(JsonReader& in, Renewal& renewal) {
  return in.null() || in.array(kMaxMessages, [&](std::size_t) {
    std::string& message = renewal.messages.emplace_back();
    if (!in.raw(message, JsonReader::Null::take)) return false;
    return message.size() <= kMaxMessageBytes ||
           in.fail(ErrorCode::too_large,
                   fmt::format("message has {} bytes: must be at most {}", message.size(),
                               kMaxMessageBytes),
                   in.path());
  });
}

constexpr JsonField<Memo> kMemo[] = {
    {"name", &as_string<&Memo::name>},
    {"result", &as_raw<&Memo::result>},
};

bool read_memo(JsonReader& in, Memo& memo) {
  if (!in.object(kMemo, memo)) return false;
  if (memo.name.empty()) return in.missing("name");
  if (auto good = check_memo_name("name", memo.name); !good)
    return in.fail(good.error().code, good.error().message, in.path("name"));
  if (memo.result.empty()) return in.missing("result");
  return memo.result.size() <= kMaxMemoBytes ||
         in.fail(ErrorCode::too_large,
                 fmt::format("result has {} bytes: must be at most {}", memo.result.size(),
                             kMaxMemoBytes),
                 in.path("result"));
}

bool read_memos(JsonReader& in, Renewal& renewal) {
  return in.null() || in.array(kMaxRenewalMemos, [&](std::size_t) {
    return read_memo(in, renewal.memos.emplace_back());
  });
}

void write_memos(JsonWriter& w, const std::vector<Memo>& memos) {
  w.key("memos").begin_array();
  for (const Memo& memo : memos) {
    w.begin_object().key("name").string(memo.name).key("result").raw(memo.result).end_object();
  }
  w.end_array();
}

constexpr JsonField<MemoPage> kMemoPage[] = {
    {"memos",
     [](JsonReader& in, MemoPage& page) {
       return in.array(kMaxMemos,
                       [&](std::size_t) { return in.object(kMemo, page.memos.emplace_back()); });
     }},
    {"next", [](JsonReader& in, MemoPage& page) { return in.string(page.next.emplace()); }},
};

constexpr JsonField<Renewal> kRenewal[] = {
    {"id", &as_id<&Renewal::id>},
    {"token", &as_id<&Renewal::token>},
    {"progress",
     [](JsonReader& in, Renewal& r) {
       return in.null() || in.object(kProgressRequest, r.progress.emplace());
     }},
    {"checkpoint", &read_checkpoint},
    {"messages", &read_messages},
    {"first_seq",
     [](JsonReader& in, Renewal& r) { return in.integer(r.first_seq, std::int64_t{1}, kMaxSeq); }},
    {"memos", &read_memos},
};

bool read_leases(JsonReader& in, Renew& request) {
  return in.array(kMaxRenewLeases, [&](std::size_t) {
    Renewal& renewal = request.leases.emplace_back();
    if (!in.object(kRenewal, renewal)) return false;
    if (renewal.id == 0) return in.missing("id");
    return renewal.token != 0 || in.missing("token");
  });
}

constexpr JsonField<Renew> kRenewRequest[] = {
    {"worker", &as_string<&Renew::worker>},
    {"leases", &read_leases},
    {"lease", [](JsonReader& in, Renew& r) { return in.null() || read_claim_lease(in, r.lease); }},
};

constexpr JsonField<Renewed> kRenewed[] = {
    {"id", &as_id<&Renewed::id>},
    {"lease_expires_in_ms", &as_milliseconds<&Renewed::lease>},
};
constexpr JsonField<RenewResult> kRenewAnswer[] = {
    {"renewed",
     [](JsonReader& in, RenewResult& r) {
       return in.array(kMaxRenewLeases,
                       [&](std::size_t) { return in.object(kRenewed, r.renewed.emplace_back()); });
     }},
    {"lost", [](JsonReader& in, RenewResult& r) { return read_ids(in, r.lost); }},
    {"cancel", [](JsonReader& in, RenewResult& r) { return read_ids(in, r.cancel); }},
    {"memos_full", [](JsonReader& in, RenewResult& r) { return read_ids(in, r.memos_full); }},
};

void write_ids(JsonWriter& w, std::string_view key, const std::vector<JobId>& ids) {
  w.key(key).begin_array();
  for (const JobId id : ids) w.number(id);
  w.end_array();
}

}  // namespace

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

Result<ClaimResult> decode_claim_response(std::string_view body) {
  return decode_response(body, kClaimAnswer);
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
  JsonReader in(body, JsonReader::Unknown::refuse);
  FinishRequest request;
  if (!in.object(kFinishRequest, request) || !check_worker(in, request.operation.worker) ||
      !in.end()) {
    return in.error();
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

void encode_finish_response(std::span<const JobId> ids, const FinishResult& result,
                            const ClaimResult* claim, std::string& out) {
  if (claim != nullptr) reserve_for(*claim, out);
  JsonWriter w(out);
  w.begin_object().key("results").begin_array();
  for (std::size_t i = 0; i < ids.size() && i < result.results.size(); ++i) {
    w.begin_object().key("id").number(ids[i]);
    w.key("status").string(kStatusNames[static_cast<std::size_t>(result.results[i])]).end_object();
  }
  w.end_array();
  if (claim != nullptr) write_claim_result(w, *claim);
  w.end_object();
}

Result<FinishResponse> decode_finish_response(std::string_view body) {
  return decode_response(body, kFinishAnswer);
}

Result<Renew> decode_renew_request(std::string_view body) {
  JsonReader in(body, JsonReader::Unknown::refuse);
  Renew request{.lease = Duration(0)};  // not given: each lease as long as it was claimed for
  if (!in.object(kRenewRequest, request) || !check_worker(in, request.worker) || !in.end()) {
    return in.error();
  }
  return request;
}

void encode_renew_request(const Renew& request, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("worker").string(request.worker).key("leases").begin_array();
  for (const Renewal& renewal : request.leases) {
    w.begin_object().key("id").number(renewal.id).key("token").number(renewal.token);
    if (renewal.progress) {
      w.key("progress").begin_object().key("value").real(renewal.progress->value);
      w.key("text").string(cut_text(renewal.progress->text, kMaxProgressTextBytes)).end_object();
    }
    if (renewal.checkpoint) w.key("checkpoint").raw(*renewal.checkpoint);
    if (!renewal.messages.empty()) {
      w.key("messages").begin_array();
      for (const std::string& message : renewal.messages) w.raw(message);
      w.end_array();
      if (renewal.first_seq != 0) w.key("first_seq").number(renewal.first_seq);
    }
    if (!renewal.memos.empty()) write_memos(w, renewal.memos);
    w.end_object();
  }
  w.end_array();
  if (request.lease > Duration(0)) w.key("lease").duration(request.lease);
  w.end_object();
}

void encode_renew_response(const RenewResult& result, std::string& out) {
  JsonWriter w(out);
  w.begin_object().key("renewed").begin_array();
  for (const Renewed& renewed : result.renewed) {
    w.begin_object().key("id").number(renewed.id);
    w.key("lease_expires_in_ms").milliseconds(renewed.lease).end_object();
  }
  w.end_array();
  write_ids(w, "lost", result.lost);
  write_ids(w, "cancel", result.cancel);
  if (!result.memos_full.empty()) write_ids(w, "memos_full", result.memos_full);
  w.key("quiet").boolean(false).key("terminate").boolean(false).end_object();
}

Result<RenewResult> decode_renew_response(std::string_view body) {
  return decode_response(body, kRenewAnswer);
}

void encode_memo_page(const MemoPage& page, std::string& out) {
  JsonWriter w(out);
  w.begin_object();
  write_memos(w, page.memos);
  if (page.next) w.key("next").string(*page.next);
  w.end_object();
}

Result<MemoPage> decode_memo_page(std::string_view body) {
  return decode_response(body, kMemoPage);
}

std::vector<std::string_view> work_request_fields(std::string_view schema) {
  if (schema == "ClaimRequest") return field_names(kClaimRequest);
  if (schema == "HeldSession") return field_names(kHeldSession);
  if (schema == "FinishRequest") return field_names(kFinishRequest);
  if (schema == "Outcome") return field_names(kOutcome);
  if (schema == "RenewRequest") return field_names(kRenewRequest);
  if (schema == "Lease") return field_names(kRenewal);
  if (schema == "Memo") return field_names(kMemo);
  if (schema == "Progress") return field_names(kProgressRequest);
  return {};
}

}  // namespace mainspring
