// Every mutant must be caught: for each, the cheapest test that should fail, and does.
//
// A test that does not fail when the code is wrong proves nothing. The table names all MS_MUTANT()
// of the source tree; each program is also run without a mutant, and must pass.
//
// `./test full` runs all mutants. Otherwise those of changed files run (changed_files.sh), and a
// few others so that there are always some.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "mutant_programs.h"
#include "scale.h"

namespace {

using mainspring::test_scale;
using mainspring::TestScale;
using namespace mutants;

namespace fs = std::filesystem;

constexpr int kMaxSeconds = 300;         // for one program; one that hangs has failed
constexpr std::size_t kFewest = 10;      // mutants of a run
constexpr std::size_t kMostRecent = 40;  // without a merge base to compare with
// A race shows only in some runs: a mutant that survives is run up to kGoes times, and reported if
// it took more than one run. Commands without a mutant are run once.
constexpr int kGoes = 3;
constexpr std::size_t kSlowest = 20;  // listed at the end

// Of src/host.
std::map<std::string, std::string> host_defects() {
  return {
      {"host_singleton_on_each_node", host("of two hosts one runs a singleton*")},
      {"host_forgets_earlier_lives", host("engine jobs of an earlier host process are*")},
      {"host_success_burns_attempt", host("a job that succeeds runs again and uses up*")},
      {"host_runs_overlap", host("a tick during a run is dropped")},
      {"host_accepts_second_run", host("a second run is refused while one is under way*")},
      {"host_repeats_aborted_run", host("the host?s stop ends a run*")},
      {"host_trims_waiting_run", host("a run that waits after a tick*")},
      {"host_dead_run_runs", host("a run whose host died is shown as aborted")},
      {"host_schedule_outlives_folder", host("a folder?s schedule is in the engine?*")},
      {"host_missing_folder_fires", host("a folder?s schedule is in the engine?*")},
      {"host_whole_environment", host("a continuous job runs in its working copy*")},
      {"client_certificate_read_once", unit("tls_test", "a client uses certificate files*")},
      {"long_log_stays", unit("disk_sqlite_test", "the log is short again after*")},
      {"clock_glitch_stays", unit("scheduler_test", "after a forward glitch of the clock*")},
      {"zone_change_waits_for_a_tick", unit("scheduler_test", "new rules of a time zone*")},
      {"host_folder_as_root", host("a root server runs no folder as root by itself")},
      {"host_writes_no_shutdown_file", host("stop disables a job for good*")},
      {"callback_of_many_attempts", unit("api_test", "a delivery of a callback has*")},
      {"open_file_fires", unit("folders_test", "a file that is open for writing*")},
      {"host_idle_by_silence_alone", unit("host_test", "a run that uses the CPU is not idle*")},
  };
}

// Of src/worker.
std::map<std::string, std::string> worker_defects() {
  return {
      // the worker
      {"worker_ignores_lost_lease", worker("*that the server reports as lost*")},
      {"worker_ignores_cancel", worker("a cancel reaches the handler by a renewal")},
      {"worker_keeps_checkpoint", worker("progress and checkpoint go*")},
      {"worker_outlives_its_lease", worker("a handler learns that its*")},
      {"start_failure_burns_attempt", worker("a program that cannot be started is the worker*")},
      {"worker_gives_up_outcomes", worker("outcomes are retried until*")},
      {"last_attempt_forgets_program_end", worker("how a program ended goes to the server*")},
      {"worker_finishes_before_it_has_sent", worker("messages are sent in order*")},
      {"step_does_not_wait", worker("a step?s result is at the server*")},
      {"worker_forgets_unanswered_messages", worker("messages without an answer*")},
      // leases held by programs, time slots, timers
      {"renewal_measured_from_answer", worker("the holder learns of the*")},
      {"lease_release_forgotten", worker("the end of the scope releases the lease*")},
      {"failed_attempt_leaves_state", worker("the state of a session goes with*")},
      {"held_job_not_renewed", worker("the job of a held session is renewed*")},
      {"once_done_again", worker("do_once runs the action once for all callers*")},
      {"refused_outcome_dropped", worker("a job whose outcome the*")},
      {"release_keeps_job", worker("a released session releases*")},
      {"singleton_runs_beside", worker("one job of a singleton runs at a time*")},
      {"slot_starts_what_does_not_fit", worker("a kind that was released*")},
      {"kill_switch_read_once", worker("C4 the kill switch is read before every batch*")},
      {"standby_does_not_wait", worker("C10 the standby is woken before the end*")},
      {"timer_does_not_wake", worker("C3 C7 near its timeout*")},
      {"timer_priority_ignored", worker("C9 the free slot goes to the highest priority*")},
  };
}

// Of src/sql_store: leases by name, schedules, follow-ups, tokens and the audit, sessions.
std::map<std::string, std::string> store_defects() {
  return {
      {"kept_workflow_not_rolled_back", io_sweep("the end of a step that a full disk*")},
      {"lease_token_reused", conformance("LEASE? released and acquired in one batch? i*")},
      {"fence_ignores_expiry", conformance("FENCE-3? with a lost token every fenced*")},
      {"lost_lease_renewed", conformance("LEASE? a lost lease cannot be renewed or*")},
      {"leadership_outlives_its_process",
       conformance("LEASE? the leadership is free after a reopen*")},
      {"job_without_a_row", conformance("ended jobs of a schedule are pruned and*")},
      {"next_not_advanced", conformance("T7? a recurring schedule?s next tick is set*")},
      {"version_given_again", conformance("jobs of a removed schedule stay? waiting*")},
      {"paused_ticks_fire", conformance("pausing keeps the reason? pausing a paused*")},
      {"defer_burns_attempt", conformance("a deferred job waits until it is claimed by its*")},
      {"deferred_stays_in_line", conformance("a deferred job waits until it is claimed by*")},
      {"deferred_replaced", conformance("an enqueue with the unique key of a deferred job*")},
      {"window_ends_with_the_record", conformance("a window lasts to its end even if its job*")},
      {"windows_stay", conformance("after the window of a pruned job its key is free*")},
      {"named_claim_ignores_pause", conformance("a claim by id from a paused queue is refused")},
      {"named_claim_ignores_limits", conformance("a claim by id counts against the limits of*")},
      {"named_claim_breaks_session", conformance("a claim by id of a job of a session is*")},
      {"overlap_ignored", conformance("each job of a schedule makes its*")},
      {"third_standby", conformance("C10? a wake overlaps at most one live job?*")},
      {"buffered_job_forgotten", conformance("buffer_one? one job waits? and starts in*")},
      {"failure_does_not_pause", conformance("pause_on_failure? the schedule pauses in the*")},
      {"program_end_not_kept", conformance("how a program ended is kept with the error*")},
      {"audit_not_recorded", conformance("a change and its audit record are one*")},
      {"audit_chain_skips", conformance("each audit record of a batch starts at*")},
      {"token_revoke_forgotten", conformance("a revoked token stays revoked after a*")},
      {"within_ignored_on_finish", conformance("a lease outside cannot be finished? even*")},
      {"follow_up_on_every_end", conformance("follow-ups are made for the requested ends?*")},
      {"follow_ups_not_kept", conformance("with on_expiry dead an expired job is dead?*")},
      {"cancelled_not_followed", conformance("a reply is a follow-up on every end? after*")},
      {"retried_not_followed", conformance("with on_expiry dead an expired job is dead?*")},
      {"session_lines_not_read", conformance("ORD? jobs that wait in sessions and for*")},
      {"lag_of_sessions_not_marked", sqlite("ORD? a kill after the first batch that leaves*")},
      {"evicted_session_not_written", sqlite("a session that leaves memory*")},
      {"unread_sessions_written", sqlite("ORD: a failed start leaves*")},
      {"lagging_session_shown", sqlite("readers see which jobs live in a session*")},
      {"removed_files_accepted", sqlite("nothing is acknowledged once a file*")},
      {"directory_not_locked", sqlite("a second opener is refused although*")},
      {"newer_store_accepted", sqlite("a newer schema is refused")},
      {"development_store_accepted", sqlite("a store of a development build is refused")},
      {"empty_database_accepted", sqlite("a database that was emptied? cut off*")},
      {"held_session_forgotten", conformance("ORD? a session stays held while many other*")},
      {"session_order_by_run_at", conformance("ORD? a job that becomes the head is*")},
      {"session_head_not_passed", conformance("jobs of sessions and holders of sessions are*")},
      {"session_two_heads", conformance("ORD? jobs of a session run one at a time? in*")},
      {"held_session_open_to_all", conformance("jobs of sessions and holders of sessions are*")},
      {"session_state_lost", conformance("a finish leaves a state? and the next job re*")},
      {"dead_job_stops_nothing", conformance("block? no job of the session runs until the*")},
      {"dead_holder_keeps_session", conformance("when the lease of a dead holder ends? its*")},
      {"messages_reversed", conformance("messages are made in order? after the progr*")},
      {"message_dropped_with_progress", seeds(1, 10)},
      {"progress_after_messages", conformance("jobs for the progress of a renewal come*")},
      {"progress_text_ignored", conformance("repeated progress makes no job? a changed*")},
      {"progress_repeated_is_news", by_invariants(seeds(1, 10))},  // EO-6
      {"progress_posted_as_message", unit("callbacks_test", "changed progress of a running*")},
      {"full_store_refuses_progress", conformance("no bound refuses a follow-up on progress?*")},
      {"full_store_takes_messages", conformance("a renewal with messages is refused in a*")},
      {"redrive_names_all", conformance("a redrive returns the retried jobs? and*")},
      {"on_expiry_ignored", conformance("with on_expiry dead an expired job is dead?*")},
      {"dead_counted_as_expired", conformance("a replacement brings its own on_expiry")},
      {"audit_commits_apart", io_sweep("the power goes at each I/O call*")},
  };
}

// Of the dead letter, and of the keys of steps and their undo.
std::map<std::string, std::string> undo_defects() {
  return {
      {"fingerprint_of_numbers", unit("model_test", "jobs that died of the same*")},
      {"canary_goes_on", unit("redrive_test", "a canary that dies again of the same*")},
      {"canary_waits_for_death", unit("redrive_test", "a canary that fails again of the same*")},
      {"redrive_starts_over", unit("engine_test", "a canary is in the same step after a restart*")},
      {"redrive_scope_ignored", unit("http_test", "a caller with rights to*")},
      {"bulk_canary_ignored", unit("redrive_test", "it waits after the canary?*")},
      {"bulk_changes_any_version", unit("redrive_test", "a job that changed since*")},
      {"bulk_scope_ignored", unit("http_test", "a bulk operation requires*")},
      {"payload_search_for_all", unit("http_test", "a caller who may not read payloads may not*")},
      {"args_not_indexed", conformance("jobs are found by strings*")},
      {"values_stay_indexed", conformance("the index follows edits*")},
      {"index_answers_alone", unit("http_test", "a search by a searchable path reads the index*")},
      {"new_args_keep_attempts", conformance("changed args drop the checkpoint and the*")},
      {"replies_never_expire", conformance("replies and messages that nothing starts expire")},
      {"full_store_refuses_its_own", conformance("a full store accepts the engine's own jobs*")},
      {"redefined_schedule_runs_again", conformance("what has run has run*")},
      {"unstarted_loss_counts", conformance("a lease that was never renewed*")},
      {"unstarted_losses_never_count", conformance("a lease that was never renewed*")},
      {"expiry_not_postponed", conformance("a postponed job's expiry moves with it")},
      {"undo_key_made_again", workflows()},
      {"parked_steps_begin", workflows()},
      {"doubt_forgotten", workflows()},
      {"stuck_step_undone", workflows()},
      {"parked_timer_lost", workflows()},
      {"old_deadline_fails_retry", workflows()},
      {"parked_child_lives_on", workflows()},
      {"element_lost_for_retry", workflows()},
      {"step_key_copied", unit("api_test", "removing the step key leaves the other headers*")},
  };
}

// Of what coordinates jobs, in every store: steps of handlers and of workflows, limits, triggers.
std::map<std::string, std::string> flow_defects() {
  return {
      {"memo_lost", memos()},
      {"stale_memo_taken", memos()},
      {"memo_overwritten", memos()},
      {"memos_forgotten_by_retry", memos()},
      {"memos_outlive_success", memos()},
      {"next_posted_again", conformance("a completion that is stale? repeated or not*")},
      {"next_of_stale_posted", conformance("a completion that is stale? repeated or not*")},
      {"concurrency_ignored", limits()},
      {"rate_not_kept", limits()},
      {"end_opens_nothing", limits()},
      {"sessions_not_limited", limits()},
      {"early_claim_wakes_no_worker", limits()},
      {"slice_ends_early", seeds(1, 40)},
      {"bucket_too_deep", seeds(1, 40)},
      {"room_without_those_that_run", seeds(1, 10)},
      {"limit_per_key_ignored", limits()},
      {"quarantine_ignored", quarantine()},
      {"quarantine_gives_two", quarantine()},
      {"quarantine_counts_words", quarantine()},
      {"quarantine_never_free", quarantine()},
      {"quarantine_forgotten_at_start", quarantine()},
      {"named_claim_ignores_quarantine", quarantine()},
      {"key_rate_ignored", limits()},
      {"keys_share_meter", limits()},
      {"key_meters_not_kept", limits()},
      {"key_never_opens", limits()},
      {"breaker_ignored", breakers()},
      {"breaker_stays_open", breakers()},
      {"breaker_not_kept", breakers()},
      {"half_open_gives_all", breakers()},
      {"failed_probe_ignored", breakers()},
      {"success_never_closes", breakers()},
      {"end_of_probe_wakes_no_worker", breakers()},
      {"open_breaker_for_ignored", breakers()},
      {"end_leaves_key_closed", limits()},
      {"running_keys_not_kept", limits()},
      {"ageing_ignored", order()},
      {"aged_after_higher", order()},
      {"idle_key_saves_turns", order()},
      {"queue_time_stays", lines(1, 5)},
      {"weights_ignored", order()},
      {"turns_not_kept", order()},
      {"jobs_without_key_take_no_turn", order()},
      {"fired_event_fires_again", triggers()},
      {"fired_without_a_row", triggers()},
      {"paused_trigger_fires", triggers()},
      {"forgotten_event_fires", triggers()},
      {"ends_fire_nothing", triggers()},
      {"end_fires_again", triggers()},
      {"paused_trigger_hears_ends", triggers()},
      {"trigger_chain_unbounded", triggers()},
      {"trigger_depth_not_carried", triggers()},
      {"unknown_step_not_undone", workflows()},
      {"join_with_the_first_parent", workflows()},
      {"undo_while_steps_run", workflows()},
      {"undo_all_at_once", workflows()},
      {"undo_in_order", seeds(1, 12)},
      {"failed_undo_is_done", seeds(1, 12)},
      {"paused_steps_begin", workflows()},
      {"skipped_counts_as_come", workflows()},
      {"list_ends_with_its_first", workflows()},
      {"workflow_key_ignored", workflows()},
      {"signal_taken_twice", workflows()},
      {"any_signal_will_do", workflows()},
      {"end_of_step_not_heard", workflows()},
      {"lost_step_taken_as_failed", workflows()},
  };
}

// Of costs of heavy kinds.
std::map<std::string, std::string> cost_defects() {
  return {
      {"concurrency_ignores_cost", limits()},
      {"rate_ignores_cost", limits()},
      {"cost_not_capped", conformance("a job that costs more than*")},
      {"light_overtakes_heavy", conformance("a job that does not fit waits? and light*")},
      {"light_overtakes_heavy_of_key", conformance("limit key: a heavy job waits*")},
      {"costs_count_only_what_begins", conformance("new costs apply at once? running jobs count*")},
      {"costs_not_kept", conformance("running jobs keep their cost over a restart")},
      {"worker_ignores_cost", worker("a job that does not fit yet waits in the worker*")},
      {"scale_ignores_limits", unit("scale_test", "10,000 jobs held by a limit of 5 ask*")},
      {"worker_ignores_slot_limit", worker("a worker with fewer slots claims fewer jobs*")},
      {"full_kind_not_claimed_again", worker("a kind that was full is claimed again*")},
  };
}

// Of what happens once, and of what is read of it: caught by invariants of the simulation.
std::map<std::string, std::string> once_defects() {
  return {
      {"memos_forgotten_by_rescue", once(1, 20)},               // EO-3a
      {"memos_not_reported", once(1, 20)},                      // EO-3a
      {"checkpoint_lost_beside_memo", once(1, 20)},             // EO-3d
      {"steps_share_key", seeds(1, 12)},                        // EO-4
      {"undo_has_key_of_step", seeds(1, 12)},                   // EO-4
      {"next_posted_apart", once(1, 20)},                       // EO-5
      {"callback_given_up", once(1, 20)},                       // RES-1a
      {"callback_body_of_attempt", once(1, 20)},                // RES-1b
      {"callback_id_of_time", once(1, 20)},                     // RES-1b
      {"dead_followed_as_completed", once(1, 20)},              // RES-1c
      {"expired_reads_as_not_found", with_model(once(1, 20))},  // RES-4
      {"quarantine_freed_by_another", once(1, 20)},             // QUAR-1
      {"idempotency_keys_are_global", conformance("idempotency keys of different queues*")},
  };
}

// Mutants that an invariant of the simulation must catch as well: store and model share the wrong
// code, so comparing them shows no difference.
std::map<std::string, std::string> invariant_defects() {
  return {
      {"breaker_ignored", lines(1, 5)},              // BRK-1
      {"open_breaker_for_ignored", lines(1, 5)},     // BRK-1
      {"failed_probe_ignored", lines(1, 5)},         // BRK-1, of what a probe opened
      {"half_open_gives_all", lines(1, 5)},          // BRK-2
      {"success_never_closes", lines(1, 5)},         // BRK-3
      {"breaker_stays_open", lines(1, 5)},           // LIVE
      {"ageing_ignored", lines(1, 5)},               // PRIO-1
      {"weights_ignored", lines(1, 5)},              // FAIR-1
      {"deferred_stays_in_line", lines(1, 5)},       // DEF-2
      {"defer_burns_attempt", lines(1, 5)},          // DEF-2
      {"named_claim_ignores_pause", lines(1, 20)},   // DEF-4
      {"named_claim_breaks_session", lines(1, 20)},  // DEF-4
      {"named_claim_ignores_limits", lines(1, 20)},  // CONC-1
      {"concurrency_ignores_cost", slots(1, 5)},     // CONC-1
      {"rate_ignores_cost", slots(1, 5)},            // CONC-2
      {"key_rate_ignored", slots(1, 5)},             // CONC-4
      {"cost_not_capped", slots(1, 5)},              // it is never claimed
  };
}

// The same, of what happens once.
std::map<std::string, std::string> once_invariant_defects() {
  return {
      {"memo_lost", once(1, 20)},                       // EO-3a
      {"memos_forgotten_by_retry", once(1, 20)},        // EO-3a
      {"memo_overwritten", once(1, 20)},                // EO-3b
      {"stale_memo_taken", once(1, 20)},                // EO-3c
      {"memos_outlive_success", once(1, 20)},           // EO-3e
      {"undo_key_made_again", seeds(1, 12)},            // EO-4
      {"step_key_copied", once(1, 20)},                 // EO-4
      {"next_posted_again", once(1, 20)},               // EO-5
      {"next_of_stale_posted", once(1, 20)},            // EO-5
      {"callback_id_of_attempt", once(1, 20)},          // RES-1b
      {"callback_redirect_is_success", once(1, 20)},    // RES-1a
      {"callback_gone_ignored", once(1, 20)},           // RES-1d
      {"quarantine_ignored", once(1, 20)},              // QUAR-2
      {"quarantine_gives_two", once(1, 20)},            // QUAR-1
      {"quarantine_counts_words", once(1, 20)},         // QUAR-3
      {"quarantine_never_free", once(1, 20)},           // LIVE-4
      {"quarantine_forgotten_at_start", once(1, 20)},   // LIVE-4
      {"named_claim_ignores_quarantine", once(1, 20)},  // QUAR-1
  };
}

// Of src/http: authentication and visibility.
std::map<std::string, std::string> access_mutants() {
  const auto http = [](const std::string& test_case) { return unit("http_test", test_case); };
  const auto relay = [](const std::string& test_case) { return unit("engine_test", test_case); };
  return {
      {"auth_skipped_for_head", http("matrix: every route without a token*")},
      {"program_page_trusted", http("a page of a program has no rights*")},
      {"folder_run_forged", http("only a host adds jobs to the queue of job folders*")},
      {"worker_name_for_all", http("a worker?s name belongs to its first caller*")},
      {"breaker_for_all", http("to attach a breaker a caller needs a right on it*")},
      {"open_breaker_unbounded", unit("model_test", "a handler's request only lengthens*")},
      {"removed_job_of_others", http("a job and its result are 410*")},
      {"marks_for_all", http("marks are for readers of everything*")},
      {"views_for_all", http("marks are for readers of everything*")},
      {"event_ids_count_all", http("a stream shows the queues that its token may read*")},
      {"signed_out_accepted", http("signing out ends the session*")},
      {"no_reserved_room", http("each caller has a share of the room*")},
      {"caller_takes_all_room", http("each caller has a share of the room*")},
      {"any_hook_signature", http("a signed hook accepts only*")},
      {"expired_token_accepted", http("an expired token is refused*")},
      {"event_of_foreign_queue_shown", http("a stream shows the queues that its token may read*")},
      {"event_gap_not_reported", http("missing events start with*")},
      {"event_seen_reported_again", http("a stream resumes at the position of another node*")},
      {"relay_not_asked_again", unit("peer_test", "a word that is not for a peer*")},
      {"event_of_process_gone_reported_again",
       relay("a client that moves between restarting nodes*")},
      {"events_not_sent_to_nodes", relay("events of each node are*")},
      {"event_of_node_twice", relay("a lost event is sent again*")},
      {"events_lost_not_repeated", relay("a lost event is sent again*")},
      {"event_gap_of_node_not_reported", relay("a node that vanished or*")},
      {"event_local_forwarded", relay("events of other nodes are*")},
      {"event_of_repeated_end", broker("events come in the order of the commits*")},
      {"event_made_without_listener", broker("without a listener no events*")},
      {"mask_forgotten_in_list", http("lists show payloads only*")},
      {"scope_not_checked_on_claim", http("matrix: every route with every verb*")},
      {"scope_not_checked_on_next", http("a job enqueued by a completion*")},
      {"reserved_queue_for_all", unit("api_test", "the engine?s own queues are not for callers*")},
      {"callback_id_not_signed", unit("callbacks_test", "a signature matches the*")},
      {"callback_id_of_attempt", unit("callbacks_test", "every attempt of a delivery*")},
      {"callback_redirect_is_success", unit("callbacks_test", "2xx succeeds? 410 stops*")},
      {"callback_gone_ignored", unit("callbacks_test", "2xx succeeds? 410 stops*")},
      {"gone_receiver_asked_again", unit("callbacks_test", "a gone receiver gets no*")},
      {"callback_never_waits_longer", unit("callbacks_test", "a receiver that asks for more*")},
      {"foreign_job_shown", http("matrix: every route with every verb*")},
      {"foreign_workflow_shown", http("matrix: every route with every verb*")},
      {"workflow_starts_anywhere", http("matrix: every route with every verb*")},
      {"revoked_waits_on", http("a wait for a job ends when its token ends*")},
      {"scopes_given_freely", http("tokens are made and revoked*")},
      {"proxied_is_local", http("a request from a proxy on this machine*")},
      {"cookie_used_by_other_sites", http("a token becomes a cookie*")},
      {"token_passed_on", http("a token is for this server*")},
  };
}

// Of many nodes over one store: the peer notifier, the channel, the broker.
std::map<std::string, std::string> cluster_defects() {
  return {
      {"channel_never_pings",
       "timeout 60 " + kPrograms + "/node_channel_test --abort-after=1 -tc='a half-open*'"},
      {"peer_not_notified",
       "timeout 60 " + kPrograms +
           "/postgres_nodes_test --abort-after=1 -tc='a job enqueued on one node is handed*'"},
      {"peer_not_coalesced", unit("peer_test", "notifications during a*")},
      {"peer_delays_ack_on",
       unit("peer_test", "a frame is acknowledged late while no caller waits*")},
      {"peer_never_delays_ack",
       unit("peer_test", "a frame is acknowledged late while no caller waits*")},
      {"peer_takes_any_key", unit("peer_test", "a peer without the key*")},
      {"peer_believes_forgeries", unit("peer_test", "forged? repeated? oversized*")},
      {"claim_measured_from_answer", broker("a claim whose commit was slow has*")},
      {"key_goes_with_workflow", workflows()},
      {"workflow_keys_shared", workflows()},
      {"large_args_undo", workflows()},
      {"fence_of_any_lock",
       unit("http_test", "the token of another caller's lock cannot be found*")},
      {"blocked_batch_refused", broker("a lock of another client refuses only*")},
      {"keys_of_applications_awaited",
       "timeout 100 " + kPrograms +
           "/postgres_unique_test --abort-after=1 -tc='an application*s open transaction*'"},
      {"nothing_heard", broker("a job enqueued on one node wakes*")},
      {"news_not_reported", broker("a job enqueued on one node wakes*")},
      {"breaker_not_locked", "timeout 100 " + kPrograms +
                                 "/postgres_breakers_test --abort-after=1 -tc='a claim waits for "
                                 "the lock of a breaker*'"},
      {"rest_of_pack_not_reported",
       "timeout 100 " + kPrograms +
           "/postgres_packs_test --abort-after=1 -tc='a claim that takes part of a pack*'"},
      {"session_settings_not_set", "timeout 100 " + kPrograms +
                                       "/postgres_defaults_test --abort-after=1 -tc='the store "
                                       "works with any defaults of its*'"},
      {"newer_schema_accepted",
       "timeout 100 " + kPrograms +
           "/postgres_schema_test --abort-after=1 -tc='a newer schema is refused*'"},
      {"schema_created_without_lock",
       "timeout 100 " + kPrograms +
           "/postgres_schema_test --abort-after=1 -tc='nodes that are started at once*'"},
      {"unused_numbers_kept",
       "timeout 100 " + kPrograms +
           "/postgres_workflows_test --abort-after=1 -tc='numbers that a batch*'"},
      {"packs_not_held",
       "timeout 100 " + kPrograms +
           "/postgres_packs_test --abort-after=1 -tc='a transaction that names a job*'"},
      {"packs_under_limits",
       "timeout 100 " + kPrograms +
           "/postgres_packs_test --abort-after=1 -tc='a new limit of a queue applies*'"},
      {"crash_takes_renewals", "timeout 100 " + kPrograms + "/postgres_crash_test --abort-after=1"},
      {"event_of_quarantine_left_forgotten", broker("a job that enters quarantine and leaves it*")},
      {"outage_ends_waits", broker("a parked claim survives*")},
      {"writer_is_waited_for", broker("the broker does not wait*")},
      {"writer_takes_what_claims_wait_for", broker("waiting claims get jobs*")},
  };
}

// Of jobs of sessions in fast-path batches.
std::map<std::string, std::string> fast_path_session_defects() {
  const auto fast_path = [](const std::string& test_case) {
    return fmt::format("timeout 100 {}/postgres_fast_path_sessions_test --abort-after=1 -tc='{}'",
                       kPrograms, test_case);
  };
  return {
      {"session_dropped_before_entered", fast_path("ORD: the last of a session*")},
      {"fast_path_sessions_not_locked", fast_path("ORD: a completion waits*")},
      {"left_over_sessions_kept", fast_path("a session whose last job ended elsewhere*")},
      {"held_before_locks", fast_path("a batch that a session was locked for too long for*")},
      {"head_out_of_sight", fast_path("a new session head that is older*")},
      {"two_orders_of_locks", fast_path("completions of jobs of sessions and of others*")},
      {"left_ends_lock_jobs_first",
       fast_path("a completion that the fast path leaves open locks*")},
      {"lost_heads_not_reported", fast_path("a new session head is reported*")},
  };
}

// Of copies and moves of stores, and of the history.
std::map<std::string, std::string> copy_defects() {
  const auto copy = [](const std::string& test_case) {
    return fmt::format("timeout 100 {}/copy_test --abort-after=1 -tc='{}'", kPrograms, test_case);
  };
  return {
      {"history_overwritten", conformance("counts of one minute add up*")},
      {"history_lost_at_stop", broker("history: counts are written with commits*")},
      {"copy_sees_no_versions", copy("a copy that is killed at any moment*")},
      {"copy_keeps_pruned_jobs", copy("a copy that is killed at any moment*")},
      {"copy_drops_unique_keys", copy("a copy that is killed at any moment*")},
      {"copy_drops_windows", copy("a window that is open moves also when its job*")},
      {"copy_drops_history", copy("the history moves with the store*")},
      {"copy_drops_memos", copy("a copy that is killed at any moment*")},
      {"copy_drops_program_ends", copy("a copy that is killed at any moment*")},
      {"copy_renumbers_sessions",
       fmt::format("timeout 200 {}/copy_rounds_test --abort-after=1", kPrograms)},
      {"copy_ends_at_the_mark", copy("a worker finishes at the target*")},
      {"fence_has_no_end", copy("a fence that lasts too long*")},
      {"move_goes_unnoticed", copy("a moved store is refused everywhere? also*")},
  };
}

// Of src/model.
std::map<std::string, std::string> calendar_defects() {
  const auto calendar = [](const std::string& test_case) { return unit("model_test", test_case); };
  return {
      {"cron_days_both", calendar("with five fields either day is enough*")},
      {"dst_gap_loses_tick", calendar("a fixed time that does not exist runs once*")},
      {"dst_runs_twice", calendar("a fixed time that exists twice*")},
      {"misfire_window_ignored", calendar("a tick later than the window*")},
      {"misfire_cap_forgets_rows", calendar("*policy all: each fires*")},
      {"pause_row_missing", calendar("ticks that passed while it was paused*")},
      {"fork_takes_what_was_undone", workflows()},
      {"fork_begins_only_its_step", workflows()},
      {"fork_undoes_what_it_took", workflows()},
      {"fork_of_one_that_runs", workflows()},
      {"packed_without_queues", workflows()},
      {"packed_jobs_live_on", workflows()},
      {"large_input_not_read", workflows()},
      {"reason_kept_raw", unit("workflow_test", "a reason in the rows has*")},
      {"late_answer_taken", workflows()},
      {"start_of_another", unit("workflow_test", "a reused number belongs*")},
      {"fork_counts_skipped_as_come", workflows()},
      {"child_started_twice", workflows()},
      {"child_end_not_joined", workflows()},
      {"child_not_undone", workflows()},
      {"child_runs_on", workflows()},
      {"child_goes_before_its_parent", workflows()},
      {"parked_child_not_reported", workflows()},
      {"fork_of_child_in_use", workflows()},
  };
}

std::map<std::string, std::string> leadership_defects() {
  return {
      {"early_tick_taken", conformance("SCHED-3? a scheduler whose clock is ahead of*")},
      {"lease_handover_forgotten",
       broker("a waiting acquire is granted in the commit of the release")},
      {"waiter_never_retries", broker("a waiting acquire gets the lease when it expires")},
      {"reserved_lease_for_all", broker("clients cannot acquire*")},
      {"leader_never_expires", scheduler("T3: after its lease every*")},
      {"leader_keeps_lease_at_stop", scheduler("a leader that stops cleanly*")},
      {"leader_duties_hang", scheduler("due jobs become available*")},
      {"duties_not_supervised", scheduler("a leader that renews but does not work*")},
  };
}

const std::map<std::string, std::string>& table() {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> most = {
        // what is on disk
        {"synchronous_off", seeds(1, 10)},
        {"ack_before_commit", conformance("a created token is usable at once? and*")},
        {"log_not_rewritten", io_sweep("a sync fails*")},
        {"memory_not_read_again", seeds(1, 20)},
        {"id_counter_not_kept", conformance("a change and its audit record are one*")},
        {"token_counter_not_kept", conformance("a claim is recorded if it gave a job? not*")},
        {"idempotency_forgotten", scenario("repeated_request_makes_one_job")},
        {"short_idempotency_window", scenario("repeated_request_makes_one_job")},
        {"fingerprint_ignored", scenario("repeated_request_makes_one_job")},
        {"pause_not_kept", scenario("paused_queue_gives_nothing")},
        {"cancel_wish_not_kept", conformance("cancelling a running job notes a request?*")},
        {"prune_takes_the_retried", conformance("a retried job is not pruned for its earlier*")},
        {"counters_drift", conformance("one job per key and queue while the first is*")},
        {"dead_not_listed", conformance("with on_expiry dead an expired job is dead?*")},
        // leases and tokens
        {"finish_takes_any_token", scenario("crashed_worker_burns_an_attempt")},
        {"renew_takes_any_token", conformance("a renewal with a stale token is lost and cha*")},
        {"token_not_bumped", conformance("a claim is recorded if it gave a job? not*")},
        {"renewal_extends_nothing", scenario("renewed_lease_is_never_rescued")},
        {"longer_lease_not_kept", conformance("a reopen restarts a lease with the longest*")},
        {"standstill_ends_leases", conformance("a lease that was live when the server*")},
        {"leases_never_expire", scenario("crashed_worker_burns_an_attempt")},
        {"scheduler_never_rescues", scenario("crashed_worker_burns_an_attempt")},
        // attempts and outcomes
        {"rescue_burns_no_attempt", scenario("crashes_end_in_the_dead_letter")},
        {"snooze_burns_attempt", scenario("snooze_burns_no_attempt")},
        {"back_off_ignored", scenario("retry_waits_for_its_back_off")},
        {"checkpoint_lost", scenario("checkpoint_is_handed_to_the_next_attempt")},
        {"cancel_wish_ignored", scenario("cancel_reaches_the_running_worker")},
        {"cancel_not_reported", scenario("cancel_reaches_the_running_worker")},
        {"dead_letter_drops_errors", scenario("crashes_end_in_the_dead_letter")},
        {"retry_gives_no_attempts", scenario("crashes_end_in_the_dead_letter")},
        {"retry_ignores_unique", conformance("a dead job cannot be retried while another o*")},
        // when and in which order
        {"unique_ignored", scenario("unique_job_is_enqueued_once")},
        {"priority_ignored", scenario("priority_goes_before_age")},
        {"run_at_ignored", scenario("due_job_becomes_available_at_run_at")},
        {"due_too_early", conformance("a job with a future run_at is scheduled and*")},
        {"expired_job_runs", conformance("with on_expiry dead an expired job is dead?*")},
        {"parked_claim_not_woken", scenario("parked_claim_gets_the_job_at_once")},
        {"parked_claim_never_ends", scenario("parked_claim_gets_the_job_at_once")},
        {"duty_ends_at_refusal", seeds(41, 20)},
        {"abandoned_claim_lives_on", broker("a parked claim ends empty*")},
        {"watcher_not_reported", broker("the end of a watched job is reported")},
        {"no_reserved_room", broker("beyond its limits the broker*")},
        // the door
        {"run_asked_for_again", unit("client_test", "a run that the server may have started*")},
        {"gone_caller_waits_on", unit("http_test", "acquires wait for the release*")},
        {"paused_dropped", unit("api_test", "a PUT has the name once*")},
        {"fence_dropped", unit("api_test", "a job and a batch carry a fence")},
    };
    most.merge(leadership_defects());
    most.merge(worker_defects());
    most.merge(host_defects());
    most.merge(store_defects());
    most.merge(flow_defects());
    most.merge(access_mutants());
    most.merge(cluster_defects());
    most.merge(calendar_defects());
    for (auto more : {fast_path_session_defects(), copy_defects(), cost_defects(), undo_defects(),
                      once_defects()})
      most.merge(more);
    return most;
  }();
  return all;
}

