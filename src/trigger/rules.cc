// The rules of triggers.
#include "trigger/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/trigger_shapes.h"
#include "base/mutant.h"

namespace mainspring {
namespace {

// Retries when nodes create and remove one trigger concurrently.
constexpr int kTries = 3;

struct Whole {
  TriggerInfo info;
  std::int64_t next_seq = 1;
};

Result<Whole> read_whole(const TriggerRecord& record) {
  const auto damaged = [&](const Error& error) {
    return Error{ErrorCode::internal,
                 fmt::format("the store is damaged: trigger {}: {}", record.name, error.message)};
  };
  auto trigger = decode_trigger(record.definition);
  if (!trigger) return damaged(trigger.error());
  auto state = decode_trigger_state(record.state);
  if (!state) return damaged(state.error());
  Whole out{std::move(state->info), state->next_seq};
  out.info.trigger = std::move(*trigger);
  out.info.secret = record.secret;
  return out;
}

std::string definition_of(const Trigger& trigger) {
  std::string out;
  encode_trigger(trigger, out);
  return out;
}

Error needs_secret() {
  return invalid("secret", "secret: must be given for a trigger with http that has none yet");
}

}  // namespace

Error no_trigger(const std::string& name) {
  return {ErrorCode::not_found, fmt::format("trigger {}: there is no such trigger", name)};
}

Result<TriggerInfo> read_trigger(const TriggerRecord& record) {
  MS_TRY_ASSIGN(Whole whole, read_whole(record));
  return std::move(whole.info);
}

// -- definitions ----------------------------------------------------------------------------------

OperationResult TriggerRules::run(const PutTrigger& op) {
  for (int i = 0; i < kTries; ++i) {
    if (auto record = rows_.load(op.trigger.name)) return replace(std::move(*record), op);
    if (auto done = create(op)) return std::move(*done);
  }
  return Error{
      .code = ErrorCode::unavailable,
      .message = fmt::format("trigger {}: other callers create and remove it at the same time",
                             op.trigger.name),
      .retry_after_ms = 100};
}

// Returns nothing if another caller has created it.
std::optional<OperationResult> TriggerRules::create(const PutTrigger& op) {
  if (const std::int64_t count = rows_.count(); count >= kMaxTriggers) {
    return Error{ErrorCode::overloaded,
                 fmt::format("there are {} triggers: must be at most {}", count, kMaxTriggers)};
  }
  if (op.trigger.http && op.secret.empty()) return needs_secret();
  TriggerInfo info;
  info.paused = op.paused.value_or(false);
  info.created_at = info.updated_at = now_;
  const bool secret = op.trigger.http.has_value();
  if (!rows_.insert({.name = op.trigger.name,
                     .definition = definition_of(op.trigger),
                     .state = encode_trigger_state(info, 1),
                     .secret = secret ? op.secret : ""}))
    return std::nullopt;
  return PutTriggerResult{.version = 1, .outcome = PutOutcome::created, .secret_taken = secret};
}

OperationResult TriggerRules::replace(TriggerRecord record, const PutTrigger& op) {
  auto whole = read_whole(record);
  if (!whole) return whole.error();
  TriggerInfo& info = whole->info;
  if (!op.within.has(info.trigger.job.queue)) {
    return Error{ErrorCode::forbidden,
                 fmt::format("trigger {}: there is a trigger of that name for another queue",
                             op.trigger.name)};
  }
  // The secret of one kind of authentication does not fit the other.
  const bool fits =
      info.trigger.http && op.trigger.http && info.trigger.http->auth == op.trigger.http->auth;
  const bool keeps = op.secret.empty() || (op.made && fits && !record.secret.empty());
  std::string secret = !keeps ? op.secret : fits ? record.secret : "";
  if (!op.trigger.http) secret.clear();
  if (op.trigger.http && secret.empty()) return needs_secret();
  std::string definition = definition_of(op.trigger);
  PutTriggerResult result{.version = info.version,
                          .secret_taken = op.trigger.http.has_value() && !keeps};
  const bool same = record.definition == definition && record.secret == secret;
  const bool paused = op.paused.value_or(info.paused);
  if (same && paused == info.paused) return result;
  if (paused != info.paused) {
    info.paused = paused;
    info.paused_reason.clear();
  }
  if (!same) {
    result.version = ++info.version;
    result.outcome = PutOutcome::replaced;
  }
  info.updated_at = now_;
  rows_.save({.name = record.name,
              .definition = std::move(definition),
              .state = encode_trigger_state(info, whole->next_seq),
              .secret = std::move(secret)});
  return result;
}

OperationResult TriggerRules::run(const RemoveTrigger& op) {
  const auto record = rows_.load(op.name);
  if (!record) return no_trigger(op.name);
  const auto whole = read_whole(*record);
  if (!whole) return whole.error();
  if (!op.within.has(whole->info.trigger.job.queue)) return no_trigger(op.name);
  rows_.remove(op.name);
  return Done{};
}

OperationResult TriggerRules::run(const PauseTrigger& op) {
  const auto record = rows_.load(op.name);
  if (!record) return no_trigger(op.name);
  auto whole = read_whole(*record);
  if (!whole) return whole.error();
  TriggerInfo& info = whole->info;
  if (!op.within.has(info.trigger.job.queue)) return no_trigger(op.name);
  if (info.paused == op.paused) return Done{};
  info.paused = op.paused;
  info.paused_reason = op.paused ? op.reason : "";
  info.updated_at = now_;
  rows_.save_state(op.name, encode_trigger_state(info, whole->next_seq));
  return Done{};
}

// -- events ---------------------------------------------------------------------------------------

OperationResult TriggerRules::run(const FireTrigger& op) {
  made_ = 0;
  const auto record = rows_.load(op.name);
  if (!record) return no_trigger(op.name);
  auto whole = read_whole(*record);
  if (!whole) return whole.error();
  TriggerInfo& info = whole->info;
  if (!op.within.has(info.trigger.job.queue)) return no_trigger(op.name);
  if (!op.event.empty() && !MS_MUTANT(fired_event_fires_again)) {
    if (const auto row = rows_.find_event(op.name, op.event))
      return TriggerFired{.job = row->job, .duplicate = true};
  }
  if (op.made_at && *op.made_at <= info.forgotten && !MS_MUTANT(forgotten_event_fires))
    return TriggerFired{.job = 0, .duplicate = true};
  if (info.paused && !MS_MUTANT(paused_trigger_fires)) {
    return Error{ErrorCode::conflict, fmt::format("trigger {} is paused", op.name)};
  }
  if (op.version != 0 && op.version != info.version) {
    return Error{ErrorCode::conflict, fmt::format("trigger {} has another definition now", op.name),
                 "version"};
  }
  NewJob job = info.trigger.job;
  if (!op.args.empty()) job.args = op.args;
  OperationResult made = rows_.enqueue(job);
  const auto* jobs = std::get_if<EnqueueResult>(&made);
  if (jobs == nullptr) return made;
  info.last_job = jobs->jobs.front().id;
  if (!jobs->jobs.front().duplicate) made_ = info.last_job;
  info.last_fired = now_;
  info.last_event = op.event;
  ++info.fired;
  remember(op.name, {.event = op.event, .made_at = op.made_at, .job = info.last_job}, info,
           whole->next_seq);
  rows_.save_state(op.name, encode_trigger_state(info, whole->next_seq));
  return TriggerFired{.job = info.last_job};
}

void TriggerRules::remember(const std::string& name, TriggerEvent event, TriggerInfo& info,
                            std::int64_t& next_seq) {
  const std::int64_t seq = next_seq++;
  event.seq = seq;
  event.fired_at = now_;
  if (!MS_MUTANT(fired_without_a_row)) rows_.add_event(name, event);
  if (seq <= kTriggerRows) return;
  if (const auto latest = rows_.forget(name, seq - kTriggerRows))
    info.forgotten = std::max(info.forgotten, *latest);
}

// -- ends of jobs ---------------------------------------------------------------------------------

std::set<std::string> TriggerRows::known_events(const std::string& name,
                                                const std::vector<std::string>& events) {
  std::set<std::string> known;
  for (const std::string& event : events) {
    if (find_event(name, event)) known.insert(event);
  }
  return known;
}

std::optional<TriggerWatch> watch_of(const TriggerRecord& record) {
  auto trigger = decode_trigger(record.definition);
  if (!trigger || !trigger->ended) return std::nullopt;
  return TriggerWatch{record.name, std::move(*trigger->ended)};
}

namespace {

std::string event_of(const EndedJob& job) {
  return fmt::format("{}/{}", job.id, to_string(job.state));
}

Error too_deep(int depth) {
  return {ErrorCode::conflict,
          fmt::format("a chain of {} triggers led to this job; the limit is {}", depth,
                      kMaxTriggerDepth)};
}

// The job that the end of `ended` creates. Errors: why it creates none.
Result<NewJob> job_of(TriggerRows& rows, const Trigger& trigger, const EndedJob& ended) {
  if (ended.trigger_depth >= kMaxTriggerDepth && !MS_MUTANT(trigger_chain_unbounded))
    return too_deep(ended.trigger_depth);
  NewJob job = trigger.job;
  job.trigger_depth = MS_MUTANT(trigger_depth_not_carried) ? 0 : ended.trigger_depth + 1;
  const std::string ended_json = encode_ended_job(ended);
  if (job.args == "{}") {
    job.args = ended_json;
  } else {
    MS_TRY_ASSIGN(
        job.args,
        rows.resolve(trigger.job.args, [&](std::string_view name) -> std::optional<std::string> {
          if (name == "job") return ended_json;
          if (name != "trigger") return std::nullopt;
          return fmt::format(R"({{"name":"{}","event":"{}"}})", trigger.name, event_of(ended));
        }));
  }
  if (job.args.size() <= kMaxArgsBytes) return job;
  return Error{ErrorCode::too_large,
               fmt::format("the args of the job would have {} bytes: must be at most {}",
                           job.args.size(), kMaxArgsBytes)};
}

}  // namespace

Result<std::vector<JobId>> TriggerRules::run(std::span<const TriggerWatch> watches,
                                             std::span<const EndedJob> ends) {
  std::vector<JobId> made;
  for (const TriggerWatch& watch : watches) {
    const bool fired = std::any_of(ends.begin(), ends.end(), [&](const EndedJob& job) {
      return fires(watch.source, job.queue, job.kind, job.state);
    });
    if (fired) MS_TRY(run_ends(watch.name, ends, made));
  }
  return made;
}

// Uses the current definition: it may have been changed, paused or removed since it was found.
Result<void> TriggerRules::run_ends(const std::string& name, std::span<const EndedJob> ends,
                                    std::vector<JobId>& made) {
  const auto record = rows_.load(name);
  if (!record) return {};
  MS_TRY_ASSIGN(Whole whole, read_whole(*record));
  TriggerInfo& info = whole.info;
  if (!info.trigger.ended || (info.paused && !MS_MUTANT(paused_trigger_hears_ends))) return {};
  std::vector<const EndedJob*> firing;
  std::vector<std::string> events;
  for (const EndedJob& job : ends) {
    if (!fires(*info.trigger.ended, job.queue, job.kind, job.state)) continue;
    firing.push_back(&job);
    events.push_back(event_of(job));
  }
  std::set<std::string> known = rows_.known_events(name, events);
  if (MS_MUTANT(end_fires_again)) known.clear();
  std::vector<TriggerEvent> rows;
  std::vector<NewJob> jobs;
  for (std::size_t i = 0; i < firing.size(); ++i) {
    if (!known.insert(events[i]).second && !MS_MUTANT(end_fires_again)) continue;
    auto job = job_of(rows_, info.trigger, *firing[i]);
    rows.push_back({.event = std::move(events[i]), .job = 0, .reason = {}});
    if (job) {
      jobs.push_back(std::move(*job));
    } else {
      rows.back().reason = job.error().message;
    }
  }
  if (rows.empty()) return {};
  const std::vector<EnqueuedJob> all = rows_.make(jobs);
  std::size_t next = 0;
  for (TriggerEvent& row : rows) {
    if (row.reason.empty()) {
      const EnqueuedJob& job = all[next++];
      if (!job.duplicate) made.push_back(job.id);
      row.job = info.last_job = job.id;
      info.last_fired = now_;
      info.last_event = row.event;
      ++info.fired;
    } else {
      ++info.refused;
    }
    remember(name, std::move(row), info, whole.next_seq);
  }
  rows_.save_state(name, encode_trigger_state(info, whole.next_seq));
  return {};
}

}  // namespace mainspring
