// The handler of each command; the rows of the table of commands refer to them.
#pragma once

#include "cli/command.h"

namespace mainspring::cli {

Result<int> run_serve(const Invocation& invocation, Io& io);
Result<int> run_work(const Invocation& invocation, Io& io);
Result<int> run_scale_show(const Invocation& invocation, Io& io);
Result<int> run_scale_run(const Invocation& invocation, Io& io);
Result<int> run_scale_units(const Invocation& invocation, Io& io);
Result<int> run_scale_simulate(const Invocation& invocation, Io& io);
Result<int> run_lease_run(const Invocation& invocation, Io& io);
Result<int> run_step_run(const Invocation& invocation, Io& io);
Result<int> run_enqueue(const Invocation& invocation, Io& io);

Result<int> run_jobs_list(const Invocation& invocation, Io& io);
Result<int> run_jobs_show(const Invocation& invocation, Io& io);
Result<int> run_jobs_why(const Invocation& invocation, Io& io);
Result<int> run_jobs_cancel(const Invocation& invocation, Io& io);
Result<int> run_jobs_retry(const Invocation& invocation, Io& io);
Result<int> run_jobs_take_back(const Invocation& invocation, Io& io);
Result<int> run_jobs_edit(const Invocation& invocation, Io& io);
Result<int> run_jobs_delete(const Invocation& invocation, Io& io);
Result<int> run_jobs_clone(const Invocation& invocation, Io& io);
Result<int> run_bulk_cancel(const Invocation& invocation, Io& io);
Result<int> run_bulk_retry(const Invocation& invocation, Io& io);
Result<int> run_bulk_delete(const Invocation& invocation, Io& io);
Result<int> run_bulk_reprioritise(const Invocation& invocation, Io& io);
Result<int> run_bulk_list(const Invocation& invocation, Io& io);
Result<int> run_bulk_show(const Invocation& invocation, Io& io);
Result<int> run_bulk_stop(const Invocation& invocation, Io& io);
Result<int> run_bulk_continue(const Invocation& invocation, Io& io);

Result<int> run_queues_list(const Invocation& invocation, Io& io);
Result<int> run_queues_show(const Invocation& invocation, Io& io);
Result<int> run_queues_remove(const Invocation& invocation, Io& io);
Result<int> run_queues_pause(const Invocation& invocation, Io& io);
Result<int> run_queues_resume(const Invocation& invocation, Io& io);
Result<int> run_queues_set(const Invocation& invocation, Io& io);
Result<int> run_queues_limit(const Invocation& invocation, Io& io);

Result<int> run_dead_list(const Invocation& invocation, Io& io);
Result<int> run_dead_groups(const Invocation& invocation, Io& io);
Result<int> run_dead_show(const Invocation& invocation, Io& io);
Result<int> run_dead_redrive(const Invocation& invocation, Io& io);
Result<int> run_dead_retry(const Invocation& invocation, Io& io);
Result<int> run_history(const Invocation& invocation, Io& io);
Result<int> run_mark(const Invocation& invocation, Io& io);
Result<int> run_marks_list(const Invocation& invocation, Io& io);
Result<int> run_marks_remove(const Invocation& invocation, Io& io);
Result<int> run_views_list(const Invocation& invocation, Io& io);
Result<int> run_views_save(const Invocation& invocation, Io& io);
Result<int> run_views_remove(const Invocation& invocation, Io& io);
Result<int> run_events(const Invocation& invocation, Io& io);
Result<int> run_health(const Invocation& invocation, Io& io);
Result<int> run_doctor(const Invocation& invocation, Io& io);
Result<int> run_support_bundle(const Invocation& invocation, Io& io);
Result<int> run_complete(const Invocation& invocation, Io& io);
Result<int> run_top(const Invocation& invocation, Io& io);
Result<int> run_workers(const Invocation& invocation, Io& io);
Result<int> run_workers_quiet(const Invocation& invocation, Io& io);
Result<int> run_workers_stop(const Invocation& invocation, Io& io);
Result<int> run_workers_resume(const Invocation& invocation, Io& io);

Result<int> run_schedules_set(const Invocation& invocation, Io& io);
Result<int> run_schedules_list(const Invocation& invocation, Io& io);
Result<int> run_schedules_show(const Invocation& invocation, Io& io);
Result<int> run_schedules_preview(const Invocation& invocation, Io& io);
Result<int> run_schedules_trigger(const Invocation& invocation, Io& io);
Result<int> run_schedules_upcoming(const Invocation& invocation, Io& io);
Result<int> run_schedules_pause(const Invocation& invocation, Io& io);
Result<int> run_schedules_resume(const Invocation& invocation, Io& io);
Result<int> run_schedules_ledger(const Invocation& invocation, Io& io);
Result<int> run_schedules_backfill(const Invocation& invocation, Io& io);
Result<int> run_schedules_remove(const Invocation& invocation, Io& io);

Result<int> run_timers_set(const Invocation& invocation, Io& io);
Result<int> run_timers_list(const Invocation& invocation, Io& io);
Result<int> run_timers_show(const Invocation& invocation, Io& io);
Result<int> run_timers_start(const Invocation& invocation, Io& io);
Result<int> run_timers_stop(const Invocation& invocation, Io& io);
Result<int> run_timers_wake(const Invocation& invocation, Io& io);
Result<int> run_timers_timeout(const Invocation& invocation, Io& io);
Result<int> run_timers_remove(const Invocation& invocation, Io& io);

Result<int> run_leases_list(const Invocation& invocation, Io& io);
Result<int> run_leases_show(const Invocation& invocation, Io& io);

Result<int> run_sessions_list(const Invocation& invocation, Io& io);
Result<int> run_sessions_show(const Invocation& invocation, Io& io);
Result<int> run_sessions_resume(const Invocation& invocation, Io& io);

Result<int> run_quarantine_list(const Invocation& invocation, Io& io);
Result<int> run_quarantine_release(const Invocation& invocation, Io& io);
Result<int> run_breaker_set(const Invocation& invocation, Io& io);
Result<int> run_breaker_list(const Invocation& invocation, Io& io);
Result<int> run_breaker_show(const Invocation& invocation, Io& io);
Result<int> run_breaker_open(const Invocation& invocation, Io& io);
Result<int> run_breaker_close(const Invocation& invocation, Io& io);
Result<int> run_breaker_remove(const Invocation& invocation, Io& io);
Result<int> run_trigger_set(const Invocation& invocation, Io& io);
Result<int> run_trigger_list(const Invocation& invocation, Io& io);
Result<int> run_trigger_show(const Invocation& invocation, Io& io);
Result<int> run_trigger_fire(const Invocation& invocation, Io& io);
Result<int> run_trigger_ledger(const Invocation& invocation, Io& io);
Result<int> run_trigger_pause(const Invocation& invocation, Io& io);
Result<int> run_trigger_resume(const Invocation& invocation, Io& io);
Result<int> run_trigger_remove(const Invocation& invocation, Io& io);
Result<int> run_workflow_start(const Invocation& invocation, Io& io);
Result<int> run_workflow_list(const Invocation& invocation, Io& io);
Result<int> run_workflow_show(const Invocation& invocation, Io& io);
Result<int> run_workflow_signal(const Invocation& invocation, Io& io);
Result<int> run_workflow_cancel(const Invocation& invocation, Io& io);
Result<int> run_workflow_pause(const Invocation& invocation, Io& io);
Result<int> run_workflow_resume(const Invocation& invocation, Io& io);
Result<int> run_workflow_retry(const Invocation& invocation, Io& io);
Result<int> run_workflow_fork(const Invocation& invocation, Io& io);
Result<int> run_workflow_check(const Invocation& invocation, Io& io);
Result<int> run_pipeline_run(const Invocation& invocation, Io& io);
Result<int> run_pipeline_show(const Invocation& invocation, Io& io);
Result<int> run_pipeline_check(const Invocation& invocation, Io& io);

Result<int> run_host(const Invocation& invocation, Io& io);
Result<int> run_host_list(const Invocation& invocation, Io& io);
Result<int> run_host_show(const Invocation& invocation, Io& io);
Result<int> run_host_run(const Invocation& invocation, Io& io);
Result<int> run_host_stop(const Invocation& invocation, Io& io);
Result<int> run_host_start(const Invocation& invocation, Io& io);
Result<int> run_host_history(const Invocation& invocation, Io& io);
Result<int> run_host_settings(const Invocation& invocation, Io& io);
Result<int> run_host_deploy(const Invocation& invocation, Io& io);
Result<int> run_host_remove(const Invocation& invocation, Io& io);
Result<int> run_host_info(const Invocation& invocation, Io& io);
Result<int> run_logs(const Invocation& invocation, Io& io);

Result<int> run_token_create(const Invocation& invocation, Io& io);
Result<int> run_token_list(const Invocation& invocation, Io& io);
Result<int> run_token_revoke(const Invocation& invocation, Io& io);
Result<int> run_audit_list(const Invocation& invocation, Io& io);
Result<int> run_audit_verify(const Invocation& invocation, Io& io);
Result<int> run_audit_head(const Invocation& invocation, Io& io);

Result<int> run_callbacks_key(const Invocation& invocation, Io& io);
Result<int> run_callbacks_verify(const Invocation& invocation, Io& io);

Result<int> run_verify(const Invocation& invocation, Io& io);
Result<int> run_store_backup(const Invocation& invocation, Io& io);
Result<int> run_store_copy(const Invocation& invocation, Io& io);
Result<int> run_store_info(const Invocation& invocation, Io& io);
Result<int> run_store_migrate(const Invocation& invocation, Io& io);
Result<int> run_store_compact(const Invocation& invocation, Io& io);
Result<int> run_store_check(const Invocation& invocation, Io& io);

Result<int> run_tls_init(const Invocation& invocation, Io& io);
Result<int> run_tls_issue(const Invocation& invocation, Io& io);
Result<int> run_tls_show(const Invocation& invocation, Io& io);

Result<int> run_bench(const Invocation& invocation, Io& io);
Result<int> run_config(const Invocation& invocation, Io& io);
Result<int> run_version(const Invocation& invocation, Io& io);
Result<int> run_completion(const Invocation& invocation, Io& io);
Result<int> run_man(const Invocation& invocation, Io& io);
Result<int> run_help(const Invocation& invocation, Io& io);

// Exit codes beyond those of errors.def.
inline constexpr int kExitOk = 0;
inline constexpr int kExitDead = 1;       // enqueue --wait: the job is dead
inline constexpr int kExitCancelled = 2;  // enqueue --wait: the job was cancelled
inline constexpr int kExitProblems = 1;   // verify, store check: problems found
inline constexpr int kExitNotYet = 75;    // enqueue --wait: not finished in time

}  // namespace mainspring::cli