// The command to run without a mutant, to show that the mutant makes it fail. Long commands are
// tests of their own: a short form shows that the command is valid; "" = nothing to run.
std::string without_defect(const std::string& command) {
  static const std::regex seeds(" --seeds [0-9]+");
  if (command.find("/sim ") != command.npos)
    return std::regex_replace(command, seeds, " --seeds 1");
  for (const char* program : {"/io_sweep_test ", "/copy_rounds_test "}) {
    if (command.find(program) != command.npos) return "";
  }
  return command;
}

// True if the program passes with this mutant ("" = none).
bool passes(const std::string& mutant, const std::string& command) {
  const std::string line =
      // At full scale in every run: a sample might miss what the mutant breaks.
      fmt::format("MAINSPRING_TEST_SCALE=full MS_MUTANT='{}' timeout {} {} > /dev/null 2>&1",
                  mutant, kMaxSeconds, command);
  return std::system(line.c_str()) == 0;
}

// The files of the names in MS_MUTANT(…) of the source tree, from its top.
std::map<std::string, std::string> in_source() {
  const std::regex name("MS_MUTANT\\(([a-z_]+)\\)");
  std::map<std::string, std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(MAINSPRING_SOURCE_DIR "/src")) {
    if (entry.path().extension() != ".cc") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      for (std::sregex_iterator it(line.begin(), line.end(), name), end; it != end; ++it)
        names[(*it)[1].str()] = fs::relative(entry.path(), MAINSPRING_SOURCE_DIR).string();
    }
  }
  return names;
}

