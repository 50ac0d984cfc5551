// Reads: one job, pages of jobs, queues. On connections of their own, so that they never block the
// writer.
#include <fmt/format.h>

#include <algorithm>

#include "store_sqlite/store_impl.h"

namespace mainspring::sqlite {
namespace {

constexpr std::size_t kMaxIdleReaders = 4;
// Ids that one list() looks at: bounds its time, whatever the filter.
constexpr std::int64_t kListWindow = 20'000;

// The whole record; the columns that a page leaves out are NULL there.
#define MS_JOB_COLUMNS                                                                     \
  "j.id, q.name, k.name, CASE WHEN l.id IS NOT NULL THEN 3 ELSE j.state END, j.priority, " \
  "j.run_at, "                                                                             \
  "j.attempt + (l.id IS NOT NULL), j.max_attempts, coalesce(l.token, j.token), "           \
  "coalesce(l.version, j.version), "                                                       \
  "l.worker, l.cancel_requested, coalesce(l.claimed_at, j.started_at), j.finished_at, "    \
  "j.expires_at, b.created_at, "                                                           \
  "b.args, b.timeout, b.tags, b.headers, b.correlation_id, b.reply_to, b.unique_key, "     \
  "e.progress_value, "                                                                     \
  "e.progress_text, e.reason, e.description"
#define MS_JOB_JOINS                                                                             \
  " JOIN bodies b ON b.id = j.id JOIN queues q ON q.id = j.queue JOIN kinds k ON k.id = j.kind " \
  "LEFT JOIN leases l ON l.id = j.id LEFT JOIN extras e ON e.id = j.id "
#define MS_JOB_FILTER                                                                              \
  "(?3 IS NULL OR j.queue = ?3) AND (?4 IS NULL OR j.kind = ?4) AND (?5 IS NULL OR instr(b.tags, " \
  "?5) > 0) "

std::optional<WallTime> wall_or_none(const Statement& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return WallTime::from_us(row.integer(column));
}

Job read_job(const Statement& row) {
  Job job;
  job.id = row.integer(0);
  job.queue = row.text(1);
  job.kind = row.text(2);
  job.state = static_cast<JobState>(row.integer(3));
  job.priority = static_cast<int>(row.integer(4));
  job.run_at = WallTime::from_us(row.integer(5));
  job.attempt = static_cast<int>(row.integer(6));
  job.max_attempts = static_cast<int>(row.integer(7));
  job.token = row.integer(8);
  job.version = row.integer(9);
  job.worker = row.text(10);
  job.cancel_requested = row.integer(11) != 0;
  job.started_at = wall_or_none(row, 12);
  job.finished_at = wall_or_none(row, 13);
  job.expires_at = wall_or_none(row, 14);
  job.created_at = WallTime::from_us(row.integer(15));
  job.args = row.text(16);
  job.timeout = row.is_null(17) ? kForever : Duration(row.integer(17));
  std::string_view tags = row.text(18);
  while (tags.size() > 1) {
    tags.remove_prefix(1);
    const std::size_t end = tags.find(kTagSeparator);
    job.tags.emplace_back(tags.substr(0, end));
    tags.remove_prefix(end);
  }
  job.headers = row.text(19);
  job.correlation_id = row.text(20);
  job.reply_to = row.text(21);
  job.unique_key = row.text(22);
  if (!row.is_null(23)) job.progress = Progress{row.real(23), std::string(row.text(24))};
  job.reason = row.text(25);
  job.description = row.text(26);
  return job;
}

// A read transaction, so that several statements see one state.
class Snapshot {
 public:
  explicit Snapshot(Database& db) : db_(db) { db_.execute("BEGIN"); }
  ~Snapshot() { sqlite3_exec(db_.handle(), "ROLLBACK", nullptr, nullptr, nullptr); }
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

