// The audit: records, appended with the changes that they record, and their hash chain.
//
//   batch   [ pause queue ][ Audit ]         one transaction
//            ^ image before  ^ image after; changed? append
//
// The image before is read before the operation, which overwrites it. The first append of a
// transaction locks the chain's newest mark until the commit, so that the records of all nodes form
// one chain.
#include <fmt/format.h>

#include <algorithm>

#include "api/schedule_shapes.h"
#include "base/mutant.h"
#include "store_postgres/audit_reads.h"
#include "store_postgres/reader.h"

namespace mainspring::pg {
namespace {

// Maximum records examined by one audit(): bounds its time for any filter.
constexpr std::int64_t kAuditWindow = 20'000;

Digest read_hash(std::string_view bytes) {
  Digest digest{};  // a digest of another length is wrong; the chain check reports it
  if (bytes.size() == digest.size()) std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

std::optional<std::string_view> wanted(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::string_view>(text);
}

std::optional<Duration> duration(const Rows& rows, int column) {
  const auto us = rows.maybe(0, column);
  return us ? std::optional(Duration(*us)) : std::nullopt;
}

}  // namespace

AuditRecord read_audit_record(const Rows& rows, int row) {
  AuditRecord record;
  record.seq = rows.integer(row, 0);
  record.at = WallTime::from_us(rows.integer(row, 1));
  record.who = rows.text(row, 2);
  record.from = rows.text(row, 3);
  record.action = rows.text(row, 4);
  record.object = rows.text(row, 5);
  record.before = rows.text(row, 6);
  record.after = rows.text(row, 7);
  record.hash = read_hash(rows.text(row, 8));
  return record;
}

AuditState read_audit_marks(const Rows& rows) {
  if (rows.size() != 2)
    throw PgError{"XX001", "the store is damaged: a mark of the audit is missing", false};
  AuditState state;
  state.base = {rows.integer(0, 1), read_hash(rows.text(0, 2))};
  state.head = {rows.integer(1, 1), read_hash(rows.text(1, 2))};
  state.records = state.head.seq - state.base.seq;
  return state;
}

// -- appending ------------------------------------------------------------------------------------

// Whether the operation changes the queue's own row, and whether it makes a missing one.
PostgresStore::ImageLock PostgresStore::lock_for(const Operation& operation) {
  using Lock = ImageLock;
  if (const auto* pause = std::get_if<PauseQueue>(&operation))
    return pause->create ? Lock::created : Lock::taken;
  if (const auto* retention = std::get_if<SetRetention>(&operation))
    return retention->create ? Lock::created : Lock::taken;
  return Lock::left_alone;
}

// With the lock, no other node changes or creates the queue before this batch is committed.
std::string PostgresStore::image_of_queue(const std::string& name, ImageLock lock) {
  const Statement& look =
      lock == ImageLock::left_alone ? access_sql_.queue_image : sql_.lock_queue;
  Rows row = ask(look, params(name));
  if (row.empty() && lock == ImageLock::created) {
    const bool others = std::exchange(after_.queues, false);
    queue_of(name);
    const bool made = after_.queues;
    after_.queues = made || others;
    if (!made) row = ask(look, params(name));  // another node was first
  }
  if (row.empty()) return "";
  QueueInfo queue;
  read_limits_of(queue, row, 0, 3);
  const bool paused = row.integer(0, 0) != 0;
  constexpr int kPause = 7;
  if (paused) queue.pause = read_pause_text(row, 0, kPause);
  return queue_image(paused, duration(row, 1), duration(row, 2), queue.limits, queue.pause);
}

std::string PostgresStore::image_of(const AuditObject& object, ImageLock lock) {
  using Kind = AuditObject::Kind;
  flush();
  if (object.kind == Kind::queue) return image_of_queue(object.name, lock);
  if (object.kind == Kind::schedule) {
    const Rows row = ask(access_sql_.schedule_image, params(object.name));
    if (row.empty()) return "";
    auto definition = decode_schedule(row.text(0, 0));
    if (!definition) {
      throw PgError{"XX001",
                    fmt::format("the store is damaged: schedule {}: {}", object.name,
                                definition.error().message),
                    false};
    }
    return schedule_image({.schedule = std::move(*definition),
                           .version = row.integer(0, 2),
                           .paused = row.integer(0, 1) != 0,
                           .timeout_override = duration(row, 3)});
  }
  if (object.kind == Kind::token) {
    const Tokens& tokens = loaded_tokens();
    const auto found = tokens.find(object.name);
    return found == tokens.end() ? "" : token_image(found->second);
  }
  return object.kind == Kind::job ? image_of_job(object.id) : "";
}

// The caller has flushed: the tags are read from the database.
std::string PostgresStore::image_of_job(JobId id) {
  const LoadedJob* held = job(id);
  if (held == nullptr) return "";
  Job shown;
  shown.state = held->row.state;
  shown.queue = queue_name(held->row.queue);
  shown.cancel_requested = (held->row.flags & kFlagCancel) != 0;
  shown.priority = held->row.priority;
  shown.run_at = WallTime::from_us(held->row.run_at);
  const Rows body = ask(access_sql_.edited_body, params(id));
  if (!body.empty()) shown.tags = body.texts(0, 0);
  return job_image(shown);
}

void PostgresStore::look_before(std::span<const Operation> batch, std::size_t at) {
  const auto* audit = at + 1 < batch.size() ? std::get_if<Audit>(&batch[at + 1]) : nullptr;
  if (audit == nullptr || audit->alone || std::holds_alternative<Audit>(batch[at])) return;
  const AuditObject object = parse_audit_object(audit->object);
  if (object.kind == AuditObject::Kind::other) {
    image_before_ = audit->before;
  } else {
    image_before_ = image_of(object, lock_for(batch[at]));
  }
}

OperationResult PostgresStore::operator()(const Audit& op) {
  if (op.alone) {
    append_audit(audit_record(op, op.before, op.after, now_.wall));
    return Done{};
  }
  if (about_ == nullptr) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = "an audit record must follow the operation it records"};
  }
  if (!worth_a_record(*about_)) return Done{};
  const AuditObject object = parse_audit_object(op.object);
  const bool given = object.kind == AuditObject::Kind::other || names_created_job(op);
  std::string after = given ? op.after : image_of(object, ImageLock::left_alone);
  if (!op.always && after == image_before_) return Done{};
  append_audit(audit_record(op, *about_, std::move(image_before_), std::move(after), now_.wall));
  return Done{};
}

