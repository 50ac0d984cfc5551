// Reads: one job, pages of jobs, queues. They use their own connections, so that they do not wait
// for the writer's transaction.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/limit_shapes.h"
#include "store/bounds.h"
#include "store_postgres/reader.h"

namespace mainspring::pg {
namespace {

// Maximum jobs examined by one list(): bounds its time for any filter.
constexpr std::int64_t kListWindow = 10'000;
// If a state has a table of its own with at most this many entries, these are examined instead of
// all jobs. At most one window, so that both ways cost about the same.
constexpr std::int64_t kMaxCandidates = kListWindow;
// Jobs in one answer of the database, without and with all args: at most about kPageBytes.
constexpr std::int64_t kRowsAtOnce = 100, kWholeRowsAtOnce = 8;
constexpr std::size_t kMaxProbe = 5000;  // candidates read by one statement

std::optional<WallTime> wall_or_none(std::int64_t us) {
  if (us == 0) return std::nullopt;
  return WallTime::from_us(us);
}

Job read_job(const Rows& rows, int row) {
  const auto number = [&](int column) { return static_cast<int>(rows.integer(row, column)); };
  const auto wall = [&](int column) { return WallTime::from_us(rows.integer(row, column)); };
  const auto maybe = [&](int column) { return wall_or_none(rows.integer(row, column)); };
  Job job;
  job.id = rows.integer(row, 0);
  job.queue = rows.text(row, 1);
  job.kind = rows.text(row, 2);
  if (rows.integer(row, 3) < 0 || rows.integer(row, 3) >= kJobStateCount) {
    throw PgError{
        "XX001",
        fmt::format("the store is damaged: job {} is in state {}", job.id, rows.integer(row, 3)),
        false};
  }
  job.state = static_cast<JobState>(rows.integer(row, 3));
  job.priority = number(4);
  job.run_at = wall(5);
  job.attempt = number(6);
  job.max_attempts = number(7);
  job.token = rows.integer(row, 8);
  job.version = rows.integer(row, 9);
  job.started_at = maybe(10);
  job.finished_at = maybe(11);
  job.expires_at = maybe(12);
  job.created_at = wall(13);
  job.args = rows.text(row, 14);
  job.timeout = Duration(rows.integer(row, 15));
  job.tags = rows.texts(row, 16);
  job.headers = rows.text(row, 17);
  job.correlation_id = rows.text(row, 18);
  job.reply_to = rows.text(row, 19);
  job.unique_key = rows.text(row, 20);
  job.worker = rows.text(row, 21);
  job.cancel_requested = (rows.integer(row, 22) & kFlagCancel) != 0;
  if (!rows.is_null(row, 23)) job.progress = Progress{rows.real(row, 23), rows.string(row, 24)};
  job.reason = rows.text(row, 25);
  job.description = rows.text(row, 26);
  if (!rows.is_null(row, 27)) {
    if (auto read = decode_follow_ups(rows.string(row, 27))) job.follow_ups = std::move(*read);
  }
  job.session = rows.text(row, 28);
  job.on_dead = on_dead_of(static_cast<int>(rows.integer(row, 22)));
  job.on_expiry = on_expiry_of(static_cast<int>(rows.integer(row, 22)));
  job.reply_session = rows.text(row, 29);
  job.trigger_depth = number(30);
  job.deferred = rows.integer(row, 32) != 0;
  job.limit_key = rows.text(row, 31);
  if (const auto since = maybe(33)) {
    job.quarantined = Quarantine{.since = *since,
                                 .lost = number(34) % kUnstartedUnit,
                                 .released = job.state != JobState::retryable};
  }
  return job;
}

// Reads the remaining fields of get().
void read_details(const Rows& rows, int row, Job& job) {
  job.checkpoint = rows.text(row, 35);
  job.result = rows.text(row, 36);
  job.warning = rows.text(row, 43);
  const auto attempts = rows.ints(row, 37), ats = rows.ints(row, 38), ran = rows.ints(row, 39);
  const auto workers = rows.texts(row, 40), messages = rows.texts(row, 41),
             ends = rows.texts(row, 42);
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    job.errors.push_back({.attempt = static_cast<int>(attempts[i]),
                          .at = WallTime::from_us(ats.at(i)),
                          .worker = workers.at(i),
                          .message = messages.at(i),
                          .ran_for = Duration(ran.at(i)),
                          .program = decode_program_end(ends.at(i))});
  }
}

// Reads one page, in one snapshot.
class Lister {
 public:
  Lister(Snapshot& snapshot, const ReadStatements& sql, const JobFilter& filter, int limit,
         JobId before)
      : snapshot_(snapshot),
        sql_(sql),
        filter_(filter),
        limit_(std::max(limit, 1)),
        before_(before > 0 ? before : std::numeric_limits<JobId>::max()) {}

