// verify(): recounts the whole store and checks its counters and invariants.
#include <fmt/format.h>

#include "queries_data.h"  // generated from sql/queries
#include "sql_store/session_rows.h"
#include "sql_store/store_impl.h"

namespace mainspring::sql {
namespace {

// An invariant as a query that counts its violations.
struct Invariant {
  const char* what;
  sql::Query sql;
};

constexpr Invariant kInvariants[] = {
    {"jobs without a body", queries::verify::jobs_without_body},
    {"bodies without a job", queries::verify::bodies_without_job},
    {"jobs in an unknown state", queries::verify::jobs_in_unknown_state},
    {"jobs of an unknown queue", queries::verify::jobs_of_unknown_queue},
    {"jobs of an unknown kind", queries::verify::jobs_of_unknown_kind},
    {"grants whose jobs have all ended", queries::verify::grants_whose_jobs_have_all_ended},
    {"jobs with two leases", queries::verify::jobs_with_two_leases},
    {"two leases with one token", queries::verify::two_leases_with_one_token},
    {"notes of ended leases", queries::verify::notes_of_ended_leases},
    {"scheduled or retryable jobs that never become available",
     queries::verify::scheduled_or_retryable_jobs_that_never_become_available},
    {"due entries without a job", queries::verify::due_entries_without_job},
    {"jobs with a wrong mark for quarantine", queries::verify::jobs_with_wrong_mark_for_quarantine},
    {"queues with more than one released job of the quarantine",
     queries::verify::queues_with_more_than_one_released_job_of_quarantine},
    {"history rows without a series", queries::verify::history_rows_without_series},
    {"hours of the history below the sum of their minutes",
     queries::verify::hours_of_history_below_sum_of_their_minutes},
    {"dead jobs that are not in the dead letter",
     queries::verify::dead_jobs_that_are_not_in_dead_letter},
    {"dead letter entries that are not dead",
     queries::verify::dead_letter_entries_that_are_not_dead},
    {"dead letter entries with another queue, kind or time than their jobs",
     queries::verify::dead_letter_entries_with_another_queue},
    {"index values of unknown searchable paths",
     queries::verify::index_values_of_unknown_searchable_paths},
    {"ended jobs without an end time", queries::verify::ended_jobs_without_end_time},
    {"jobs with a priority out of range", queries::verify::jobs_with_priority_out_of_range},
    {"jobs with more attempts than allowed", queries::verify::jobs_with_more_attempts_than_allowed},
    {"ids that would be issued again", queries::verify::ids_that_would_be_issued_again},
    {"tokens that would be issued again", queries::verify::tokens_that_would_be_issued_again},
    {"blocks with a wrong count of live jobs",
     queries::verify::blocks_with_wrong_count_of_live_jobs},
    {"rates of limit keys without a queue", queries::verify::rates_of_limit_keys_without_queue},
    {"queues with counters that do not add up",
     queries::verify::queues_with_counters_that_do_not_add_up},
    {"jobs counted as expired that were not cancelled",
     queries::verify::jobs_counted_as_expired_that_were_not_cancelled},
    {"unique keys of a job with another key", queries::verify::unique_keys_of_job_with_another_key},
    {"unique keys of pruned jobs without a final state, or of existing jobs with one",
     queries::verify::unique_keys_of_pruned_jobs_without_final_state},
    {"ended jobs that are never pruned", queries::verify::ended_jobs_that_are_never_pruned},
    {"live jobs that do not own their unique key",
     queries::verify::live_jobs_that_do_not_own_their_unique_key},
    {"jobs without the mark for follow-ups", queries::verify::jobs_without_mark_for_follow_ups},
    {"jobs with unreadable follow-ups", queries::verify::jobs_with_unreadable_follow_ups},
    {"errors without a job", queries::verify::errors_without_job},
    {"leases with a token that would be issued again",
     queries::verify::leases_with_token_that_would_be_issued_again},
    {"leases in an unknown state", queries::verify::leases_in_unknown_state},
    {"ticks that fired twice", queries::verify::ticks_that_fired_twice},
    {"ticks that fired without a job, or were skipped with one",
     queries::verify::ticks_that_fired_without_job},
    {"ticks with a job id that was never issued",
     queries::verify::ticks_with_job_id_that_was_never_issued},
    {"ledgers without a schedule", queries::verify::ledgers_without_schedule},
    {"ledger rows with a number that would be issued again, or that should have been removed",
     queries::verify::ledger_rows_with_number_that_would_be_issued_again},
    {"schedules with fewer jobs than their ledger has",
     queries::verify::schedules_with_fewer_jobs_than_their_ledger_has},
    {"schedules with more jobs than allowed",
     queries::verify::schedules_with_more_jobs_than_allowed},
    {"schedules with a reused version", queries::verify::schedules_with_reused_version},
    {"schedule links of ended jobs or missing schedules",
     queries::verify::schedule_links_of_ended_jobs_or_missing_schedules},
    {"jobs of a schedule without a link", queries::verify::jobs_of_schedule_without_link},
    {"waiting jobs without a reason to wait", queries::verify::waiting_jobs_without_reason_to_wait},
    {"deferred jobs that are not waiting", queries::verify::deferred_jobs_that_are_not_waiting},
    {"jobs with a wrong mark for their session",
     queries::verify::jobs_with_wrong_mark_for_their_session},
    {"jobs with a wrong mark for their limit_key",
     queries::verify::jobs_with_wrong_mark_for_their_limit_key},
    {"live jobs of a session that are neither its head nor waiting",
     queries::verify::live_jobs_of_session_neither_head_nor_waiting},
    {"session heads that have ended, or belong to another session",
     queries::verify::session_heads_that_have_ended},
    {"sessions with a wrong count of jobs", queries::verify::sessions_with_wrong_count_of_jobs},
    {"live step jobs that no workflow waits for",
     queries::verify::live_step_jobs_that_no_workflow_waits_for},
    {"ended jobs that a workflow still waits for",
     queries::verify::ended_jobs_that_workflow_still_waits_for},
    {"workflows in an unknown state", queries::verify::workflows_in_unknown_state},
    {"workflows with a wrong count of live jobs",
     queries::verify::workflows_with_wrong_count_of_live_jobs},
    {"packed running steps with another job",
     queries::verify::packed_running_steps_with_another_job},
    {"packed workflows without their input", queries::verify::packed_workflows_without_their_input},
    {"running workflows without anything to wait for",
     queries::verify::running_workflows_without_anything_to_wait_for},
    {"ledger rows of a missing trigger, or beyond its count",
     queries::verify::ledger_rows_of_missing_trigger},
    {"queues with a missing breaker", queries::verify::queues_with_missing_breaker},
    {"ended workflows without an end time, or running ones with one",
     queries::verify::ended_workflows_without_end_time},
    {"live child workflows of an ended parent",
     queries::verify::live_child_workflows_of_ended_parent},
    {"steps that wait for a workflow that is missing, has ended, or has another parent",
     queries::verify::steps_that_wait_for_workflow_that_is_missing},
    {"step results without a job, without their mark, or of a completed job",
     queries::verify::step_results_without_job},
    {"jobs with too many step results", queries::verify::jobs_with_too_many_step_results},
    {"sessions with waiting jobs but no head",
     queries::verify::sessions_with_waiting_jobs_but_no_head},
    {"stopped sessions with a head", queries::verify::stopped_sessions_with_head},
    {"session heads that any worker can claim although the session is held, or no worker although "
     "it is free",
     queries::verify::session_heads_claimable_by_wrong_workers},
    {"sessions without jobs, holder and state", queries::verify::sessions_without_jobs},
    {"session states that are missing, truncated or without a session",
     queries::verify::session_states_that_are_missing},
    {"sessions with an id or token that would be issued again",
     queries::verify::sessions_with_id_or_token_that_would_be_issued_again},
};

}  // namespace

Result<VerifyReport> SqlStore::verify_showing(const VerifyProgress& progress) const {
  return verify_store(*disk_, audit_state().head, progress);
}

Result<VerifyReport> verify_store(const Disk& disk, const AuditMark& known,
                                  const VerifyProgress& progress) {
  try {
    const std::unique_ptr<Connection> connection = disk.reader();
    Connection& db = *connection;
    Snapshot snapshot(db);
    show_sessions_by_jobs(db);
    VerifyReport report;
    constexpr int kOthers = 4;  // count, pages, counters, audit
    int done = 0;
    const auto step = [&] {
      if (progress) progress(++done, static_cast<int>(std::size(kInvariants)) + kOthers);
    };
    report.jobs = db.query_int(queries::jobs::count);
    step();
    disk.check_pages(db, report.problems);
    step();
    for (const Invariant& invariant : kInvariants) {
      const std::int64_t broken = db.query_int(invariant.sql);
      if (broken != 0) report.problems.push_back(fmt::format("{}: {}", invariant.what, broken));
      step();
    }
    Statement recount(db, queries::verify::recount);
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
  } catch (const DiskError& error) {
    VerifyReport report;
    if (error.fault != DiskFault::damaged) return to_error(error);
    report.problems.push_back(fmt::format("the file is damaged: {}", error.message));
    return report;
  }
}

}  // namespace mainspring::sql
