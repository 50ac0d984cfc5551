-- Each statement counts violations of one invariant of src/store_sqlite/verify.cc.

-- name: jobs_without_body
SELECT count(*) FROM jobs j WHERE NOT EXISTS (SELECT 1 FROM bodies b WHERE b.id = j.id);

-- name: bodies_without_job
SELECT count(*) FROM bodies b WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = b.id);

-- name: jobs_in_unknown_state
SELECT count(*) FROM jobs WHERE state NOT IN (0, 1, 2, 4, 5, 6, 7);

-- name: jobs_of_unknown_queue
SELECT count(*) FROM jobs WHERE queue NOT IN (SELECT id FROM queues);

-- name: jobs_of_unknown_kind
SELECT count(*) FROM jobs WHERE kind NOT IN (SELECT id FROM kinds);

-- name: grants_whose_jobs_have_all_ended
SELECT count(*)
FROM grants g
WHERE NOT EXISTS (SELECT 1 FROM json_each(g.ids) e CROSS JOIN jobs j ON j.id = e.value WHERE j.state
  = 2 AND j.token < g.token + e.key);
-- postgres: SELECT count(*) FROM grants g WHERE NOT EXISTS (SELECT 1 FROM json_each(g.ids) e JOIN
-- postgres: jobs j ON j.id = e.value WHERE j.state = 2 AND j.token < g.token + e.key);

-- name: jobs_with_two_leases
SELECT count(*) - count(DISTINCT id) FROM leases;

-- name: two_leases_with_one_token
SELECT count(*) - count(DISTINCT token) FROM leases;

-- name: notes_of_ended_leases
SELECT count(*) FROM lease_notes WHERE id NOT IN (SELECT id FROM leases);

-- name: scheduled_or_retryable_jobs_that_never_become_available
SELECT count(*)
FROM jobs j
WHERE state IN (1, 5) AND flags & 1073741824 = 0 AND NOT EXISTS (SELECT 1 FROM due d WHERE d.run_at
  = j.run_at AND d.id = j.id);

-- name: due_entries_without_job
SELECT count(*)
FROM due d LEFT JOIN jobs j ON j.id = d.id
WHERE j.state IS NULL OR j.state NOT IN (1, 5) OR j.flags & 1073741824 <> 0 OR j.run_at <> d.run_at;

-- name: jobs_with_wrong_mark_for_quarantine
SELECT (SELECT count(*) FROM jobs j WHERE j.flags & 1073741824 <> 0 AND NOT EXISTS (SELECT 1 FROM
  quarantine z WHERE z.id = j.id)) + (SELECT count(*) FROM quarantine z LEFT JOIN jobs j ON j.id =
  z.id WHERE j.id IS NULL OR j.flags & 1073741824 = 0 OR j.state IN (1, 4, 6, 7));

-- name: queues_with_more_than_one_released_job_of_quarantine
SELECT count(*)
FROM (SELECT 1 FROM quarantine z JOIN jobs j ON j.id = z.id WHERE j.state <> 5 GROUP BY j.queue
  HAVING count(*) > 1) q;

-- name: history_rows_without_series
SELECT count(*) FROM history WHERE series NOT IN (SELECT id FROM history_series);

-- name: hours_of_history_below_sum_of_their_minutes
SELECT count(*)
FROM (SELECT m.series, m.at - m.at % 3600000000 AS hour, sum(m.enqueued) AS enqueued, sum(m.started)
  AS started, sum(m.completed + m.failed + m.dead + m.cancelled) AS ended FROM history m WHERE
  m.span = 60000000 GROUP BY m.series, hour) m
JOIN history h ON h.span = 3600000000 AND h.at = m.hour AND h.series = m.series
WHERE h.enqueued < m.enqueued OR h.started < m.started OR h.completed + h.failed + h.dead +
  h.cancelled < m.ended;

-- name: dead_jobs_that_are_not_in_dead_letter
SELECT count(*) FROM jobs WHERE state = 7 AND id NOT IN (SELECT id FROM dead_letter);

-- name: dead_letter_entries_that_are_not_dead
SELECT count(*) FROM dead_letter d LEFT JOIN jobs j ON j.id = d.id WHERE j.state IS NOT 7;
-- postgres: SELECT count(*) FROM dead_letter d LEFT JOIN jobs j ON j.id = d.id WHERE j.state IS
-- postgres: DISTINCT FROM 7;