  JobPage page() {
    if (filter_.within.scopes != nullptr) {
      const Rows rows = snapshot_.run(sql_.queue_names);
      visible_.emplace();
      for (int i = 0; i < rows.size(); ++i) {
        if (filter_.within.has(rows.text(i, 1))) visible_->push_back(rows.integer(i, 0));
      }
    }
    if (filter_.ids) return among_wanted();
    find_range();
    if (const Statement* candidates = candidates_of_state()) {
      const Rows found = snapshot_.run(
          *candidates, params(range_.end, kMaxCandidates + 1, wanted(filter_.queue), kListWindow));
      if (found.integer(0, 0) <= kMaxCandidates) return among(found.ints(0, 1));
    }
    return window();
  }

 private:
  static std::optional<std::string_view> wanted(const std::string& text) {
    return text.empty() ? std::nullopt : std::optional<std::string_view>(text);
  }

  // For states that few jobs have at a time, however many jobs have ended.
  const Statement* candidates_of_state() const {
    if (filter_.quarantined) return &sql_.candidates_quarantined;
    if (!filter_.state) return nullptr;
    switch (*filter_.state) {
      case JobState::dead:
        return &sql_.candidates_dead;
      case JobState::running:
        return &sql_.candidates_running;
      case JobState::available:
        return filter_.queue.empty() ? &sql_.candidates_ready : &sql_.candidates_ready_of;
      case JobState::scheduled:
      case JobState::retryable:
        return &sql_.candidates_due;
      case JobState::waiting:
        return &sql_.candidates_waiting;
      case JobState::completed:
      case JobState::cancelled:
        return nullptr;
    }
    return nullptr;
  }

  void find_range() {
    range_.end = before_;
    if (!filter_.from && !filter_.to) return;
    JobId newest = 0;
    const Rows rows = snapshot_.run(sql_.window_end, params(before_, std::int64_t{1}));
    if (rows.size() > 0) newest = rows.integer(0, 0);
    range_ =
        ids_of_window(newest, filter_.from, filter_.to, [&](JobId id) -> std::optional<CreatedJob> {
          const Rows row = snapshot_.run(sql_.created_from, params(id));
          if (row.empty()) return std::nullopt;
          return CreatedJob{row.integer(0, 0), WallTime::from_us(row.integer(0, 1))};
        });
  }

  // At most one more than the page has room for. A query drops some of them.
  std::int64_t rows_at_once() const {
    const std::int64_t most = filter_.whole_args ? kWholeRowsAtOnce : kRowsAtOnce;
    if (filter_.query) return most;
    return std::min(std::int64_t{limit_} + 1 - static_cast<std::int64_t>(page_.jobs.size()), most);
  }
  std::optional<std::int64_t> states() const {
    std::int64_t states = 0, all = 0;
    for (int i = 0; i < kJobStateCount; ++i) {
      all |= std::int64_t{1} << i;
      if (filter_.wants(static_cast<JobState>(i))) states |= std::int64_t{1} << i;
    }
    return states == all ? std::nullopt : std::optional(states);
  }
  void add_filter(Params& to) const {
    to.add(rows_at_once());
    to.add(wanted(filter_.queue)).add(wanted(filter_.kind)).add(wanted(filter_.tag));
    to.add(states());
    visible_ ? to.add(*visible_) : to.add(std::optional<Ints>());
    to.add(filter_.quarantined);
  }
  void add_created(Params& to) const {
    const auto us = [](const std::optional<WallTime>& at) {
      return at ? std::optional<std::int64_t>(at->us()) : std::nullopt;
    };
    to.add(us(filter_.from)).add(us(filter_.to));
  }
  // True: the page is full; sets where the next one starts.
  bool take(const Rows& rows) {
    constexpr int kOmitted = 35;
    for (int i = 0; i < rows.size(); ++i) {
      ++page_.examined;
      Job job = read_job(rows, i);
      if (filter_.query && !matches_record(*filter_.query, job)) {
        last_ = job.id;
        continue;
      }
      if (static_cast<int>(page_.jobs.size()) == limit_ || bytes_ >= kPageBytes) {
        page_.next = page_.jobs.back().id;
        return true;
      }
      last_ = job.id;
      job.args_omitted = static_cast<std::size_t>(rows.integer(i, kOmitted));
      bytes_ += listed_bytes(job);
      page_.jobs.push_back(std::move(job));
    }
    if (page_.examined < kListWindow || rows.size() == 0) return false;
    page_.next = last_;
    return true;
  }

