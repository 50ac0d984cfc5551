// The index of searchable paths, and the dead letter by fingerprints.
//
// A path is in the index from the id `above` on. New jobs are added with their rows. PruneJobs adds
// the older ones step by step, newest first, and deletes the values of removed paths.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/limit_shapes.h"
#include "api/search_keys.h"
#include "base/mutant.h"
#include "model/fingerprint.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sql {
namespace {

constexpr int kIndexedAtOnce = 500;               // jobs in one step
constexpr std::size_t kIndexedBytes = 4U << 20U;  // of their args
constexpr JobId kAllJobs = std::numeric_limits<JobId>::max();

// The values of one path against the args of the jobs that are in the index.
void verify_path(Connection& db, const SearchPath& path, std::vector<std::string>& problems) {
  Statement jobs(db, queries::search::jobs_from);
  Statement one(db, queries::search::known);
  Statement all(db, queries::search::count);
  const std::vector<std::vector<std::string>> names = {split_path(path.path)};
  std::int64_t wanted = 0, missing = 0;
  jobs.bind(path.queue, path.above);
  while (jobs.step()) {
    for (const auto& [place, key] : search_keys(std::string(jobs.text(1)), names)) {
      ++wanted;
      ResetGuard guard(one.bind(path.id, Statement::blob(key), jobs.integer(0)));
      if (!one.step()) ++missing;
    }
  }
  ResetGuard guard(all.bind(path.id, path.above));
  const std::int64_t there = all.step() ? all.integer(0) : 0;
  if (missing > 0)
    problems.push_back(
        fmt::format("jobs missing from the index of args.{}: {}", path.path, missing));
  if (const std::int64_t wrong = there - (wanted - missing); wrong != 0)
    problems.push_back(fmt::format("index values of args.{} without a job: {}", path.path, wrong));
}

std::vector<SearchPath> read_paths(Statement& rows) {
  std::vector<SearchPath> paths;
  ResetGuard guard(rows.bind());
  while (rows.step()) {
    paths.push_back({.id = rows.integer(0),
                     .queue = rows.integer(1),
                     .path = std::string(rows.text(2)),
                     .above = rows.integer(3),
                     .removed = rows.integer(4) != 0});
  }
  return paths;
}

}  // namespace

SearchStatements::SearchStatements(Connection& db)
    : load(db, queries::search::load),
      insert_path(db, queries::search::insert_path),
      update_path(db, queries::search::update_path),
      delete_path(db, queries::search::delete_path),
      insert(db, queries::search::insert),
      remove(db, queries::search::remove),
      trim(db, queries::search::trim),
      drop(db, queries::search::drop),
      args(db, queries::jobs::select_args),
      below(db, queries::search::jobs_below) {}

SearchReads::SearchReads(Connection& db)
    : path(db, queries::search::path),
      jobs(db, queries::search::jobs),
      dead(db, queries::jobs::newest_dead) {}

void verify_search(Connection& db, std::vector<std::string>& problems) {
  Statement rows(db, queries::search::load);
  for (const SearchPath& path : read_paths(rows)) {
    if (!path.removed) verify_path(db, path, problems);
  }
}

// -- declaring paths

void SqlStore::load_search_paths() {
  search_paths_.clear();
  for (SearchPath& path : read_paths(search_sql_->load)) search_paths_.push_back(std::move(path));
  for (const SearchPath& path : search_paths_) refresh_search_paths(queue_by_id(path.queue));
}

void SqlStore::refresh_search_paths(QueueState& queue) {
  queue.search_ids.clear(), queue.search_paths.clear();
  for (const SearchPath& path : search_paths_) {
    if (path.queue != queue.id || path.removed) continue;
    queue.search_ids.push_back(path.id);
    queue.search_paths.push_back(split_path(path.path));
  }
}

bool SqlStore::has_room_for_searchable(const QueueState& queue, const QueueLimits& limits) const {
  if (limits.searchable.empty() || !queue.search_ids.empty()) return true;
  const auto queues =
      std::count_if(queue_states_.begin(), queue_states_.end(),
                    [](const QueueState& other) { return !other.search_ids.empty(); });
  return queues < kMaxSearchableQueues;
}

