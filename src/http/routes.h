// The table of routes: used to match requests, to answer 405, and to generate /openapi.json.
#pragma once

#include <span>

#include "http/exchange.h"

namespace mainspring::http {

enum class BodyRule {
  none,      // must be empty (an empty object counts as empty)
  optional,  // JSON or empty
  required,  // JSON
  bytes,     // of any type, as Request::upload
};

struct QueryParameter {
  std::string_view name;
  std::string_view schema;  // JSON
  std::string_view description;
  bool repeated = false;  // may be given more than once
};

// A successful reply of a route.
struct Success {
  int status = 0;
  std::string_view schema;  // a name in components/schemas, "" = text
  std::string_view description;
  std::string_view text_type = "text/plain";
};

struct Route {
  std::string_view method;  // "*" = every one
  // Segments, {parameter}s, and optionally a {rest*} at the end: the remaining path, not decoded.
  std::string_view pattern;
  std::string_view id;  // operationId, and the label of its metrics
  std::string_view summary;
  // Makes the plan. No side effects; thread-safe.
  Plan (*plan)(const Request& request, Services& services);
  // Checked before the plan is made, and before a body is read.
  Access access;
  BodyRule body = BodyRule::none;
  bool batch = false;   // bounded by max_batch_body_bytes
  bool upload = false;  // bounded by max_upload_bytes; BodyRule::bytes
  bool vital = false;   // may use the reserved room: running jobs and health checks depend on it
  std::string_view request_type = kJson;
  std::string_view request_schema = {};
  std::span<const Success> successes = {};
  std::span<const ErrorCode> errors = {};  // in addition to those of every route
  std::span<const QueryParameter> query = {};
  bool idempotency_key = false;  // takes the header
  bool last_event_id = false;    // takes that header
  bool headers = false;          // reads headers: Request::headers
  bool any_query = false;        // parameters that are not in `query` are ignored
  // The plan itself checks Request::presented. The authenticator is not used.
  bool own_secret = false;
  bool keeps_token =
      false;  // gets the token in Request::presented after the authenticator admitted it
};

std::span<const Route> routes();

// Routes outside the table, which are not in /openapi.json.
struct MoreRoutes {
  std::span<const Route> routes = {};
  // Converts a target to the form of that table's patterns.
  std::string (*canonical)(std::string_view target) = nullptr;
};

struct Match {
  const Route* route = nullptr;  // nullptr: see `error`
  Request request;               // without body and key
  bool head_only = false;        // HEAD: answered as GET, without the body
  Reply error;
};
// `target` is the request's: a path with an optional query, or a whole URL. The path is split
// first, then each segment is percent-decoded once: a "/" in a name is written %2F. A plain "/"
// would make the preview of schedule "a" out of the schedule "a/preview".
Match match(std::string_view method, std::string_view target, const MoreRoutes& more = {});

// Returns whether the route's access admits Request::caller. Errors: forbidden.
Result<void> check_access(const Route& route, const Request& request);

// -- the plans, by file

Plan plan_enqueue(const Request& request, Services& services);
Plan plan_get_job(const Request& request, Services& services);
Plan plan_list_memos(const Request& request, Services& services);
Plan plan_why(const Request& request, Services& services);
Plan plan_list_jobs(const Request& request, Services& services);
Plan plan_cancel_job(const Request& request, Services& services);
Plan plan_retry_job(const Request& request, Services& services);
Plan plan_take_back_job(const Request& request, Services& services);
Plan plan_edit_job(const Request& request, Services& services);
Plan plan_delete_job(const Request& request, Services& services);
Plan plan_clone_job(const Request& request, Services& services);
Plan plan_start_bulk(const Request& request, Services& services);
Plan plan_list_bulks(const Request& request, Services& services);
Plan plan_get_bulk(const Request& request, Services& services);
Plan plan_stop_bulk(const Request& request, Services& services);
Plan plan_continue_bulk(const Request& request, Services& services);
Plan plan_claim(const Request& request, Services& services);
Plan plan_finish(const Request& request, Services& services);
Plan plan_renew(const Request& request, Services& services);
Plan plan_end_claims(const Request& request, Services& services);

Plan plan_scale(const Request& request, Services& services);
Plan plan_history(const Request& request, Services& services);
Plan plan_list_marks(const Request& request, Services& services);
Plan plan_add_mark(const Request& request, Services& services);
Plan plan_remove_mark(const Request& request, Services& services);
Plan plan_list_views(const Request& request, Services& services);
Plan plan_put_view(const Request& request, Services& services);
Plan plan_remove_view(const Request& request, Services& services);
Plan plan_list_queues(const Request& request, Services& services);
Plan plan_get_queue(const Request& request, Services& services);
Plan plan_remove_queue(const Request& request, Services& services);
Plan plan_pause_queue(const Request& request, Services& services);
Plan plan_resume_queue(const Request& request, Services& services);
Plan plan_set_retention(const Request& request, Services& services);
Plan plan_set_queue_limits(const Request& request, Services& services);
Plan plan_events(const Request& request, Services& services);
Plan plan_list_dead(const Request& request, Services& services);
Plan plan_dead_groups(const Request& request, Services& services);
Plan plan_redrive(const Request& request, Services& services);
Plan plan_start_redrive(const Request& request, Services& services);
Plan plan_list_workers(const Request& request, Services& services);
Plan plan_quiet_worker(const Request& request, Services& services);
Plan plan_stop_worker(const Request& request, Services& services);
Plan plan_resume_worker(const Request& request, Services& services);
Plan plan_verify(const Request& request, Services& services);
Plan plan_settings(const Request& request, Services& services);
Plan plan_store(const Request& request, Services& services);
Plan plan_version(const Request& request, Services& services);
Plan plan_dashboard_moved(const Request& request, Services& services);
Plan plan_open_session(const Request& request, Services& services);
Plan plan_show_session(const Request& request, Services& services);
Plan plan_close_session(const Request& request, Services& services);
Plan plan_dashboard(const Request& request, Services& services);
Plan plan_livez(const Request& request, Services& services);
Plan plan_healthz(const Request& request, Services& services);
Plan plan_readyz(const Request& request, Services& services);
Plan plan_metrics(const Request& request, Services& services);
Plan plan_openapi(const Request& request, Services& services);

Plan plan_create_token(const Request& request, Services& services);
Plan plan_create_job_token(const Request& request, Services& services);
Plan plan_list_tokens(const Request& request, Services& services);
Plan plan_revoke_token(const Request& request, Services& services);
Plan plan_audit(const Request& request, Services& services);
Plan plan_audit_head(const Request& request, Services& services);

Plan plan_acquire_lease(const Request& request, Services& services);
Plan plan_renew_lease(const Request& request, Services& services);
Plan plan_release_lease(const Request& request, Services& services);
Plan plan_get_lease(const Request& request, Services& services);
Plan plan_list_leases(const Request& request, Services& services);

Plan plan_accept_session(const Request& request, Services& services);
Plan plan_renew_session(const Request& request, Services& services);
Plan plan_release_session(const Request& request, Services& services);
Plan plan_put_session_state(const Request& request, Services& services);
Plan plan_resume_session(const Request& request, Services& services);
Plan plan_get_session(const Request& request, Services& services);
Plan plan_list_sessions(const Request& request, Services& services);

Plan plan_start_workflow(const Request& request, Services& services);
Plan plan_list_workflows(const Request& request, Services& services);
Plan plan_get_workflow(const Request& request, Services& services);
Plan plan_workflow_steps(const Request& request, Services& services);
Plan plan_signal_workflow(const Request& request, Services& services);
Plan plan_cancel_workflow(const Request& request, Services& services);
Plan plan_pause_workflow(const Request& request, Services& services);
Plan plan_resume_workflow(const Request& request, Services& services);
Plan plan_retry_workflow(const Request& request, Services& services);
Plan plan_fork_workflow(const Request& request, Services& services);

Plan plan_put_trigger(const Request& request, Services& services);
Plan plan_get_trigger(const Request& request, Services& services);
Plan plan_list_triggers(const Request& request, Services& services);
Plan plan_remove_trigger(const Request& request, Services& services);
Plan plan_pause_trigger(const Request& request, Services& services);
Plan plan_resume_trigger(const Request& request, Services& services);
Plan plan_fire_trigger(const Request& request, Services& services);
Plan plan_trigger_events(const Request& request, Services& services);
Plan plan_hook(const Request& request, Services& services);

Plan plan_put_breaker(const Request& request, Services& services);
Plan plan_get_breaker(const Request& request, Services& services);
Plan plan_list_breakers(const Request& request, Services& services);
Plan plan_remove_breaker(const Request& request, Services& services);
Plan plan_open_breaker(const Request& request, Services& services);
Plan plan_close_breaker(const Request& request, Services& services);

Plan plan_put_schedule(const Request& request, Services& services);
Plan plan_get_schedule(const Request& request, Services& services);
Plan plan_list_schedules(const Request& request, Services& services);
Plan plan_remove_schedule(const Request& request, Services& services);
Plan plan_pause_schedule(const Request& request, Services& services);
Plan plan_resume_schedule(const Request& request, Services& services);
Plan plan_trigger_schedule(const Request& request, Services& services);
Plan plan_wake_schedule(const Request& request, Services& services);
Plan plan_backfill_schedule(const Request& request, Services& services);
Plan plan_set_timer(const Request& request, Services& services);
Plan plan_preview_schedule(const Request& request, Services& services);
Plan plan_preview_definition(const Request& request, Services& services);
Plan plan_ledger(const Request& request, Services& services);
Plan plan_upcoming(const Request& request, Services& services);
Plan plan_pause_schedules(const Request& request, Services& services);
Plan plan_resume_schedules(const Request& request, Services& services);

Plan plan_host(const Request& request, Services& services);
Plan plan_host_jobs(const Request& request, Services& services);
Plan plan_host_job(const Request& request, Services& services);
Plan plan_deploy_host_job(const Request& request, Services& services);
Plan plan_remove_host_job(const Request& request, Services& services);
Plan plan_host_settings(const Request& request, Services& services);
Plan plan_put_host_settings(const Request& request, Services& services);
Plan plan_run_host_job(const Request& request, Services& services);
Plan plan_stop_host_job(const Request& request, Services& services);
Plan plan_start_host_job(const Request& request, Services& services);
Plan plan_host_history(const Request& request, Services& services);
Plan plan_host_run(const Request& request, Services& services);
Plan plan_host_log(const Request& request, Services& services);

// A JSON schema of components/schemas.
struct Schema {
  std::string_view name;
  std::string_view json;
};
std::span<const Schema> schemas();

}  // namespace mainspring::http