-- name: dead_letter_entries_with_another_queue
SELECT count(*)
FROM dead_letter d JOIN jobs j ON j.id = d.id
WHERE d.queue <> j.queue OR d.kind <> j.kind OR d.at <> j.finished_at;

-- name: index_values_of_unknown_searchable_paths
SELECT count(*) FROM search_values WHERE path NOT IN (SELECT id FROM search_paths);

-- name: ended_jobs_without_end_time
SELECT count(*) FROM jobs WHERE (state IN (4, 6, 7)) <> (finished_at IS NOT NULL);

-- name: jobs_with_priority_out_of_range
SELECT count(*) FROM jobs WHERE priority NOT BETWEEN 0 AND 9;

-- name: jobs_with_more_attempts_than_allowed
SELECT count(*) FROM jobs WHERE attempt > max_attempts OR attempt < 0;

-- name: ids_that_would_be_issued_again
SELECT count(*) FROM jobs WHERE id >= (SELECT a FROM job_counts WHERE id = 0);

-- name: tokens_that_would_be_issued_again
SELECT (SELECT count(*) FROM jobs WHERE token >= (SELECT b FROM job_counts WHERE id = 0)) + (SELECT
  count(*) FROM leases WHERE token >= (SELECT b FROM job_counts WHERE id = 0));

-- name: blocks_with_wrong_count_of_live_jobs
SELECT count(*)
FROM (SELECT id / 4096 AS block, count(*) AS n FROM jobs WHERE state NOT IN (4, 6, 7) GROUP BY 1) r
 
FULL JOIN (SELECT id - 4294967296 AS block, a AS n FROM job_counts WHERE id >= 4294967296) t ON
  t.block = r.block
WHERE t.n IS NOT r.n;
-- postgres: SELECT count(*) FROM (SELECT id / 4096 AS block, count(*) AS n FROM jobs WHERE state
-- postgres: NOT IN (4, 6, 7) GROUP BY 1) r FULL JOIN (SELECT id - 4294967296 AS block, a AS n FROM
-- postgres: job_counts WHERE id >= 4294967296) t ON t.block = r.block WHERE t.n IS DISTINCT FROM
-- postgres: r.n;

-- name: rates_of_limit_keys_without_queue
SELECT count(*)
FROM key_meters m LEFT JOIN queues q ON q.id = m.queue
WHERE q.limits IS NULL OR q.limits NOT LIKE '%"per_key":{%"rate":{%';

-- name: queues_with_counters_that_do_not_add_up
SELECT count(*)
FROM queue_counts
WHERE enqueued <> pruned + expired + waiting + scheduled + available + running + completed +
  retryable + cancelled + dead;

-- name: jobs_counted_as_expired_that_were_not_cancelled
SELECT count(*) FROM jobs WHERE flags & 2 <> 0 AND state <> 6;

-- name: unique_keys_of_job_with_another_key
SELECT count(*) FROM uniques u JOIN bodies b ON b.id = u.id WHERE b.unique_key <> u.key;

-- name: unique_keys_of_pruned_jobs_without_final_state
SELECT count(*)
FROM uniques u LEFT JOIN jobs j ON j.id = u.id
WHERE (j.id IS NULL) <> (coalesce(u.ended, 0) IN (4, 6, 7));

-- name: ended_jobs_that_are_never_pruned
SELECT max(0, (SELECT count(*) FROM jobs WHERE state IN (4, 6, 7)) - (SELECT
  coalesce(sum(length(ids)), 0) / 8 FROM finished));
-- postgres: SELECT greatest(0, (SELECT count(*) FROM jobs WHERE state IN (4, 6, 7)) - (SELECT
-- postgres: coalesce(sum(length(ids)), 0) / 8 FROM finished));

-- name: live_jobs_that_do_not_own_their_unique_key
SELECT count(*)
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE b.unique_key IS NOT NULL AND j.state NOT IN (4, 6, 7) AND NOT EXISTS (SELECT 1 FROM uniques u
  WHERE u.queue = j.queue AND u.key = b.unique_key AND u.id = j.id);

-- name: jobs_without_mark_for_follow_ups
SELECT count(*)
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE b.follow_ups IS NOT NULL AND j.flags & 32 = 0;

