// Job options as flags: for `enqueue`, and for the jobs of schedules and timers.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "mainspring/job.h"

namespace mainspring::cli {

// JSON, @FILE or - (standard input), validated; {} if not given. `name` is for messages: "ARGS",
// "--args".
Result<std::string> read_args(const std::optional<std::string>& given, const std::string& name);
// Reads priority, max-attempts, timeout, expires-in, on-expiry, tag, header, correlation-id,
// reply-to, reply-session, then. Leaves fields of missing flags unchanged.
Result<void> read_job_options(const Invocation& invocation, NewJob& job);
// The flag's value as an instant. Errors: invalid_argument.
Result<std::optional<WallTime>> instant_flag(const Invocation& invocation, const std::string& name);
// "priority 12: must …" from the model becomes "--priority 12: must …".
Error with_flag_names(Error error);

}  // namespace mainspring::cli
