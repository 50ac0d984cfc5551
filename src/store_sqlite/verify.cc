// verify(): recounts the whole store and checks its counters and invariants. backup(): a consistent
// copy of a running store.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "env/private_files.h"
#include "store_sqlite/migrations.h"
#include "store_sqlite/session_rows.h"
#include "store_sqlite/store_impl.h"

namespace mainspring::sqlite {
namespace {

// An invariant as a query that counts its violations.
struct Invariant {
  const char* what;
  const char* sql;
};

constexpr Invariant kInvariants[] = {
    {"jobs without a body",
     "SELECT count(*) FROM jobs j WHERE NOT EXISTS (SELECT 1 FROM bodies b WHERE b.id = j.id)"},
    {"bodies without a job",
     "SELECT count(*) FROM bodies b WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = b.id)"},
    {"jobs in an unknown state",
     "SELECT count(*) FROM jobs WHERE state NOT IN (0, 1, 2, 4, 5, 6, 7)"},
    {"jobs of an unknown queue",
     "SELECT count(*) FROM jobs WHERE queue NOT IN (SELECT id FROM queues)"},
    {"jobs of an unknown kind",
     "SELECT count(*) FROM jobs WHERE kind NOT IN (SELECT id FROM kinds)"},
    {"grants whose jobs have all ended",
     "SELECT count(*) FROM grants g WHERE NOT EXISTS (SELECT 1 FROM json_each(g.ids) e CROSS JOIN "
     "jobs j "
     "ON j.id = e.value WHERE j.state = 2 AND j.token < g.token + e.key)"},
    {"jobs with two leases", "SELECT count(*) - count(DISTINCT id) FROM leases"},
    {"two leases with one token", "SELECT count(*) - count(DISTINCT token) FROM leases"},
    {"notes of ended leases",
     "SELECT count(*) FROM lease_notes WHERE id NOT IN (SELECT id FROM leases)"},
    {"scheduled or retryable jobs that never become available",
     "SELECT count(*) FROM jobs j WHERE state IN (1, 5) AND flags & 1073741824 = 0 AND NOT EXISTS "
     "(SELECT 1 FROM due d WHERE d.run_at = j.run_at AND d.id = j.id)"},
    {"due entries without a job",
     "SELECT count(*) FROM due d LEFT JOIN jobs j ON j.id = d.id WHERE j.state IS NULL OR j.state "
     "NOT IN (1, 5) OR j.flags & 1073741824 <> 0 OR "
     "j.run_at <> d.run_at"},
    {"jobs with a wrong mark for quarantine",
     "SELECT (SELECT count(*) FROM jobs j WHERE j.flags & 1073741824 <> 0 AND NOT EXISTS (SELECT 1 "
     "FROM quarantine z WHERE z.id = j.id)) + (SELECT count(*) FROM quarantine z LEFT JOIN jobs j "
     "ON j.id = z.id WHERE j.id IS NULL OR j.flags & 1073741824 = 0 OR j.state IN (1, 4, 6, 7))"},
    {"queues with more than one released job of the quarantine",
     "SELECT count(*) FROM (SELECT 1 FROM quarantine z JOIN jobs j ON j.id = z.id WHERE j.state <> "
     "5 GROUP BY j.queue HAVING count(*) > 1)"},
    {"history rows without a series",
     "SELECT count(*) FROM history WHERE series NOT IN (SELECT id FROM history_series)"},
    {"hours of the history below the sum of their minutes",
     "SELECT count(*) FROM (SELECT m.series, m.at - m.at % 3600000000 AS hour, sum(m.enqueued) AS "
     "enqueued, sum(m.started) AS started, sum(m.completed + m.failed + m.dead + m.cancelled) AS "
     "ended FROM history m WHERE m.span = 60000000 GROUP BY m.series, hour) m JOIN history h ON "
     "h.span = 3600000000 AND h.at = m.hour AND h.series = m.series WHERE h.enqueued "
     "< m.enqueued OR h.started < m.started OR h.completed + h.failed + h.dead + h.cancelled < "
     "m.ended"},
    {"dead jobs that are not in the dead letter",
     "SELECT count(*) FROM jobs WHERE state = 7 AND id NOT IN (SELECT id FROM dead_letter)"},
    {"dead letter entries that are not dead",
     "SELECT count(*) FROM dead_letter d LEFT JOIN jobs j ON j.id = d.id WHERE j.state IS NOT 7"},
    {"dead letter entries with another queue, kind or time than their jobs",
     "SELECT count(*) FROM dead_letter d JOIN jobs j ON j.id = d.id WHERE d.queue <> j.queue OR "
     "d.kind <> j.kind OR d.at <> j.finished_at"},
    {"index values of unknown searchable paths",
     "SELECT count(*) FROM search_values WHERE path NOT IN (SELECT id FROM search_paths)"},
    {"ended jobs without an end time",
     "SELECT count(*) FROM jobs WHERE (state IN (4, 6, 7)) <> (finished_at IS NOT NULL)"},
    {"jobs with a priority out of range",
     "SELECT count(*) FROM jobs WHERE priority NOT BETWEEN 0 AND 9"},
    {"jobs with more attempts than allowed",
     "SELECT count(*) FROM jobs WHERE attempt > max_attempts OR attempt < 0"},
    {"ids that would be issued again",
     "SELECT count(*) FROM jobs WHERE id >= (SELECT a FROM job_counts WHERE id = 0)"},
    {"tokens that would be issued again",
     "SELECT (SELECT count(*) FROM jobs WHERE token >= (SELECT b FROM job_counts WHERE id = 0)) + "
     "(SELECT count(*) FROM leases WHERE token >= (SELECT b FROM job_counts WHERE id = 0))"},
    {"blocks with a wrong count of live jobs",
     "SELECT count(*) FROM (SELECT id / 4096 AS block, count(*) AS n FROM jobs WHERE state NOT IN "
     "(4, 6, 7) GROUP BY 1) "
     "r FULL JOIN (SELECT id - 4294967296 AS block, a AS n FROM job_counts WHERE id >= 4294967296) "
     "t "
     "ON t.block = r.block "
     "WHERE t.n IS NOT r.n"},
    {"rates of limit keys without a queue",
     "SELECT count(*) FROM key_meters m LEFT JOIN queues q ON q.id = m.queue WHERE q.limits IS "
     "NULL "
     "OR q.limits NOT LIKE '%\"per_key\":{%\"rate\":{%'"},
    {"queues with counters that do not add up",
     "SELECT count(*) FROM queue_counts WHERE enqueued <> pruned + expired + waiting + scheduled + "
     "available + running "
     "+ completed + retryable + cancelled + dead"},
    {"jobs counted as expired that were not cancelled",
     "SELECT count(*) FROM jobs WHERE flags & 2 <> 0 AND state <> 6"},
    {"unique keys of a job with another key",
     "SELECT count(*) FROM uniques u JOIN bodies b ON b.id = u.id WHERE b.unique_key <> u.key"},
    {"unique keys of pruned jobs without a final state, or of existing jobs with one",
     "SELECT count(*) FROM uniques u LEFT JOIN jobs j ON j.id = u.id WHERE (j.id IS NULL) <> "
     "(coalesce(u.ended, 0) IN (4, 6, 7))"},
    {"ended jobs that are never pruned",
     "SELECT max(0, (SELECT count(*) FROM jobs WHERE state IN (4, 6, 7)) - "
     "(SELECT coalesce(sum(length(ids)), 0) / 8 FROM finished))"},
    {"live jobs that do not own their unique key",
     "SELECT count(*) FROM jobs j JOIN bodies b ON b.id = j.id WHERE b.unique_key IS NOT NULL AND "
     "j.state NOT IN (4, 6, 7) AND NOT EXISTS (SELECT 1 FROM uniques u WHERE u.queue = j.queue AND "
     "u.key = b.unique_key AND u.id = j.id)"},
    {"jobs without the mark for follow-ups",
     "SELECT count(*) FROM jobs j JOIN bodies b ON b.id = j.id WHERE b.follow_ups IS NOT NULL AND "
     "j.flags & 32 = 0"},
    {"jobs with unreadable follow-ups",
     "SELECT count(*) FROM jobs j JOIN bodies b ON b.id = j.id WHERE j.flags & 32 <> 0 AND "
     "(coalesce(b.follow_ups, b.reply_to) IS NULL OR (b.follow_ups IS NOT NULL AND NOT "
     "json_valid(b.follow_ups)))"},
    {"errors without a job", "SELECT count(*) FROM errors WHERE job NOT IN (SELECT id FROM jobs)"},
    {"leases with a token that would be issued again",
     "SELECT count(*) FROM named_leases WHERE token >= (SELECT b FROM job_counts WHERE id = 0)"},
    {"leases in an unknown state",
     "SELECT count(*) FROM named_leases WHERE state NOT IN (0, 1, 2) OR (state = 2 AND value IS "
     "NULL)"},
    {"ticks that fired twice",
     "SELECT count(*) FROM (SELECT 1 FROM ledger NOT INDEXED WHERE state = 0 AND source IN (0, 2) "
     "GROUP BY schedule, nominal, version HAVING count(*) > 1)"},
    {"ticks that fired without a job, or were skipped with one",
     "SELECT count(*) FROM ledger WHERE (state = 0) <> (job IS NOT NULL)"},
    {"ticks with a job id that was never issued",
     "SELECT count(*) FROM ledger WHERE job >= (SELECT a FROM job_counts WHERE id = 0)"},
    {"ledgers without a schedule",
     "SELECT count(*) FROM ledger WHERE schedule NOT IN (SELECT id FROM schedules)"},
    {"ledger rows with a number that would be issued again, or that should have been removed",
     "SELECT count(*) FROM ledger l JOIN schedules s ON s.id = l.schedule WHERE l.seq >= "
     "s.next_seq OR l.seq < s.next_seq - 10000"},
    {"schedules with fewer jobs than their ledger has",
     "SELECT count(*) FROM schedules s WHERE s.fired < (SELECT count(*) FROM ledger l WHERE "
     "l.schedule = s.id AND l.state = 0)"},
    {"schedules with more jobs than allowed",
     "SELECT count(*) FROM schedules WHERE remaining < 0 OR (remaining = 0 AND next <> "
     "9223372036854775807)"},
    {"schedules with a reused version",
     "SELECT count(*) FROM schedules s JOIN removed_schedules r ON r.name = s.name"},
    {"schedule links of ended jobs or missing schedules",
     "SELECT count(*) FROM schedule_jobs t LEFT JOIN jobs j ON j.id = t.job WHERE j.state IS NULL "
     "OR j.state IN (4, 6, 7) OR t.schedule NOT IN (SELECT id FROM schedules)"},
    {"jobs of a schedule without a link",
     "SELECT count(*) FROM bodies b JOIN schedules s ON s.id = b.schedule JOIN jobs j ON j.id = "
     "b.id WHERE j.state NOT IN (4, 6, 7) AND NOT EXISTS (SELECT 1 FROM schedule_jobs t WHERE "
     "t.job = j.id AND t.schedule = s.id)"},
    {"waiting jobs without a reason to wait",
     "SELECT count(*) FROM jobs j LEFT JOIN schedule_jobs t ON t.job = j.id WHERE j.state = 0 AND "
     "j.flags & 32832 = 0 AND NOT EXISTS (SELECT 1 FROM schedule_jobs o JOIN jobs p ON p.id = "
     "o.job "
     "WHERE o.schedule = "
     "t.schedule AND (p.state <> 0 OR p.flags & 32768 <> 0))"},
    {"deferred jobs that are not waiting",
     "SELECT count(*) FROM jobs WHERE flags & 32768 <> 0 AND state <> 0"},
    {"jobs with a wrong mark for their session",
     "SELECT count(*) FROM jobs j JOIN bodies b ON b.id = j.id WHERE (j.flags & 64 <> 0) <> "
     "(b.session IS NOT NULL)"},
    {"jobs with a wrong mark for their limit_key",
     "SELECT count(*) FROM jobs j JOIN bodies b ON b.id = j.id WHERE (j.flags & 2048 <> 0) <> "
     "(b.limit_key IS NOT NULL)"},
    {"live jobs of a session that are neither its head nor waiting",
     "SELECT count(*) FROM jobs j JOIN bodies b ON b.id = j.id LEFT JOIN sessions s ON s.queue = "
     "j.queue AND s.key = b.session WHERE j.flags & 64 <> 0 AND j.state NOT IN (4, 6, 7) AND "
     "(s.id IS NULL OR (s.head <> j.id AND j.state <> 0))"},
    {"session heads that have ended, or belong to another session",
     "SELECT count(*) FROM sessions s LEFT JOIN jobs j ON j.id = s.head LEFT JOIN bodies b ON b.id "
     "= s.head WHERE s.head <> 0 AND (j.state IS NULL OR j.state IN (4, 6, 7) OR j.queue <> "
     "s.queue "
     "OR b.session IS NOT s.key)"},
    {"sessions with a wrong count of jobs",
     "SELECT count(*) FROM sessions s LEFT JOIN (SELECT j.queue, b.session, count(*) AS jobs FROM "
     "jobs j CROSS JOIN bodies b ON b.id = j.id WHERE j.flags & 64 <> 0 AND j.state NOT IN (4, 6, "
     "7) GROUP BY 1, 2) l ON l.queue = s.queue AND l.session = s.key WHERE s.jobs <> "
     "coalesce(l.jobs, 0)"},
    {"live step jobs that no workflow waits for",
     "SELECT count(*) FROM jobs j WHERE flags & 4096 <> 0 AND state NOT IN (4, 6, 7) AND NOT "
     "EXISTS "
     "(SELECT 1 FROM workflow_jobs w WHERE w.job = j.id) AND NOT EXISTS (SELECT 1 FROM lease_notes "
     "n WHERE n.id = j.id AND n.cancel_requested <> 0)"},
    {"ended jobs that a workflow still waits for",
     "SELECT count(*) FROM workflow_jobs w LEFT JOIN jobs j ON j.id = w.job WHERE j.id IS NULL OR "
     "j.state IN (4, 6, 7) OR j.flags & 4096 = 0 OR NOT EXISTS (SELECT 1 FROM workflows f WHERE "
     "f.id = w.workflow)"},
    {"workflows in an unknown state",
     "SELECT count(*) FROM workflows WHERE state NOT BETWEEN 0 AND 6"},
    {"workflows with a wrong count of live jobs",
     "SELECT count(*) FROM workflows w WHERE coalesce(json_extract(data, '$.live'), 0) <> (SELECT "
     "count(*) FROM workflow_rows r WHERE r.workflow = w.id AND r.kind IN (6, 13)) + (SELECT "
     "count(*) FROM json_each(data, '$.states') s WHERE s.value ->> 'state' = 1 AND s.value ->> "
     "'job' IS NOT NULL)"},
    {"packed running steps with another job",
     "SELECT count(*) FROM workflows w CROSS JOIN json_each(w.data, '$.states') s WHERE s.value "
     "->> "
     "'state' = 1 AND s.value ->> 'job' IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workflow_jobs j "
     "WHERE j.job = s.value ->> 'job' AND j.workflow = w.id AND j.step = s.key + 1 AND j.undo = "
     "0)"},
    {"packed workflows without their input",
     "SELECT count(*) FROM workflows w WHERE finished_at IS NULL AND data LIKE '%\"states\":[%' "
     "AND NOT EXISTS (SELECT 1 FROM workflow_texts r WHERE r.workflow = w.id AND r.kind = 0 AND "
     "r.number = 4)"},
    {"running workflows without anything to wait for",
     "SELECT count(*) FROM workflows w WHERE state = 0 AND wake_at IS NULL AND NOT EXISTS (SELECT "
     "1 "
     "FROM workflow_rows r WHERE r.workflow = w.id AND r.kind IN (6, 9, 10, 13)) AND NOT EXISTS "
     "(SELECT 1 FROM json_each(data, '$.states') s WHERE s.value ->> 'state' = 1 AND s.value ->> "
     "'job' IS NOT NULL)"},
    {"ledger rows of a missing trigger, or beyond its count",
     "SELECT count(*) FROM trigger_events e WHERE NOT EXISTS (SELECT 1 FROM triggers t WHERE "
     "t.name "
     "= e.name AND json_extract(t.state, '$.next_seq') > e.seq)"},
    {"queues with a missing breaker",
     "SELECT count(*) FROM queues q WHERE json_extract(q.limits, '$.breaker') IS NOT NULL AND NOT "
     "EXISTS (SELECT 1 FROM breakers b WHERE b.name = json_extract(q.limits, '$.breaker'))"},
    {"ended workflows without an end time, or running ones with one",
     "SELECT count(*) FROM workflows WHERE (state >= 3) <> (finished_at IS NOT NULL) AND "
     "json_extract(data, '$.parent') IS NULL"},
    {"live child workflows of an ended parent",
     "SELECT count(*) FROM workflow_rows r JOIN workflows p ON p.id = r.workflow JOIN workflows c "
     "ON c.id = r.number WHERE r.kind = 12 AND p.state >= 3 AND c.state < 3"},
    {"steps that wait for a workflow that is missing, has ended, or has another parent",
     "SELECT count(*) FROM workflow_rows r LEFT JOIN workflows c ON c.id = CAST(r.text AS INTEGER) "
     "WHERE r.kind = 13 AND (c.id IS NULL OR c.state >= 3 OR json_extract(c.data, '$.parent') IS "
     "NOT "
     "r.workflow OR json_extract(c.data, '$.parent_step') IS NOT r.number)"},
    {"step results without a job, without their mark, or of a completed job",
     "SELECT count(*) FROM memos m LEFT JOIN jobs j ON j.id = m.job WHERE j.id IS NULL OR j.state "
     "= 4 OR (j.flags & 16384 = 0 AND NOT EXISTS (SELECT 1 FROM lease_notes n WHERE n.id = j.id))"},
    {"jobs with too many step results",
     "SELECT count(*) FROM (SELECT job FROM memos GROUP BY job HAVING count(*) > 1000)"},
    {"sessions with waiting jobs but no head",
     "SELECT count(*) FROM sessions s WHERE s.head = 0 AND s.stop = 0 AND s.jobs > 0"},
    {"stopped sessions with a head", "SELECT count(*) FROM sessions WHERE stop <> 0 AND head <> 0"},
    {"session heads that any worker can claim although the session is held, or no worker although "
     "it is free",
     "SELECT count(*) FROM sessions s JOIN jobs j ON j.id = s.head WHERE (s.token <> 0 AND j.state "
     "= 2 AND j.id NOT IN (SELECT id FROM leases)) OR (s.token = 0 AND j.state = 0)"},
    {"sessions without jobs, holder and state",
     "SELECT count(*) FROM sessions WHERE jobs = 0 AND token = 0 AND stop = 0 AND state_bytes = 0"},
    {"session states that are missing, truncated or without a session",
     "SELECT count(*) FROM sessions s FULL JOIN session_states t ON t.session = s.id WHERE "
     "coalesce(s.state_bytes, -1) <> coalesce(length(CAST(t.state AS BLOB)), 0)"},
    {"sessions with an id or token that would be issued again",
     "SELECT count(*) FROM sessions WHERE id >= (SELECT d FROM job_counts WHERE id = 0) OR token "
     ">= "
     "(SELECT b FROM job_counts WHERE id = 0)"},
};

// Per queue and state: the counter and the number of rows.
constexpr const char* kRecount =
    "WITH l AS MATERIALIZED (SELECT id FROM leases), real AS (SELECT j.queue AS queue, CASE WHEN "
    "l.id IS NOT NULL THEN 3 WHEN j.flags & 2 "
    "THEN 8 ELSE j.state END "
    "AS state, count(*) AS n FROM jobs j LEFT JOIN l ON l.id = j.id GROUP BY 1, 2), "
    "kept AS (SELECT t.id AS queue, s.column1 AS state, CASE s.column1 WHEN 0 THEN t.d WHEN 1 THEN "
    "t.e WHEN 2 THEN t.f "
    "WHEN 3 THEN t.g WHEN 4 THEN t.h WHEN 5 THEN t.i WHEN 6 THEN t.j WHEN 7 THEN t.k ELSE t.c END "
    "AS n FROM job_counts t, "
    "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8)) s WHERE t.id > 0 AND t.id < 4294967296) "
    "SELECT q.name, k.state, k.n, coalesce(r.n, 0) FROM kept k JOIN queues q ON q.id = k.queue "
    "LEFT JOIN real r ON "
    "r.queue = k.queue AND r.state = k.state WHERE k.n <> coalesce(r.n, 0)";

Result<void> sync_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool failed = fd < 0 || fsync(fd) != 0;
  if (fd >= 0) close(fd);
  if (!failed) return {};
  return Error{.code = ErrorCode::io_error,
               .message = fmt::format("syncing {}: {}", path, std::strerror(errno))};
}

}  // namespace

