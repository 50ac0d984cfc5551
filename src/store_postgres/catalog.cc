// Queues and kinds: small tables; every node keeps a copy.
#include <fmt/format.h>

#include "api/audit_images.h"
#include "api/limit_shapes.h"
#include "api/pause_shapes.h"
#include "base/assert.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {

QueuePause read_pause_text(const Rows& rows, int row, int column) {
  if (rows.is_null(row, column)) return {};
  auto pause = parse_pause(rows.text(row, column));
  if (!pause) throw PgError{"XX001", pause.error().message, false};
  return pause->value_or(QueuePause{});
}

namespace {
QueueInfo read_queue(const Rows& rows, int row, int first) {
  QueueInfo queue;
  queue.paused = rows.integer(row, first) != 0;
  queue.retention_completed = rows.maybe(row, first + 1);
  queue.retention_dead = rows.maybe(row, first + 2);
  read_limits_of(queue, rows, row, first + 3);
  constexpr int kPause = 7;
  if (queue.paused) queue.pause = read_pause_text(rows, row, first + kPause);
  return queue;
}
}  // namespace

void PostgresStore::note_brief(const QueueInfo& queue) {
  const auto brief = [](const std::optional<std::int64_t>& own, Duration all) {
    return own.value_or(all.count()) < kBriefRetention.count();
  };
  any_brief_ = any_brief_ || brief(queue.retention_completed, options_.store.retention_completed) ||
               brief(queue.retention_dead, options_.store.retention_dead);
}

void PostgresStore::load_queues() {
  const Rows rows = connection_->run(sql_.load_queues);
  for (int i = 0; i < rows.size(); ++i) {
    QueueInfo read = read_queue(rows, i, 2);
    read.id = static_cast<int>(rows.integer(i, 0));
    read.name = rows.string(i, 1);
    auto& kept = queues_by_id_[read.id];
    if (!kept) kept = std::make_unique<QueueInfo>();
    *kept = std::move(read);
    any_rates_ = any_rates_ || kept->limits.has_rate();
    any_pause_ends_ = any_pause_ends_ || (kept->pause && kept->pause->until);
    note_brief(*kept);
    queues_by_name_[kept->name] = kept.get();
  }
  // Removes entries that a rolled-back batch made.
  if (static_cast<std::size_t>(rows.size()) != queues_by_id_.size()) {
    std::unordered_set<int> there;
    for (int i = 0; i < rows.size(); ++i) there.insert(static_cast<int>(rows.integer(i, 0)));
    std::erase_if(queues_by_name_, [&](const auto& e) { return !there.contains(e.second->id); });
    std::erase_if(queues_by_id_, [&](const auto& e) { return !there.contains(e.first); });
  }
  unknown_queues_.clear();
  load_next_release();
}

void PostgresStore::load_kinds() {
  const Rows rows = connection_->run(sql_.load_kinds);
  kinds_by_name_.clear();
  kind_names_.clear();
  take_kinds(rows);
}

void PostgresStore::look_up_kinds() {
  take_kinds(ask(sql_.load_kinds, {}));
}

void PostgresStore::take_kinds(const Rows& rows) {
  for (int i = 0; i < rows.size(); ++i) {
    const int id = static_cast<int>(rows.integer(i, 0));
    kind_names_[id] = rows.string(i, 1);
    kinds_by_name_[rows.string(i, 1)] = id;
  }
}

const QueueInfo* PostgresStore::find_queue(const std::string& name) {
  const auto found = queues_by_name_.find(name);
  return found == queues_by_name_.end() ? nullptr : found->second;
}

const QueueInfo& PostgresStore::queue_of(const std::string& name) {
  if (const QueueInfo* queue = find_queue(name)) return *queue;
  const Rows rows = ask(sql_.insert_queue, params(name));
  wrote();
  copies_of_batch_ = true;
  auto queue = std::make_unique<QueueInfo>(read_queue(rows, 0, 1));
  queue->id = static_cast<int>(rows.integer(0, 0));
  queue->name = name;
  constexpr int kMade = 9;
  if (rows.integer(0, kMade) != 0) {
    write(sql_.raise_version, params("queues"));
    after_.queues = true;
    QueueHint& hint = hints_[queue->id];
    hint.uncertain = hint.heads_uncertain = hint.heads_dry = hint.heads_drift = false;
    hint.running_uncertain = false;
  }
  unknown_queues_.erase(name);
  const QueueInfo& kept = *queue;
  queues_by_name_[name] = queue.get();
  queues_by_id_[kept.id] = std::move(queue);
  return kept;
}

