// The invariants. All of them use joins, so that they are fast enough for millions of jobs: none
// runs a subquery per job.
#include "store_postgres/verify_statements.h"

namespace mainspring::pg {
namespace {

#define MS_LAST_ID "(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM $schema.job_ids)"
#define MS_LAST_TOKEN \
  "(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM $schema.tokens_given)"
#define MS_NEVER "9223372036854775807"

constexpr Invariant kInvariants[] = {
    // -- the row of a job
    {"jobs in an unknown state",
     "SELECT count(*) FROM $schema.jobs WHERE state NOT BETWEEN 0 AND 7"},
    {"jobs of an unknown queue",
     "SELECT count(*) FROM $schema.jobs j WHERE NOT EXISTS (SELECT 1 FROM $schema.queues q WHERE "
     "q.id = j.queue)"},
    {"jobs of an unknown kind",
     "SELECT count(*) FROM $schema.jobs j WHERE NOT EXISTS (SELECT 1 FROM $schema.kinds k WHERE "
     "k.id = j.kind)"},
    {"jobs with a priority out of range",
     "SELECT count(*) FROM $schema.jobs WHERE priority NOT BETWEEN 0 AND 9"},
    {"jobs with more attempts than allowed",
     "SELECT count(*) FROM $schema.jobs WHERE attempt > max_attempts OR attempt < 0"},
    {"ended jobs without an end time",
     "SELECT count(*) FROM $schema.jobs WHERE (state IN (4, 6, 7)) <> (finished_at <> 0)"},
    {"running jobs without a lease, or other jobs with one",
     "SELECT count(*) FROM $schema.jobs WHERE (state = 3) <> (lease_until <> 0) OR (state = 3 AND "
     "token = 0) OR (state <> 3 AND worker IS NOT NULL)"},
    {"ids that would be issued again",
     "SELECT count(*) FROM $schema.jobs WHERE id <= 0 OR id > " MS_LAST_ID},
    {"tokens that would be issued again",
     "SELECT count(*) FROM $schema.jobs WHERE token > " MS_LAST_TOKEN},
    {"tokens issued twice",
     "SELECT count(*) - count(DISTINCT token) FROM (SELECT token FROM $schema.jobs WHERE token <> "
     "0 UNION ALL SELECT token FROM $schema.named_leases UNION ALL SELECT token FROM "
     "$schema.sessions WHERE token <> 0) t"},
    // -- the history
    {"history rows without a series",
     "SELECT count(*) FROM $schema.history h WHERE NOT EXISTS (SELECT 1 FROM "
     "$schema.history_series s WHERE s.id = h.series)"},
    {"hours of the history below the sum of their minutes",
     "SELECT count(*) FROM (SELECT series, at - at % 3600000000 AS hour, sum(enqueued) AS "
     "enqueued, sum(started) AS started, sum(completed + failed + dead + cancelled) AS ended FROM "
     "$schema.history WHERE span = 60000000 GROUP BY 1, 2) m JOIN $schema.history h ON h.span = "
     "3600000000 AND h.at = m.hour AND h.series = m.series WHERE h.enqueued < m.enqueued OR "
     "h.started < m.started OR h.completed + h.failed + h.dead + h.cancelled < m.ended"},
    // -- the tables derived from jobs
    {"available jobs missing from the ready queue",
     "WITH b AS MATERIALIZED (SELECT queue, priority, kind, run_at, unnest(ids) AS id FROM "
     "$schema.packs) SELECT count(*) FROM $schema.jobs j WHERE state = 2 AND NOT EXISTS (SELECT "
     "1 FROM b WHERE j.version = 1 AND b.id = j.id AND b.queue = j.queue AND b.priority = "
     "j.priority AND b.kind = j.kind AND b.run_at = j.run_at) AND NOT EXISTS (SELECT 1 FROM "
     "$schema.ready r WHERE r.id = j.id AND r.queue = j.queue AND r.priority = j.priority AND "
     "r.kind = j.kind AND r.run_at = j.run_at AND r.expires_at = CASE WHEN j.started_at = 0 THEN "
     "j.expires_at ELSE 0 END) AND NOT EXISTS (SELECT 1 FROM $schema.held_back h WHERE h.id = j.id "
     "AND h.queue = j.queue AND h.key = coalesce(j.limit_key, '') AND h.kind = j.kind AND "
     "h.priority = "
     "j.priority AND h.run_at = j.run_at)"},
    {"jobs held back in a queue without limits per key",
     "SELECT count(*) FROM $schema.held_back h JOIN $schema.queues q ON q.id = h.queue WHERE "
     "q.limits IS NULL OR q.limits NOT LIKE '%\"per_key\":%'"},
    {"rates of limit keys without a queue",
     "SELECT count(*) FROM $schema.key_meters m WHERE NOT EXISTS (SELECT 1 FROM $schema.queues q "
     "WHERE q.id = m.queue AND q.limits LIKE '%\"per_key\":{%\"rate\":{%')"},
    {"running jobs that their limit per key does not count",
     "SELECT count(*) FROM $schema.jobs j JOIN $schema.queues q ON q.id = j.queue WHERE j.state = "
     "3 AND j.limit_key IS NOT NULL AND q.limits LIKE '%\"per_key\":{\"concurrency\":%' AND NOT "
     "EXISTS (SELECT 1 "
     "FROM $schema.running_keys r WHERE r.id = j.id AND r.queue = j.queue AND r.key = "
     "j.limit_key)"},
    {"running jobs with a cost that is not counted",
     "SELECT count(*) FROM $schema.jobs j JOIN $schema.queues q ON q.id = j.queue JOIN "
     "$schema.kinds k ON k.id = j.kind WHERE j.state = 3 AND q.limits LIKE '%\"costs\":{%' AND "
     "(q.limits::jsonb -> 'costs') ? k.name AND NOT EXISTS (SELECT 1 FROM $schema.running_keys r "
     "WHERE r.id = j.id AND r.queue = j.queue AND r.key = '')"},
    {"jobs with a wrong mark for their limit_key",
     "SELECT count(*) FROM $schema.jobs WHERE (flags & 2048 <> 0) <> (limit_key IS NOT NULL)"},
    {"limit keys of missing jobs",
     "SELECT count(*) FROM (SELECT id FROM $schema.held_back UNION ALL SELECT id FROM "
     "$schema.running_keys) k WHERE NOT EXISTS (SELECT 1 FROM $schema.jobs j WHERE j.id = k.id)"},
    {"jobs with two entries in a ready queue",
     "SELECT count(*) FROM (SELECT l.id FROM (SELECT unnest(ids) AS id FROM $schema.packs UNION "
     "ALL SELECT id FROM $schema.ready UNION ALL SELECT id FROM $schema.held_back) l JOIN "
     "$schema.jobs j ON j.id = l.id WHERE j.state = 2 AND j.version = 1 GROUP BY l.id HAVING "
     "count(*) > 1) t"},
    {"ready queue entries without an available job",
     "SELECT count(*) FROM $schema.ready r LEFT JOIN $schema.jobs j ON j.id = r.id WHERE j.state "
     "IS DISTINCT FROM 2 OR r.queue <> j.queue OR r.priority <> j.priority OR r.kind <> j.kind OR "
     "r.run_at <> j.run_at"},
    {"scheduled or retryable jobs that never become available",
     "SELECT count(*) FROM $schema.jobs j WHERE state IN (1, 5) AND (state = 1 OR "
     "quarantined IS NULL) AND NOT EXISTS (SELECT 1 FROM $schema.due d WHERE d.run_at = j.run_at "
     "AND d.id = j.id)"},
    {"due entries without a job",
     "SELECT count(*) FROM $schema.due d LEFT JOIN $schema.jobs j ON j.id = d.id WHERE j.state IS "
     "NULL OR j.state NOT IN (1, 5) OR j.quarantined IS NOT NULL OR j.run_at <> d.run_at"},
    {"jobs with an expiry that never expire",
     "SELECT count(*) FROM $schema.jobs j WHERE expires_at <> 0 AND started_at = 0 AND state NOT "
     "IN (4, 6, 7) AND NOT EXISTS (SELECT 1 FROM $schema.expiring e WHERE e.expires_at = "
     "j.expires_at AND e.id = j.id)"},
    {"running jobs with a lease that is never checked",
     "WITH l AS MATERIALIZED (SELECT unnest(ids) AS id FROM $schema.leased) SELECT count(*) FROM "
     "$schema.jobs j WHERE state = 3 AND NOT EXISTS (SELECT 1 FROM l WHERE l.id = j.id)"},
    {"ended jobs that are never pruned",
     "WITH f AS MATERIALIZED (SELECT unnest(ids) AS id, at FROM $schema.finished) SELECT count(*) "
     "FROM $schema.jobs j WHERE state IN (4, 6, 7) AND NOT EXISTS (SELECT 1 FROM f WHERE f.id = "
     "j.id AND f.at = j.finished_at)"},
    {"quarantined jobs without a quarantine row, or with another queue",
     "SELECT count(*) FROM $schema.jobs j LEFT JOIN $schema.quarantine z ON z.id = j.id WHERE "
     "j.quarantined IS NOT NULL AND j.state NOT IN (4, 6, 7) AND (j.state = 1 OR z.queue IS "
     "DISTINCT FROM j.queue)"},
    {"quarantine rows of jobs that are not quarantined",
     "SELECT count(*) FROM $schema.quarantine z JOIN $schema.jobs j ON j.id = z.id WHERE "
     "j.quarantined IS NULL AND j.state NOT IN (4, 6, 7)"},
    {"queues with more than one released job of the quarantine",
     "SELECT count(*) FROM (SELECT 1 FROM $schema.quarantine z JOIN $schema.jobs j ON j.id = z.id "
     "AND j.quarantined IS NOT NULL AND j.state IN (0, 2, 3) GROUP BY z.queue HAVING count(*) > 1) "
     "l"},
    {"dead jobs that are not in the dead letter",
     "SELECT count(*) FROM $schema.jobs j WHERE state = 7 AND NOT EXISTS (SELECT 1 FROM "
     "$schema.dead_letter d WHERE d.id = j.id)"},
    {"dead letter entries that are not dead",
     "SELECT count(*) FROM $schema.dead_letter d LEFT JOIN $schema.jobs j ON j.id = d.id WHERE "
     "j.state IS DISTINCT FROM 7"},
    {"dead letter entries with another queue, kind or time than their jobs",
     "SELECT count(*) FROM $schema.dead_letter d JOIN $schema.jobs j ON j.id = d.id WHERE d.queue "
     "<> j.queue OR d.kind <> j.kind OR d.at <> j.finished_at"},
    {"jobs missing from the index of a searchable path",
     "SELECT count(*) FROM $schema.search_paths p JOIN $schema.jobs j ON j.queue = p.queue AND "
     "j.id >= p.above CROSS JOIN LATERAL (SELECT $schema.search_value(j.args, p.path) AS value) v "
     "WHERE p.stage = 1 AND v.value IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "
     "$schema.search_values s WHERE s.path = p.id AND s.value = v.value AND s.job = j.id)"},
    {"index values of a searchable path without a job",
     "SELECT count(*) FROM $schema.search_values s LEFT JOIN $schema.search_paths p ON p.id = "
     "s.path LEFT JOIN $schema.jobs j ON j.id = s.job WHERE p.id IS NULL OR (p.stage = 1 AND (j.id "
     "IS NULL OR $schema.search_value(j.args, p.path) IS DISTINCT FROM s.value))"},
    {"jobs counted as expired that were not cancelled",
     "SELECT count(*) FROM $schema.jobs WHERE flags & 2 <> 0 AND state <> 6"},
    {"jobs with missing extras",
     "SELECT count(*) FROM $schema.jobs j WHERE flags & 1 <> 0 AND NOT EXISTS (SELECT 1 FROM "
     "$schema.extras e WHERE e.id = j.id)"},
    {"extras that their job's row does not announce",
     "SELECT count(*) FROM $schema.extras e LEFT JOIN $schema.jobs j ON j.id = e.id WHERE "
     "coalesce(j.flags & 1, 0) = 0"},
    {"errors that their job's row does not announce",
     "SELECT count(*) FROM $schema.errors e LEFT JOIN $schema.jobs j ON j.id = e.job WHERE "
     "coalesce(j.flags & 8, 0) = 0"},
    {"jobs with missing errors",
     "SELECT count(*) FROM $schema.jobs j WHERE flags & 8 <> 0 AND NOT EXISTS (SELECT 1 FROM "
     "$schema.errors e WHERE e.job = j.id)"},
    {"jobs without the mark for follow-ups",
     "SELECT count(*) FROM $schema.jobs WHERE follow_ups IS NOT NULL AND flags & 32 = 0"},
    {"jobs with unreadable follow-ups",
     "SELECT count(*) FROM $schema.jobs WHERE flags & 32 <> 0 AND coalesce(follow_ups, reply_to) "
     "IS NULL"},
    // -- sessions
    {"jobs with a wrong mark for their session",
     "SELECT count(*) FROM $schema.jobs WHERE (flags & 64 <> 0) <> (session IS NOT NULL)"},
    {"live jobs of a missing session",
     "SELECT count(*) FROM $schema.jobs j WHERE session IS NOT NULL AND state NOT IN (4, 6, 7) AND "
     "NOT EXISTS (SELECT 1 FROM $schema.sessions s WHERE s.queue = j.queue AND s.key = "
     "j.session)"},
    {"jobs of a session that are neither its head nor waiting",
     "SELECT count(*) FROM $schema.jobs j JOIN $schema.sessions s ON s.queue = j.queue AND s.key = "
     "j.session WHERE j.state NOT IN (4, 6, 7) AND s.head <> j.id AND (j.state <> 0 OR NOT EXISTS "
     "(SELECT 1 FROM $schema.session_jobs l WHERE l.session = s.id AND l.id = j.id))"},
    {"waiting positions in a session without a waiting job",
     "SELECT count(*) FROM $schema.session_jobs l LEFT JOIN $schema.sessions s ON s.id = l.session "
     "LEFT JOIN $schema.jobs j ON j.id = l.id WHERE j.state IS DISTINCT FROM 0 OR j.queue IS "
     "DISTINCT FROM s.queue OR j.session IS DISTINCT FROM s.key OR s.head = j.id OR l.id < "
     "s.first"},
    {"session heads that have ended, or belong to another session",
     "SELECT count(*) FROM $schema.sessions s LEFT JOIN $schema.jobs j ON j.id = s.head WHERE "
     "s.head <> 0 AND (j.state IS NULL OR j.state IN (4, 6, 7) OR j.queue <> s.queue OR j.session "
     "IS DISTINCT FROM s.key)"},
    {"sessions with waiting jobs but no head, although they are not stopped",
     "SELECT count(*) FROM $schema.sessions s WHERE head = 0 AND stop = 0 AND jobs <> 0"},
    {"stopped sessions with a head",
     "SELECT count(*) FROM $schema.sessions WHERE stop <> 0 AND head <> 0"},
    {"sessions with a wrong count of jobs",
     "SELECT count(*) FROM $schema.sessions s LEFT JOIN (SELECT session, count(*) AS n FROM "
     "$schema.session_jobs GROUP BY session) l ON l.session = s.id WHERE s.jobs <> coalesce(l.n, "
     "0) + CASE WHEN s.head = 0 THEN 0 ELSE 1 END"},
    {"session heads that any worker can claim although the session is held, or no worker although "
     "it is free",
     "SELECT count(*) FROM $schema.sessions s JOIN $schema.jobs j ON j.id = s.head WHERE (s.token "
     "<> 0 AND j.state = 2) OR (s.token = 0 AND j.state = 0)"},
    {"ready queue entries of another session",
     "SELECT count(*) FROM $schema.ready r JOIN $schema.jobs j ON j.id = r.id LEFT JOIN "
     "$schema.sessions s ON s.id = r.session WHERE r.session <> 0 AND (s.queue IS DISTINCT FROM "
     "j.queue OR s.key IS DISTINCT FROM j.session)"},
    {"sessions that are empty, held without a holder, or never checked",
     "SELECT count(*) FROM $schema.sessions WHERE (jobs = 0 AND head = 0 AND token = 0 AND stop = "
     "0 AND state IS NULL) OR (token <> 0) <> (worker IS NOT NULL) OR (token <> 0) <> (look_at <> "
     "0) OR look_at > lease_until OR state_bytes <> coalesce(octet_length(state), 0) OR (prune_at "
     "<> 0) <> (jobs = 0 AND token = 0 AND stop = 0)"},
    {"sessions with a token that would be issued again",
     "SELECT count(*) FROM $schema.sessions WHERE token > " MS_LAST_TOKEN},
    // -- workflows
    {"live step jobs that no workflow waits for",
     "SELECT count(*) FROM $schema.jobs j WHERE flags & 4096 <> 0 AND flags & 16 = 0 AND state NOT "
     "IN (4, 6, 7) AND NOT EXISTS (SELECT 1 FROM $schema.workflow_jobs w WHERE w.job = j.id)"},
    {"ended jobs that a workflow still waits for",
     "SELECT count(*) FROM $schema.workflow_jobs w LEFT JOIN $schema.jobs j ON j.id = w.job WHERE "
     "j.id IS NULL OR j.state IN (4, 6, 7) OR j.flags & 4096 = 0 OR NOT EXISTS (SELECT 1 FROM "
     "$schema.workflows f WHERE f.id = w.workflow)"},
    {"workflows with a wrong count of live jobs",
     "SELECT count(*) FROM $schema.workflows w WHERE CASE WHEN data LIKE '{%' THEN "
     "coalesce((data::json->>'live')::bigint, 0) <> (SELECT count(*) FROM $schema.workflow_rows r "
     "WHERE r.workflow = w.id AND r.kind IN (6, 13)) + (SELECT count(*) FROM "
     "json_array_elements(data::json->'states') s WHERE s->>'state' = '1' AND s->>'job' IS NOT "
     "NULL) END"},
    {"packed running steps with another job",
     "SELECT count(*) FROM $schema.workflows w CROSS JOIN LATERAL json_array_elements(CASE WHEN "
     "w.data LIKE '{%' THEN w.data::json->'states' END) WITH ORDINALITY s(step, number) WHERE "
     "s.step->>'state' = '1' AND s.step->>'job' IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "
     "$schema.workflow_jobs j WHERE j.job = (s.step->>'job')::bigint AND j.workflow = w.id AND "
     "j.step = s.number AND NOT j.undo)"},
    {"packed workflows without their input",
     "SELECT count(*) FROM $schema.workflows w WHERE finished_at IS NULL AND data LIKE "
     "'%\"states\":[%' AND NOT EXISTS (SELECT 1 FROM $schema.workflow_rows r WHERE r.workflow = "
     "w.id AND r.kind = 0 AND r.number = 4)"},
    {"running workflows without anything to wait for",
     "SELECT count(*) FROM $schema.workflows w WHERE state = 0 AND wake_at IS NULL AND NOT EXISTS "
     "(SELECT 1 FROM $schema.workflow_rows r WHERE r.workflow = w.id AND r.kind IN (6, 9, 10, "
     "13)) AND NOT EXISTS (SELECT 1 FROM json_array_elements(CASE WHEN data LIKE '{%' THEN "
     "data::json->'states' END) s WHERE s->>'state' = '1' AND s->>'job' IS NOT NULL)"},
    {"ledger rows of a missing trigger, or beyond its count",
     "SELECT count(*) FROM $schema.trigger_events e WHERE NOT EXISTS (SELECT 1 FROM "
     "$schema.triggers t WHERE t.name = e.name AND (t.state::json->>'next_seq')::bigint > e.seq)"},
    {"queues with a missing breaker",
     "SELECT count(*) FROM $schema.queues q WHERE q.limits LIKE '%\"breaker\":%' AND NOT EXISTS "
     "(SELECT 1 FROM $schema.breakers b WHERE b.name = q.limits::json->>'breaker')"},
    {"ended workflows without an end time, or running ones with one",
     "SELECT count(*) FROM $schema.workflows WHERE (state >= 3) <> (finished_at IS NOT NULL) AND "
     "data NOT LIKE '%\"parent\":%'"},
    {"live child workflows of an ended parent",
     "SELECT count(*) FROM $schema.workflow_rows r JOIN $schema.workflows p ON p.id = r.workflow "
     "JOIN $schema.workflows c ON c.id = r.number WHERE r.kind = 12 AND p.state >= 3 AND c.state < "
     "3"},
    {"steps that wait for a workflow that is missing, has ended, or has another parent",
     "SELECT count(*) FROM $schema.workflow_rows r LEFT JOIN $schema.workflows c ON c.id = "
     "r.text::bigint WHERE r.kind = 13 AND (c.id IS NULL OR c.state >= 3 OR CASE WHEN c.data LIKE "
     "'{%' THEN (c.data::json->>'parent')::bigint IS DISTINCT FROM r.workflow OR "
     "(c.data::json->>'parent_step')::bigint IS DISTINCT FROM r.number END)"},
    {"step results without a job, without their mark, of a completed job, or too many",
     "SELECT count(*) FROM (SELECT m.job FROM $schema.memos m LEFT JOIN $schema.jobs j ON j.id = "
     "m.job GROUP BY m.job, j.flags, j.state HAVING j.flags IS NULL OR j.flags & 16384 = 0 OR "
     "j.state = 4 OR count(*) > 1000) m"},
    {"unique keys of a job with another key",
     "SELECT count(*) FROM $schema.uniques u JOIN $schema.jobs j ON j.id = u.id WHERE "
     "j.unique_key IS DISTINCT FROM u.key OR j.queue <> u.queue"},
    {"unique keys of pruned jobs without a final state, or of existing jobs with one",
     "SELECT count(*) FROM $schema.uniques u LEFT JOIN $schema.jobs j ON j.id = u.id WHERE u.id <> "
     "0 AND CASE WHEN j.id IS NULL THEN coalesce(u.ended, 0) NOT IN (4, 6, 7) ELSE u.ended IS NOT "
     "NULL END"},
    {"live jobs that do not own their unique key",
     "SELECT count(*) FROM $schema.jobs j WHERE unique_key IS NOT NULL AND state NOT IN (4, 6, 7) "
     "AND NOT EXISTS (SELECT 1 FROM $schema.uniques u WHERE u.queue = j.queue AND u.key = "
     "j.unique_key AND u.id = j.id)"},
    // -- counters
    {"queues with counters that do not add up",
     "SELECT count(*) FROM $schema.queue_counts WHERE enqueued <> pruned + expired + waiting + "
     "scheduled + available + running + completed + retryable + cancelled + dead"},
    {"counters of an unknown queue",
     "SELECT count(*) FROM $schema.job_counts t WHERE queue <> 0 AND NOT EXISTS (SELECT 1 FROM "
     "$schema.queues q WHERE q.id = t.queue)"},
    {"missing versions of copies",
     "SELECT 3 - count(*) FROM $schema.versions WHERE what IN ('queues', 'schedules', 'tokens')"},
    // -- named locks
    {"leases with a token that would be issued again",
     "SELECT count(*) FROM $schema.named_leases WHERE token > " MS_LAST_TOKEN},
    {"leases in an unknown state",
     "SELECT count(*) FROM $schema.named_leases WHERE state NOT IN (0, 1, 2) OR (state = 2 AND "
     "value IS NULL)"},
    // -- schedules
    {"ticks that fired twice",
     "SELECT count(*) FROM (SELECT 1 FROM $schema.ledger WHERE state = 0 AND source IN (0, 2) "
     "GROUP BY schedule, nominal, version HAVING count(*) > 1) t"},
    {"ticks that fired without a job, or were skipped with one",
     "SELECT count(*) FROM $schema.ledger WHERE (state = 0) <> (job IS NOT NULL)"},
    {"ticks with a job id that was never issued",
     "SELECT count(*) FROM $schema.ledger WHERE job > " MS_LAST_ID},
    {"ledgers without a schedule",
     "SELECT count(*) FROM $schema.ledger l WHERE NOT EXISTS (SELECT 1 FROM $schema.schedules s "
     "WHERE s.id = l.schedule)"},
    {"ledger rows with a number that would be issued again, or that should have been removed",
     "SELECT count(*) FROM $schema.ledger l JOIN $schema.schedules s ON s.id = l.schedule WHERE "
     "l.seq >= s.next_seq OR l.seq < s.next_seq - 10000"},
    {"schedules with fewer jobs than their ledger has",
     "SELECT count(*) FROM $schema.schedules s JOIN (SELECT schedule, count(*) AS n FROM "
     "$schema.ledger WHERE state = 0 GROUP BY schedule) l ON l.schedule = s.id WHERE s.fired < "
     "l.n"},
    {"schedules with more jobs than allowed",
     "SELECT count(*) FROM $schema.schedules WHERE remaining < 0 OR (remaining = 0 AND next "
     "<> " MS_NEVER ")"},
    {"schedules with a reused version",
     "SELECT count(*) FROM $schema.schedules s JOIN $schema.removed_schedules r ON r.name = "
     "s.name"},
    {"schedule links of ended jobs or missing schedules",
     "SELECT count(*) FROM $schema.schedule_jobs t LEFT JOIN $schema.jobs j ON j.id = t.job LEFT "
     "JOIN $schema.schedules s ON s.id = t.schedule WHERE j.state IS NULL OR j.state IN (4, 6, 7) "
     "OR s.id IS NULL"},
    {"jobs of a schedule without a link",
     "SELECT count(*) FROM $schema.jobs j JOIN $schema.schedules s ON s.id = j.schedule WHERE "
     "j.state NOT IN (4, 6, 7) AND NOT EXISTS (SELECT 1 FROM $schema.schedule_jobs t WHERE t.job "
     "= j.id AND t.schedule = s.id)"},
    {"waiting jobs without a reason to wait",
     "WITH live AS MATERIALIZED (SELECT DISTINCT t.schedule FROM $schema.schedule_jobs t JOIN "
     "$schema.jobs p ON p.id = t.job WHERE p.state <> 0 OR p.deferred) SELECT count(*) FROM "
     "$schema.jobs j LEFT "
     "JOIN $schema.schedule_jobs t ON t.job = j.id LEFT JOIN live l ON l.schedule = t.schedule "
     "WHERE j.state = 0 AND l.schedule IS NULL AND j.flags & 64 = 0 AND "
     "j.deferred IS NOT TRUE"},
    {"deferred jobs that are not waiting, or are missing from the list of deferred jobs",
     "SELECT count(*) FROM $schema.jobs j FULL JOIN $schema.deferred d ON d.id = j.id WHERE "
     "(j.deferred IS TRUE) <> (d.id IS NOT NULL) OR (d.id IS NOT NULL AND j.state <> "
     "0)"},
    {"waiting jobs that their schedule does not count as waiting, or the reverse",
     "SELECT count(*) FROM $schema.schedule_jobs t JOIN $schema.jobs j ON j.id = t.job WHERE "
     "t.waits <> (j.state = 0 AND j.deferred IS NOT TRUE)"},
    // -- tokens
    {"access tokens with a digest that is not 32 bytes long",
     "SELECT count(*) FROM $schema.tokens WHERE octet_length(digest) <> 32"},
};

}  // namespace

std::span<const Invariant> invariants() {
  return kInvariants;
}

const std::string_view kRecount =
    "WITH real AS (SELECT queue, CASE WHEN state = 6 AND flags & 2 <> 0 THEN 8 ELSE state END AS "
    "state, count(*) AS n FROM $schema.jobs GROUP BY 1, 2), kept AS (SELECT t.queue, s.state, "
    "sum(CASE s.state WHEN 0 THEN waiting WHEN 1 THEN scheduled WHEN 2 THEN available WHEN 3 THEN "
    "running WHEN 4 THEN completed WHEN 5 THEN retryable WHEN 6 THEN cancelled WHEN 7 THEN dead "
    "ELSE expired END)::bigint AS n FROM $schema.job_counts t CROSS JOIN generate_series(0, 8) AS "
    "s(state) WHERE t.queue <> 0 GROUP BY 1, 2) SELECT coalesce(q.name, '?'), coalesce(k.state, "
    "r.state), coalesce(k.n, 0), coalesce(r.n, 0) FROM kept k FULL JOIN real r ON r.queue = "
    "k.queue AND r.state = k.state LEFT JOIN $schema.queues q ON q.id = coalesce(k.queue, "
    "r.queue) WHERE coalesce(k.n, 0) <> coalesce(r.n, 0) ORDER BY 1, 2";

const std::string_view kAuditPageSql =
    "SELECT seq, at, who, origin, action, object, before, after, hash FROM $schema.audit WHERE "
    "seq > $1 ORDER BY seq LIMIT $2";

const std::string_view kVerifySettings =
    "SELECT set_config('idle_in_transaction_session_timeout', '0', true), "
    "set_config('statement_timeout', '0', true), set_config('work_mem', '64MB', true), "
    "set_config('jit', 'off', true), set_config('enable_seqscan', 'on', true), "
    "set_config('enable_hashjoin', 'on', true), "
    "set_config('enable_nestloop', 'off', true)";

#undef MS_LAST_ID
#undef MS_LAST_TOKEN
#undef MS_NEVER

}  // namespace mainspring::pg
