// The exec handler: runs a program once per attempt and interprets how it ended.
#include "worker/exec.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "api/json.h"
#include "model/trace_context.h"
#include "worker/start_failure.h"
#include "worker/step_channel.h"

namespace mainspring {
namespace {

constexpr std::size_t kErrorBytes = 4 << 10;  // of standard error in a job's error
constexpr int kErrorLines = 20;
constexpr Duration kServerAway = std::chrono::seconds(5);  // until the job is claimed again

std::vector<std::string> job_environment(const ClaimedJob& job, const std::string& key) {
  std::vector<std::string> out = inherited_environment("MAINSPRING_");
  const auto add = [&out](std::string_view name, std::string value) {
    std::erase(value, '\0');  // not allowed in an environment
    out.push_back(fmt::format("MAINSPRING_{}={}", name, value));
  };
  add("JOB_ID", fmt::to_string(job.id));
  add("QUEUE", job.queue);
  add("KIND", job.kind);
  add("PRIORITY", fmt::to_string(job.priority));
  add("ATTEMPT", fmt::to_string(job.attempt));
  add("MAX_ATTEMPTS", fmt::to_string(job.max_attempts));
  add("TOKEN", fmt::to_string(job.token));
  add("CORRELATION_ID", job.correlation_id);
  add("REPLY_TO", job.reply_to);
  add("SESSION", job.session);
  add("IDEMPOTENCY_KEY", key);
  // Names of the OpenTelemetry convention, without a prefix.
  std::erase_if(out, [](const std::string& entry) {
    return entry.starts_with("TRACEPARENT=") || entry.starts_with("TRACESTATE=");
  });
  if (const TraceHeaders trace = trace_headers_of(job.headers); !trace.empty()) {
    out.push_back("TRACEPARENT=" + trace.parent);
    if (!trace.state.empty()) out.push_back("TRACESTATE=" + trace.state);
  }
  add("RESULT_FD", "3");
  add("ANSWER_FD", "4");
  return out;
}

std::string_view last_line(std::string_view text) {
  text = without_trailing_space(text);
  const std::size_t cut = text.rfind('\n');
  return cut == std::string_view::npos ? text : text.substr(cut + 1);
}

// The result on standard output of a program that completed: see exec.h.
Outcome output_result(const Captured& out) {
  const std::string_view line = last_line(out.tail);
  if (line.empty()) return Complete{};
  const bool whole = !out.cut() || line.size() < without_trailing_space(out.tail).size();
  if (!whole) {
    return Dead{"result_too_large",
                fmt::format("the result, the last line of standard output, has more than {} bytes: "
                            "must be at most {}",
                            line.size(), kMaxResultBytes)};
  }
  auto text = json_or_text("result", line);
  if (!text) return Dead{"bad_result", text.error().message};
  if (text->size() > kMaxResultBytes) return result_too_large(text->size());
  return Complete{std::move(*text)};
}

// The last lines of standard error.
std::string error_lines(const Captured& err) {
  std::string_view text = without_trailing_space(err.tail);
  if (text.size() > kErrorBytes) text = text.substr(text.size() - kErrorBytes);
  std::size_t begin = text.size();
  for (int lines = 0; begin > 0 && lines < kErrorLines; ++lines) {
    const std::size_t cut = text.rfind('\n', begin - 1);
    if (cut == std::string_view::npos) {
      begin = 0;
    } else if (lines + 1 == kErrorLines) {
      begin = cut + 1;
      break;
    } else {
      begin = cut;
    }
  }
  text = text.substr(std::min(begin, text.size()));
  // Do not start in the middle of a character.
  while (!text.empty() && (static_cast<unsigned char>(text[0]) & 0xc0) == 0x80) {
    text.remove_prefix(1);
  }
  return std::string(text);
}

class Exec {
 public:
  Exec(Processes& processes, const ExecOptions& options, const ClaimedJob& job, Context& context)
      : processes_(processes), options_(options), job_(job), context_(context) {}

  HandlerResult run() {
    HandlerResult result = attempt();
    if (!result && !started_) return start_failure(std::move(result.error()));
    return result;
  }

 private:
  HandlerResult attempt() {
    const std::string key = context_.idempotency_key();
    MS_TRY_ASSIGN(StepChannel steps, StepChannel::open());
    steps_.emplace(std::move(steps));
    ProcessSpec spec;
    spec.answer_fd = steps_->program_end();
    spec.argv = options_.argv;
    spec.directory = options_.directory;
    spec.environment = job_environment(job_, key);
    const auto added = options_.access.add(spec.environment, job_.queue, "", job_.timeout);
    // Return the job without counting the attempt. If the server refuses permanently, run without.
    if (!added && is_away(added.error())) return Outcome(Snooze{kServerAway});
    spec.input = job_json(job_, key);
    spec.output_cap_bytes = options_.output_cap_bytes;
    spec.message_cap_bytes = kMaxLineBytes;
    spec.message_dropped = [this](std::string_view beginning) {
      take(parse_cut(beginning, Speaker::program));
    };
    spec.kill_grace_at_stop = [this] {
      const StopReason reason = context_.stop_reason();
      const bool hurry = reason == StopReason::shutdown || reason == StopReason::lease_lost;
      return hurry ? std::min(options_.hurried_kill_grace, options_.kill_grace)
                   : options_.kill_grace;
    };
    spec.started = [this](ProcessIds) { started_ = true; };
    if (options_.prepare) MS_TRY(options_.prepare(spec));
    MS_TRY_ASSIGN(const ProcessEnd end, processes_.run(
                                            spec, [this](std::string_view line) { listen(line); },
                                            context_.stop_token()));
    return outcome(end);
  }

