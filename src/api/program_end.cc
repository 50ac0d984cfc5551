// How a program ended, to and from JSON.
#include "api/program_end.h"

#include <fmt/format.h>

#include "api/fields.h"
#include "env/processes.h"

namespace mainspring {
namespace {

struct Kept {
  ProgramEnd program;
};
constexpr JsonField<Kept> kKept[] = {
    {"exit_code", &as_exit_code<&Kept::program>},
    {"signal", &as_signal<&Kept::program>},
    {"oom", &as_oom<&Kept::program>},
    {"peak_memory", &as_peak_memory<&Kept::program>},
};

}  // namespace

bool read_exit_code(JsonReader& in, ProgramEnd& into) {
  return in.null() || in.integer(into.exit_code.emplace(), 0, kMaxExitCode);
}

bool read_signal(JsonReader& in, ProgramEnd& into) {
  if (in.null()) return true;
  std::string name;
  if (!in.string(name)) return false;
  into.signal = parse_signal_name(name);
  return into.signal != 0 ||
         in.fail_here(fmt::format("\"{}\": must be the name of a signal, as \"SIGKILL\"",
                                  cut_text(name, 64)));
}

bool read_peak_memory(JsonReader& in, ProgramEnd& into) {
  return in.null() || in.integer(into.peak_memory.emplace(), std::int64_t{0}, kMaxPeakMemoryBytes);
}

void write_program_end(JsonWriter& w, const ProgramEnd& end) {
  if (end.exit_code) w.key("exit_code").number(*end.exit_code);
  if (end.signal != 0) w.key("signal").string(signal_name(end.signal));
  if (end.oom) w.key("oom").boolean(true);
  if (end.peak_memory) w.key("peak_memory").number(*end.peak_memory);
}

std::string encode_program_end(const ProgramEnd& end) {
  std::string out;
  if (end.empty()) return out;
  JsonWriter w(out);
  w.begin_object();
  write_program_end(w, end);
  w.end_object();
  return out;
}

ProgramEnd decode_program_end(std::string_view text) {
  if (text.empty()) return {};
  auto kept = decode_response(text, kKept);
  return kept ? kept->program : ProgramEnd();
}

}  // namespace mainspring
