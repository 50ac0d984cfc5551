// Commands for workers as text.
#include "mainspring/workers.h"

namespace mainspring {

std::string_view to_string(WorkerCommand command) {
  switch (command) {
    case WorkerCommand::none:
      break;
    case WorkerCommand::quiet:
      return "quiet";
    case WorkerCommand::stop:
      return "stop";
  }
  return "";
}

std::optional<WorkerCommand> parse_worker_command(std::string_view text) {
  for (const WorkerCommand command : {WorkerCommand::quiet, WorkerCommand::stop}) {
    if (text == to_string(command)) return command;
  }
  return std::nullopt;
}

}  // namespace mainspring