  JobPage among_wanted() {
    Ints ids;
    for (const JobId id : *filter_.ids) {
      if (id < before_) ids.push_back(id);
    }
    return among(ids);
  }
  JobPage among(const Ints& ids) {
    std::size_t at = 0;
    for (std::size_t probe = static_cast<std::size_t>(limit_) + 1; at < ids.size(); probe *= 4) {
      const std::size_t end = std::min(ids.size(), at + std::min(probe, kMaxProbe));
      while (at < end) {
        const std::int64_t most = rows_at_once();
        Params p = params(Ints(ids.data() + at, ids.data() + end));
        add_filter(p);
        p.add(filter_.whole_args);
        add_created(p);
        const Rows rows = snapshot_.run(sql_.list_ids, p);
        if (take(rows)) return std::move(page_);
        if (rows.size() < most) break;
        while (at < end && ids[at] >= last_) ++at;
      }
      at = end;
    }
    if (static_cast<std::int64_t>(ids.size()) == kListWindow) page_.next = ids.back();
    return std::move(page_);
  }

  JobPage window() {
    for (JobId before = range_.end;;) {
      const std::int64_t most = rows_at_once();
      Params p = params(before);
      add_filter(p);
      p.add(kListWindow).add(filter_.whole_args);
      add_created(p);
      const Rows rows = snapshot_.run(sql_.list_window, p);
      if (take(rows)) return std::move(page_);
      if (rows.size() == most) {
        before = last_;
        continue;
      }
      const Rows end = snapshot_.run(sql_.window_end, params(before, kListWindow));
      if (end.size() == 2 && end.integer(0, 0) > range_.begin) page_.next = end.integer(0, 0);
      return std::move(page_);
    }
  }

  Snapshot& snapshot_;
  const ReadStatements& sql_;
  const JobFilter& filter_;
  const int limit_;
  const JobId before_;
  std::optional<Ints> visible_;  // queues
  JobPage page_;
  IdRange range_;
  JobId last_ = 0;  // the last job examined
  std::size_t bytes_ = 0;
};

}  // namespace

// -- the pool -------------------------------------------------------------------------------------

std::unique_ptr<PostgresStore::Reader> PostgresStore::take_reader() const {
  const Instant deadline = steady_.now().instant + options_.read_timeout;
  {
    MutexLock lock(readers_mutex_);
    while (readers_.empty() && readers_made_ >= 2 * std::max(options_.readers, 1)) {
      const Instant now = steady_.now().instant;
      if (now >= deadline) {
        throw PgError{"", fmt::format("all {} connections for reads are in use", readers_made_),
                      false};
      }
      reader_back_.wait_for(readers_mutex_, deadline - now);
    }
    if (!readers_.empty()) {
      auto reader = std::move(readers_.back());
      readers_.pop_back();
      return reader;
    }
    ++readers_made_;
  }
  try {
    auto reader =
        std::make_unique<Reader>(ConnectionOptions{.url = options_.url,
                                                   .connect_timeout = options_.connect_timeout,
                                                   .timeout = options_.read_timeout,
                                                   .prepared = options_.prepared,
                                                   .name = "mainspring-reads"},
                                 steady_);
    // JIT compilation would take 40 ms for a statement of 1 ms. With a pooler, the role must set
    // this: see the guide.
    if (options_.prepared) reader->connection.execute("SET jit = off");
    return reader;
  } catch (...) {
    MutexLock lock(readers_mutex_);
    --readers_made_;
    reader_back_.notify_one();
    throw;
  }
}

void PostgresStore::give_back(std::unique_ptr<Reader> reader) const {
  {
    MutexLock lock(readers_mutex_);
    if (static_cast<int>(readers_.size()) < std::max(options_.readers, 1)) {
      readers_.push_back(std::move(reader));
    } else {
      --readers_made_;  // it is closed after the lock is released
    }
  }
  reader_back_.notify_one();
}

// Drops idle connections too: they lead to the same server.
void PostgresStore::drop_readers(std::unique_ptr<Reader> failed) const {
  std::vector<std::unique_ptr<Reader>> idle;
  {
    MutexLock lock(readers_mutex_);
    idle.swap(readers_);
    readers_made_ -= static_cast<int>(idle.size()) + 1;
  }
  failed.reset();
  reader_back_.notify_all();
}

// -- reads ----------------------------------------------------------------------------------------

