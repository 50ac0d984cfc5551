// The prepared statements of the writer. sql/queries/ has their texts.
#include "queries_data.h"  // generated from sql/queries
#include "store_sqlite/store_impl.h"

namespace mainspring::sqlite {

Statements::Statements(Database& db)
    : begin(db, "BEGIN IMMEDIATE"),
      commit(db, "COMMIT"),
      insert_job(db, queries::jobs::insert_job),
      insert_body(db, queries::jobs::insert_body),
      update_body(db, queries::jobs::update_body),
      edit_body(db, queries::jobs::edit_body),
      select_body(db, queries::jobs::select_body),
      select_ended(db, queries::jobs::select_ended),
      select_progress(db, queries::jobs::select_progress),
      insert_grant(db, queries::leases::insert_grant),
      delete_grant(db, queries::leases::delete_grant),
      upsert_note(db, queries::leases::upsert_note),
      delete_note(db, queries::leases::delete_note),
      update_job(db, queries::jobs::update_job),
      finish_job(db, queries::jobs::finish_job),
      select_hot(db, queries::jobs::select_hot),
      select_claim(db, queries::jobs::select_claim),
      select_fresh(db, queries::jobs::select_fresh),
      select_checkpoint(db, queries::jobs::select_checkpoint),
      insert_error(db, queries::jobs::insert_error),
      upsert_result(db, queries::jobs::upsert_result),
      upsert_reason(db, queries::jobs::upsert_reason),
      upsert_progress(db, queries::jobs::upsert_progress),
      upsert_checkpoint(db, queries::jobs::upsert_checkpoint),
      forget_extras(db, queries::jobs::forget_extras),
      upsert_warning(db, queries::jobs::upsert_warning),
      insert_due(db, queries::jobs::insert_due),
      delete_due(db, queries::jobs::delete_due),
      select_due(db, queries::jobs::select_due),
      due_jobs(db, queries::jobs::due_jobs),
      first_due(db, queries::jobs::first_due),
      insert_expiring(db, queries::jobs::insert_expiring),
      delete_expiring(db, queries::jobs::delete_expiring),
      select_expiring(db, queries::jobs::select_expiring),
      first_expiring(db, queries::jobs::first_expiring),
      insert_finished(db, queries::jobs::insert_finished),
      first_finished(db, queries::jobs::first_finished),
      delete_finished(db, queries::jobs::delete_finished),
      update_finished(db, queries::jobs::update_finished),
      insert_dead(db, queries::jobs::insert_dead),
      death(db, queries::jobs::death),
      delete_dead(db, queries::jobs::delete_dead),
      select_dead(db, queries::jobs::select_dead),
      select_unique(db, queries::jobs::select_unique),
      upsert_unique(db, queries::jobs::upsert_unique),
      delete_unique(db, queries::jobs::delete_unique),
      keep_unique(db, queries::jobs::keep_unique),
      first_window(db, queries::jobs::first_window),
      select_windows(db, queries::jobs::select_windows),
      select_idempotency(db, queries::jobs::select_idempotency),
      insert_idempotency(db, queries::jobs::insert_idempotency),
      delete_idempotency(db, queries::jobs::delete_idempotency),
      first_idempotency(db, queries::jobs::first_idempotency),
      insert_queue(db, queries::queues::insert_queue),
      update_queue(db, queries::queues::update_queue),
      select_limit_key(db, queries::jobs::select_limit_key),
      upsert_key_meter(db, queries::limits::upsert_key_meter),
      delete_key_meter(db, queries::limits::delete_key_meter),
      drop_key_meters(db, queries::limits::drop_key_meters),
      update_limits(db, queries::queues::update_limits),
      update_fair_keys(db, queries::queues::update_fair_keys),
      upsert_fair_keys(db, queries::limits::upsert_fair_keys),
      forget_fair_keys(db, queries::limits::forget_fair_keys),
      drop_fair_keys(db, queries::limits::drop_fair_keys),
      insert_kind(db, queries::queues::insert_kind),
      upsert_job_counts(db, queries::queues::upsert_job_counts),
      delete_job_counts(db, queries::queues::delete_job_counts),
      delete_job(db, queries::jobs::delete_job),
      delete_body(db, queries::jobs::delete_body),
      delete_extras(db, queries::jobs::delete_extras),
      delete_errors(db, queries::jobs::delete_errors),
      insert_quarantined(db, queries::jobs::insert_quarantined),
      delete_quarantined(db, queries::jobs::delete_quarantined),
      upsert_lease(db, queries::leases::upsert_lease),
      delete_lease(db, queries::leases::delete_lease),
      select_moved(db, "SELECT place FROM moves WHERE what = 'moved'") {}

ScheduleStatements::ScheduleStatements(Database& db)
    : insert(db,
             "INSERT INTO schedules (name, version, definition, paused, next, next_fire, "
             "skip_before, fired, last_job, created_at, updated_at, next_seq) "
             "VALUES (?, ?, ?, 0, 0, 0, 0, 0, 0, ?, 0, 1)"),
      update(db,
             "UPDATE schedules SET version = ?2, paused = ?3, paused_reason = ?4, next = ?5, "
             "next_fire = ?6, skip_before = ?7, skip_reason = ?8, remaining = ?9, fired = ?10, "
             "last_fired = ?11, last_job = ?12, timeout_override = ?13, updated_at = ?14, "
             "next_seq = ?15 WHERE id = ?1"),
      update_definition(db, "UPDATE schedules SET definition = ?2 WHERE id = ?1"),
      remove(db, "DELETE FROM schedules WHERE id = ?"),
      select_removed(db, "SELECT version FROM removed_schedules WHERE name = ?"),
      insert_removed(db, "INSERT INTO removed_schedules (name, version) VALUES (?, ?)"),
      delete_removed(db, "DELETE FROM removed_schedules WHERE name = ?"),
      insert_tick(db,
                  "INSERT INTO ledger (schedule, seq, version, nominal, until, count, source, "
                  "state, past_due, job, reason, note, decided_at) "
                  "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
      delete_tick(db, "DELETE FROM ledger WHERE schedule = ? AND seq = ?"),
      delete_ledger(db, "DELETE FROM ledger WHERE schedule = ?"),
      select_fired(db,
                   "SELECT job FROM ledger WHERE schedule = ?1 AND nominal = ?2 AND state = 0 AND "
                   "source IN (0, 2) AND (?3 IS NULL OR version = ?3) ORDER BY version DESC "
                   "LIMIT 1"),
      insert_link(db, "INSERT INTO schedule_jobs (job, schedule) VALUES (?, ?)"),
      delete_link(db, "DELETE FROM schedule_jobs WHERE job = ?") {}

}  // namespace mainspring::sqlite