void SqlStore::set_searchable(QueueState& queue, const std::vector<std::string>& paths) {
  if (queue.limits.searchable == paths) return;
  std::vector<std::string> added = paths;
  for (SearchPath& path : search_paths_) {
    if (path.queue != queue.id || path.removed) continue;
    if (std::erase(added, path.path) > 0) continue;
    path.removed = true;
    search_sql_->update_path.bind(path.id, path.above, 1).run();
  }
  const auto& counts = queue.job_counts.counts;
  const bool empty = queue.job_counts.expired == 0 &&
                     std::all_of(counts.begin(), counts.end(), [](auto n) { return n == 0; });
  for (const std::string& path : added) {
    SearchPath row{.queue = queue.id, .path = path, .above = empty ? 0 : next_id_};
    row.id = search_sql_->insert_path.bind(row.queue, row.path, row.above).run_returning();
    search_paths_.push_back(std::move(row));
  }
  refresh_search_paths(queue);
}

// -- jobs

void SqlStore::index_args(const QueueState& queue, JobId id, const std::string& args) {
  if (queue.search_ids.empty()) return;
  for (const auto& [place, key] : search_keys(args, queue.search_paths)) {
    if (MS_MUTANT(args_not_indexed) && id % 2 == 0) continue;
    search_sql_->insert.bind(queue.search_ids[place], Statement::blob(key), id).run();
  }
}

void SqlStore::unindex_args(const QueueState& queue, JobId id) {
  if (queue.search_ids.empty() || MS_MUTANT(values_stay_indexed)) return;
  std::string args;
  {
    ResetGuard guard(search_sql_->args.bind(id));
    if (search_sql_->args.step()) args = search_sql_->args.text(0);
  }
  for (const auto& [place, key] : search_keys(args, queue.search_paths))
    search_sql_->remove.bind(queue.search_ids[place], Statement::blob(key), id).run();
}

// -- in the background

bool SqlStore::has_search_work() const {
  return std::any_of(search_paths_.begin(), search_paths_.end(),
                     [](const SearchPath& path) { return path.removed || path.above > 0; });
}

bool SqlStore::step_search(int limit) {
  const auto path = std::find_if(search_paths_.begin(), search_paths_.end(),
                                 [](const SearchPath& p) { return p.removed || p.above > 0; });
  if (path == search_paths_.end()) return false;
  begin_write();
  if (!path->removed) {
    build_search_path(*path, std::min(limit, kIndexedAtOnce));
    return has_search_work();
  }
  search_sql_->trim.bind(path->id, limit).run();
  if (search_sql_->trim.changes() == 0) {  // there are at most `limit`
    search_sql_->drop.bind(path->id).run();
    search_sql_->delete_path.bind(path->id).run();
    search_paths_.erase(path);
  }
  return has_search_work();
}

void SqlStore::build_search_path(SearchPath& path, int limit) {
  const std::vector<std::vector<std::string>> names = {split_path(path.path)};
  int read = 0;
  std::size_t bytes = 0;
  {
    Statement& rows = search_sql_->below.bind(path.above, path.queue, limit);
    ResetGuard guard(rows);
    while (bytes < kIndexedBytes && rows.step()) {
      ++read;
      path.above = rows.integer(0);
      if (rows.is_null(1)) continue;
      const std::string args(rows.text(1));
      bytes += args.size();
      for (const auto& [place, key] : search_keys(args, names))
        search_sql_->insert.bind(path.id, Statement::blob(key), path.above).run();
    }
  }
  if (read < limit && bytes < kIndexedBytes) path.above = 0;
  search_sql_->update_path.bind(path.id, path.above, 0).run();
}

// -- reading

