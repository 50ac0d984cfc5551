// Rules and texts for the ends of programs.
#include "model/program_end.h"

#include <fmt/format.h>

#include <utility>

#include "env/processes.h"

namespace mainspring {
namespace {

bool is_exit_code(int code) {
  return code >= 0 && code <= kMaxExitCode;
}
bool is_signal(int signal) {
  return signal == 0 || parse_signal_name(signal_name(signal)) == signal;
}
bool is_peak(std::int64_t bytes) {
  return bytes >= 0 && bytes <= kMaxPeakMemoryBytes;
}

Error wrong(std::string_view prefix, std::string_view field, const std::string& message) {
  return invalid(std::string(prefix).append(field), message);
}

}  // namespace

const ProgramEnd* program_end_of(const Outcome& outcome) {
  if (const auto* retry = std::get_if<Retry>(&outcome)) return &retry->program;
  if (const auto* dead = std::get_if<Dead>(&outcome)) return &dead->program;
  return nullptr;
}

ProgramEnd* program_end_of(Outcome& outcome) {
  return const_cast<ProgramEnd*>(program_end_of(std::as_const(outcome)));
}

Result<void> check_program_end(const ProgramEnd& end, std::string_view prefix) {
  if (end.exit_code && !is_exit_code(*end.exit_code)) {
    return wrong(prefix, "exit_code",
                 fmt::format("exit_code {}: must be 0 to {}", *end.exit_code, kMaxExitCode));
  }
  if (!is_signal(end.signal)) {
    return wrong(prefix, "signal",
                 fmt::format("signal {}: must be the number of a signal", end.signal));
  }
  if (end.exit_code && end.signal != 0) {
    return wrong(prefix, "exit_code",
                 "exit_code and signal: give at most one of them: a program ends by one");
  }
  if (end.peak_memory && !is_peak(*end.peak_memory)) {
    return wrong(prefix, "peak_memory",
                 fmt::format("peak_memory {}: must be 0 to {} bytes", *end.peak_memory,
                             kMaxPeakMemoryBytes));
  }
  return {};
}

void hold_within_rules(ProgramEnd& end) {
  if (!is_signal(end.signal)) end.signal = 0;
  if (end.exit_code && (!is_exit_code(*end.exit_code) || end.signal != 0)) end.exit_code.reset();
  if (end.peak_memory && !is_peak(*end.peak_memory)) end.peak_memory.reset();
}

std::string peak_memory_text(std::int64_t bytes) {
  return "peak memory " + mebibytes_text(bytes);
}

std::string mebibytes_text(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string program_end_text(const ProgramEnd& end) {
  std::string out;
  const auto add = [&out](std::string_view text) {
    out.append(out.empty() ? "" : ", ").append(text);
  };
  if (end.signal != 0) add("killed by " + signal_name(end.signal));
  if (end.exit_code) add(fmt::format("exit code {}", *end.exit_code));
  if (end.oom) add("out of memory");
  if (end.peak_memory) add(peak_memory_text(*end.peak_memory));
  return out;
}

}  // namespace mainspring