void PostgresStore::append_audit(AuditRecord record) {
  if (MS_MUTANT(audit_not_recorded)) return;
  AuditState& chain = loaded_chain();
  record.seq = chain.head.seq + 1;
  record.hash =
      chain_hash(MS_MUTANT(audit_chain_skips) ? chain.base.hash : chain.head.hash, record);
  Params p =
      params(record.seq, record.at.us(), record.who, record.from, record.action, record.object);
  p.text_or_null(record.before).text_or_null(record.after).bytes(bytes_of(record.hash));
  write(access_sql_.insert_audit, p);
  chain.head = {record.seq, record.hash};
  ++chain.records;
  // Insert the record before the mark: the database refuses records up to the mark.
  Params mark = params(std::int64_t{1}, record.seq);
  write(access_sql_.update_mark, mark.bytes(bytes_of(record.hash)));
  if (after_.audit_due.value_or(audit_due_) == WallTime::never())
    after_.audit_due = record.at + options_.store.audit_retention;
}

// The chain as in the database and as this batch leaves it, locked.
AuditState& PostgresStore::loaded_chain() {
  if (after_.audit) return *after_.audit;
  tell(access_sql_.lock_chain, Params());
  const Rows marks = ask(access_sql_.chain_ends, Params());
  AuditState chain = read_audit_marks(marks);
  // Records beyond the known head were added by another program: verify() reports them, and new
  // records are appended after them.
  chain.head.seq = std::max(chain.head.seq, marks.integer(0, 3));
  chain.records = chain.head.seq - chain.base.seq;
  after_.audit = chain;
  return *after_.audit;
}

