// quarantine list, release: the commands and their entries in the table.
#include <fmt/format.h>

#include "api/json.h"
#include "api/shapes.h"
#include "broker/quarantined.h"
#include "cli/commands.h"
#include "cli/handlers.h"
#include "cli/support.h"
#include "env/clock.h"

namespace mainspring::cli {
Result<int> run_quarantine_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::vector<Job> jobs,
                quarantined_jobs(connection->jobs(), invocation.flag("queue").value_or("")));
  const WallTime now = SystemClock().now().wall;
  Table table({{"ID", Align::right},
               {"QUEUE"},
               {"KIND"},
               {"LOST", Align::right},
               {"SINCE", Align::right},
               {"STATE"}});
  for (const Job& job : jobs) {
    if (invocation.json) {
      std::string line;
      encode_job(job, JobDetail::summary, line);
      print_line(io, line);
      continue;
    }
    const bool released = job.quarantined->released;
    table.add({{fmt::to_string(job.id)},
               {job.queue},
               {job.kind},
               {fmt::to_string(job.quarantined->lost)},
               {format_age(now - job.quarantined->since)},
               {released ? fmt::format("released, {}", to_string(job.state)) : "waits"}});
  }
  if (invocation.json) return kExitOk;
  io.out(!jobs.empty() ? table.render(io) : "no jobs in quarantine\n");
  return kExitOk;
}

Result<int> run_quarantine_release(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const std::vector<JobId> ids, ids_of(invocation, "ID"));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  for (const JobId id : ids) {
    MS_TRY_ASSIGN(const RetryResult result, release_from_quarantine(connection->jobs(), id));
    std::string line = fmt::format("{} {}", id, to_string(result.state));
    if (invocation.json) line.clear(), encode_retry_response(id, result, line);
    print_line(io, line);
  }
  return kExitOk;
}

Command quarantine_command() {
  return {
      .name = "quarantine",
      .summary = "jobs that take their workers down",
      .description =
          "Looks at jobs that are set apart, because nothing was heard of the workers "
          "that had them: `mainspring queues limit QUEUE --quarantine-after N`. Of each "
          "queue one at a time is released, and may begin.",
      .children = {
          {.name = "list",
           .summary = "jobs in quarantine, in the order in which they are released",
           .description = "Lists the jobs that are in quarantine, in the order in which they are "
                          "released.",
           .flags = {{.name = "queue", .value = "NAME", .help = "of this queue alone"}},
           .scopes = kClient,
           .examples = {{"mainspring quarantine list --queue photos", ""},
                        {"mainspring quarantine list --json | jq .id",
                         "with --json: one job per line"}},
           .run = run_quarantine_list},
          {.name = "release",
           .summary = "put jobs back in line",
           .description = "Takes jobs out of quarantine: they are available now, as `mainspring "
                          "jobs retry` has it, and their lost attempts are counted from zero.",
           .arguments = {{"ID", "jobs' ids", Argument::Count::many}},
           .scopes = kClient,
           .examples = {{"mainspring quarantine release 42", ""}},
           .exits = {{65, "a job is not in quarantine, or runs"}, {66, "there is no such job"}},
           .run = run_quarantine_release}}};
}

}  // namespace mainspring::cli
