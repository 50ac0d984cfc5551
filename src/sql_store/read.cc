// Reads: one job, pages of jobs, queues. They use their own connections, so they never block the
// writer. (Reads of sessions do, briefly: sessions.cc.)
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"
#include "store/bounds.h"

namespace mainspring::sql {
namespace {

constexpr std::size_t kMaxIdleReaders = 4;
// Maximum ids examined by one list(): bounds its time for any filter.
constexpr std::int64_t kListWindow = 10'000;
constexpr std::int64_t kAheadWindow = 100'000;  // the same for ahead(), in each direction

// The whole record. The grants show whether the job is running: see Leases.
#define MS_JOB_COLUMNS                                                                        \
  "j.id, q.name, k.name, j.state, j.priority, j.run_at, j.attempt, j.max_attempts, j.token, " \
  "j.version, j.started_at, j.finished_at, j.expires_at, b.created_at, b.args, b.timeout, "   \
  "b.tags, b.headers, b.correlation_id, b.reply_to, b.unique_key, e.progress_value, "         \
  "e.progress_text, e.reason, e.description, n.version, n.cancel_requested, e.checkpoint, "   \
  "e.result, b.follow_ups, b.session, b.reply_session, j.flags, b.limit_key, CASE WHEN "      \
  "j.flags & 1073741824 <> 0 THEN (SELECT since FROM quarantine z WHERE z.id = j.id) END, "   \
  "e.warning"
#define MS_JOB_JOINS                                                                             \
  " JOIN bodies b ON b.id = j.id JOIN queues q ON q.id = j.queue JOIN kinds k ON k.id = j.kind " \
  "LEFT JOIN lease_notes n ON n.id = j.id LEFT JOIN extras e ON e.id = j.id "
// PostgreSQL takes the type of a parameter from its first use.
#define MS_JOB_FILTER                                                                              \
  "(j.queue = ?3 OR ?3 IS NULL) AND (j.kind = ?4 OR ?4 IS NULL) AND (instr(b.tags, ?5) > 0 OR ?5 " \
  "IS NULL) "
// SQLite keeps the order of a CROSS JOIN.
#define MS_LIST_DEAD(JOIN)                                                                   \
  "SELECT " MS_JOB_COLUMNS " FROM dead_letter d " JOIN " jobs j ON j.id = d.id" MS_JOB_JOINS \
  "WHERE d.id < ?1 AND d.id >= ?2 AND " MS_JOB_FILTER "ORDER BY d.id DESC"
#define MS_LIST_QUARANTINED(JOIN)                                                           \
  "SELECT " MS_JOB_COLUMNS " FROM quarantine z " JOIN " jobs j ON j.id = z.id" MS_JOB_JOINS \
  "WHERE z.id < ?1 AND z.id >= ?2 AND " MS_JOB_FILTER                                       \
  "AND (?6 = 0 OR (1 << j.state) & ?6 <> 0) ORDER BY z.id DESC"

std::optional<WallTime> wall_or_none(const Statement& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return WallTime::from_us(row.integer(column));
}

// All columns except the args.
Job read_head(const Statement& row) {
  Job job;
  job.id = row.integer(0);
  job.queue = row.text(1);
  job.kind = row.text(2);
  job.state = row.one_of(3, JobState::dead);
  job.priority = static_cast<int>(row.integer(4));
  job.run_at = WallTime::from_us(row.integer(5));
  job.attempt = static_cast<int>(row.integer(6));
  job.max_attempts = static_cast<int>(row.integer(7));
  job.token = row.integer(8);
  job.version = row.integer(9);
  job.started_at = wall_or_none(row, 10);
  job.finished_at = wall_or_none(row, 11);
  job.expires_at = wall_or_none(row, 12);
  job.created_at = WallTime::from_us(row.integer(13));
  job.timeout = row.is_null(15) ? kForever : Duration(row.integer(15));
  job.tags = split_tags(row.text(16));
  job.headers = row.text(17);
  job.correlation_id = row.text(18);
  job.reply_to = row.text(19);
  job.unique_key = row.text(20);
  if (!row.is_null(21)) job.progress = Progress{row.real(21), std::string(row.text(22))};
  job.reason = row.text(23);
  job.description = row.text(24);
  if (!row.is_null(29)) {
    if (auto read = decode_follow_ups(row.text(29))) job.follow_ups = std::move(*read);
  }
  job.session = row.text(30);
  job.reply_session = row.text(31);
  job.on_dead = on_dead_of(static_cast<int>(row.integer(32)));
  job.on_expiry = on_expiry_of(static_cast<int>(row.integer(32)));
  job.trigger_depth = depth_of(static_cast<int>(row.integer(32)));
  job.deferred = (row.integer(32) & kFlagDeferred) != 0;
  job.limit_key = row.text(33);
  if (!row.is_null(34)) {
    job.quarantined = Quarantine{.since = WallTime::from_us(row.integer(34)),
                                 .lost = lost_of(static_cast<int>(row.integer(32))),
                                 .released = job.state != JobState::retryable};
  }
  return job;
}

void read_args(const Statement& row, bool whole, Job& job) {
  if (whole || row.text(14).size() <= kListedArgsBytes) {
    job.args = row.text(14);
  } else {
    job.args_omitted = row.text(14).size();
  }
}

Job read_whole(const Statement& row) {
  Job job = read_head(row);
  read_args(row, true, job);
  return job;
}

// The leases of a snapshot.
class Leases {
 public:
  Leases(const RunningJobs::View& view, Statement& next_token)
      : view_(view), next_token_(next_token) {}

