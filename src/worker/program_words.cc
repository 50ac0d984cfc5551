// Reading and writing what programs and jobs say to each other.
#include "worker/program_words.h"

#include <fmt/format.h>
#include <signal.h>

#include <limits>

#include "api/json.h"
#include "api/session_shapes.h"
#include "mainspring/breaker.h"
#include "model/program_end.h"

namespace mainspring {
namespace {

using Said = ProgramSaid;

struct ProgressFields {
  double value = 0;
  std::string text;
};
constexpr JsonField<ProgressFields> kProgressFields[] = {
    {"value", [](JsonReader& in, ProgressFields& p) { return in.number(p.value, 0, 1); }},
    {"text",
     [](JsonReader& in, ProgressFields& p) { return in.text(p.text, kMaxProgressTextBytes); }},
};

constexpr JsonField<Said> kProgress = {"progress", [](JsonReader& in, Said& said) {
                                         ProgressFields progress;
                                         if (!in.object(kProgressFields, progress)) return false;
                                         said.progress = progress.value;
                                         said.progress_text = std::move(progress.text);
                                         return true;
                                       }};
constexpr JsonField<Said> kCheckpoint = {
    "checkpoint", [](JsonReader& in, Said& said) { return in.raw(said.checkpoint.emplace()); }};
constexpr JsonField<Said> kMessage = {"message", [](JsonReader& in, Said& said) {
                                        return in.raw(said.message.emplace(),
                                                      JsonReader::Null::take);
                                      }};
constexpr JsonField<Said> kResult = {"result", [](JsonReader& in, Said& said) {
                                       return in.raw(said.result.emplace(), JsonReader::Null::take);
                                     }};
constexpr JsonField<Said> kSessionState = {"session_state", [](JsonReader& in, Said& said) {
                                             return read_session_state(in, said.session_state);
                                           }};
constexpr JsonField<Said> kError = {"error", [](JsonReader& in, Said& said) {
                                      return in.text(said.error.emplace(), kMaxTextBytes);
                                    }};
constexpr JsonField<Said> kRetryAfter = {"retry_after", [](JsonReader& in, Said& said) {
                                           return in.duration(said.retry_after.emplace(0));
                                         }};
constexpr JsonField<Said> kOpenBreakerFor = {"open_breaker_for", [](JsonReader& in, Said& said) {
                                               if (!in.duration(said.open_breaker_for.emplace(0)))
                                                 return false;
                                               const auto good = check_open_for(
                                                   "open_breaker_for", *said.open_breaker_for);
                                               return good || in.fail_here(good.error().message);
                                             }};

constexpr JsonField<Said> kDefer = {"defer", [](JsonReader& in, Said& said) {
                                      return in.text(said.defer.emplace(), kMaxTextBytes);
                                    }};

constexpr JsonField<StepSaid> kStepFields[] = {
    {"name", [](JsonReader& in, StepSaid& step) { return in.string(step.name); }},
    {"ask", [](JsonReader& in, StepSaid& step) { return in.text(step.ask, kMaxNameBytes); }},
    {"result",
     [](JsonReader& in, StepSaid& step) {
       return in.raw(step.result.emplace(), JsonReader::Null::take);
     }},
};

constexpr JsonField<Said> kProgramFields[] = {
    {"step",
     [](JsonReader& in, Said& said) { return in.object(kStepFields, said.step.emplace()); }},
    kProgress,
    kCheckpoint,
    kSessionState,
    kMessage,
    kResult,
    kError,
    kRetryAfter,
    kDefer,
    kOpenBreakerFor,
    {"reason",
     [](JsonReader& in, Said& said) { return in.text(said.reason.emplace(), kMaxTextBytes); }},
};
constexpr JsonField<Said> kChildFields[] = {
    {"id",
     [](JsonReader& in, Said& said) {
       return in.integer(said.id.emplace(0), 1, std::numeric_limits<JobId>::max());
     }},
    kResult,
    kError,
    kRetryAfter,
    kDefer,
    kOpenBreakerFor,
    kProgress,
    kCheckpoint,
    kSessionState,
    kMessage,
    {"dead",
     [](JsonReader& in, Said& said) { return in.text(said.dead.emplace(), kMaxTextBytes); }},
    {"snooze", [](JsonReader& in, Said& said) { return in.duration(said.snooze.emplace(0)); }},
};

}  // namespace

Result<ProgramSaid> parse_said(std::string_view line, Speaker speaker) {
  ProgramSaid said;
  JsonReader in(line, JsonReader::Unknown::refuse);
  const bool good =
      speaker == Speaker::program ? in.object(kProgramFields, said) : in.object(kChildFields, said);
  if (!good || !in.end()) return in.error();
  return said;
}

Result<void> report_said(ProgramSaid& said, Context& context) {
  if (said.progress) context.progress(*said.progress, said.progress_text);
  if (said.session_state) MS_TRY(context.set_session_state(std::move(*said.session_state)));
  if (said.checkpoint) MS_TRY(context.checkpoint(std::move(*said.checkpoint)));
  if (said.message) return context.send(std::move(*said.message));
  return {};
}

std::string job_json(const ClaimedJob& job, std::string_view idempotency_key) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("id").number(job.id);
  w.key("queue").string(job.queue).key("kind").string(job.kind).key("args").raw(job.args);
  w.key("priority").number(job.priority);
  w.key("attempt").number(job.attempt).key("max_attempts").number(job.max_attempts);
  w.key("token").number(job.token).key("idempotency_key").string(idempotency_key);
  w.key("run_at").string(format_wall_time(job.run_at));
  if (job.timeout != kForever) {
    w.key("timeout_ms").number(std::chrono::ceil<std::chrono::milliseconds>(job.timeout).count());
  }
  if (!job.checkpoint.empty()) w.key("checkpoint").raw(job.checkpoint);
  if (!job.headers.empty()) w.key("headers").raw(job.headers);
  if (!job.tags.empty()) {
    w.key("tags").begin_array();
    for (const std::string& tag : job.tags) w.string(tag);
    w.end_array();
  }
  if (!job.correlation_id.empty()) w.key("correlation_id").string(job.correlation_id);
  if (!job.reply_to.empty()) w.key("reply_to").string(job.reply_to);
  if (!job.session.empty()) w.key("session").string(job.session);
  if (!job.session_state.empty()) w.key("session_state").raw(job.session_state);
  w.end_object();
  out += '\n';
  return out;
}

ProgramEnd program_end_of(const ProcessEnd& end) {
  ProgramEnd out{.signal = end.signal, .oom = end.oom, .peak_memory = end.peak_memory};
  if (end.signal == 0) out.exit_code = end.exit_code;
  return out;
}

namespace {
// Of a program that the kernel may have killed for it, or something of it.
std::string memory_of(const ProcessEnd& end) {
  std::string out = end.oom ? " (out of memory: over its limit)" : "";
  if ((end.oom || end.signal == SIGKILL) && end.peak_memory)
    out += ", " + peak_memory_text(*end.peak_memory);
  return out;
}
}  // namespace

std::string how_it_ended(const ProcessEnd& end) {
  if (end.signal != 0)
    return fmt::format("killed by {}{}", signal_name(end.signal), memory_of(end));
  return fmt::format("exit code {}{}", end.exit_code, memory_of(end));
}

std::string_view without_trailing_space(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

}  // namespace mainspring