Result<VerifyReport> SqliteStore::verify_showing(const VerifyProgress& progress) const {
  try {
    Database db(path_, Database::Mode::read_only, options_.vfs);
    const AuditMark known = audit_state().head;
    Snapshot snapshot(db);
    show_sessions_by_jobs(db);
    VerifyReport report;
    constexpr int kOthers = 4;  // count, pages, counters, audit
    int done = 0;
    const auto step = [&] {
      if (progress) progress(++done, static_cast<int>(std::size(kInvariants)) + kOthers);
    };
    report.jobs = db.query_int("SELECT count(*) FROM jobs");
    step();
    Statement integrity(db, "PRAGMA integrity_check(20)");
    while (integrity.step()) {
      if (integrity.text(0) != "ok")
        report.problems.push_back(fmt::format("the file is damaged: {}", integrity.text(0)));
    }
    step();
    for (const Invariant& invariant : kInvariants) {
      const std::int64_t broken = db.query_int(invariant.sql);
      if (broken != 0) report.problems.push_back(fmt::format("{}: {}", invariant.what, broken));
      step();
    }
    Statement recount(db, kRecount);
    while (recount.step()) {
      const auto state = recount.integer(1);
      report.problems.push_back(
          fmt::format("queue {}: counter {} is {}, but {} were counted", recount.text(0),
                      state == 8 ? "expired" : to_string(static_cast<JobState>(state)),
                      recount.integer(2), recount.integer(3)));
    }
    verify_search(db, report.problems);
    step();
    verify_audit(db, known, report.problems);
    step();
    return report;
  } catch (const SqlError& error) {
    VerifyReport report;
    if ((error.code & 0xff) != SQLITE_CORRUPT && (error.code & 0xff) != SQLITE_NOTADB)
      return to_error(error);
    report.problems.push_back(fmt::format("the file is damaged: {}", error.message));
    return report;
  }
}