-- name: jobs_with_unreadable_follow_ups
SELECT count(*)
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE j.flags & 32 <> 0 AND (coalesce(b.follow_ups, b.reply_to) IS NULL OR (b.follow_ups IS NOT NULL
  AND NOT json_valid(b.follow_ups)));

-- name: errors_without_job
SELECT count(*) FROM errors WHERE job NOT IN (SELECT id FROM jobs);

-- name: leases_with_token_that_would_be_issued_again
SELECT count(*) FROM named_leases WHERE token >= (SELECT b FROM job_counts WHERE id = 0);

-- name: leases_in_unknown_state
SELECT count(*) FROM named_leases WHERE state NOT IN (0, 1, 2) OR (state = 2 AND value IS NULL);

-- name: ticks_that_fired_twice
SELECT count(*)
FROM (SELECT 1 FROM ledger NOT INDEXED WHERE state = 0 AND source IN (0, 2) GROUP BY schedule,
  nominal, version HAVING count(*) > 1);
-- postgres: SELECT count(*) FROM (SELECT 1 FROM ledger WHERE state = 0 AND source IN (0, 2) GROUP
-- postgres: BY schedule, nominal, version HAVING count(*) > 1) l;

-- name: ticks_that_fired_without_job
SELECT count(*) FROM ledger WHERE (state = 0) <> (job IS NOT NULL);

-- name: ticks_with_job_id_that_was_never_issued
SELECT count(*) FROM ledger WHERE job >= (SELECT a FROM job_counts WHERE id = 0);

-- name: ledgers_without_schedule
SELECT count(*) FROM ledger WHERE schedule NOT IN (SELECT id FROM schedules);

-- name: ledger_rows_with_number_that_would_be_issued_again
SELECT count(*)
FROM ledger l JOIN schedules s ON s.id = l.schedule
WHERE l.seq >= s.next_seq OR l.seq < s.next_seq - 10000;

-- name: schedules_with_fewer_jobs_than_their_ledger_has
SELECT count(*)
FROM schedules s
WHERE s.fired < (SELECT count(*) FROM ledger l WHERE l.schedule = s.id AND l.state = 0);

-- name: schedules_with_more_jobs_than_allowed
SELECT count(*)
FROM schedules
WHERE remaining < 0 OR (remaining = 0 AND next <> 9223372036854775807);

-- name: schedules_with_reused_version
SELECT count(*) FROM schedules s JOIN removed_schedules r ON r.name = s.name;

-- name: schedule_links_of_ended_jobs_or_missing_schedules
SELECT count(*)
FROM schedule_jobs t LEFT JOIN jobs j ON j.id = t.job
WHERE j.state IS NULL OR j.state IN (4, 6, 7) OR t.schedule NOT IN (SELECT id FROM schedules);

-- name: jobs_of_schedule_without_link
SELECT count(*)
FROM bodies b JOIN schedules s ON s.id = b.schedule JOIN jobs j ON j.id = b.id
WHERE j.state NOT IN (4, 6, 7) AND NOT EXISTS (SELECT 1 FROM schedule_jobs t WHERE t.job = j.id AND
  t.schedule = s.id);

-- name: waiting_jobs_without_reason_to_wait
SELECT count(*)
FROM jobs j LEFT JOIN schedule_jobs t ON t.job = j.id
WHERE j.state = 0 AND j.flags & 32832 = 0 AND NOT EXISTS (SELECT 1 FROM schedule_jobs o JOIN jobs p
  ON p.id = o.job WHERE o.schedule = t.schedule AND (p.state <> 0 OR p.flags & 32768 <> 0));

-- name: deferred_jobs_that_are_not_waiting
SELECT count(*) FROM jobs WHERE flags & 32768 <> 0 AND state <> 0;

-- name: jobs_with_wrong_mark_for_their_session
SELECT count(*)
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE (j.flags & 64 <> 0) <> (b.session IS NOT NULL);

-- name: jobs_with_wrong_mark_for_their_limit_key
SELECT count(*)
FROM jobs j JOIN bodies b ON b.id = j.id
WHERE (j.flags & 2048 <> 0) <> (b.limit_key IS NOT NULL);

-- name: live_jobs_of_session_neither_head_nor_waiting
SELECT count(*)
FROM jobs j JOIN bodies b ON b.id = j.id
LEFT JOIN sessions s ON s.queue = j.queue AND s.key = b.session
WHERE j.flags & 64 <> 0 AND j.state NOT IN (4, 6, 7) AND (s.id IS NULL OR (s.head <> j.id AND
  j.state <> 0));

