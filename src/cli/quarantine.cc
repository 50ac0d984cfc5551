// quarantine list, release: the commands and their rows in the table.
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
               {.title = "QUEUE", .keep = true},
               {.title = "KIND", .keep = true},
               {"LOST", Align::right},
               {"SINCE", Align::right},
               {.title = "STATE", .whole = true}});
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
      .summary = "manage jobs that crash their workers",
      .description =
          "Show and release quarantined jobs: jobs whose workers died with them (`mainspring "
          "queues limit QUEUE --quarantine-after N`). One job per queue is released at a time.",
      .children = {{.name = "list",
                    .summary = "list quarantined jobs in order of release",
                    .description = "List quarantined jobs in the order of their release.",
                    .flags = {{.name = "queue", .value = "QUEUE", .help = "only this queue"}},
                    .scopes = kClient,
                    .examples = {{"mainspring quarantine list --queue photos", ""},
                                 {"mainspring quarantine list --json | jq .id",
                                  "with --json: one job per line"}},
                    .run = run_quarantine_list},
                   {.name = "release",
                    .summary = "release jobs",
                    .description = "Release jobs from quarantine: they are available now, as after "
                                   "`mainspring jobs retry`, and their lost attempts are reset.",
                    .arguments = {{"ID", "jobs' ids", Argument::Count::many}},
                    .scopes = kClient,
                    .examples = {{"mainspring quarantine release 42", ""}},
                    .exits = {{65, "a job is not quarantined, or is running"}, {66, "no such job"}},
                    .run = run_quarantine_release}}};
}

}  // namespace mainspring::cli