namespace {

// Also removes the journal: SQLite would apply it to the next draft.
void remove_draft(const std::string& draft) {
  for (const char* suffix : {"", "-journal", "-wal", "-shm"})
    (void)unlink((draft + suffix).c_str());
}

Result<void> write_copy(const std::string& from, const std::string& vfs, const std::string& file) {
  try {
    Database db(from, Database::Mode::read_only, vfs);
    Statement(db, "VACUUM INTO ?").bind(file).run();
    Database made(file, Database::Mode::read_write, "");
    made.execute("UPDATE job_counts SET c = 1 WHERE id = 0");
  } catch (const SqlError& error) {
    if (!is_full(error.code)) return to_error(error);
    return Error{.code = ErrorCode::storage_full,
                 .message = fmt::format("{}: the disk is full: free space, or back up to another "
                                        "file system",
                                        file)};
  }
  return sync_file(file);
}

}  // namespace

// The copy is marked: its first open moves ids and tokens far ahead. Ids and tokens given after the
// copy was made are known to workers and clients, and must not be given again.
Result<void> SqliteStore::backup(const std::string& directory) const {
  const std::string copy = directory + "/mainspring.db";
  MS_TRY_ASSIGN(const bool exists, database_exists(copy));
  if (exists) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("{} exists: a backup goes to a new directory", copy)};
  }
  try {
    Database db(path_, Database::Mode::read_only, options_.vfs);
    schema_of(db);
  } catch (const SqlError& error) {
    return to_error(error);
  } catch (const Error& error) {
    return error;
  }
  if (const int problem = make_private_directories(directory); problem != 0)
    return access_error("creating the backup's directory", directory, problem);
  // The copy gets its final name when it is complete: a partial copy never looks like a store.
  const std::string draft = copy + ".partial";
  remove_draft(draft);
  const int made = open_private(draft, O_RDWR | O_CREAT | O_EXCL);
  if (made < 0) return access_error("creating", draft, errno);
  close(made);
  auto written = write_copy(path_, options_.vfs, draft);
  if (written && std::rename(draft.c_str(), copy.c_str()) != 0)
    written = access_error("renaming", draft, errno);
  if (!written) {
    remove_draft(draft);
    return written;
  }
  MS_TRY_ASSIGN(auto guard, FileGuard::lock(directory, copy, 0));
  return guard->mark_initialised();
}

}  // namespace mainspring::sqlite