-- name: session_heads_that_have_ended
SELECT count(*)
FROM sessions s LEFT JOIN jobs j ON j.id = s.head
LEFT JOIN bodies b ON b.id = s.head
WHERE s.head <> 0 AND (j.state IS NULL OR j.state IN (4, 6, 7) OR j.queue <> s.queue OR b.session IS
  NOT s.key);
-- postgres: SELECT count(*) FROM sessions s LEFT JOIN jobs j ON j.id = s.head LEFT JOIN bodies b ON
-- postgres: b.id = s.head WHERE s.head <> 0 AND (j.state IS NULL OR j.state IN (4, 6, 7) OR j.queue
-- postgres: <> s.queue OR b.session IS DISTINCT FROM s.key);

-- name: sessions_with_wrong_count_of_jobs
SELECT count(*)
FROM sessions s
LEFT JOIN (SELECT j.queue, b.session, count(*) AS jobs FROM jobs j CROSS JOIN bodies b ON b.id =
  j.id WHERE j.flags & 64 <> 0 AND j.state NOT IN (4, 6, 7) GROUP BY 1, 2) l ON l.queue = s.queue AND
  l.session = s.key
WHERE s.jobs <> coalesce(l.jobs, 0);
-- postgres: SELECT count(*) FROM sessions s LEFT JOIN (SELECT j.queue, b.session, count(*) AS jobs
-- postgres: FROM jobs j JOIN bodies b ON b.id = j.id WHERE j.flags & 64 <> 0 AND j.state NOT IN (4,
-- postgres: 6, 7) GROUP BY 1, 2) l ON l.queue = s.queue AND l.session = s.key WHERE s.jobs <>
-- postgres: coalesce(l.jobs, 0);

-- name: live_step_jobs_that_no_workflow_waits_for
SELECT count(*)
FROM jobs j
WHERE flags & 4096 <> 0 AND state NOT IN (4, 6, 7) AND NOT EXISTS (SELECT 1 FROM workflow_jobs w
  WHERE w.job = j.id) AND NOT EXISTS (SELECT 1 FROM lease_notes n WHERE n.id = j.id AND
  n.cancel_requested <> 0);

-- name: ended_jobs_that_workflow_still_waits_for
SELECT count(*)
FROM workflow_jobs w LEFT JOIN jobs j ON j.id = w.job
WHERE j.id IS NULL OR j.state IN (4, 6, 7) OR j.flags & 4096 = 0 OR NOT EXISTS (SELECT 1 FROM
  workflows f WHERE f.id = w.workflow);

-- name: workflows_in_unknown_state
SELECT count(*) FROM workflows WHERE state NOT BETWEEN 0 AND 6;

-- name: workflows_with_wrong_count_of_live_jobs
SELECT count(*)
FROM workflows w
WHERE coalesce(json_extract(data, '$.live'), 0) <> (SELECT count(*) FROM workflow_rows r WHERE
  r.workflow = w.id AND r.kind IN (6, 13)) + (SELECT count(*) FROM json_each(data, '$.states') s
  WHERE s.value ->> 'state' = 1 AND s.value ->> 'job' IS NOT NULL);
-- postgres: SELECT count(*) FROM workflows w WHERE coalesce((data::json ->> 'live')::bigint, 0) <>
-- postgres: (SELECT count(*) FROM workflow_rows r WHERE r.workflow = w.id AND r.kind IN (6, 13)) +
-- postgres: (SELECT count(*) FROM json_array_elements(data::json -> 'states') s WHERE s ->> 'state'
-- postgres: = '1' AND s ->> 'job' IS NOT NULL);

-- name: packed_running_steps_with_another_job
SELECT count(*)
FROM workflows w CROSS JOIN json_each(w.data, '$.states') s
WHERE s.value ->> 'state' = 1 AND s.value ->> 'job' IS NOT NULL AND NOT EXISTS (SELECT 1 FROM
  workflow_jobs j WHERE j.job = s.value ->> 'job' AND j.workflow = w.id AND j.step = s.key + 1 AND
  j.undo = 0);
