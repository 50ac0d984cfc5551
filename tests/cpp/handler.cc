// The actions of handlers, by name.
#include "handler.h"

#include <fmt/format.h>

#include <optional>
#include <semaphore>
#include <stdexcept>

namespace conformance {

using namespace mainspring;
using namespace std::chrono_literals;

std::size_t Runs::begin(const ClaimedJob& job) {
  const std::lock_guard lock(mutex_);
  runs_.push_back({.id = job.id, .kind = job.kind, .attempt = job.attempt});
  return runs_.size() - 1;
}

void Runs::note(std::size_t run, std::string json) {
  const std::lock_guard lock(mutex_);
  runs_[run].notes.push_back(std::move(json));
}

void Runs::end(std::size_t run, bool returned, StopReason reason) {
  const std::lock_guard lock(mutex_);
  runs_[run].ended = returned ? "returned" : "raised";
  if (reason != StopReason::none) runs_[run].stop_reason = to_string(reason);
}

std::string Runs::json() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const Run& run : runs_) {
    Object one;
    one.string("id", fmt::to_string(run.id)).string("kind", run.kind);
    one.number("attempt", run.attempt).raw("notes", array_of(run.notes));
    one.string("ended", run.ended).string("stop_reason", run.stop_reason);
    out.push_back(one.text());
  }
  return Object().raw("runs", array_of(out)).text();
}

template <class Done>
void Gates::wait_until(const std::stop_token& stop, Duration limit, Done done) {
  const std::stop_callback wake(stop, [this] {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return closed_ || stop.stop_requested() || done(); });
}

void Gates::open(const std::string& gate) {
  const std::lock_guard lock(mutex_);
  open_.insert(gate);
  changed_.notify_all();
}

void Gates::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool Gates::wait(const std::string& gate, const std::stop_token& stop) {
  wait_until(stop, 1h, [&] { return open_.contains(gate); });
  const std::lock_guard lock(mutex_);
  return open_.contains(gate);
}

void Gates::wait_stop(Duration limit, const std::stop_token& stop) {
  wait_until(stop, limit, [] { return false; });
}

namespace {

// One run of a handler.
class Acting {
 public:
  Acting(std::size_t run, Context& context, Runs& runs, Gates& gates, Engine& engine)
      : run_(run), context_(context), runs_(runs), gates_(gates), engine_(engine) {}

  // The outcome, if the action ends the handler. An error is a failed attempt.
  Result<std::optional<Outcome>> act(const std::string& name, const Json& value) {
    if (auto outcome = outcome_of(name, value)) return outcome;
    if (name == "throw") throw std::runtime_error(value.GetString());
    MS_TRY(go_on(name, value));
    return std::optional<Outcome>();
  }

 private:
  static std::optional<Outcome> outcome_of(const std::string& name, const Json& value);
  Result<void> go_on(const std::string& name, const Json& value);
  Result<void> check();
  Result<void> wait_at(const std::string& gate);
  Result<void> step(const Json& value);
  Result<void> note(const std::string& name);