// -- pruning --------------------------------------------------------------------------------------

bool PostgresStore::prune_audit(int limit) {
  if (after_.audit_due.value_or(audit_due_) > now_.wall) return false;
  AuditState& chain = loaded_chain();
  const Duration retention = options_.store.audit_retention;
  // Reads one more record than it removes: its time is the next due time.
  const Rows rows = ask(access_sql_.first_audit, params(chain.base.seq, std::int64_t{limit} + 1));
  int pruned = 0;
  const auto due = [&](int row) { return WallTime::from_us(rows.integer(row, 1)) + retention; };
  while (pruned < std::min(limit, rows.size()) && due(pruned) <= now_.wall) ++pruned;
  after_.audit_due = pruned < rows.size() ? due(pruned) : WallTime::never();
  if (pruned == 0) return false;
  chain.base = {rows.integer(pruned - 1, 0), read_hash(rows.text(pruned - 1, 2))};
  chain.records -= pruned;
  Params mark = params(std::int64_t{0}, chain.base.seq);
  write(access_sql_.update_mark, mark.bytes(bytes_of(chain.base.hash)));
  write(access_sql_.prune_audit, params(chain.base.seq));
  return pruned >= limit;
}

// Loads the audit marks outside of a batch.
void PostgresStore::load_audit() {
  const AuditState state = read_audit_marks(connection_->run(read_sql_.audit_marks));
  const Rows oldest =
      connection_->run(access_sql_.first_audit, params(state.base.seq, std::int64_t{1}));
  audit_due_ = oldest.empty()
                   ? WallTime::never()
                   : WallTime::from_us(oldest.integer(0, 1)) + options_.store.audit_retention;
  MutexLock lock(published_mutex_);
  published_audit_ = state;
}

// -- reading --------------------------------------------------------------------------------------

Result<AuditPage> PostgresStore::audit(const AuditFilter& filter, AuditOrder order, int limit,
                                       std::int64_t from) const {
  return with_reader([&](Connection& c) {
    Snapshot snapshot(c, read_sql_);
    const Rows ends = snapshot.run(read_sql_.audit_ends);
    const bool rising = order == AuditOrder::oldest_first;
    std::int64_t first = ends.integer(0, 0), last = ends.integer(0, 1);
    AuditPage page;
    if (rising) {
      first = std::max(first, from);
      if (last - first >= kAuditWindow) page.next = first + kAuditWindow;
      last = page.next ? *page.next - 1 : last;
    } else {
      if (from > 0) last = std::min(last, from);
      if (last - first >= kAuditWindow) page.next = last - kAuditWindow;
      first = page.next ? *page.next + 1 : first;
    }
    Params p = params(first, last, wanted(filter.who), wanted(filter.action), wanted(filter.object),
                      std::int64_t{limit} + 1);
    const Rows rows = snapshot.run(rising ? read_sql_.audit_rising : read_sql_.audit_falling, p);
    for (int i = 0; i < std::min(rows.size(), limit); ++i)
      page.records.push_back(read_audit_record(rows, i));
    if (rows.size() > limit) page.next = rows.integer(limit, 0);
    snapshot.end();
    return page;
  });
}

// Reads the database, because other nodes append too. While the database is unreachable: the last
// known state.
AuditState PostgresStore::audit_state() const {
  if (auto state = with_reader(
          [&](Connection& c) { return read_audit_marks(c.run(read_sql_.audit_marks)); }))
    return *state;
  MutexLock lock(published_mutex_);
  return published_audit_;
}

}  // namespace mainspring::pg