-- postgres: SELECT count(*) FROM workflows w CROSS JOIN json_array_elements(w.data::json ->
-- postgres: 'states') WITH ORDINALITY s (value, number) WHERE s.value ->> 'state' = '1' AND s.value
-- postgres: ->> 'job' IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workflow_jobs j WHERE j.job =
-- postgres: (s.value ->> 'job')::bigint AND j.workflow = w.id AND j.step = s.number AND j.undo =
-- postgres: 0);

-- name: packed_workflows_without_their_input
SELECT count(*)
FROM workflows w
WHERE finished_at IS NULL AND data LIKE '%"states":[%' AND NOT EXISTS (SELECT 1 FROM workflow_texts
  r WHERE r.workflow = w.id AND r.kind = 0 AND r.number = 4);

-- name: running_workflows_without_anything_to_wait_for
SELECT count(*)
FROM workflows w
WHERE state = 0 AND wake_at IS NULL AND NOT EXISTS (SELECT 1 FROM workflow_rows r WHERE r.workflow =
  w.id AND r.kind IN (6, 9, 10, 13)) AND NOT EXISTS (SELECT 1 FROM json_each(data, '$.states') s
  WHERE s.value ->> 'state' = 1 AND s.value ->> 'job' IS NOT NULL);
-- postgres: SELECT count(*) FROM workflows w WHERE state = 0 AND wake_at IS NULL AND NOT EXISTS
-- postgres: (SELECT 1 FROM workflow_rows r WHERE r.workflow = w.id AND r.kind IN (6, 9, 10, 13))
-- postgres: AND NOT EXISTS (SELECT 1 FROM json_array_elements(data::json -> 'states') s WHERE s ->>
-- postgres: 'state' = '1' AND s ->> 'job' IS NOT NULL);

-- name: ledger_rows_of_missing_trigger
SELECT count(*)
FROM trigger_events e
WHERE NOT EXISTS (SELECT 1 FROM triggers t WHERE t.name = e.name AND json_extract(t.state,
  '$.next_seq') > e.seq);
-- postgres: SELECT count(*) FROM trigger_events e WHERE NOT EXISTS (SELECT 1 FROM triggers t WHERE
-- postgres: t.name = e.name AND (t.state::json ->> 'next_seq')::bigint > e.seq);

-- name: queues_with_missing_breaker
SELECT count(*)
FROM queues q
WHERE json_extract(q.limits, '$.breaker') IS NOT NULL AND NOT EXISTS (SELECT 1 FROM breakers b WHERE
  b.name = json_extract(q.limits, '$.breaker'));
-- postgres: SELECT count(*) FROM queues q WHERE (q.limits::json ->> 'breaker') IS NOT NULL AND NOT
-- postgres: EXISTS (SELECT 1 FROM breakers b WHERE b.name = (q.limits::json ->> 'breaker'));

-- name: ended_workflows_without_end_time
SELECT count(*)
FROM workflows
WHERE (state >= 3) <> (finished_at IS NOT NULL) AND json_extract(data, '$.parent') IS NULL;
-- postgres: SELECT count(*) FROM workflows WHERE (state >= 3) <> (finished_at IS NOT NULL) AND
-- postgres: (data::json ->> 'parent') IS NULL;

-- name: live_child_workflows_of_ended_parent
SELECT count(*)
FROM workflow_rows r JOIN workflows p ON p.id = r.workflow
JOIN workflows c ON c.id = r.number
WHERE r.kind = 12 AND p.state >= 3 AND c.state < 3;

-- name: steps_that_wait_for_workflow_that_is_missing
SELECT count(*)
FROM workflow_rows r LEFT JOIN workflows c ON c.id = CAST(r.text AS INTEGER)
WHERE r.kind = 13 AND (c.id IS NULL OR c.state >= 3 OR json_extract(c.data, '$.parent') IS NOT
  r.workflow OR json_extract(c.data, '$.parent_step') IS NOT r.number);
-- postgres: SELECT count(*) FROM workflow_rows r LEFT JOIN workflows c ON c.id = CAST(r.text AS
-- postgres: INTEGER) WHERE r.kind = 13 AND (c.id IS NULL OR c.state >= 3 OR (c.data::json ->>
-- postgres: 'parent')::bigint IS DISTINCT FROM r.workflow OR (c.data::json ->>
-- postgres: 'parent_step')::bigint IS DISTINCT FROM r.number);

