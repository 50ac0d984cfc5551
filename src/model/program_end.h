// How programs end, as part of the outcomes of attempts: validation and text.
#pragma once

#include <string>
#include <string_view>

#include "mainspring/job.h"
#include "mainspring/result.h"

namespace mainspring {

// The program end of an outcome that is stored as an error; nullptr for other outcomes.
const ProgramEnd* program_end_of(const Outcome& outcome);
ProgramEnd* program_end_of(Outcome& outcome);

// Errors: invalid_argument, with `prefix` before the field.
Result<void> check_program_end(const ProgramEnd& end, std::string_view prefix = "");
// Drops everything that breaks a rule.
void hold_within_rules(ProgramEnd& end);

// "exit code 3", "killed by SIGKILL, out of memory, peak memory 48.0 MiB"; "" = unknown.
std::string program_end_text(const ProgramEnd& end);
std::string peak_memory_text(std::int64_t bytes);  // "peak memory 48.0 MiB"
std::string mebibytes_text(std::int64_t bytes);    // "48.0 MiB"

}  // namespace mainspring