  std::size_t run_;
  Context& context_;
  Runs& runs_;
  Gates& gates_;
  Engine& engine_;
};

std::optional<Outcome> Acting::outcome_of(const std::string& name, const Json& value) {
  if (name == "return") return Complete{text_of(value)};
  if (name == "return_bad") return Complete{"not JSON"};
  if (name == "retry") {
    Retry retry{.error = string_of(value, "error"), .after = {}};
    if (value.HasMember("after")) retry.after = duration_of(value, "after", 0s);
    return retry;
  }
  if (name == "snooze") return Snooze{duration_of(value, "after", 0s)};
  if (name == "defer") return Defer{string_of(value, "reason")};
  if (name == "cancel") return CancelJob{string_of(value, "reason")};
  if (name == "dead") return Dead{string_of(value, "reason"), string_of(value, "description")};
  if (name != "complete") return std::nullopt;
  Complete complete{member_text(value, "result")};
  if (value.HasMember("next")) {
    for (const Json& job : value["next"].GetArray()) complete.next.push_back(new_job(job));
  }
  return complete;
}

Result<void> Acting::go_on(const std::string& name, const Json& value) {
  if (name == "gate") return wait_at(value.GetString());
  if (name == "hang") {
    (void)gates_.wait(value.GetString(), std::stop_token());
    return {};
  }
  if (name == "check") return check();
  if (name == "checkpoint") return context_.checkpoint(text_of(value));
  if (name == "message") return context_.send(text_of(value));
  if (name == "flush") return context_.flush();
  if (name == "session_state") return context_.set_session_state(text_of(value));
  if (name == "step") return step(value);
  if (name == "note") return note(value.GetString());
  if (name == "wait_stop") {
    gates_.wait_stop(parse_duration(value.GetString()).value(), context_.stop_token());
    const bool told = context_.stop_requested();
    runs_.note(run_, Object().string("stop", told ? to_string(context_.stop_reason()) : "").text());
  } else if (name == "block_ms") {
    std::binary_semaphore never(0);  // a handler that ignores everything
    (void)never.try_acquire_for(std::chrono::milliseconds(value.GetInt()));
  } else if (name == "progress") {
    context_.progress(value[0].GetDouble(), value[1].GetString());
  } else if (name == "step_fails") {
    const std::string text = value[1].GetString();
    MS_TRY(context_.step(value[0].GetString(), [&]() -> Result<std::string> {
      return Error{.code = ErrorCode::internal, .message = text};
    }));
  } else if (name == "enqueue") {
    MS_TRY(engine_.enqueue(new_job(value)));
  } else {
    throw std::runtime_error("no such action: " + name);
  }
  return {};
}

Result<void> Acting::check() {
  if (!context_.stop_requested()) return {};
  return Error{.code = ErrorCode::conflict,
               .message = "told to stop: " + std::string(to_string(context_.stop_reason()))};
}

Result<void> Acting::wait_at(const std::string& gate) {
  if (gates_.wait(gate, context_.stop_token())) return {};
  MS_TRY(check());
  return Error{.code = ErrorCode::conflict, .message = "the case has ended"};
}

Result<void> Acting::step(const Json& value) {
  const std::string name = value[0].GetString();
  bool ran = false;
  MS_TRY_ASSIGN(const std::string result, context_.step(name, [&]() -> Result<std::string> {
    ran = true;
    return text_of(value[1]);
  }));
  Object note;
  runs_.note(run_, note.string("step", name).payload("result", result).boolean("ran", ran).text());
  return {};
}

Result<void> Acting::note(const std::string& name) {
  const ClaimedJob& job = context_.job();
  Object note;
  if (name == "args") note.payload(name, job.args);
  if (name == "attempt") note.number(name, job.attempt);
  if (name == "token") note.string(name, fmt::to_string(job.token));
  if (name == "checkpoint") note.payload(name, job.checkpoint);
  if (name == "session_state") note.payload(name, context_.session_state());
  if (name == "headers") note.payload(name, job.headers);
  if (name == "idempotency_key") note.string(name, context_.idempotency_key());
  if (name == "tags") {
    std::vector<std::string> tags;
    for (const std::string& tag : job.tags) tags.push_back(json_text(tag));
    note.raw(name, array_of(tags));
  }
  runs_.note(run_, note.text());
  return {};
}

HandlerResult run_actions(const Document& actions, int attempt, Acting& acting) {
  for (const Json& action : actions.GetArray()) {
    if (int_of(action, "attempt", attempt) != attempt) continue;
    for (int times = int_of(action, "repeat", 1); times > 0; --times) {
      for (const auto& [name, value] : action.GetObject()) {
        const std::string what = name.GetString();
        if (what == "attempt" || what == "repeat") continue;
        MS_TRY_ASSIGN(std::optional<Outcome> outcome, acting.act(what, value));
        if (outcome) return std::move(*outcome);
      }
    }
  }
  return Outcome(Complete{});
}

}  // namespace

Handler handler_of(const Json& actions, Runs& runs, Gates& gates, Engine& engine) {
  auto kept = std::make_shared<Document>();
  kept->CopyFrom(actions, kept->GetAllocator());
  return [kept, &runs, &gates, &engine](const ClaimedJob& job, Context& context) -> HandlerResult {
    const std::size_t run = runs.begin(job);
    Acting acting(run, context, runs, gates, engine);
    try {
      HandlerResult result = run_actions(*kept, job.attempt, acting);
      runs.end(run, result.has_value(), context.stop_reason());
      return result;
    } catch (...) {
      runs.end(run, false, context.stop_reason());
      throw;
    }
  };
}

}  // namespace conformance
