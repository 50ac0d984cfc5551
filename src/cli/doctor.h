// Doctor: checks this machine and these settings for running a server, and advises.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/io.h"
#include "http/health_part.h"

namespace mainspring::cli {

struct Finding {
  std::string name;  // "kernel"
  PartState state = PartState::ok;
  std::string message;  // the finding
  std::string advice;   // what to change; "" = nothing
};

// Only reads, except for a probe file in the data directory that is removed at once. Takes a few
// seconds at most.
std::vector<Finding> examine(const Invocation& invocation);
// {"name","status","message","advice"?}
std::string finding_json(const Finding& finding);

}  // namespace mainspring::cli
