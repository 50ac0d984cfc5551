// workers; workers quiet, stop, resume.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

#include "api/json.h"
#include "api/shapes.h"
#include "cli/handlers.h"
#include "cli/support.h"
#include "worker/start_failure.h"

namespace mainspring::cli {
namespace {

constexpr std::size_t kShownWorkerId = 12;     // enough to tell workers apart
constexpr std::size_t kLeastIdCharacters = 6;  // of an id that is cut

std::string worker_state(const WorkerInfo& worker) {
  if (worker.command == WorkerCommand::stop) return "stopping";
  if (worker.command == WorkerCommand::quiet) return "quiet";
  if (!worker.facts.trouble.empty() || worker.facts.language.ends_with(kCannotStart))
    return "cannot start";
  if (worker.facts.stuck > 0) return fmt::format("{} stuck", worker.facts.stuck);
  if (worker.parked) return "waiting";
  return worker.running > 0 ? "busy" : "idle";
}

void print_worker_json(Io& io, const WorkerInfo& worker) {
  std::string line;
  JsonWriter out(line);
  write_worker(out, worker);
  print_line(io, line);
}

bool is_pattern(const std::string& name) {
  return name.find_first_of("*?[") != std::string::npos;
}

// Its id, the beginning of it that `workers` shows, its host, or a shell pattern of id or host.
bool is_meant(const WorkerInfo& worker, const std::string& name) {
  const std::string& host = worker.facts.host;
  if (is_pattern(name)) {
    return fnmatch(name.c_str(), worker.id.c_str(), 0) == 0 ||
           (!host.empty() && fnmatch(name.c_str(), host.c_str(), 0) == 0);
  }
  const bool begins = name.size() >= kLeastIdCharacters && worker.id.starts_with(name);
  return worker.id == name || begins || (!host.empty() && host == name);
}

Result<std::vector<WorkerInfo>> meant_workers(const Invocation& invocation, Jobs& jobs) {
  MS_TRY_ASSIGN(const std::vector<WorkerInfo> all, jobs.workers());
  std::vector<WorkerInfo> out;
  for (const std::string& name : invocation.all_arguments("NAME")) {
    bool found = false;
    for (const WorkerInfo& worker : all) {
      if (!is_meant(worker, name)) continue;
      found = true;
      const auto same = [&](const WorkerInfo& other) { return other.id == worker.id; };
      if (std::none_of(out.begin(), out.end(), same)) out.push_back(worker);
    }
    if (found) continue;
    return Error{ErrorCode::not_found,
                 fmt::format("NAME \"{}\": no connected worker has this id or host; nothing was "
                             "changed. `mainspring workers` lists workers",
                             name)};
  }
  return out;
}

std::string worker_label(const WorkerInfo& worker) {
  const std::string id = worker.id.substr(0, kShownWorkerId);
  if (worker.facts.host.empty()) return id;
  return worker.facts.pid == 0
             ? fmt::format("{} on {}", id, worker.facts.host)
             : fmt::format("{} on {}, pid {}", id, worker.facts.host, worker.facts.pid);
}

std::string outcome_words(const WorkerInfo& worker) {
  const std::string running = counted(worker.running, "running job");
  if (worker.command == WorkerCommand::stop) {
    return worker.running == 0 ? std::string("stopping")
                               : fmt::format("stopping after {}", running);
  }
  if (worker.command == WorkerCommand::quiet)
    return worker.running == 0 ? std::string("quiet") : fmt::format("quiet, {}", running);
  return "claims jobs";
}

Result<int> run_command(const Invocation& invocation, Io& io, WorkerCommand command) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::vector<WorkerInfo> meant, meant_workers(invocation, connection->jobs()));
  std::optional<Error> first;
  for (const WorkerInfo& worker : meant) {
    const auto now = connection->jobs().command_worker({.worker = worker.id, .command = command});
    if (!now) {
      // One that has left meanwhile does not keep the others from their command.
      if (first) io.err(fmt::format("mainspring: {}\n", printable_lines(now.error().message)));
      if (!first) first = now.error();
      continue;
    }
    if (invocation.json) {
      print_worker_json(io, *now);
    } else {
      print_line(io, fmt::format("{}: {}", worker_label(*now), outcome_words(*now)));
    }
  }
  if (first) return *first;
  return kExitOk;
}

}  // namespace

Result<int> run_workers(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::vector<WorkerInfo> workers, connection->jobs().workers());
  Table table({{.title = "WORKER", .whole = true},
               {.title = "HOST", .if_any = true, .keep = true},
               {.title = "PID", .align = Align::right, .if_any = true, .drop = 3},
               {.title = "VERSION", .if_any = true, .drop = 2},
               {.title = "LANGUAGE", .if_any = true, .drop = 1},
               {"JOBS", Align::right},
               {"SEEN", Align::right},
               {.title = "STATE", .whole = true},
               {.title = "TROUBLE", .if_any = true, .drop = 4},
               {.title = "QUEUES", .least = 20, .below = true}});
  for (const WorkerInfo& worker : workers) {
    if (invocation.json) {
      print_worker_json(io, worker);
      continue;
    }
    const WorkerFacts& facts = worker.facts;
    const std::string state = worker_state(worker);
    const bool ill = state == "cannot start" || facts.stuck > 0;
    const Colour colour = ill                                     ? Colour::red
                          : worker.command != WorkerCommand::none ? Colour::yellow
                          : worker.running > 0                    ? Colour::blue
                                                                  : Colour::none;
    table.add({{worker.id.substr(0, kShownWorkerId)},
               {facts.host},
               {facts.pid == 0 ? "" : fmt::to_string(facts.pid)},
               {facts.version},
               {facts.language},
               {facts.slots == 0 ? fmt::to_string(worker.running)
                                 : fmt::format("{}/{}", worker.running, facts.slots)},
               {format_age(worker.last_seen)},
               {state, colour},
               {facts.trouble},
               {fmt::format("{}", fmt::join(worker.queues, ", "))}});
  }
  if (!invocation.json) io.out(table.empty() ? "no workers\n" : table.render(io));
  return kExitOk;
}

Result<int> run_workers_quiet(const Invocation& invocation, Io& io) {
  return run_command(invocation, io, WorkerCommand::quiet);
}

Result<int> run_workers_stop(const Invocation& invocation, Io& io) {
  return run_command(invocation, io, WorkerCommand::stop);
}

Result<int> run_workers_resume(const Invocation& invocation, Io& io) {
  return run_command(invocation, io, WorkerCommand::none);
}

}  // namespace mainspring::cli