// The output of changed_files.sh: its first line, and the files.
struct Changed {
  std::string since;
  std::set<std::string> files;
};
Changed changed_files() {
  Changed changed;
  FILE* script = popen(MAINSPRING_SOURCE_DIR "/tests/simulation/changed_files.sh", "r");
  REQUIRE(script != nullptr);
  std::string text;
  for (int c = std::fgetc(script); c != EOF; c = std::fgetc(script)) text += static_cast<char>(c);
  REQUIRE(pclose(script) == 0);
  std::istringstream lines(text);
  std::getline(lines, changed.since);
  for (std::string line; std::getline(lines, line);) changed.files.insert(line);
  return changed;
}

// An arbitrary order that is the same on every machine: FNV-1a.
std::uint64_t place_in_order(const std::string& name) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

// The mutants to run. Says which were left out.
std::set<std::string> chosen_mutants() {
  std::vector<std::string> wanted, others;
  const Changed changed = changed_files();
  for (const auto& [mutant, file] : in_source()) {
    const bool wants = test_scale() == TestScale::full || changed.files.count(file) > 0;
    (wants ? wanted : others).push_back(mutant);
  }
  const auto by_place = [](const std::string& a, const std::string& b) {
    return place_in_order(a) < place_in_order(b);
  };
  std::sort(wanted.begin(), wanted.end(), by_place);
  std::sort(others.begin(), others.end(), by_place);
  const std::size_t all = wanted.size();
  const bool bounded = test_scale() != TestScale::full && !changed.since.starts_with("since ");
  if (bounded && all > kMostRecent) wanted.resize(kMostRecent);
  MESSAGE(fmt::format("{} of {} mutants of changed files ({}) run, {} left out for ./test full",
                      wanted.size(), all, changed.since, all - wanted.size() + others.size()));
  for (std::size_t i = 0; i < others.size() && wanted.size() < kFewest; ++i)
    wanted.push_back(others[i]);
  return {wanted.begin(), wanted.end()};
}

