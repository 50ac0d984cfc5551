// How a program ended, as members of JSON objects: of an outcome, of an error, and as a store keeps
// it: "exit_code", "signal" ("SIGKILL"), "oom", "peak_memory" (bytes).
#pragma once

#include <string>
#include <string_view>

#include "api/json.h"
#include "mainspring/job.h"

namespace mainspring {

// For a table of fields of a type that has a ProgramEnd as `Member`.
bool read_exit_code(JsonReader& in, ProgramEnd& into);
bool read_signal(JsonReader& in, ProgramEnd& into);
bool read_peak_memory(JsonReader& in, ProgramEnd& into);
template <auto Member, class T>
bool as_exit_code(JsonReader& in, T& into) {
  return read_exit_code(in, into.*Member);
}
template <auto Member, class T>
bool as_signal(JsonReader& in, T& into) {
  return read_signal(in, into.*Member);
}
template <auto Member, class T>
bool as_oom(JsonReader& in, T& into) {
  return in.null() || in.boolean((into.*Member).oom);
}
template <auto Member, class T>
bool as_peak_memory(JsonReader& in, T& into) {
  return read_peak_memory(in, into.*Member);
}

// Writes the known members into an open object.
void write_program_end(JsonWriter& w, const ProgramEnd& end);

// The form in a store: an object with those members, as text; "" = nothing is known.
std::string encode_program_end(const ProgramEnd& end);
// Ignores unreadable members, which a later version may have written.
ProgramEnd decode_program_end(std::string_view text);

}  // namespace mainspring
