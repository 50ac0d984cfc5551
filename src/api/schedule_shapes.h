// Shapes of schedules, their state and their ledger. See shapes.h for the contract of encode_… and
// decode_….
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/name_page.h"
#include "api/payload.h"
#include "model/access.h"
#include "store/schedule_operations.h"

namespace mainspring {

// The definition:
//   {"name", "cron" | "every": "5m" | "at": "…", "time_zone"?, "job": {…}, "misfire"?: "once",
//    "misfire_window"?: "24h", "misfire_cap"?: 100, "overlap"?: "skip", "jitter"?: "0s",
//    "start_at"?, "end_at"?, "max_runs"?, "pause_on_failure"?,
//    "continuous"?: {"timeout": "20m", "margin": "60s", "handoff": "30s"}}
// with "job" as in POST /v1/jobs. The store keeps it in this form.
void encode_schedule(const Schedule& schedule, std::string& out);
// Checks the form only; validate() in model/schedule.h checks the rules of schedules. A missing
// name is "".
Result<Schedule> decode_schedule(std::string_view body);

// -- PUT /v1/schedules/{name} ---------------------------------------------------------------------

// The definition, "paused"? and "restart_count"?. A name in the body must be that of the path.
struct PutScheduleRequest {
  Schedule schedule;
  std::optional<bool> paused;
  RunCount runs = RunCount::keep;
};
Result<PutScheduleRequest> decode_put_schedule_request(std::string name, std::string_view body);
void encode_put_schedule_request(const PutScheduleRequest& request, std::string& out);
std::string_view to_string(PutOutcome outcome);  // "created", "replaced", "unchanged"

// -- the state of a schedule ----------------------------------------------------------------------

// The definition and {"version", "paused", "paused_reason"?, "problem"?, "next": … | null,
// "next_fire": … | null, "remaining"?, "fired", "last_fired"?, "last_job"?, "live": [ids],
// "live_count", "buffered", "timeout_override"?, "created_at", "updated_at"} "live" contains only
// the first kMaxLiveShown.
inline constexpr std::size_t kMaxLiveShown = 100;
void encode_schedule_info(const ScheduleInfo& info, std::string& out,
                          Payload payload = Payload::shown);
Result<ScheduleInfo> decode_schedule_info(std::string_view body);
// The same with "outcome" before it; the answer to PUT.
void encode_put_schedule_response(const ScheduleInfo& info, const PutScheduleResult& result,
                                  std::string& out, Payload payload = Payload::shown);
Result<PutScheduleResult> decode_put_schedule_response(std::string_view body);
// {"schedules": […], "next": name | null}: the last name if there may be `more`.
// `payloads`: the queues whose payloads are shown.
void encode_schedules(std::span<const ScheduleInfo> schedules, bool more, std::string& out,
                      const Within& payloads = {});
Result<NamePage<ScheduleInfo>> decode_schedules(std::string_view body);

// -- requests about one ---------------------------------------------------------------------------

// {"name", "removed": true}
void encode_schedule_removed(std::string_view name, std::string& out);
// {"reason"?}; an empty body is no reason.
Result<PauseSchedule> decode_pause_request(std::string name, std::string_view body);
void encode_pause_request(const PauseSchedule& request, std::string& out);
// {"timeout": "5m" | null}; null = its own again
Result<SetTimer> decode_timer_request(std::string name, std::string_view body);
void encode_timer_request(const SetTimer& request, std::string& out);
// {"overlap"?}; an empty body is the schedule's own.
Result<std::optional<Overlap>> decode_trigger_request(std::string_view body);
void encode_trigger_request(std::optional<Overlap> overlap, std::string& out);
// {"job": id}
void encode_trigger_response(JobId job, std::string& out);
Result<JobId> decode_trigger_response(std::string_view body);

// {"from", "to", "overlap"?}
struct BackfillRequest {
  std::optional<WallTime> from, to;  // both are there
  std::optional<Overlap> overlap;
};
Result<BackfillRequest> decode_backfill_request(std::string_view body);
void encode_backfill_request(const BackfillRequest& request, std::string& out);
// {"fired", "skipped", "next": … | null}
struct BackfillResponse {
  int fired = 0;
  int skipped = 0;
  std::optional<WallTime> next;
};
void encode_backfill_response(const BackfillResponse& response, std::string& out);
Result<BackfillResponse> decode_backfill_response(std::string_view body);

// -- its ticks ------------------------------------------------------------------------------------

// POST /v1/schedules/preview: {"schedule": {…}, "from"?, "count"?}. The schedule needs neither a
// name nor a job.
struct PreviewRequest {
  Schedule schedule;
  std::optional<WallTime> from;
  int count = kDefaultPreview;
  static constexpr int kDefaultPreview = 10;
};
Result<PreviewRequest> decode_preview_request(std::string_view body);
void encode_preview_request(const PreviewRequest& request, std::string& out);
// {"ticks": [{"nominal", "fires_at", "note"?}]}
void encode_preview(std::span<const PreviewTick> ticks, std::string& out);
Result<std::vector<PreviewTick>> decode_preview(std::string_view body);

// {"from", "to", "ticks": [{"schedule", "nominal", "note"?}], "truncated", "cut"?: [names],
// "due": [{"at", "jobs"}]}
Result<Upcoming> decode_upcoming(std::string_view body);

// {"names": […]} or {"prefix"} or {"all": true}, with "reason"? of a pause. Errors:
// invalid_argument.
struct ScheduleSetRequest {
  ScheduleSet which;
  std::string reason;
};
Result<ScheduleSetRequest> decode_schedule_set(std::string_view body);
void encode_schedule_set(const ScheduleSetRequest& request, std::string& out);
// {"changed": […], "unchanged": […], "missing": […]}
void encode_schedule_changes(const ScheduleChanges& changes, std::string& out);
Result<ScheduleChanges> decode_schedule_changes(std::string_view body);

// {"ticks": [{"seq", "version", "nominal", "until"?, "count"?, "source", "state", "past_due"?,
// "job"?, "job_state"?, "reason"?, "note"?, "decided_at"}], "next_cursor": "…" | null}; a count of
// null = too many to count.
void encode_ledger(const LedgerPage& page, std::string& out);
Result<LedgerPage> decode_ledger(std::string_view body);
// One row of it.
void encode_ledger_row(const LedgerRow& row, std::string& out);

}  // namespace mainspring
