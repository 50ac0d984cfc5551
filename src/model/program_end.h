// How programs end, in the outcomes of attempts: what may be said of it.
#pragma once

#include <string>
#include <string_view>

#include "mainspring/job.h"
#include "mainspring/result.h"

namespace mainspring {

// Of an outcome that is kept as an error; nullptr: the others have none.
const ProgramEnd* program_end_of(const Outcome& outcome);
ProgramEnd* program_end_of(Outcome& outcome);

// Errors: invalid_argument, with `prefix` before the field.
Result<void> check_program_end(const ProgramEnd& end, std::string_view prefix = "");
// What is against a rule is left out.
void hold_within_rules(ProgramEnd& end);

// "exit code 3", "killed by SIGKILL, out of memory, peak memory 48.0 MiB"; "" = nothing is known.
std::string program_end_text(const ProgramEnd& end);
std::string peak_memory_text(std::int64_t bytes);  // "peak memory 48.0 MiB"
std::string mebibytes_text(std::int64_t bytes);    // "48.0 MiB"

}  // namespace mainspring