Result<std::optional<IndexPage>> SqlStore::indexed(const IndexRead& read) const {
  const std::vector<std::string> keys = keys_of_search(read.value);
  if (keys.empty()) return std::optional<IndexPage>();
  try {
    auto reader = take_reader();
    std::optional<IndexPage> page;
    {
      Snapshot snapshot(*reader->db);
      Statement& path = reader->search.path.bind(read.queue, read.path);
      ResetGuard guard(path);
      if (path.step()) {
        page.emplace().complete_from = path.integer(1);
        for (const std::string& key : keys) {
          Statement& jobs =
              reader->search.jobs.bind(path.integer(0), Statement::blob(key),
                                       read.before > 0 ? read.before : kAllJobs, read.limit);
          ResetGuard jobs_guard(jobs);
          while (jobs.step()) page->ids.push_back(jobs.integer(0));
        }
      }
    }
    give_back(std::move(reader));
    if (!page) return page;
    std::sort(page->ids.begin(), page->ids.end(), std::greater<>());
    page->ids.erase(std::unique(page->ids.begin(), page->ids.end()), page->ids.end());
    page->ids.resize(std::min(page->ids.size(), static_cast<std::size_t>(read.limit)));
    return page;
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

// -- the dead letter

void SqlStore::list_dead(JobId id, const QueueState& queue) {
  Job job;
  std::int64_t kind = 0;
  {
    Statement& row = sql_->death.bind(id);
    ResetGuard guard(row);
    if (!row.step()) return;
    kind = row.integer(0);
    job.kind = kind_names_[static_cast<std::size_t>(kind)];
    job.reason = row.text(1);
    job.description = row.text(2);
  }
  const std::int64_t fingerprint = fingerprint_number(fingerprint_of(job));
  sql_->insert_dead.bind(id, queue.id, kind, fingerprint, now_.wall.us()).run();
}

namespace {

using DeadKey = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // queue, kind, fingerprint
struct HashDeadKey {
  std::size_t operator()(const DeadKey& key) const {
    return static_cast<std::size_t>(std::get<2>(key) ^ (std::get<0>(key) << 32) ^
                                    (std::get<1>(key) << 48));
  }
};
struct DeadSummary {
  std::int64_t count = 0;
  JobId first = 0, last = 0;
  std::int64_t first_at = INT64_MAX, last_at = INT64_MIN;
};

std::string name_of(Connection& db, const Query& sql, std::int64_t id) {
  Statement row(db, sql);
  ResetGuard guard(row.bind(id));
  return row.step() ? std::string(row.text(0)) : "";
}

}  // namespace

Result<DeadCounts> SqlStore::dead_counts(const std::string& queue, std::int64_t limit,
                                         const Within& within, WallTime since) const {
  try {
    auto reader = take_reader();
    DeadCounts out;
    {
      Snapshot snapshot(*reader->db);
      std::optional<std::int64_t> wanted;
      if (!queue.empty()) {
        ResetGuard guard(reader->queue_id.bind(queue));
        wanted = reader->queue_id.step() ? reader->queue_id.integer(0) : -1;
      }
      std::unordered_map<DeadKey, DeadSummary, HashDeadKey> counts;
      Statement& rows = reader->search.dead.bind(wanted, limit + 1);
      ResetGuard guard(rows);
      while (rows.step()) {
        if (out.examined == limit) {
          out.cut = true;
          break;
        }
        ++out.examined;
        if (rows.integer(4) < since.us()) continue;
        DeadSummary& group = counts[{rows.integer(1), rows.integer(2), rows.integer(3)}];
        const JobId id = rows.integer(0);
        if (group.count++ == 0) group.last = id;
        group.first = id;
        group.first_at = std::min(group.first_at, rows.integer(4));
        group.last_at = std::max(group.last_at, rows.integer(4));
      }
      std::unordered_map<std::int64_t, std::string> queues, kinds;
      const auto name = [&](auto& names, const Query& sql, std::int64_t id) -> const std::string& {
        const auto found = names.find(id);
        return found != names.end()
                   ? found->second
                   : names.emplace(id, name_of(*reader->db, sql, id)).first->second;
      };
      for (const auto& [key, group] : counts) {
        const auto& [of_queue, of_kind, fingerprint] = key;
        const std::string& in = name(queues, queries::queues::queue_name, of_queue);
        if (!within.has(in)) continue;
        out.counts.push_back({.queue = in,
                              .kind = name(kinds, queries::queues::kind_name, of_kind),
                              .fingerprint = fingerprint_text(fingerprint),
                              .count = group.count,
                              .first = group.first,
                              .last = group.last,
                              .first_at = WallTime::from_us(group.first_at),
                              .last_at = WallTime::from_us(group.last_at)});
      }
    }
    give_back(std::move(reader));
    return out;
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

}  // namespace mainspring::sql