Result<Job> PostgresStore::get(JobId id) const {
  std::int64_t last = 0;
  MS_TRY_ASSIGN(std::optional<Job> found, with_reader([&](Connection& c) -> std::optional<Job> {
                  // Looks a second time after reading which ids were given: the job may have been
                  // created between the two reads.
                  for (int look = 0; look < 2; ++look) {
                    const Rows row = c.run(read_sql_.get_job, params(id));
                    if (!row.empty()) {
                      Job job = read_job(row, 0);
                      read_details(row, 0, job);
                      return job;
                    }
                    if (look == 0) last = c.run(read_sql_.last_id).integer(0, 0);
                    if (id <= 0 || id > last) return std::nullopt;
                  }
                  return std::nullopt;
                }));
  if (found) return std::move(*found);
  if (id <= 0 || id > last) return no_job(id);
  return removed_job(id);
}

Result<JobPage> PostgresStore::list(const JobFilter& filter, int limit, JobId before) const {
  return with_reader([&](Connection& c) {
    Snapshot snapshot(c, read_sql_);
    JobPage page = Lister(snapshot, read_sql_, filter, limit, before).page();
    snapshot.end();
    return page;
  });
}

Result<std::vector<Job>> PostgresStore::whole(const std::vector<JobId>& ids) const {
  return with_reader([&](Connection& c) {
    const Rows rows = c.run(read_sql_.get_jobs, params(Ints(ids.begin(), ids.end())));
    std::vector<Job> jobs;
    for (int i = 0; i < rows.size(); ++i) {
      read_details(rows, i, jobs.emplace_back(read_job(rows, i)));
    }
    return jobs;
  });
}

Result<std::vector<QueueStats>> PostgresStore::queues() const {
  return with_reader([&](Connection& c) {
    const Rows rows = c.run(read_sql_.queues);
    const auto duration = [&](int row, int column) {
      const auto us = rows.maybe(row, column);
      return us ? std::optional(Duration(*us)) : std::nullopt;
    };
    std::vector<QueueStats> all(static_cast<std::size_t>(rows.size()));
    for (int i = 0; i < rows.size(); ++i) {
      QueueStats& q = all[static_cast<std::size_t>(i)];
      q.name = rows.text(i, 0);
      q.paused = rows.integer(i, 1) != 0;
      q.retention_completed = duration(i, 2);
      q.retention_dead = duration(i, 3);
      constexpr int kCounts = 5;  // column 4 is the queue's number
      for (int state = 0; state < kJobStateCount; ++state)
        q.counts[static_cast<std::size_t>(state)] = rows.integer(i, kCounts + state);
      q.enqueued = rows.integer(i, kCounts + kJobStateCount);
      q.pruned = rows.integer(i, kCounts + kJobStateCount + 1);
      q.expired = rows.integer(i, kCounts + kJobStateCount + 2);
      if (const auto oldest = rows.maybe(i, kCounts + kJobStateCount + 3))
        q.oldest_available = WallTime::from_us(*oldest);
      constexpr int kLimits = kCounts + kJobStateCount + 4;
      if (!rows.is_null(i, kLimits)) {
        auto limits = parse_limits(rows.text(i, kLimits));
        if (!limits) throw PgError{"XX001", limits.error().message, false};
        q.limits = std::move(*limits);
      }
      if (const auto at = rows.maybe(i, kLimits + 1)) q.opens_at = WallTime::from_us(*at);
      q.quarantined = rows.integer(i, kLimits + 2);
      if (!rows.is_null(i, kLimits + 3)) q.meter = RateMeter::parse(rows.text(i, kLimits + 3));
      q.opens_at = closed_until(q.limits, q.meter, q.opens_at);
      q.slots_taken = q.counts[static_cast<std::size_t>(JobState::running)];
      if (!rows.is_null(i, kLimits + 4))
        q.slots_taken += extra_slots(q.limits, q.limits.concurrency, rows.texts(i, kLimits + 4));
      if (q.paused) q.pause = read_pause_text(rows, i, kLimits + 5);
    }
    return all;
  });
}

Result<DueHours> PostgresStore::due_by_hour(WallTime from, WallTime to,
                                            const Within& within) const {
  return with_reader([&](Connection& c) {
    const Rows rows =
        c.run(read_sql_.due_by_hour, params(from.us(), to.us(), std::int64_t{kMaxDueCounted}));
    DueCounter counter;
    for (int i = 0; i < rows.size(); ++i) {
      const bool counts = !rows.is_null(i, 0) && within.has(rows.text(i, 0));
      counter.add(rows.integer(i, 1), rows.integer(i, 2), counts);
    }
    return counter.hours();
  });
}

Result<std::int64_t> PostgresStore::ahead(const Job& job, std::int64_t limit) const {
  return with_reader([&](Connection& c) {
    const bool apart = job.quarantined && !job.quarantined->released;
    return c
        .run(apart ? read_sql_.quarantined_before : read_sql_.line_before,
             params(job.queue, job.priority, job.run_at.us(), job.id, limit))
        .integer(0, 0);
  });
}

}  // namespace mainspring::pg
