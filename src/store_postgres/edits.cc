// Edits and deletes of single jobs.
#include "store/job_edits.h"

#include "store_postgres/store_impl.h"

namespace mainspring::pg {
namespace {

ChangedJob changed_job(const JobRow& row, std::string_view queue) {
  const bool expires = row.expires_at != 0 && row.started_at == 0;
  return {.id = row.id,
          .state = row.state,
          .version = row.version,
          .queue = queue,
          .in_session = (row.flags & kFlagSession) != 0,
          .deferred = row.deferred,
          .quarantined = row.quarantined != 0,
          .step = (row.flags & kFlagStep) != 0,
          .expires_at = expires ? std::optional(WallTime::from_us(row.expires_at)) : std::nullopt};
}

}  // namespace

std::optional<Error> PostgresStore::has_another_version(const JobRow& row, std::int64_t version) {
  const auto good = check_version(version, changed_job(row, ""));
  return good ? std::nullopt : std::optional<Error>(good.error());
}

OperationResult PostgresStore::operator()(const EditJob& op) {
  if (const auto good = validate(op); !good) return good.error();
  LoadedJob* held = job(op.id);
  if (held == nullptr) return missing(op.id);
  const std::string& queue = queue_name(held->row.queue);
  if (!op.within.has(queue)) return no_job(op.id);
  if (const auto good = check_edit(op, changed_job(held->row, queue)); !good) return good.error();
  edit_job(*held, op);
  return EditResult{.state = held->row.state};
}

// The job has new args: nothing that attempts with the old ones left reaches the next attempt. The
// errors stay, for people.
void PostgresStore::forget_attempts(JobRow& row, int max_attempts) {
  drop_memos(row);
  if ((row.flags & kFlagExtras) != 0) write(sql_.forget_extras, params(row.id));
  if (row.quarantined == 0) row.lost = row.unstarted = 0;
  row.attempt = 0;
  row.max_attempts = max_attempts;
}

void PostgresStore::edit_job(LoadedJob& held, const EditJob& op) {
  if (!held.was || held.body) flush();  // later statements here depend on pending changes
  if (op.args || op.tags) {
    const std::string tags = op.tags ? join_tags(*op.tags) : "";
    const auto args = op.args ? std::optional<std::string_view>(*op.args) : std::nullopt;
    write(sql_.edit_bodies, params(held.row.id, args, op.tags.has_value(), text_or_null(tags)));
  }
  if (op.args) forget_attempts(held.row, held.row.budget);
  JobState begins = held.row.state;
  if (op.run_at) begins = state_after_edit(begins, *op.run_at, now_.wall);
  if (op.run_at && (held.row.flags & kFlagSession) != 0) {
    LoadedSession& session = session_of(held.row);
    begins = session.row.head == held.row.id ? state_of_head(session, begins) : JobState::waiting;
  }
  JobRow& row = touch(held);
  if (op.priority) row.priority = *op.priority;
  if (op.run_at) row.run_at = op.run_at->us();
  row.state = begins;
  held.edited = true;
  if (begins == JobState::available) after_.gained.insert(row.queue);
}

OperationResult PostgresStore::operator()(const DeleteJob& op) {
  LoadedJob* held = job(op.id);
  if (held == nullptr) return missing(op.id);
  const std::string& queue = queue_name(held->row.queue);
  if (!op.within.has(queue)) return no_job(op.id);
  if (const auto good = check_delete(op, changed_job(held->row, queue)); !good) return good.error();
  prune_one(op.id, held->row.finished_at);
  return Done{};
}

}  // namespace mainspring::pg