  // The lease of a job; `row` and `token` are from its row. An empty grant = not running.
  RunningJob holder(JobId id, JobState row, Token token) {
    if (row != JobState::available) return {};
    return view_.find(id, token, next());
  }
  // The state that follows from the job's row and its lease.
  JobState state(JobId id, JobState row, Token token) {
    return holder(id, row, token).grant != nullptr ? JobState::running : row;
  }
  // Marks the job as running if it has a lease. `row` is the job's row.
  void apply(Job& job, const Statement& row) {
    const RunningJob found = holder(job.id, job.state, job.token);
    if (found.grant == nullptr) return;
    job.state = JobState::running;
    job.token = found.token;
    job.worker = found.grant->worker;
    job.started_at = found.grant->claimed_at;
    ++job.attempt;
    job.version = row.is_null(25) ? job.version + 1 : row.integer(25);
    job.cancel_requested = row.integer(26) != 0;
  }

 private:
  // The snapshot contains only leases with smaller tokens.
  Token next() {
    if (next_ == 0) {
      ResetGuard guard(next_token_.bind());
      if (!next_token_.step()) throw damaged("there are no counters");
      next_ = next_token_.integer(0);
    }
    return next_;
  }
  const RunningJobs::View& view_;
  Statement& next_token_;
  Token next_ = 0;
};

// The states in rows that the filter may match, one bit each. 0 = any.
int states_of_rows(const JobFilter& filter) {
  int states = 0;
  bool all = true;
  for (int i = 0; i < kJobStateCount; ++i) {
    const auto state = static_cast<JobState>(i);
    const bool wanted = filter.wants(state);
    all = all && wanted;
    if (wanted) states |= 1 << i;
    // The row of a running job says available.
    if (wanted && state == JobState::running) states |= 1 << static_cast<int>(JobState::available);
  }
  return all ? 0 : states;
}

// The job of a row, if the filter matches it.
std::optional<Job> wanted_job(const Statement& row, Leases& leases, const JobFilter& filter) {
  const JobState state =
      leases.state(row.integer(0), row.one_of(3, JobState::dead), row.integer(8));
  if (!filter.wants(state)) return std::nullopt;
  if (!filter.is_created_within(WallTime::from_us(row.integer(13)))) return std::nullopt;
  Job job = read_head(row);
  leases.apply(job, row);
  if (filter.query && !matches_record(*filter.query, job)) return std::nullopt;
  read_args(row, filter.whole_args, job);
  return job;
}

// For lists by ids: the conditions that SQL checks in other lists.
bool is_in_lists(const JobFilter& filter, const Job& job) {
  return (filter.queue.empty() || filter.queue == job.queue) &&
         (filter.kind.empty() || filter.kind == job.kind) &&
         (filter.tag.empty() ||
          std::find(job.tags.begin(), job.tags.end(), filter.tag) != job.tags.end()) &&
         (!filter.quarantined || job.quarantined);
}

// A page of jobs, limited by count and bytes.
class Page {
 public:
  explicit Page(int limit) : limit_(static_cast<std::size_t>(std::max(limit, 0))) {}
  bool is_full() const { return page.jobs.size() >= limit_ || bytes_ >= kPageBytes; }
  void add(Job job) {
    bytes_ += listed_bytes(job);
    page.jobs.push_back(std::move(job));
  }
  JobPage page;

