// The in-memory copy of schedules, which serves reads without database queries.
//
// This node's changes are applied to the copy after the commit. Changes of other nodes are found by
// the number of the transaction that wrote a row last: a counter of changes, written by all nodes,
// would make them wait for each other.
#include <libpq-fe.h>

#include <limits>

#include "store/common_rules.h"
#include "store_postgres/reader.h"

namespace mainspring::pg {
namespace {

constexpr std::int64_t kTransactionBits = 0xffffffff;  // of xmin

ScheduleInfo whole_schedule(const PublishedSchedule& published) {
  ScheduleInfo info = published.info;
  info.live.assign(published.live.begin(), published.live.end());
  info.buffered = static_cast<int>(published.waiting.size());
  return info;
}

LedgerRow read_tick(const Rows& rows, int row) {
  LedgerRow tick;
  tick.seq = rows.integer(row, 0);
  tick.version = rows.integer(row, 1);
  tick.nominal = WallTime::from_us(rows.integer(row, 2));
  if (const auto until = rows.maybe(row, 3)) tick.until = WallTime::from_us(*until);
  tick.count = rows.integer(row, 4);
  tick.source = static_cast<TickSource>(rows.integer(row, 5));
  tick.state = static_cast<TickState>(rows.integer(row, 6));
  tick.past_due = rows.integer(row, 7) != 0;
  tick.job = rows.integer(row, 8);
  tick.reason = rows.text(row, 9);
  tick.note = rows.text(row, 10);
  tick.decided_at = WallTime::from_us(rows.integer(row, 11));
  if (const auto state = rows.maybe(row, 12)) tick.job_state = static_cast<JobState>(*state);
  return tick;
}

}  // namespace

// -- changes --------------------------------------------------------------------------------------

void PostgresStore::publish_schedule(const std::string& name, std::int64_t id, ScheduleInfo info) {
  const auto old = published_schedules_.find(name);
  if (old != published_schedules_.end() && old->second.id != id) unpublish_schedule(name);
  PublishedSchedule& seen = published_schedules_[name];
  published_due_.erase({seen.info.next_fire, name});
  seen.id = id;
  seen.info = std::move(info);
  published_ids_[id] = name;
  if (!seen.info.paused && seen.info.next_fire != WallTime::never())
    published_due_.emplace(seen.info.next_fire, name);
}

void PostgresStore::unpublish_schedule(const std::string& name) {
  const auto found = published_schedules_.find(name);
  if (found == published_schedules_.end()) return;
  const PublishedSchedule& gone = found->second;
  for (const JobId id : gone.live) published_links_[2] -= id;
  for (const JobId id : gone.waiting) published_links_[2] -= id;
  published_links_[0] -= static_cast<std::int64_t>(gone.live.size() + gone.waiting.size());
  published_links_[1] -= static_cast<std::int64_t>(gone.waiting.size());
  published_due_.erase({gone.info.next_fire, name});
  published_ids_.erase(gone.id);
  published_schedules_.erase(found);
}

void PostgresStore::publish_link(const LinkChange& change) {
  const auto name = published_ids_.find(change.schedule);
  if (name == published_ids_.end()) return;
  PublishedSchedule& seen = published_schedules_.at(name->second);
  const bool waited = seen.waiting.erase(change.job) > 0;
  const bool lived = seen.live.erase(change.job) > 0;
  const bool waits = change.to == LinkChange::To::waiting;
  const bool lives = change.to == LinkChange::To::live;
  if (waits) seen.waiting.insert(change.job);
  if (lives) seen.live.insert(change.job);
  const std::int64_t more = (waits || lives ? 1 : 0) - (waited || lived ? 1 : 0);
  published_links_[0] += more;
  published_links_[1] += (waits ? 1 : 0) - (waited ? 1 : 0);
  published_links_[2] += more * change.job;
}

// Also applies rows that were only read: this corrects a copy that another node's change made
// stale.
void PostgresStore::remember_schedules() {
  if (after_.loaded_schedules.empty() && after_.links.empty()) return;
  MutexLock lock(published_mutex_);
  for (auto& [name, schedule] : after_.loaded_schedules) {
    if (schedule.id == 0) {
      unpublish_schedule(name);
    } else {
      publish_schedule(name, schedule.id, schedule.info);
    }
  }
  for (const LinkChange& change : after_.links) publish_link(change);
}

WallTime PostgresStore::next_schedule() const {
  MutexLock lock(published_mutex_);
  return published_due_.empty() ? WallTime::never() : published_due_.begin()->first;
}

// -- changes of other nodes -----------------------------------------------------------------------

// Loads everything on a new connection, because the server may have taken over and lost changes of
// the old one; otherwise only what has changed since the last load.
bool PostgresStore::load_schedules() {
  Connection& c = *connection_;
  const std::int64_t server = PQbackendPID(c.handle());
  const bool all = schedules_seen_ == 0 || schedules_seen_by_ != server;
  const Params since = params(schedules_seen_ & kTransactionBits);
  c.queue(schedule_sql_.snapshot);
  if (all) {
    c.queue(schedule_sql_.all_schedules);
  } else {
    c.queue(schedule_sql_.changed_schedules, since);
    c.queue(schedule_sql_.removed_schedules, since);
  }
  const std::int64_t seen = c.next().integer(0, 0);
  const Rows rows = c.next();
  std::vector<LoadedSchedule> found;
  for (int row = 0; row < rows.size(); ++row) found.push_back(read_schedule(rows, row));
  std::set<std::string> removed;
  if (!all) {
    const Rows names = c.next();
    for (int row = 0; row < names.size(); ++row) removed.insert(names.string(row, 0));
  }
  bool changed = all;
  {
    MutexLock lock(published_mutex_);
    if (all) {  // readers keep a schedule's live jobs until load_links() replaces them
      for (const auto& [name, schedule] : published_schedules_) removed.insert(name);
    }
    for (LoadedSchedule& schedule : found) {
      const std::string name = schedule.info.schedule.name;
      const auto old = published_schedules_.find(name);
      changed = changed || old == published_schedules_.end() || old->second.id != schedule.id ||
                old->second.info.updated_at != schedule.info.updated_at ||
                old->second.info.next_fire != schedule.info.next_fire;
      removed.erase(name);
      publish_schedule(name, schedule.id, std::move(schedule.info));
    }
    for (const std::string& name : removed) {
      changed = changed || published_schedules_.contains(name);
      unpublish_schedule(name);
    }
  }
  load_links(all);
  schedules_seen_ = seen;
  schedules_seen_by_ = server;
  return changed;
}

// Ids only grow: a changed set of links has another count or another sum.
void PostgresStore::load_links(bool all) {
  if (!all) {
    const Rows sums = connection_->run(schedule_sql_.sum_links);
    MutexLock lock(published_mutex_);
    if (published_links_ == std::array{sums.integer(0, 0), sums.integer(0, 1), sums.integer(0, 2)})
      return;
  }
  const Rows rows = connection_->run(schedule_sql_.all_links);
  MutexLock lock(published_mutex_);
  for (auto& [name, schedule] : published_schedules_) {
    schedule.live.clear();
    schedule.waiting.clear();
  }
  published_links_ = {};
  for (int row = 0; row < rows.size(); ++row) {
    const bool waits = rows.integer(row, 2) != 0;
    publish_link({.schedule = rows.integer(row, 0),
                  .job = rows.integer(row, 1),
                  .to = waits ? LinkChange::To::waiting : LinkChange::To::live});
  }
}

// -- reads ----------------------------------------------------------------------------------------

Result<ScheduleInfo> PostgresStore::schedule(const std::string& name) const {
  MutexLock lock(published_mutex_);
  const auto found = published_schedules_.find(name);
  if (found == published_schedules_.end()) return no_schedule(name);
  return whole_schedule(found->second);
}

Result<std::vector<ScheduleInfo>> PostgresStore::schedules(const std::string& after,
                                                           int limit) const {
  MutexLock lock(published_mutex_);
  std::vector<ScheduleInfo> out;
  for (auto it = published_schedules_.upper_bound(after);
       it != published_schedules_.end() && static_cast<int>(out.size()) < limit; ++it)
    out.push_back(whole_schedule(it->second));
  return out;
}

Result<std::vector<ScheduleInfo>> PostgresStore::due_schedules(WallTime now, int limit) const {
  MutexLock lock(published_mutex_);
  std::vector<ScheduleInfo> out;
  for (const auto& [next_fire, name] : published_due_) {
    if (next_fire > now || static_cast<int>(out.size()) == limit) break;
    out.push_back(published_schedules_.at(name).info);
  }
  return out;
}

Result<LedgerPage> PostgresStore::ledger(const std::string& name, int limit,
                                         std::int64_t before) const {
  const std::int64_t below = before > 0 ? before : std::numeric_limits<std::int64_t>::max();
  MS_TRY_ASSIGN(const Rows rows, with_reader([&](Connection& connection) {
                  return connection.run(schedule_sql_.read_ledger,
                                        params(name, below, std::int64_t{limit} + 1));
                }));
  if (rows.empty()) return no_schedule(name);
  LedgerPage page;
  for (int row = 0; row < rows.size() && !rows.is_null(row, 0); ++row) {
    if (static_cast<int>(page.rows.size()) == limit) {
      page.next = page.rows.empty() ? before : page.rows.back().seq;
      break;
    }
    page.rows.push_back(read_tick(rows, row));
  }
  return page;
}

}  // namespace mainspring::pg