TEST_CASE("the table names every mutant of the source tree, at least 20 of them") {
  std::set<std::string> named;
  for (const auto& [mutant, command] : table()) named.insert(mutant);
  const std::map<std::string, std::string> there = in_source();
  for (const auto& [mutant, file] : there) {
    CHECK_MESSAGE(named.count(mutant) == 1, mutant << " is in the source and not in the table");
  }
  for (const std::string& mutant : named) {
    CHECK_MESSAGE(there.count(mutant) == 1, mutant << " is in the table and not in the source");
  }
  CHECK(named.size() >= 20);
}

TEST_CASE("each mutant makes its test fail, and the test passes without a mutant") {
  struct Run {
    std::string mutant, command;
    bool passed = false;
    int goes = 0;
    double seconds = 0;
  };
  std::vector<Run> runs;
  std::set<std::string> commands;
  std::vector<std::pair<std::string, std::string>> all(table().begin(), table().end());
  for (const auto& invariants : {invariant_defects(), once_invariant_defects()})
    all.insert(all.end(), invariants.begin(), invariants.end());
  const std::set<std::string> chosen = chosen_mutants();
  for (const auto& [mutant, command] : all) {
    if (chosen.count(mutant) == 0) continue;
    runs.push_back({mutant, command});
    const std::string clean = without_defect(command);
    if (!clean.empty() && commands.insert(clean).second) runs.push_back({"", clean});
  }
  for (Run& run : runs) {
    const auto begin = std::chrono::steady_clock::now();
    do {
      run.passed = passes(run.mutant, run.command);
    } while (++run.goes < kGoes && run.passed != run.mutant.empty());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    run.seconds = took.count();
  }
  for (const Run& run : runs) {
    if (run.mutant.empty()) {
      CHECK_MESSAGE(run.passed, "fails without a defect: " << run.command);
      if (run.goes > 1) MESSAGE("passes in go " << run.goes << " only: " << run.command);
    } else {
      CHECK_MESSAGE(!run.passed, run.mutant << " survives " << run.command);
      if (run.goes > 1)
        MESSAGE(run.mutant << ": caught in go " << run.goes << " only, by " << run.command);
    }
  }
  MESSAGE(chosen.size() << " of " << table().size() << " mutants; the slowest:");
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return a.seconds > b.seconds; });
  for (std::size_t i = 0; i < std::min(runs.size(), kSlowest); ++i) {
    MESSAGE(fmt::format("{:6.1f} s  {:30} {}", runs[i].seconds, runs[i].mutant,
                        runs[i].command.substr(kPrograms.size() + 1)));
  }
}

}  // namespace