 private:
  const std::size_t limit_;
  std::size_t bytes_ = 0;
};

std::optional<std::int64_t> lookup(Statement& by_name, const std::string& name) {
  by_name.bind(name);
  ResetGuard guard(by_name);
  return by_name.step() ? std::optional<std::int64_t>(by_name.integer(0)) : std::nullopt;
}

}  // namespace

Reader::Reader(std::unique_ptr<Connection> connection)
    : db(std::move(connection)),
      get_job(*db, "SELECT " MS_JOB_COLUMNS " FROM jobs j" MS_JOB_JOINS "WHERE j.id = ?"),
      get_errors(*db, queries::jobs::get_errors),
      created_from(*db, queries::jobs::created_from),
      line_before(*db, queries::jobs::line_before),
      quarantined_before(*db, queries::jobs::quarantined_before),
      key_before(*db, queries::jobs::key_before),
      list_jobs(*db, "SELECT " MS_JOB_COLUMNS " FROM jobs j" MS_JOB_JOINS
                     "WHERE j.id < ?1 AND j.id >= ?2 AND " MS_JOB_FILTER
                     "AND (?6 = 0 OR (1 << j.state) & ?6 <> 0) ORDER BY j.id DESC"),
      list_dead(*db, Query("", MS_LIST_DEAD("CROSS JOIN"), MS_LIST_DEAD("JOIN"))),
      list_quarantined(*db,
                       Query("", MS_LIST_QUARANTINED("CROSS JOIN"), MS_LIST_QUARANTINED("JOIN"))),
      next_token(*db, queries::queues::next_token),
      live_job(*db, queries::jobs::live_job),
      next_id(*db, queries::queues::next_id),
      below(*db, queries::jobs::id_below),
      queue_id(*db, queries::queues::queue_id),
      kind_id(*db, queries::queues::kind_id),
      schedule_id(*db, queries::schedules::schedule_id),
      ledger(*db, queries::schedules::ledger),
      due_by_hour(*db, queries::jobs::due_by_hour),
      audit(*db),
      sessions(*db),
      workflows(*db),
      triggers(*db),
      memos(*db),
      history(*db),
      marks(*db),
      search(*db) {}

std::unique_ptr<Reader> SqlStore::take_reader() const {
  reads_.fetch_add(1, std::memory_order_relaxed);
  {
    MutexLock lock(readers_mutex_);
    if (!readers_.empty()) {
      auto reader = std::move(readers_.back());
      readers_.pop_back();
      return reader;
    }
  }
  return std::make_unique<Reader>(disk_->reader());
}

void SqlStore::give_back(std::unique_ptr<Reader> reader) const {
  MutexLock lock(readers_mutex_);
  if (readers_.size() < kMaxIdleReaders) readers_.push_back(std::move(reader));
}

Result<Job> SqlStore::get(JobId id) const {
  try {
    auto reader = take_reader();
    std::optional<Job> job;
    std::int64_t next_id = 0;
    {
      const RunningJobs::View view(running_);
      Leases leases(view, reader->next_token);
      Snapshot snapshot(*reader->db);
      Statement& row = reader->get_job;
      row.bind(id);
      ResetGuard guard(row);
      if (row.step()) {
        job = read_whole(row);
        leases.apply(*job, row);
        job->checkpoint = row.text(27);
        job->result = row.text(28);
        job->warning = row.text(35);
        Statement& errors = reader->get_errors;
        errors.bind(id);
        ResetGuard errors_guard(errors);
        while (errors.step()) {
          job->errors.push_back({.attempt = static_cast<int>(errors.integer(0)),
                                 .at = WallTime::from_us(errors.integer(1)),
                                 .worker = std::string(errors.text(2)),
                                 .message = std::string(errors.text(3)),
                                 .ran_for = Duration(errors.integer(4)),
                                 .program = decode_program_end(errors.text(5))});
        }
      } else {
        reader->next_id.bind();
        ResetGuard next_guard(reader->next_id);
        if (reader->next_id.step()) next_id = reader->next_id.integer(0);
      }
    }
    give_back(std::move(reader));
    if (job) return std::move(*job);
    if (id > 0 && id < next_id && !MS_MUTANT(expired_reads_as_not_found)) {
      return removed_job(id);
    }
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format("job {}: there is no such job", id)};
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

std::map<JobId, Job> SqlStore::read_live(Reader& reader, const RunningJobs::View& running,
                                         const std::vector<JobId>& ids) {
  std::map<JobId, Job> out;
  Leases leases(running, reader.next_token);
  for (const JobId id : ids) {
    Statement& row = reader.live_job.bind(id);
    ResetGuard guard(row);
    if (!row.step()) continue;
    Job job{.id = id, .state = row.one_of(0, JobState::dead)};
    job.attempt = static_cast<int>(row.integer(2));
    job.max_attempts = static_cast<int>(row.integer(3));
    job.timeout = row.is_null(4) ? kForever : Duration(row.integer(4));
    if (const auto grant = leases.holder(id, job.state, row.integer(1)).grant) {
      job.state = JobState::running;
      job.worker = grant->worker;
      job.started_at = grant->claimed_at;
      ++job.attempt;
    }
    out.emplace(id, std::move(job));
  }
  return out;
}

Result<JobPage> SqlStore::list(const JobFilter& filter, int limit, JobId before) const {
  try {
    auto reader = take_reader();
    JobPage page;
    {
      const RunningJobs::View view(running_);
      Snapshot snapshot(*reader->db);
      if (filter.ids) {
        page = list_ids(*reader, view, filter, limit, before);
      } else if (filter.state == JobState::running) {
        page = list_running(*reader, view, filter, limit, before);
      } else {
        page = list_window(*reader, view, filter, limit, before);
      }
    }
    give_back(std::move(reader));
    return page;
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

// Running jobs, newest first, from the index of running jobs.
JobPage SqlStore::list_running(Reader& reader, const RunningJobs::View& view,
                               const JobFilter& filter, int limit, JobId before) {
  constexpr std::size_t kAtOnce = 128;
  Page page(limit);
  Leases leases(view, reader.next_token);
  const std::int64_t queue =
      filter.queue.empty() ? 0 : lookup(reader.queue_id, filter.queue).value_or(-1);
  const auto kind = static_cast<std::int32_t>(
      filter.kind.empty() ? 0 : lookup(reader.kind_id, filter.kind).value_or(-1));
  std::size_t most = kListWindow;
  JobId next = before > 0 ? before : std::numeric_limits<JobId>::max();
  while (next != 0 && most > 0) {
    std::vector<JobId> ids;
    next = view.below(next, queue, kind, kAtOnce, most, ids);
    for (const JobId id : ids) {
      Statement& row = reader.get_job;
      row.bind(id);
      ResetGuard guard(row);
      ++page.page.examined;
      if (!row.step() || !filter.within.has(row.text(1))) continue;
      std::optional<Job> job = wanted_job(row, leases, filter);
      if (!job || !is_in_lists(filter, *job)) continue;
      if (page.is_full()) {
        page.page.next = page.page.jobs.empty() ? before : page.page.jobs.back().id;
        return std::move(page.page);
      }
      page.add(std::move(*job));
    }
  }
  if (next != 0) page.page.next = next;
  return std::move(page.page);
}

// The jobs that the filter names.
JobPage SqlStore::list_ids(Reader& reader, const RunningJobs::View& view, const JobFilter& filter,
                           int limit, JobId before) {
  Page page(limit);
  Leases leases(view, reader.next_token);
  for (const JobId id : *filter.ids) {
    if (before > 0 && id >= before) continue;
    if (page.page.examined == kListWindow) {
      page.page.next = id + 1;
      break;
    }
    ++page.page.examined;
    Statement& row = reader.get_job;
    row.bind(id);
    ResetGuard guard(row);
    if (!row.step() || !filter.within.has(row.text(1))) continue;
    std::optional<Job> job = wanted_job(row, leases, filter);
    if (!job || !is_in_lists(filter, *job)) continue;
    if (page.is_full()) {
      page.page.next = page.page.jobs.empty() ? before : page.page.jobs.back().id;
      break;
    }
    page.add(std::move(*job));
  }
  return std::move(page.page);
}

// The range of ids that can have been created within the filter's times.
IdRange SqlStore::ids_of_list(Reader& reader, const JobFilter& filter, JobId before) {
  const JobId end = before > 0 ? before : std::numeric_limits<JobId>::max();
  if (!filter.from && !filter.to) return {.end = end};
  JobId newest = 0;
  {
    ResetGuard guard(reader.below.bind(end));
    if (reader.below.step()) newest = reader.below.integer(0);
  }
  return ids_of_window(newest, filter.from, filter.to, [&](JobId id) -> std::optional<CreatedJob> {
    Statement& row = reader.created_from.bind(id);
    ResetGuard guard(row);
    if (!row.step()) return std::nullopt;
    return CreatedJob{row.integer(0), WallTime::from_us(row.integer(1))};
  });
}

JobPage SqlStore::list_window(Reader& reader, const RunningJobs::View& view,
                              const JobFilter& filter, int limit, JobId before) {
  Page page(limit);
  std::optional<std::int64_t> queue, kind;
  if (!filter.queue.empty()) queue = lookup(reader.queue_id, filter.queue).value_or(-1);
  if (!filter.kind.empty()) kind = lookup(reader.kind_id, filter.kind).value_or(-1);
  std::optional<std::string> tag;
  if (!filter.tag.empty()) tag = kTagSeparator + filter.tag + kTagSeparator;
  const auto below = [&](JobId id) -> JobId {
    reader.below.bind(id);
    ResetGuard guard(reader.below);
    return reader.below.step() ? reader.below.integer(0) : 0;
  };
  // Quarantined jobs have tables of their own.
  const bool apart = filter.quarantined;
  const bool dead = filter.state == JobState::dead && !apart;
  const IdRange range = ids_of_list(reader, filter, before);
  const JobId newest = below(range.end);
  const JobId oldest = std::max(dead || apart ? 0 : newest + 1 - kListWindow, range.begin);
  Statement& rows = dead ? reader.list_dead : apart ? reader.list_quarantined : reader.list_jobs;
  if (dead) {
    rows.bind(newest + 1, oldest, queue, kind, tag);
  } else {
    rows.bind(newest + 1, oldest, queue, kind, tag, states_of_rows(filter));
  }
  ResetGuard guard(rows);
  Leases leases(view, reader.next_token);
  std::int64_t passed = 0;
  while (rows.step()) {
    if (!filter.within.has(rows.text(1))) {
      if (++passed < kListWindow) continue;
      page.page.next = rows.integer(0);
      return std::move(page.page);
    }
    if (page.page.examined == kListWindow) {
      page.page.next = rows.integer(0) + 1;
      return std::move(page.page);
    }
    ++page.page.examined;
    std::optional<Job> job = wanted_job(rows, leases, filter);
    if (!job) continue;
    if (page.is_full()) {
      page.page.next = page.page.jobs.empty() ? newest + 1 : page.page.jobs.back().id;
      return std::move(page.page);
    }
    page.add(std::move(*job));
  }
  if (oldest > range.begin && below(oldest) >= range.begin && below(oldest) > 0)
    page.page.next = oldest;
  return std::move(page.page);
}

Result<std::int64_t> SqlStore::ahead(const Job& job, std::int64_t limit) const {
  return count_before(job, limit, false);
}

Result<std::int64_t> SqlStore::ahead_of_key(const Job& job, std::int64_t limit) const {
  return count_before(job, limit, true);
}

Result<DueHours> SqlStore::due_by_hour(WallTime from, WallTime to, const Within& within) const {
  try {
    auto reader = take_reader();
    DueCounter counter;
    {
      Statement& rows = reader->due_by_hour;
      rows.bind(from.us(), to.us(), kMaxDueCounted);
      ResetGuard guard(rows);
      while (rows.step()) {
        const bool counts = !rows.is_null(0) && within.has(rows.text(0));
        counter.add(rows.integer(1), rows.integer(2), counts);
      }
    }
    give_back(std::move(reader));
    return counter.hours();
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

Result<std::int64_t> SqlStore::count_before(const Job& job, std::int64_t limit, bool of_key) const {
  try {
    auto reader = take_reader();
    std::int64_t n = 0;
    if (job.quarantined && !job.quarantined->released) {
      Statement& row = reader->quarantined_before;
      row.bind(job.priority, job.run_at.us(), job.id);
      ResetGuard guard(row);
      if (row.step()) n = std::min(row.integer(0), limit);
    } else {
      const RunningJobs::View view(running_);
      Snapshot snapshot(*reader->db);
      Leases leases(view, reader->next_token);
      Statement& rows = of_key ? reader->key_before : reader->line_before;
      if (of_key) {
        rows.bind(job.priority, job.run_at.us(), job.id, kAheadWindow, job.limit_key);
      } else {
        rows.bind(job.priority, job.run_at.us(), job.id, kAheadWindow);
      }
      ResetGuard guard(rows);
      while (n < limit && rows.step()) {
        const JobState state = leases.state(rows.integer(0), JobState::available, rows.integer(1));
        if (state == JobState::available) ++n;
      }
    }
    give_back(std::move(reader));
    return n;
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

Result<std::vector<QueueStats>> SqlStore::queues() const {
  MutexLock lock(published_mutex_);
  std::vector<QueueStats> out;
  out.reserve(published_queues_.size());
  for (const auto& [name, stats] : published_queues_) out.push_back(stats);
  return out;
}

Result<LedgerPage> SqlStore::ledger(const std::string& name, int limit, std::int64_t before) const {
  try {
    auto reader = take_reader();
    LedgerPage page;
    std::optional<std::int64_t> schedule;
    {
      const RunningJobs::View view(running_);
      Snapshot snapshot(*reader->db);
      schedule = lookup(reader->schedule_id, name);
      if (schedule) page = read_ledger(*reader, view, *schedule, limit, before);
    }
    give_back(std::move(reader));
    if (schedule) return page;
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format("schedule {}: there is no such schedule", name)};
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

LedgerPage SqlStore::read_ledger(Reader& reader, const RunningJobs::View& view,
                                 std::int64_t schedule, int limit, std::int64_t before) {
  LedgerPage page;
  Leases leases(view, reader.next_token);
  Statement& rows = reader.ledger;
  rows.bind(schedule, before > 0 ? before : std::numeric_limits<std::int64_t>::max(), limit + 1);
  ResetGuard guard(rows);
  while (rows.step()) {
    if (static_cast<int>(page.rows.size()) == limit) {
      page.next = page.rows.empty() ? before : page.rows.back().seq;
      break;
    }
    LedgerRow& row = page.rows.emplace_back();
    row.seq = rows.integer(0);
    row.version = rows.integer(1);
    row.nominal = WallTime::from_us(rows.integer(2));
    row.until = wall_or_none(rows, 3);
    row.count = rows.integer(4);
    row.source = rows.one_of(5, TickSource::wake);
    row.state = rows.one_of(6, TickState::skipped);
    row.past_due = rows.integer(7) != 0;
    row.job = rows.integer(8);
    row.reason = rows.text(9);
    row.note = rows.text(10);
    row.decided_at = WallTime::from_us(rows.integer(11));
    if (!rows.is_null(12)) {
      row.job_state = leases.state(row.job, rows.one_of(12, JobState::dead), rows.integer(13));
    }
  }
  return page;
}

}  // namespace mainspring::sql
