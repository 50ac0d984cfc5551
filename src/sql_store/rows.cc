// Shared by the operations: reading and writing a job's row, its place in memory, the counters.
#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "sql_store/store_impl.h"

namespace mainspring::sql {
namespace {

// Whether the row has only the values that every new row has, so that a claim need not read it.
bool is_fresh(const HotRow& hot) {
  return hot.version == 1 && hot.flags == 0 && !hot.expires_at;
}

}  // namespace

int on_dead_flags(OnDead policy) {
  if (policy == OnDead::skip) return 0;
  return policy == OnDead::block ? kFlagBlocks : kFlagParks;
}

OnDead on_dead_of(int flags) {
  if ((flags & kFlagBlocks) != 0) return OnDead::block;
  return (flags & kFlagParks) != 0 ? OnDead::park : OnDead::skip;
}

int on_expiry_flag(OnExpiry policy) {
  return policy == OnExpiry::dead ? kFlagDiesOfExpiry : 0;
}

OnExpiry on_expiry_of(int flags) {
  return (flags & kFlagDiesOfExpiry) != 0 ? OnExpiry::dead : OnExpiry::cancel;
}

std::vector<std::string> split_tags(std::string_view joined) {
  std::vector<std::string> tags;
  while (joined.size() > 1) {
    joined.remove_prefix(1);
    const std::size_t end = joined.find(kTagSeparator);
    tags.emplace_back(joined.substr(0, end));
    joined.remove_prefix(end);
  }
  return tags;
}

// The separators at both ends make instr() exact.
std::string join_tags(const std::vector<std::string>& tags) {
  if (tags.empty()) return "";
  std::string out(1, kTagSeparator);
  for (const std::string& tag : tags) out += tag + kTagSeparator;
  return out;
}

bool QueueState::has_ready() const {
  return std::any_of(ready.begin(), ready.end(),
                     [](const auto& line) { return !line.second.empty(); });
}

std::optional<WallTime> QueueState::oldest() const {
  std::optional<WallTime> oldest;
  for (const auto& [kind, jobs_of_kind] : ready) {
    for (int priority = 0; priority <= kLowestPriority; ++priority) {
      const auto first = jobs_of_kind.lower_bound(ReadyKey(priority, WallTime(), 0));
      if (first == jobs_of_kind.end()) break;
      priority = first->priority();
      if (!oldest || first->run_at() < *oldest) oldest = first->run_at();
    }
  }
  if (!keyed_times.empty() && (!oldest || keyed_times.begin()->run_at() < *oldest))
    oldest = keyed_times.begin()->run_at();
  return oldest;
}

std::optional<HotRow> SqlStore::load_hot(JobId id) {
  Statement& row = sql_->select_hot;
  row.bind(id);
  ResetGuard guard(row);
  if (!row.step()) return std::nullopt;
  HotRow hot;
  hot.id = id;
  hot.queue = &queue_by_id(row.integer(0));
  hot.kind = static_cast<std::int32_t>(row.integer(1));
  hot.state = row.one_of(2, JobState::dead);
  hot.priority = static_cast<int>(row.integer(3));
  hot.run_at = WallTime::from_us(row.integer(4));
  hot.attempt = static_cast<int>(row.integer(5));
  hot.max_attempts = static_cast<int>(row.integer(6));
  hot.token = row.integer(7);
  hot.version = row.integer(8);
  hot.flags = static_cast<int>(row.integer(9));
  if (!row.is_null(10)) hot.started_at = row.integer(10);
  if (!row.is_null(11)) hot.finished_at = row.integer(11);
  if (!row.is_null(12)) hot.expires_at = row.integer(12);
  return hot;
}

void SqlStore::save_hot(const HotRow& hot) {
  begin_write();
  sql_->update_job
      .bind(hot.id, hot.kind, static_cast<int>(hot.state), hot.priority, hot.run_at.us(),
            hot.attempt, hot.max_attempts, hot.token, hot.version, hot.flags, hot.started_at,
            hot.finished_at, hot.expires_at)
      .run();
}

Error SqlStore::missing(JobId id) const {
  if (id > 0 && id < next_id_) {
    return removed_job(id);
  }
  return no_job(id);
}

Error SqlStore::no_job(JobId id) {
  return Error{.code = ErrorCode::not_found,
               .message = fmt::format("job {}: there is no such job", id)};
}

JobState SqlStore::state_of(JobId id) {
  if (leases_.contains(id)) return JobState::running;
  const auto hot = load_hot(id);
  return hot ? hot->state : JobState::completed;
}

QueueState& SqlStore::queue_by_id(std::int64_t id) const {
  const auto found = queues_by_id_.find(id);
  if (found != queues_by_id_.end()) return *found->second;
  throw damaged(fmt::format("the store is damaged: a job of the missing queue {}", id));
}

QueueState* SqlStore::find_queue(std::string_view name) const {
  const auto found = queues_by_name_.find(name);
  return found == queues_by_name_.end() ? nullptr : found->second;
}

QueueState& SqlStore::queue_of(std::string_view name) {
  if (QueueState* queue = find_queue(name)) return *queue;
  begin_write();
  QueueState& queue = queue_states_.emplace_back();
  queue.id = static_cast<std::int64_t>(queue_states_.size());
  queue.name = name;
  sql_->insert_queue.bind(queue.id, name).run();
  queues_by_name_.emplace(queue.name, &queue);
  queues_by_id_.emplace(queue.id, &queue);
  touch(queue);
  return queue;
}

std::int32_t SqlStore::kind_of(std::string_view name) {
  const auto found = kinds_by_name_.find(std::string(name));
  if (found != kinds_by_name_.end()) return found->second;
  begin_write();
  const auto id = static_cast<std::int32_t>(kind_names_.size());
  sql_->insert_kind.bind(id, name).run();
  kind_names_.emplace_back(name);
  kinds_by_name_.emplace(name, id);
  return id;
}

void SqlStore::touch(QueueState& queue) {
  if (queue.touched) return;
  queue.touched = true;
  touched_.push_back(&queue);
}

void SqlStore::count(QueueState& queue, JobState state, int flags, int delta) {
  touch(queue);
  if (MS_MUTANT(counters_drift) && state == JobState::retryable) return;
  if (state == JobState::cancelled && (flags & kFlagExpired) != 0) {
    queue.job_counts.expired += delta;
  } else {
    queue.job_counts[state] += delta;
  }
  if (is_terminal(state)) finished_jobs_ += delta;
}

void SqlStore::add_live(JobId id, int delta) {
  const std::int64_t block = id / kBlockIds;
  live_blocks_[block] += delta;
  live_jobs_ += delta;
  MS_ASSERT(live_blocks_[block] >= 0, "a block never has fewer than no live jobs");
  if (touched_blocks_.empty() || touched_blocks_.back() != block) touched_blocks_.push_back(block);
}

// Every queue with jobs in `ready` or `keyed_times` is noted; available_queues() drops the others.
void SqlStore::note_work(QueueState& queue) {
  if (std::exchange(queue.has_work, true)) return;
  queues_with_work_.emplace(queue.name, &queue);
}

void SqlStore::make_ready(QueueState& queue, std::int32_t kind, const ReadyKey& key, int flags) {
  ReadyQueue& ready = queue.ready[kind];
  ready.emplace_hint(ready.end(), key);
  if ((flags & kFlagSession) != 0) {
    queue.ready_sessions.emplace_hint(queue.ready_sessions.end(), key, kind);
    queue.made_session_available = true;
  }
  queue.made_available = true;
  note_work(queue);
  touch(queue);
}

void SqlStore::enter(HotRow& hot) {
  if (hot.state == JobState::available && (hot.flags & kFlagLimitKey) != 0) {
    hot.queue->made_available = true;
    touch(*hot.queue);
    enter_key(hot, ReadyKey(hot.priority, hot.run_at, hot.id));
  } else if (hot.state == JobState::available) {
    make_ready(*hot.queue, hot.kind,
               ReadyKey(hot.priority, hot.run_at, hot.id).set_fresh(is_fresh(hot)), hot.flags);
  } else if (waits_in_quarantine(hot.state, hot.flags)) {
    hot.queue->quarantine.emplace(hot.priority, hot.run_at, hot.id);
    note_quarantine(*hot.queue);
  } else if (hot.state != JobState::waiting) {
    MS_ASSERT(hot.state == JobState::scheduled || hot.state == JobState::retryable,
              "only these begin at a time");
    sql_->insert_due.bind(hot.run_at.us(), hot.id).run();
    due_touched_ = true;
  }
}

void SqlStore::leave(const HotRow& hot) {
  if (hot.state == JobState::available) {
    const ReadyKey key(hot.priority, hot.run_at, hot.id);
    heavy_left(*hot.queue, hot.kind);
    if ((hot.flags & kFlagLimitKey) != 0) return leave_key(hot, key);
    hot.queue->ready[hot.kind].erase(key);
    if ((hot.flags & kFlagSession) != 0) hot.queue->ready_sessions.erase(key);
  } else if (waits_in_quarantine(hot.state, hot.flags)) {
    hot.queue->quarantine.erase(ReadyKey(hot.priority, hot.run_at, hot.id));
    note_quarantine(*hot.queue);
  } else if (hot.state == JobState::scheduled || hot.state == JobState::retryable) {
    sql_->delete_due.bind(hot.run_at.us(), hot.id).run();
    due_touched_ = true;
  }
}

void SqlStore::end_job(JobId id, QueueState& queue, JobState state, int flags,
                       std::int64_t session) {
  const bool dead = state == JobState::dead;
  const auto& own = dead ? queue.retention_dead : queue.retention_completed;
  const Duration keep =
      own.value_or(dead ? options_.store.retention_dead : options_.store.retention_completed);
  const WallTime prune_at = now_.wall + keep;
  std::string& ids = finishing_[prune_at.us()];
  ids.append(reinterpret_cast<const char*>(&id), sizeof id);
  if (dead && !MS_MUTANT(dead_not_listed)) list_dead(id, queue);
  ended_.push_back(id);
  if (keep < kBriefRetention || finished_jobs_ >= options_.store.max_finished_jobs)
    brief_.push_back(id);
  const bool missed = state == JobState::cancelled && MS_MUTANT(cancelled_not_followed);
  if ((flags & kFlagFollowed) != 0 && !missed) followed_.push_back(id);
  if (!watches_.empty() && is_watched(queue.name, state)) watched_.push_back(id);
  if ((flags & kFlagStep) != 0 && !MS_MUTANT(end_of_step_not_heard))
    ended_steps_.push_back({.job = id, .flags = flags});
  if ((flags & kFlagSession) != 0) left_sessions_.push_back({id, &queue, session, state, flags});
  add_live(id, -1);
  if (!linked_jobs_.empty()) end_link(id, state);
}

void SqlStore::set_reason(JobId id, int& flags, std::string_view reason,
                          std::string_view description) {
  begin_write();
  sql_->upsert_reason
      .bind(id, Statement::text_or_null(reason), Statement::text_or_null(description))
      .run();
  flags |= kFlagExtras;
}

}  // namespace mainspring::sql