-- name: step_results_without_job
SELECT count(*)
FROM memos m LEFT JOIN jobs j ON j.id = m.job
WHERE j.id IS NULL OR j.state = 4 OR (j.flags & 16384 = 0 AND NOT EXISTS (SELECT 1 FROM lease_notes
  n WHERE n.id = j.id));

-- name: jobs_with_too_many_step_results
SELECT count(*) FROM (SELECT job FROM memos GROUP BY job HAVING count(*) > 1000) m;

-- name: sessions_with_waiting_jobs_but_no_head
SELECT count(*) FROM sessions s WHERE s.head = 0 AND s.stop = 0 AND s.jobs > 0;

-- name: stopped_sessions_with_head
SELECT count(*) FROM sessions WHERE stop <> 0 AND head <> 0;

-- name: session_heads_claimable_by_wrong_workers
SELECT count(*)
FROM sessions s JOIN jobs j ON j.id = s.head
WHERE (s.token <> 0 AND j.state = 2 AND j.id NOT IN (SELECT id FROM leases)) OR (s.token = 0 AND
  j.state = 0);

-- name: sessions_without_jobs
SELECT count(*) FROM sessions WHERE jobs = 0 AND token = 0 AND stop = 0 AND state_bytes = 0;

-- name: session_states_that_are_missing
SELECT count(*)
FROM sessions s FULL JOIN session_states t ON t.session = s.id
WHERE coalesce(s.state_bytes, -1) <> coalesce(length(CAST(t.state AS BLOB)), 0);
-- postgres: SELECT count(*) FROM sessions s FULL JOIN session_states t ON t.session = s.id WHERE
-- postgres: coalesce(s.state_bytes, -1) <> coalesce(octet_length(t.state), 0);

-- name: sessions_with_id_or_token_that_would_be_issued_again
SELECT count(*)
FROM sessions
WHERE id >= (SELECT d FROM job_counts WHERE id = 0) OR token >= (SELECT b FROM job_counts WHERE id =
  0);

-- Per queue and state: the counter and the number of rows.
-- name: recount
WITH l AS MATERIALIZED (SELECT id FROM leases),
  real AS (SELECT j.queue AS queue,
    CASE WHEN l.id IS NOT NULL THEN 3 WHEN j.flags & 2 THEN 8 ELSE j.state END AS state,
    count(*) AS n FROM jobs j LEFT JOIN l ON l.id = j.id GROUP BY 1, 2),
  kept AS (SELECT t.id AS queue, s.column1 AS state,
    CASE s.column1 WHEN 0 THEN t.d WHEN 1 THEN t.e WHEN 2 THEN t.f WHEN 3 THEN t.g WHEN 4 THEN t.h
    WHEN 5 THEN t.i WHEN 6 THEN t.j WHEN 7 THEN t.k ELSE t.c END AS n
    FROM job_counts t, (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8)) s
    WHERE t.id > 0 AND t.id < 4294967296)
SELECT q.name, k.state, k.n, coalesce(r.n, 0)
FROM kept k JOIN queues q ON q.id = k.queue
LEFT JOIN real r ON r.queue = k.queue AND r.state = k.state
WHERE k.n <> coalesce(r.n, 0);
-- postgres: WITH l AS MATERIALIZED (SELECT id FROM leases), real AS (SELECT j.queue AS queue, CASE
-- postgres: WHEN l.id IS NOT NULL THEN 3 WHEN j.flags & 2 <> 0 THEN 8 ELSE j.state END AS state,
-- postgres: count(*) AS n FROM jobs j LEFT JOIN l ON l.id = j.id GROUP BY 1, 2), kept AS (SELECT
-- postgres: t.id AS queue, s.column1 AS state, CASE s.column1 WHEN 0 THEN t.d WHEN 1 THEN t.e WHEN
-- postgres: 2 THEN t.f WHEN 3 THEN t.g WHEN 4 THEN t.h WHEN 5 THEN t.i WHEN 6 THEN t.j WHEN 7 THEN
-- postgres: t.k ELSE t.c END AS n FROM job_counts t, (VALUES (0), (1), (2), (3), (4), (5), (6),
-- postgres: (7), (8)) s WHERE t.id > 0 AND t.id < 4294967296) SELECT q.name, k.state, k.n,
-- postgres: coalesce(r.n, 0) FROM kept k JOIN queues q ON q.id = k.queue LEFT JOIN real r ON
-- postgres: r.queue = k.queue AND r.state = k.state WHERE k.n <> coalesce(r.n, 0);