const QueueInfo& PostgresStore::queue_by_id(int id) {
  auto found = queues_by_id_.find(id);
  if (found == queues_by_id_.end()) {
    // Another node created it. load_queues() is not allowed here: statements of this transaction
    // may be pending.
    const Rows rows = ask(sql_.load_queues, {});
    for (int i = 0; i < rows.size(); ++i) {
      auto& kept = queues_by_id_[static_cast<int>(rows.integer(i, 0))];
      if (kept) continue;
      kept = std::make_unique<QueueInfo>(read_queue(rows, i, 2));
      kept->id = static_cast<int>(rows.integer(i, 0));
      kept->name = rows.string(i, 1);
      queues_by_name_[kept->name] = kept.get();
    }
    found = queues_by_id_.find(id);
  }
  if (found == queues_by_id_.end() || !found->second)
    throw PgError{"XX001", "the store is damaged: a job of a missing queue", false};
  return *found->second;
}

int PostgresStore::kind_of(const std::string& name) {
  const auto found = kinds_by_name_.find(name);
  if (found != kinds_by_name_.end()) return found->second;
  const Rows rows = ask(sql_.insert_kind, params(name));
  wrote();
  copies_of_batch_ = true;
  const int id = static_cast<int>(rows.integer(0, 0));
  kinds_by_name_[name] = id;
  kind_names_[id] = name;
  return id;
}

const std::string& PostgresStore::kind_name(int id) {
  const auto found = kind_names_.find(id);
  if (found != kind_names_.end()) return found->second;
  look_up_kinds();
  return kind_names_[id];
}

void PostgresStore::changed_queue(const QueueInfo& queue) {
  const auto us = [](const std::optional<WallTime>& at) {
    return at ? std::optional(at->us()) : std::nullopt;
  };
  std::string limits = limits_text(queue.limits), settings;
  if (!queue.limits.any()) limits.swap(settings);
  const std::string meter = queue.meter.text(), pause = pause_text(queue.pause);
  write(sql_.update_queue,
        params(std::int64_t{queue.id}, queue.paused, queue.retention_completed,
               queue.retention_dead, text_or_null(limits), text_or_null(meter), us(queue.opens_at),
               text_or_null(settings), us(queue.keys_open_at), text_or_null(pause)));
  write(sql_.raise_version, params("queues"));
  copies_of_batch_ = true;
  after_.queues = true;
}

// Reads the row from the database: the copy may lack another node's change, which would be
// overwritten.
QueueInfo& PostgresStore::locked_queue(const std::string& name) {
  QueueInfo& queue = *queues_by_id_[queue_of(name).id];
  const Rows row = ask(sql_.lock_queue, params(name));
  MS_ASSERT(row.size() == 1, "queues are never removed");
  const QueueInfo now = read_queue(row, 0, 0);
  queue.paused = now.paused;
  queue.pause = now.pause;
  queue.retention_completed = now.retention_completed;
  queue.retention_dead = now.retention_dead;
  queue.limits = now.limits;
  queue.meter = now.meter;
  queue.opens_at = now.opens_at;
  queue.keys_open_at = now.keys_open_at;
  constexpr int kRemoved = 8;
  queue.removed = row.integer(0, kRemoved) != 0;
  return queue;
}

// Asks the database: the copy may not know that another node created or removed the queue.
bool PostgresStore::has_queue(const std::string& name) {
  flush();
  const Rows found = ask(sql_.find_removable, params(name));
  return !found.empty() && found.integer(0, 0) == 0;
}

