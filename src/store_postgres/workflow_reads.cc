// Reads of workflows, each in one snapshot.
#include "workflow/reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "store_postgres/reader.h"

namespace mainspring::pg {
namespace {

Error no_workflow(WorkflowId id) {
  return Error{ErrorCode::not_found, fmt::format("there is no workflow {}", id)};
}

void add_live(Snapshot& snapshot, const Statement& sql, WorkflowStepPage& page) {
  const Ints ids = workflow::live_jobs(page);
  if (ids.empty()) return;
  const Rows rows = snapshot.run(sql, params(ids));
  std::map<JobId, Job> jobs;
  for (int i = 0; i < rows.size(); ++i) {
    Job job{.id = rows.integer(i, 0), .state = static_cast<JobState>(rows.integer(i, 1))};
    job.attempt = static_cast<int>(rows.integer(i, 2));
    job.max_attempts = static_cast<int>(rows.integer(i, 3));
    job.worker = rows.text(i, 4);
    if (rows.integer(i, 5) != 0) job.started_at = WallTime::from_us(rows.integer(i, 5));
    job.timeout = Duration(rows.integer(i, 6));
    jobs.emplace(job.id, std::move(job));
  }
  workflow::add_jobs(page, jobs);
}

}  // namespace

Result<WorkflowInfo> PostgresStore::workflow(WorkflowId id) const {
  MS_TRY_ASSIGN(std::optional<WorkflowInfo> found,
                with_reader([&](Connection& c) -> std::optional<WorkflowInfo> {
                  Snapshot snapshot(c, read_sql_);
                  const Rows rows = snapshot.run(workflow_sql_.one, params(id));
                  std::optional<WorkflowInfo> info;
                  if (!rows.empty() && !workflow::is_removed(read_workflow(rows, 0).data)) {
                    info = workflow::read_info(
                        read_workflow(rows, 0),
                        [&](WorkflowRow kind, std::int64_t number) -> std::optional<std::string> {
                          const Rows row = snapshot.run(workflow_sql_.row,
                                                        params(id, static_cast<int>(kind), number));
                          if (row.empty()) return std::nullopt;
                          return row.string(0, 0);
                        });
                  }
                  snapshot.end();
                  return info;
                }));
  if (!found) return no_workflow(id);
  return std::move(*found);
}

Result<WorkflowPage> PostgresStore::workflows(const WorkflowFilter& filter, int limit,
                                              WorkflowId before) const {
  return with_reader([&](Connection& c) {
    Snapshot snapshot(c, read_sql_);
    const std::int64_t examined = std::int64_t{limit} * workflow::kExaminedForOne;
    const Rows rows =
        snapshot.run(workflow_sql_.list, params(before == 0 ? INT64_MAX : before, examined));
    std::vector<WorkflowRecord> records;
    Ints ids;
    for (int i = 0; i < rows.size(); ++i) {
      records.push_back(read_workflow(rows, i));
      ids.push_back(records.back().id);
    }
    std::map<WorkflowId, std::string> queues;
    if (filter.within.scopes != nullptr && !ids.empty()) {
      const Rows texts = snapshot.run(
          workflow_sql_.queues_of, params(ids, static_cast<std::int64_t>(workflow::kTextQueues)));
      for (int i = 0; i < texts.size(); ++i)
        queues.emplace(texts.integer(i, 0), texts.string(i, 1));
    }
    snapshot.end();
    return workflow::page_of(filter, limit, records,
                             [&](WorkflowId id) -> std::optional<std::string> {
                               const auto found = queues.find(id);
                               if (found == queues.end()) return std::nullopt;
                               return found->second;
                             });
  });
}

Result<WorkflowStepPage> PostgresStore::workflow_steps(WorkflowId id, int after, int limit) const {
  MS_TRY_ASSIGN(
      Result<WorkflowStepPage> page, with_reader([&](Connection& c) -> Result<WorkflowStepPage> {
        Snapshot snapshot(c, read_sql_);
        const Rows one = snapshot.run(workflow_sql_.one, params(id));
        const Rows rows =
            snapshot.run(workflow_sql_.states,
                         params(id, std::int64_t{after}, std::int64_t{limit} + std::int64_t{1}));
        std::vector<WorkflowRows::Row> states;
        for (int i = 0; i < rows.size(); ++i)
          states.emplace_back(rows.integer(i, 0), rows.string(i, 1));
        std::map<std::pair<WorkflowRow, std::int64_t>, std::string> known;
        // Includes packed steps, which have no rows of their own.
        const std::int64_t first = std::int64_t{after} + 1;
        std::int64_t last = std::int64_t{workflow::kMaxPackedSteps};
        if (!states.empty()) last = std::max(last, states.back().first);
        const Rows others = snapshot.run(workflow_sql_.rows_between, params(id, first, last));
        for (int i = 0; i < others.size(); ++i) {
          known.emplace(
              std::pair(static_cast<WorkflowRow>(others.integer(i, 0)), others.integer(i, 1)),
              others.string(i, 2));
        }
        auto steps =
            one.empty() || workflow::is_removed(read_workflow(one, 0).data)
                ? Result<WorkflowStepPage>(no_workflow(id))
                : workflow::read_steps(
                      read_workflow(one, 0), states, after, limit,
                      [&](WorkflowRow kind, std::int64_t number) -> std::optional<std::string> {
                        const auto found = known.find({kind, number});
                        if (found != known.end()) return found->second;
                        const bool fetched = kind != WorkflowRow::text;
                        if (fetched && number >= first && number <= last) return std::nullopt;
                        const Rows row = snapshot.run(workflow_sql_.row,
                                                      params(id, static_cast<int>(kind), number));
                        if (row.empty()) return std::nullopt;
                        return row.string(0, 0);
                      });
        if (steps) add_live(snapshot, workflow_sql_.live_jobs, *steps);
        snapshot.end();
        return steps;
      }));
  return page;
}

}  // namespace mainspring::pg
