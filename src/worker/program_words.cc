// Parses and writes the lines that programs and jobs exchange.
#include "worker/program_words.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "api/json.h"
#include "base/assert.h"
#include "mainspring/breaker.h"
#include "model/program_end.h"
#include "store/session_operations.h"

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
                                             std::string& state = said.session_state.emplace();
                                             return in.null() || in.raw(state);
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

constexpr std::size_t kShownBytes = 80;  // of an invalid line
constexpr std::size_t kMaxNames = 64;    // in such a line

bool read_all(std::string_view line, Speaker speaker, ProgramSaid& said, std::string& why) {
  JsonReader in(line, JsonReader::Unknown::refuse);
  const bool good =
      speaker == Speaker::program ? in.object(kProgramFields, said) : in.object(kChildFields, said);
  if (good && in.end()) return true;
  const Error error = in.error();
  const std::string member = error.field.substr(0, error.field.find('.'));
  const bool named = member.empty() || error.message.find(member) != std::string::npos;
  why = named ? error.message : fmt::format("{}: {}", member, error.message);
  return false;
}

bool is_answer_name(std::string_view name) {
  constexpr std::array<std::string_view, 5> kAnswers = {"result", "error", "dead", "snooze",
                                                        "defer"};
  return std::find(kAnswers.begin(), kAnswers.end(), name) != kAnswers.end();
}

RemarkFault fault_of(std::string_view name, Speaker speaker) {
  constexpr std::array<std::pair<std::string_view, RemarkFault>, 5> kRemarks = {
      {{"progress", RemarkFault::progress},
       {"checkpoint", RemarkFault::checkpoint},
       {"message", RemarkFault::message},
       {"session_state", RemarkFault::session_state},
       {"step", RemarkFault::step}}};
  for (const auto& [remark, fault] : kRemarks) {
    if (remark == name && !(fault == RemarkFault::step && speaker == Speaker::child)) return fault;
  }
  const auto knows = [name](const auto& fields) {
    return std::any_of(std::begin(fields), std::end(fields),
                       [name](const auto& field) { return field.name == name; });
  };
  const bool known = speaker == Speaker::program ? knows(kProgramFields) : knows(kChildFields);
  return known ? RemarkFault::outcome : RemarkFault::unknown_field;
}

void append_member(std::string& object, std::string_view name, std::string_view value) {
  object += object.empty() ? '{' : ',';
  append_json_string(object, name);
  object += ':';
  object += value;
}

// The member names of a JSON object that is truncated or malformed. Empty = not an object.
std::vector<std::string_view> names_in(std::string_view text) {
  std::vector<std::string_view> names;
  int depth = 0;
  bool in_string = false, escaped = false, is_name = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (!escaped && c == '"') {
        in_string = false;
        if (is_name) names.push_back(text.substr(begin, i - begin));
        is_name = false;
      }
      escaped = !escaped && c == '\\';
    } else if (c == '"') {
      in_string = true;
      begin = i + 1;
    } else if (depth == 0 && c != '{' && c != ' ' && c != '\t') {
      return names;  // not an object, or after its end
    } else if (c == '{' || c == '[') {
      ++depth;
      is_name = depth == 1;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ',') {
      is_name = depth == 1 && names.size() < kMaxNames;
    }
  }
  return names;
}

// A line without any readable member.
ProgramSaid unread_line(std::string_view line, Speaker speaker, RemarkFault fault,
                        const std::string& why) {
  ProgramSaid said;
  said.faults.push_back({fault, why});
  const bool cut = fault == RemarkFault::too_long;
  const auto unfit = [&](std::string_view name, std::size_t limit) {
    if (!cut) return Dead{fmt::format("bad_{}", name), why};
    return Dead{fmt::format("{}_too_large", name),
                fmt::format("{}: must be at most {} bytes, its line at most {}", name, limit,
                            kMaxLineBytes)};
  };
  for (const std::string_view name : names_in(line)) {
    if (name == "result") {
      said.unfit_result = unfit(name, kMaxResultBytes);
    } else if (name == "session_state") {
      said.unfit_state = unfit(name, kMaxSessionStateBytes);
    } else if (name == "step") {
      said.bad_step = speaker == Speaker::program;
    } else if (speaker == Speaker::program ? name == "defer" : is_answer_name(name)) {
      said.bad_outcome = why;
    }
  }
  return said;
}