 private:
  Database& db_;
};

std::optional<std::int64_t> lookup(Statement& by_name, const std::string& name) {
  by_name.bind(name);
  ResetGuard guard(by_name);
  return by_name.step() ? std::optional<std::int64_t>(by_name.integer(0)) : std::nullopt;
}

}  // namespace

Reader::Reader(const std::string& path, const std::string& vfs)
    : db(path, Database::Mode::read_only, vfs),
      get_job(db, "SELECT " MS_JOB_COLUMNS ", e.checkpoint, e.result FROM jobs j" MS_JOB_JOINS
                  "WHERE j.id = ?"),
      get_errors(
          db,
          "SELECT attempt, at, worker, message, ran_for FROM errors WHERE job = ? ORDER BY seq"),
      list_jobs(db, "SELECT " MS_JOB_COLUMNS " FROM jobs j" MS_JOB_JOINS
                    "WHERE j.id < ?1 AND j.id >= ?2 AND " MS_JOB_FILTER
                    "AND (?6 IS NULL OR (j.state = ?6 AND (l.id IS NOT NULL) = (?6 = 3))) ORDER BY "
                    "j.id DESC LIMIT ?7"),
      list_dead(db,
                "SELECT " MS_JOB_COLUMNS
                " FROM dead_letter d CROSS JOIN jobs j ON j.id = d.id" MS_JOB_JOINS
                "WHERE d.id < ?1 AND d.id >= ?2 AND " MS_JOB_FILTER "ORDER BY d.id DESC LIMIT ?7"),
      list_running(db, "SELECT " MS_JOB_COLUMNS
                       " FROM leases r CROSS JOIN jobs j ON j.id = r.id" MS_JOB_JOINS
                       "WHERE r.id < ?1 AND r.id >= ?2 AND " MS_JOB_FILTER
                       "ORDER BY r.id DESC LIMIT ?7"),
      next_id(db, "SELECT a FROM tallies WHERE id = 0"),
      below(db, "SELECT max(id) FROM jobs WHERE id < ?"),
      queue_id(db, "SELECT id FROM queues WHERE name = ?"),
      kind_id(db, "SELECT id FROM kinds WHERE name = ?") {}

std::unique_ptr<Reader> SqliteStore::take_reader() const {
  {
    MutexLock lock(readers_mutex_);
    if (!readers_.empty()) {
      auto reader = std::move(readers_.back());
      readers_.pop_back();
      return reader;
    }
  }
  return std::make_unique<Reader>(path_, options_.vfs);
}

void SqliteStore::give_back(std::unique_ptr<Reader> reader) const {
  MutexLock lock(readers_mutex_);
  if (readers_.size() < kMaxIdleReaders) readers_.push_back(std::move(reader));
}

Result<Job> SqliteStore::get(JobId id) const {
  try {
    auto reader = take_reader();
    std::optional<Job> job;
    std::int64_t next_id = 0;
    {
      Snapshot snapshot(reader->db);
      Statement& row = reader->get_job;
      row.bind(id);
      ResetGuard guard(row);
      if (row.step()) {
        job = read_job(row);
        job->checkpoint = row.text(27);
        job->result = row.text(28);
        Statement& errors = reader->get_errors;
        errors.bind(id);
        ResetGuard errors_guard(errors);
        while (errors.step()) {
          job->errors.push_back({.attempt = static_cast<int>(errors.integer(0)),
                                 .at = WallTime::from_us(errors.integer(1)),
                                 .worker = std::string(errors.text(2)),
                                 .message = std::string(errors.text(3)),
                                 .ran_for = Duration(errors.integer(4))});
        }
      } else {
        reader->next_id.bind();
        ResetGuard next_guard(reader->next_id);
        if (reader->next_id.step()) next_id = reader->next_id.integer(0);
      }
    }
    give_back(std::move(reader));
    if (job) return std::move(*job);
    if (id > 0 && id < next_id) {
      return Error{.code = ErrorCode::expired,
                   .message = fmt::format("job {}: its retention has ended", id)};
    }
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format("job {}: there is no such job", id)};
  } catch (const SqlError& error) {
    return to_error(error);
  }
}

Result<JobPage> SqliteStore::list(const JobFilter& filter, int limit, JobId before) const {
  try {
    auto reader = take_reader();
    JobPage page;
    {
      Snapshot snapshot(reader->db);
      std::optional<std::int64_t> queue, kind;
      if (!filter.queue.empty()) queue = lookup(reader->queue_id, filter.queue).value_or(-1);
      if (!filter.kind.empty()) kind = lookup(reader->kind_id, filter.kind).value_or(-1);
      std::optional<std::string> tag;
      if (!filter.tag.empty()) tag = kTagSeparator + filter.tag + kTagSeparator;
      const bool few = filter.state == JobState::dead ||
                       filter.state == JobState::running;  // they have tables of their own
      Statement& rows = filter.state == JobState::dead      ? reader->list_dead
                        : filter.state == JobState::running ? reader->list_running
                                                            : reader->list_jobs;
      reader->below.bind(before > 0 ? before : std::numeric_limits<std::int64_t>::max());
      const JobId newest = reader->below.step() ? reader->below.integer(0) : 0;
      reader->below.reset();
      const JobId oldest = few ? 0 : std::max<JobId>(newest + 1 - kListWindow, 0);
      const std::optional<int> state =
          filter.state ? std::optional<int>(static_cast<int>(*filter.state)) : std::nullopt;
      if (few) {
        rows.bind(newest + 1, oldest, queue, kind, tag, nullptr, limit + 1);
      } else {
        rows.bind(newest + 1, oldest, queue, kind, tag, state, limit + 1);
      }
      ResetGuard guard(rows);
      while (rows.step()) page.jobs.push_back(read_job(rows));
      if (static_cast<int>(page.jobs.size()) > limit) {
        page.jobs.pop_back();
        page.next = page.jobs.empty() ? newest + 1 : page.jobs.back().id;
      } else if (oldest > 1) {
        reader->below.bind(oldest);
        ResetGuard below_guard(reader->below);
        if (reader->below.step() && !reader->below.is_null(0)) page.next = oldest;
      }
    }
    give_back(std::move(reader));
    return page;
  } catch (const SqlError& error) {
    return to_error(error);
  }
}

Result<std::vector<QueueStats>> SqliteStore::queues() const {
  MutexLock lock(published_mutex_);
  std::vector<QueueStats> out;
  out.reserve(published_queues_.size());
  for (const auto& [name, stats] : published_queues_) out.push_back(stats);
  return out;
}

}  // namespace mainspring::sqlite