  void listen(std::string_view line) {
    if (!without_trailing_space(line).empty()) take(parse_said(line, Speaker::program));
  }

  void take(ProgramSaid said) {
    if (auto good = report_said(said, context_); !good && !lost_message_) {
      lost_message_ = fmt::format("message on fd 3: {}", good.error().message);
    }
    answer_step(said);
    if (said.result || said.unfit_result) {
      said_.result = std::move(said.result);
      said_.unfit_result = std::move(said.unfit_result);
    }
    if (said.session_state || said.unfit_state) said_.unfit_state = std::move(said.unfit_state);
    if (said.error) said_.error = std::move(said.error);
    if (said.retry_after) said_.retry_after = said.retry_after;
    if (said.open_breaker_for) said_.open_breaker_for = said.open_breaker_for;
    if (said.reason) said_.reason = std::move(said.reason);
    if (said.defer || !said.bad_outcome.empty()) {
      said_.defer = std::move(said.defer);
      said_.bad_outcome = std::move(said.bad_outcome);
    }
  }

  void answer_step(ProgramSaid& said) {
    Result<void> good;
    if (said.step) good = steps_->answer(*said.step, context_);
    if (said.bad_step) {
      const auto why = std::find_if(said.faults.begin(), said.faults.end(), [](const auto& fault) {
        return fault.fault == RemarkFault::step;
      });
      good = steps_->refuse(
          invalid("step", (why != said.faults.end() ? *why : said.faults.front()).text));
    }
    if (!good) context_.ignore(RemarkFault::step, good.error().message);
  }

  std::string error_text(const ProcessEnd& end) const {
    if (said_.error) return *said_.error;
    const std::string lines = error_lines(end.err);
    return lines.empty() ? how_it_ended(end) : fmt::format("{}: {}", how_it_ended(end), lines);
  }

  // Bad remarks have no effect here.
  Outcome complete(const ProcessEnd& end) {
    const std::string* again = lost_message_ ? &*lost_message_ : nullptr;
    if (again == nullptr && !said_.bad_outcome.empty()) again = &said_.bad_outcome;
    if (again != nullptr)
      return Retry{.error = *again, .after = {}, .program = program_end_of(end)};
    for (const auto& unfit : {said_.unfit_state, said_.unfit_result}) {
      if (unfit) return Dead{unfit->reason, unfit->description, program_end_of(end)};
    }
    if (said_.defer) return Defer{*said_.defer};
    if (!said_.result) return output_result(end.out);
    if (said_.result->size() > kMaxResultBytes) return result_too_large(said_.result->size());
    return Complete{std::move(*said_.result)};
  }

  HandlerResult outcome(const ProcessEnd& end) {
    if (end.signal == 0 && end.exit_code == 0) return complete(end);
    if (end.signal == 0 && end.exit_code == kExitDead) {
      return Outcome(Dead{said_.reason.value_or("exit_65"), error_text(end), program_end_of(end)});
    }
    return Outcome(
        Retry{error_text(end), said_.retry_after, said_.open_breaker_for, program_end_of(end)});
  }

  Processes& processes_;
  const ExecOptions& options_;
  const ClaimedJob& job_;
  Context& context_;
  ProgramSaid said_;
  std::optional<StepChannel> steps_;
  std::optional<std::string> lost_message_;
  bool started_ = false;
};

}  // namespace

std::vector<Error> ExecOptions::validate() const {
  std::vector<Error> errors;
  if (argv.empty() || argv[0].empty()) {
    errors.push_back(invalid("exec", "exec: must name a program"));
  }
  for (const auto& [name, value] :
       {std::pair("kill_grace", kill_grace), std::pair("hurried_kill_grace", hurried_kill_grace)}) {
    if (value < Duration(0) || value > std::chrono::hours(1)) {
      errors.push_back(
          invalid(name, fmt::format("{} {}: must be 0s to 1h", name, format_duration(value))));
    }
  }
  if (output_cap_bytes > std::size_t{1} << 30) {
    errors.push_back(invalid("output_cap_bytes", "output_cap_bytes: must be at most 1 GiB"));
  }
  return errors;
}

Handler exec_handler(Processes& processes, ExecOptions options) {
  return [&processes, options = std::move(options)](const ClaimedJob& job, Context& context) {
    return Exec(processes, options, job, context).run();
  };
}

}  // namespace mainspring
