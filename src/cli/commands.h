// The parts of the table of commands.
#pragma once

#include "cli/command.h"

namespace mainspring::cli {
std::vector<Command> running_commands();    // serve, work, enqueue, bench
std::vector<Command> looking_commands();    // jobs, queues, dead, workers
std::vector<Command> operating_commands();  // verify, store, config, version, completion, help, man
}  // namespace mainspring::cli
