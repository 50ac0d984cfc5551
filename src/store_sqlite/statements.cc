// The SQL statements of the writer.
#include "store_sqlite/store_impl.h"

namespace mainspring::sqlite {

Statements::Statements(Database& db)
    : begin(db, "BEGIN IMMEDIATE"),
      commit(db, "COMMIT"),
      insert_job(db,
                 "INSERT INTO jobs (id, queue, kind, state, priority, run_at, attempt, "
                 "max_attempts, token, version, "
                 "flags, expires_at) VALUES (?, ?, ?, ?, ?, ?, 0, ?, 0, 1, ?, ?)"),
      insert_body(
          db,
          "INSERT INTO bodies (id, created_at, args, max_attempts, timeout, tags, headers, "
          "correlation_id, "
          "reply_to, unique_key, schedule, follow_ups, session, reply_session, limit_key) VALUES "
          "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
      update_body(
          db,
          "UPDATE bodies SET args = ?2, max_attempts = ?3, timeout = ?4, tags = ?5, headers = ?6, "
          "correlation_id = ?7, reply_to = ?8, follow_ups = ?9, reply_session = ?10, limit_key "
          "= ?11 WHERE id = ?1"),
      edit_body(db,
                "UPDATE bodies SET args = coalesce(?2, args), tags = CASE WHEN ?3 THEN ?4 ELSE "
                "tags END WHERE id = ?1"),
      select_body(db, "SELECT max_attempts, unique_key, schedule FROM bodies WHERE id = ?"),
      select_ended(
          db,
          "SELECT q.name, k.name, j.state, j.attempt, e.result, e.reason, e.description, "
          "b.tags, b.headers, b.correlation_id, b.reply_to, b.follow_ups, "
          "b.reply_session, j.flags FROM jobs j JOIN bodies b ON b.id = j.id JOIN queues q ON "
          "q.id = j.queue JOIN kinds k ON k.id = "
          "j.kind LEFT JOIN extras e ON e.id = j.id WHERE j.id = ?"),
      select_progress(db,
                      "SELECT progress_value, progress_text FROM extras WHERE id = ? AND "
                      "progress_value IS NOT NULL"),
      insert_grant(
          db, "INSERT INTO grants (token, worker, claimed_at, lease, ids) VALUES (?, ?, ?, ?, ?)"),
      delete_grant(db, "DELETE FROM grants WHERE token = ?"),
      upsert_note(db,
                  "INSERT OR REPLACE INTO lease_notes (id, version, lease, cancel_requested, "
                  "cancel_reason, kept) VALUES (?, ?, ?, ?, ?, ?)"),
      delete_note(db, "DELETE FROM lease_notes WHERE id = ?"),
      update_job(db,
                 "UPDATE jobs SET kind = ?2, state = ?3, priority = ?4, run_at = ?5, attempt = ?6, "
                 "max_attempts = ?7, "
                 "token = ?8, version = ?9, flags = ?10, started_at = ?11, finished_at = ?12, "
                 "expires_at = ?13 "
                 "WHERE id = ?1"),
      finish_job(db,
                 "UPDATE jobs SET state = ?2, run_at = ?3, attempt = ?4, token = ?5, version = ?6, "
                 "flags = ?7, "
                 "started_at = ?8, finished_at = ?9 WHERE id = ?1"),
      select_hot(db,
                 "SELECT queue, kind, state, priority, run_at, attempt, max_attempts, token, "
                 "version, flags, "
                 "started_at, finished_at, expires_at FROM jobs WHERE id = ?"),
      select_claim(db,
                   "SELECT b.timeout, b.args, b.headers, b.tags, b.correlation_id, b.reply_to, "
                   "j.max_attempts, j.attempt, j.version, j.flags, j.started_at, j.expires_at, "
                   "b.session "
                   "FROM jobs j JOIN bodies b ON b.id = j.id WHERE j.id = ?"),
      select_fresh(db,
                   "SELECT timeout, args, headers, tags, correlation_id, reply_to, max_attempts "
                   "FROM bodies WHERE id = ?"),
      select_checkpoint(db, "SELECT checkpoint FROM extras WHERE id = ?"),
      insert_error(db,
                   "INSERT INTO errors (job, seq, attempt, at, worker, message, ran_for, "
                   "program_end) VALUES "
                   "(?1, (SELECT coalesce(max(seq), 0) + 1 FROM errors WHERE job = ?1), ?2, ?3, "
                   "?4, ?5, ?6, ?7)"),
      upsert_result(db,
                    "INSERT INTO extras (id, result) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE "
                    "SET result = ?2"),
      upsert_reason(db,
                    "INSERT INTO extras (id, reason, description) VALUES (?1, ?2, ?3) ON CONFLICT "
                    "(id) DO UPDATE SET "
                    "reason = ?2, description = ?3"),
      upsert_progress(db,
                      "INSERT INTO extras (id, progress_value, progress_text) VALUES (?1, ?2, ?3) "
                      "ON CONFLICT (id) DO "
                      "UPDATE SET progress_value = ?2, progress_text = ?3"),
      upsert_checkpoint(
          db,
          "INSERT INTO extras (id, checkpoint) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET "
          "checkpoint = ?2"),
      forget_extras(db,
                    "UPDATE extras SET checkpoint = NULL, progress_value = NULL, progress_text = "
                    "NULL, warning = NULL WHERE id = ?"),
      upsert_warning(db,
                     "INSERT INTO extras (id, warning) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE "
                     "SET warning = ?2"),
      insert_due(db, "INSERT INTO due (run_at, id) VALUES (?, ?)"),
      delete_due(db, "DELETE FROM due WHERE run_at = ? AND id = ?"),
      select_due(db, "SELECT run_at, id FROM due WHERE run_at <= ? ORDER BY run_at, id LIMIT ?"),
      due_jobs(db,
               "SELECT j.queue, count(*) FROM (SELECT id FROM due WHERE run_at <= ? ORDER BY "
               "run_at, id LIMIT ?) d CROSS JOIN jobs j ON j.id = d.id GROUP BY j.queue"),
      first_due(db, "SELECT run_at FROM due ORDER BY run_at, id LIMIT 1"),
      insert_expiring(db, "INSERT OR IGNORE INTO expiring (expires_at, id) VALUES (?, ?)"),
      delete_expiring(db, "DELETE FROM expiring WHERE expires_at = ? AND id = ?"),
      select_expiring(db,
                      "SELECT expires_at, id FROM expiring WHERE expires_at <= ? ORDER BY "
                      "expires_at, id LIMIT ?"),
      first_expiring(db, "SELECT expires_at FROM expiring ORDER BY expires_at, id LIMIT 1"),
      insert_finished(db, "INSERT INTO finished (prune_at, seq, at, ids) VALUES (?, ?, ?, ?)"),
      first_finished(db,
                     "SELECT prune_at, seq, at, ids FROM finished ORDER BY prune_at, seq LIMIT 1"),
      delete_finished(db, "DELETE FROM finished WHERE prune_at = ? AND seq = ?"),
      update_finished(db, "UPDATE finished SET ids = ?3 WHERE prune_at = ?1 AND seq = ?2"),
      insert_dead(
          db, "INSERT INTO dead_letter (id, queue, kind, fingerprint, at) VALUES (?, ?, ?, ?, ?)"),
      death(db,
            "SELECT j.kind, e.reason, e.description FROM jobs j LEFT JOIN extras e ON e.id = j.id "
            "WHERE j.id = ?"),
      delete_dead(db, "DELETE FROM dead_letter WHERE id = ?"),
      select_dead(db,
                  "SELECT d.id FROM dead_letter d JOIN jobs j ON j.id = d.id JOIN bodies b ON b.id "
                  "= d.id WHERE "
                  "d.id > ?1 AND (?2 IS NULL OR j.queue = ?2) AND (?3 IS NULL OR j.kind = ?3) AND "
                  "(?4 IS NULL OR instr(b.tags, ?4) > 0) ORDER BY d.id LIMIT ?5"),
      select_unique(db, "SELECT id, until, ended FROM uniques WHERE queue = ? AND key = ?"),
      upsert_unique(db,
                    "INSERT INTO uniques (queue, key, id, until) VALUES (?1, ?2, ?3, ?4) ON "
                    "CONFLICT (queue, key) DO "
                    "UPDATE SET id = ?3, until = ?4, ended = NULL"),
      delete_unique(
          db, "DELETE FROM uniques WHERE queue = ?1 AND key = ?2 AND id = ?3 AND until <= ?4"),
      keep_unique(db, "UPDATE uniques SET ended = ?4 WHERE queue = ?1 AND key = ?2 AND id = ?3"),
      first_window(db, "SELECT until FROM uniques WHERE ended IS NOT NULL ORDER BY until LIMIT 1"),
      select_windows(
          db,
          "SELECT queue, key, id FROM uniques WHERE ended IS NOT NULL AND until <= ? ORDER BY "
          "until LIMIT ?"),
      select_idempotency(db, "SELECT fingerprint, ids, expires_at FROM idempotency WHERE key = ?"),
      insert_idempotency(db,
                         "INSERT OR REPLACE INTO idempotency (key, fingerprint, ids, expires_at) "
                         "VALUES (?, ?, ?, ?)"),
      delete_idempotency(
          db,
          "DELETE FROM idempotency WHERE key IN (SELECT key FROM idempotency WHERE expires_at <= ? "
          "ORDER BY expires_at LIMIT ?)"),
      first_idempotency(db, "SELECT min(expires_at) FROM idempotency"),
      insert_queue(db, "INSERT INTO queues (id, name) VALUES (?, ?)"),
      update_queue(db,
                   "UPDATE queues SET paused = ?2, retention_completed = ?3, retention_dead = ?4, "
                   "empty_since = ?5, empty_at = ?6, removed = ?7, pause = ?8 WHERE id = ?1"),
      select_limit_key(db, "SELECT limit_key FROM bodies WHERE id = ?"),
      upsert_key_meter(db,
                       "INSERT OR REPLACE INTO key_meters (queue, key, meter) VALUES (?, ?, ?)"),
      delete_key_meter(db, "DELETE FROM key_meters WHERE queue = ? AND key = ?"),
      drop_key_meters(db, "DELETE FROM key_meters WHERE queue = ?"),
      update_limits(db, "UPDATE queues SET limits = ?2, meter = ?3, opens_at = ?4 WHERE id = ?1"),
      update_fair_keys(db, "UPDATE queues SET fair_at = ?2 WHERE id = ?1"),
      upsert_fair_keys(db, "INSERT OR REPLACE INTO fair_keys (queue, key, at) VALUES (?, ?, ?)"),
      forget_fair_keys(db, "DELETE FROM fair_keys WHERE queue = ? AND at <= ?"),
      drop_fair_keys(db, "DELETE FROM fair_keys WHERE queue = ?"),
      insert_kind(db, "INSERT INTO kinds (id, name) VALUES (?, ?)"),
      upsert_job_counts(
          db,
          "INSERT OR REPLACE INTO job_counts (id, a, b, c, d, e, f, g, h, i, j, k) VALUES "
          "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
      delete_job_counts(db, "DELETE FROM job_counts WHERE id = ?"),
      delete_job(db, "DELETE FROM jobs WHERE id = ?"),
      delete_body(db, "DELETE FROM bodies WHERE id = ?"),
      delete_extras(db, "DELETE FROM extras WHERE id = ?"),
      delete_errors(db, "DELETE FROM errors WHERE job = ?"),
      insert_quarantined(db, "INSERT INTO quarantine (id, since) VALUES (?, ?)"),
      delete_quarantined(db, "DELETE FROM quarantine WHERE id = ?"),
      upsert_lease(db,
                   "INSERT OR REPLACE INTO named_leases (name, state, holder, token, ttl, since, "
                   "value) VALUES (?, ?, ?, ?, ?, ?, ?)"),
      delete_lease(db, "DELETE FROM named_leases WHERE name = ?"),
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