// Parses each member separately: an invalid member does not affect the others.
ProgramSaid parse_members(std::string_view line, Speaker speaker) {
  std::map<std::string, std::string, std::less<>> members;
  JsonReader in(line, JsonReader::Unknown::skip, JsonValues::exact);
  const bool object = in.peek() == JsonType::object && in.members([&](std::string_view name) {
    std::string& value = members[std::string(name)];
    value.clear();
    return in.raw(value, JsonReader::Null::take);
  }) && in.end();
  if (!object) {
    const std::string why =
        in.unfit() ? in.error().message
                   : fmt::format("\"{}\": must be a JSON object", cut_text(line, kShownBytes));
    return unread_line(line, speaker, RemarkFault::not_json, why);
  }
  ProgramSaid said;
  std::vector<SaidFault> faults;
  std::string good, bad_outcome;
  for (const auto& [name, value] : members) {
    std::string alone, why;
    append_member(alone, name, value);
    ProgramSaid ignored;
    if (read_all(alone + "}", speaker, ignored, why)) {
      append_member(good, name, value);
      continue;
    }
    const bool ends =
        speaker == Speaker::program ? name == "defer" : is_answer_name(name) || name == "id";
    if (ends) bad_outcome = why;
    said.bad_step = said.bad_step || (name == "step" && speaker == Speaker::program);
    faults.push_back({fault_of(name, speaker), std::move(why)});
  }
  std::string why;
  const bool all = read_all(good.empty() ? "{}" : good + "}", speaker, said, why);
  MS_ASSERT(all, "members that are good alone are good together");
  said.faults = std::move(faults);
  said.bad_outcome = std::move(bad_outcome);
  return said;
}

}  // namespace

ProgramSaid parse_said(std::string_view line, Speaker speaker) {
  ProgramSaid said;
  std::string why;
  return read_all(line, speaker, said, why) ? said : parse_members(line, speaker);
}

ProgramSaid parse_cut(std::string_view beginning, Speaker speaker) {
  const std::string_view start = beginning.substr(0, kShownBytes);
  return unread_line(beginning, speaker, RemarkFault::too_long,
                     fmt::format("a line that begins with \"{}\": must be at most {} bytes",
                                 cut_text(start, kShownBytes), kMaxLineBytes));
}

bool is_answer(const ProgramSaid& said) {
  return said.result || said.unfit_result || said.error || said.dead || said.snooze || said.defer ||
         !said.bad_outcome.empty();
}

Dead result_too_large(std::size_t bytes) {
  return Dead{"result_too_large",
              fmt::format("the result has {} bytes: must be at most {}", bytes, kMaxResultBytes)};
}

Result<void> report_said(ProgramSaid& said, Context& context) {
  for (const SaidFault& fault : said.faults) context.ignore(fault.fault, fault.text);
  if (said.progress) context.progress(*said.progress, said.progress_text);
  if (said.session_state) {
    if (auto good = context.set_session_state(std::move(*said.session_state)); !good) {
      const bool too_large = good.error().code == ErrorCode::too_large;
      if (too_large) said.unfit_state = Dead{"session_state_too_large", good.error().message};
      if (!too_large) context.ignore(RemarkFault::session_state, good.error().message);
    }
  }
  if (said.checkpoint) {
    if (auto good = context.checkpoint(std::move(*said.checkpoint)); !good)
      context.ignore(RemarkFault::checkpoint, good.error().message);
  }
  if (said.message) {
    if (auto good = context.send(std::move(*said.message)); !good) {
      if (good.error().field != "message") return good;
      context.ignore(RemarkFault::message, good.error().message);
    }
  }
  return {};
}

std::string job_json(const ClaimedJob& job, std::string_view idempotency_key,
                     const Secret& job_token) {
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
  if (!job_token.empty()) w.key("job_token").string(job_token.reveal());
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
// For a program that the kernel may have killed, or part of it, for lack of memory.
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
