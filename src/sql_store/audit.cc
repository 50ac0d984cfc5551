// The audit: records, appended with the changes that they record, and their hash chain.
//
//   batch   [ pause queue ][ Audit ]         one transaction
//            ^ image before  ^ image after; changed? append
//
// The image before is read before the operation, which overwrites it.
#include <fmt/format.h>

#include <algorithm>

#include "api/audit_images.h"
#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sql {
namespace {

// Maximum records examined by one audit(): bounds its time for any filter.
constexpr std::int64_t kAuditWindow = 20'000;
constexpr std::size_t kMaxAuditProblems = 20;  // further ones add no information

Digest read_hash(std::string_view bytes) {
  Digest digest{};  // a digest of another length is wrong; the chain check reports it
  if (bytes.size() == digest.size()) std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

AuditRecord read_audit_record(const Statement& row) {
  AuditRecord record;
  record.seq = row.integer(0);
  record.at = WallTime::from_us(row.integer(1));
  record.who = row.text(2);
  record.from = row.text(3);
  record.action = row.text(4);
  record.object = row.text(5);
  record.before = row.text(6);
  record.after = row.text(7);
  record.hash = read_hash(row.text(8));
  return record;
}

std::optional<std::string_view> wanted(const std::string& text) {
  return Statement::text_or_null(text);
}

}  // namespace

AccessStatements::AccessStatements(Connection& db)
    : upsert_token(db, queries::access::upsert_token),
      delete_token(db, queries::access::delete_token),
      insert_audit(db, queries::access::insert_audit),
      update_mark(db, queries::access::update_mark),
      first_audit(db, queries::access::first_audit),
      prune_audit(db, queries::access::prune_audit),
      edited_body(db, queries::jobs::select_tags) {}

AuditStatements::AuditStatements(Connection& db)
    : oldest_first(db, queries::access::oldest_first),
      newest_first(db, queries::access::newest_first),
      newest(db, queries::access::newest),
      oldest(db, queries::access::oldest) {}

// -- appending
// -----------------------------------------------------------------------------------------

std::string SqlStore::image_of(const AuditObject& object) {
  using Kind = AuditObject::Kind;
  if (object.kind == Kind::queue) {
    const QueueState* queue = find_queue(object.name);
    if (queue == nullptr) return "";
    return queue_image(queue->paused, queue->retention_completed, queue->retention_dead,
                       queue->limits, queue->pause);
  }
  if (object.kind == Kind::schedule) {
    const ScheduleState* schedule = find_schedule(object.name);
    return schedule == nullptr ? "" : schedule_image(schedule->info);
  }
  if (object.kind == Kind::token) {
    const auto found = tokens_.find(object.name);
    return found == tokens_.end() ? "" : token_image(found->second);
  }
  return object.kind == Kind::job ? image_of_job(object.id) : "";
}

std::string SqlStore::image_of_job(JobId id) {
  const auto hot = load_hot(id);
  if (!hot) return "";
  Job job;
  job.state = hot->state;
  job.queue = hot->queue->name;
  job.priority = hot->priority;
  job.run_at = hot->run_at;
  const auto lease = leases_.find(id);
  if (lease != leases_.end()) {
    job.state = JobState::running;
    job.cancel_requested = lease->second.cancel_requested;
  }
  Statement& body = access_sql_->edited_body;
  body.bind(id);
  ResetGuard guard(body);
  if (body.step()) job.tags = split_tags(body.text(0));
  return job_image(job);
}

void SqlStore::look_before(std::span<const Operation> batch, std::size_t at) {
  const auto* audit = at + 1 < batch.size() ? std::get_if<Audit>(&batch[at + 1]) : nullptr;
  if (audit == nullptr || audit->alone || std::holds_alternative<Audit>(batch[at])) return;
  const AuditObject object = parse_audit_object(audit->object);
  image_before_ = object.kind == AuditObject::Kind::other ? audit->before : image_of(object);
}

OperationResult SqlStore::operator()(const Audit& op) {
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
  std::string after = given ? op.after : image_of(object);
  if (!op.always && after == image_before_) return Done{};
  append_audit(audit_record(op, *about_, std::move(image_before_), std::move(after), now_.wall));
  return Done{};
}

void SqlStore::append_audit(AuditRecord record) {
  if (MS_MUTANT(audit_not_recorded)) return;
  if (MS_MUTANT(audit_commits_apart) && in_transaction_) {
    write_finished();
    write_job_counts();
    disk_->commit();
    in_transaction_ = false;
  }
  begin_write();
  record.seq = audit_.head.seq + 1;
  record.hash =
      chain_hash(MS_MUTANT(audit_chain_skips) ? audit_.base.hash : audit_.head.hash, record);
  const auto text = [](const std::string& t) { return Statement::text_or_null(t); };
  access_sql_->insert_audit
      .bind(record.seq, record.at.us(), record.who, record.from, record.action, record.object,
            text(record.before), text(record.after), Statement::blob(bytes_of(record.hash)))
      .run();
  audit_.head = {record.seq, record.hash};
  if (++audit_.records == 1) audit_due_ = record.at + options_.store.audit_retention;
  audit_touched_ = true;
}

void SqlStore::write_audit_mark() {
  if (!audit_touched_) return;
  access_sql_->update_mark.bind(1, audit_.head.seq, Statement::blob(bytes_of(audit_.head.hash)))
      .run();
}

// -- pruning
// -----------------------------------------------------------------------------------------

bool SqlStore::prune_audit(int limit) {
  if (audit_due_ > now_.wall) return false;
  AuditMark base = audit_.base;
  int pruned = 0;
  {
    Statement& rows = access_sql_->first_audit;
    rows.bind(base.seq, limit);
    ResetGuard guard(rows);
    while (rows.step()) {
      if (WallTime::from_us(rows.integer(1)) + options_.store.audit_retention > now_.wall) break;
      base = {rows.integer(0), read_hash(rows.text(2))};
      ++pruned;
    }
  }
  if (pruned > 0) {
    begin_write();
    access_sql_->update_mark.bind(0, base.seq, Statement::blob(bytes_of(base.hash))).run();
    access_sql_->prune_audit.bind(base.seq).run();
    audit_.base = base;
    audit_.records -= pruned;
    audit_touched_ = true;
  }
  note_oldest_audit();
  return pruned >= limit;
}

void SqlStore::note_oldest_audit() {
  Statement& row = access_sql_->first_audit;
  row.bind(audit_.base.seq, 1);
  ResetGuard guard(row);
  audit_due_ = row.step() ? WallTime::from_us(row.integer(1)) + options_.store.audit_retention
                          : WallTime::never();
}

// -- reading
// -----------------------------------------------------------------------------------------

void SqlStore::load_audit() {
  {
    Statement marks(db_, queries::access::marks);
    for (AuditMark* mark : {&audit_.base, &audit_.head}) {
      if (!marks.step()) throw damaged("the store is damaged: a mark of the audit is missing");
      *mark = {marks.integer(0), read_hash(marks.text(1))};
    }
  }
  // Records beyond the known head were added by another program: verify() reports them, and new
  // records are appended after them.
  audit_.head.seq = std::max(audit_.head.seq, db_.query_int(queries::access::newest));
  audit_.records = audit_.head.seq - audit_.base.seq;
  audit_touched_ = false;
  note_oldest_audit();
}

Result<AuditPage> SqlStore::audit(const AuditFilter& filter, AuditOrder order, int limit,
                                  std::int64_t from) const {
  const auto one = [](Statement& row) {
    row.bind();
    ResetGuard guard(row);
    return row.step() ? row.integer(0) : 0;
  };
  try {
    auto reader = take_reader();
    AuditPage page;
    {
      Snapshot snapshot(*reader->db);
      AuditStatements& sql = reader->audit;
      const bool rising = order == AuditOrder::oldest_first;
      std::int64_t first = one(sql.oldest), last = one(sql.newest);
      std::optional<std::int64_t> beyond;  // of the window
      if (rising) {
        first = std::max(first, from);
        if (last - first >= kAuditWindow) beyond = first + kAuditWindow;
        last = beyond ? *beyond - 1 : last;
      } else {
        if (from > 0) last = std::min(last, from);
        if (last - first >= kAuditWindow) beyond = last - kAuditWindow;
        first = beyond ? *beyond + 1 : first;
      }
      Statement& rows = rising ? sql.oldest_first : sql.newest_first;
      rows.bind(first, last, wanted(filter.who), wanted(filter.action), wanted(filter.object),
                limit + 1);
      ResetGuard guard(rows);
      page.next = beyond;
      while (rows.step()) {
        if (static_cast<int>(page.records.size()) == limit) {
          page.next = rows.integer(0);
          break;
        }
        page.records.push_back(read_audit_record(rows));
      }
    }
    give_back(std::move(reader));
    return page;
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

AuditState SqlStore::audit_state() const {
  MutexLock lock(published_mutex_);
  return published_audit_;
}

// `known` is what this process had committed before the snapshot started. Later records may have
// been added since; none up to `known` may be missing.
void verify_audit(Connection& db, const AuditMark& known, std::vector<std::string>& problems) {
  AuditMark marks[2];
  {
    Statement rows(db, queries::access::marks_by_id);
    while (rows.step())
      marks[rows.integer(0) == 0 ? 0 : 1] = {rows.integer(1), read_hash(rows.text(2))};
  }
  const auto [base, end] = std::pair(marks[0], marks[1]);
  AuditMark at = base;
  bool met = known.seq <= base.seq;
  Statement rows(db, queries::access::all_records);
  while (rows.step()) {
    const AuditRecord record = read_audit_record(rows);
    if (auto wrong = follow_chain(at, {record})) problems.push_back(std::move(*wrong));
    at = {record.seq, record.hash};  // check the next record on its own
    met = met || at == known;
    if (problems.size() >= kMaxAuditProblems) return;
  }
  if (at.seq < end.seq) {
    problems.push_back(fmt::format("audit records {} to {} are missing: they were the newest",
                                   at.seq + 1, end.seq));
  } else if (at != end) {
    problems.push_back(fmt::format("audit record {}: it is not the newest that the store wrote, {}",
                                   at.seq, end.seq));
  } else if (!met) {
    problems.push_back(fmt::format(
        "audit record {}: it was altered or removed while the store was open", known.seq));
  }
}

}  // namespace mainspring::sql