OperationResult PostgresStore::operator()(const PauseQueue& op) {
  if (!op.create && !has_queue(op.queue)) return no_queue(op.queue);
  QueueInfo& queue = locked_queue(op.queue);
  std::optional<QueuePause> pause;
  if (op.paused) pause = QueuePause{op.reason, op.by, now_.wall, op.until};
  if (pause && queue.pause) pause->at = queue.pause->at;
  const bool same = queue.paused == op.paused && queue.pause == pause;
  if (same && !queue.removed) return Done{};
  if (pause) pause->at = now_.wall;
  queue.paused = op.paused;
  queue.pause = std::move(pause);
  any_pause_ends_ = any_pause_ends_ || op.until.has_value();
  changed_queue(queue);
  if (!op.paused) {
    after_.gained.insert(queue.id);
    gain_lines_of(queue);
  }
  return Done{};
}

WallTime PostgresStore::next_resume() const {
  WallTime next = WallTime::never();
  if (!any_pause_ends_) return next;
  for (const auto& [id, queue] : queues_by_id_) {
    if (queue->pause && queue->pause->until) next = std::min(next, *queue->pause->until);
  }
  return next;
}

int PostgresStore::resume_queues(int limit) {
  std::set<std::pair<WallTime, std::string>> due;  // according to this node's copy
  if (!any_pause_ends_) return 0;
  for (const auto& [id, queue] : queues_by_id_) {
    const bool ends = queue->pause && queue->pause->until && *queue->pause->until <= now_.wall;
    if (ends) due.emplace(*queue->pause->until, queue->name);
  }
  int resumed = 0;
  for (const auto& [until, name] : due) {
    if (resumed == limit) break;
    QueueInfo& queue = locked_queue(name);
    // Another node may have resumed the queue or extended its pause.
    if (!queue.pause || !queue.pause->until || *queue.pause->until > now_.wall) continue;
    const AuditObject object{.kind = AuditObject::Kind::queue, .name = name};
    std::string before = image_of(object, ImageLock::left_alone);
    queue.paused = false;
    queue.pause.reset();
    changed_queue(queue);
    open_queue(queue);
    append_audit(audit_record(resumed_by_itself(name), std::move(before),
                              image_of(object, ImageLock::left_alone), now_.wall));
    after_.resumed.push_back(name);
    ++resumed;
  }
  return resumed;
}

OperationResult PostgresStore::operator()(const WriteProbe&) {
  tell(sql_.write_probe, {});
  wrote();
  return Done{};
}

OperationResult PostgresStore::operator()(const SetRetention& op) {
  if (!op.create && !has_queue(op.queue)) return no_queue(op.queue);
  QueueInfo& queue = locked_queue(op.queue);
  const auto count = [](const std::optional<Duration>& d) {
    return d ? std::optional<std::int64_t>(d->count()) : std::nullopt;
  };
  queue.retention_completed = count(op.completed);
  queue.retention_dead = count(op.dead);
  note_brief(queue);
  changed_queue(queue);
  return Done{};
}

// The row of a removed queue stays: other nodes may be enqueuing with its id. Reads list the queue
// again once jobs have been enqueued.
OperationResult PostgresStore::operator()(const RemoveQueue& op) {
  flush();
  const Rows found = ask(sql_.find_removable, params(op.queue));
  if (found.empty() || found.integer(0, 0) != 0) {
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format("queue {}: there is no such queue", op.queue)};
  }
  if (const std::int64_t jobs = found.integer(0, 1); jobs > 0) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("queue {}: has {} {}: must be empty to be removed",
                                        op.queue, jobs, jobs == 1 ? "job" : "jobs")};
  }
  if (!locked_queue(op.queue).limits.is_default())
    (*this)(SetQueueLimits{.queue = op.queue, .limits = {}});
  QueueInfo& queue = locked_queue(op.queue);
  queue.paused = false;
  queue.pause.reset();
  queue.retention_completed = queue.retention_dead = std::nullopt;
  changed_queue(queue);
  write(sql_.mark_removed, params(std::int64_t{queue.id}, wall()));
  return Done{};
}

OperationResult PostgresStore::operator()(const ForgetQueues& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  flush();
  const Rows rows =
      ask(sql_.forget_queues, params(wall(), op.idle.count(), std::int64_t{op.limit}));
  if (!rows.empty()) wrote();
  StepResult result{.more = rows.size() == op.limit};
  for (int i = 0; i < rows.size(); ++i) result.changed += rows.integer(i, 0) != 0 ? 1 : 0;
  return result;
}

}  // namespace mainspring::pg
