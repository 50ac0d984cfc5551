// Leases and schedules of a remote server.
#include <fmt/format.h>

#include <algorithm>

#include "api/lease_shapes.h"
#include "api/schedule_shapes.h"
#include "api/shapes.h"
#include "client/calls.h"

namespace mainspring {
namespace {

// An answer to a renewal or a release after this time is of no use.
constexpr Duration kLeaseCallWithin = std::chrono::seconds(10);
// Pause after a wait that ended early because the server stops.
constexpr Duration kAfterEarlyEnd = std::chrono::milliseconds(100);

std::string lease_path(std::string_view name, std::string_view verb = "") {
  return fmt::format("/v1/leases/{}{}", percent_encode(name), verb);
}
std::string schedule_path(std::string_view name, std::string_view verb = "") {
  return fmt::format("/v1/schedules/{}{}", percent_encode(name), verb);
}
}  // namespace

// -- leases ---------------------------------------------------------------------------------------

Result<LeaseGrant> Client::acquire_lease(AcquireLease request, Duration wait,
                                         std::stop_token stop) {
  const Instant end = impl_->clock.now().instant + wait;
  for (;;) {
    const Instant begin = impl_->clock.now().instant;
    const Duration left = std::max(Duration(0), end - begin);
    const Duration slice = std::min(left, kWaitSlice);
    Impl::Call call{.method = "POST", .target = lease_path(request.name, "/acquire")};
    call.answer_within = impl_->options.read_timeout + slice;
    call.after_stop = kAfterStop;
    call.stop = stop;
    encode_acquire_request(request, slice, call.body);
    Result<std::string> body = impl_->run(call);
    if (body) return decode_lease_grant(*body);
    if (stop.stop_requested()) {
      return Error{.code = ErrorCode::lease_held,
                   .message = fmt::format("the wait for lease \"{}\" was stopped", request.name)};
    }
    const Instant now = impl_->clock.now().instant;
    if (body.error().code != ErrorCode::lease_held || now >= end) return std::move(body.error());
    if (now - begin < slice) impl_->pause(std::min(kAfterEarlyEnd, end - now), stop);
  }
}

Result<LeaseGrant> Client::renew_lease(RenewLease request) {
  Impl::Call call{
      .method = "POST", .target = lease_path(request.name, "/renew"), .repeat = Impl::Repeat::no};
  const Duration ttl = request.ttl == Duration(0) ? kDefaultNamedLease : request.ttl;
  call.answer_within = std::min({impl_->options.read_timeout, kLeaseCallWithin, ttl / 3});
  encode_renew_lease_request(request, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_lease_grant(body);
}

Result<void> Client::release_lease(ReleaseLease request) {
  Impl::Call call{.method = "POST", .target = lease_path(request.name, "/release")};
  call.answer_within = std::min(impl_->options.read_timeout, kLeaseCallWithin);
  encode_release_request(request, call.body);
  MS_TRY(impl_->run(call));
  return {};
}

Result<LeaseInfo> Client::get_lease(const std::string& name) {
  MS_TRY_ASSIGN(const std::string body, impl_->run({.method = "GET", .target = lease_path(name)}));
  return decode_lease(body);
}

Result<std::vector<LeaseInfo>> Client::leases(const std::string& after, int limit) {
  return read_named<LeaseInfo>(
      after, limit,
      [&](const std::string& from, int most) {
        return impl_->run({.method = "GET", .target = list_path("/v1/leases", from, most)});
      },
      &decode_leases);
}

// -- schedules ------------------------------------------------------------------------------------

Result<PutScheduleResult> Client::put_schedule(Schedule schedule, std::optional<bool> paused,
                                               RunCount runs) {
  Impl::Call call{.method = "PUT", .target = schedule_path(schedule.name)};
  encode_put_schedule_request({std::move(schedule), paused, runs}, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_put_schedule_response(body);
}

Result<void> Client::remove_schedule(const std::string& name) {
  MS_TRY(impl_->run({.method = "DELETE", .target = schedule_path(name)}));
  return {};
}

Result<void> Client::pause_schedule(PauseSchedule request) {
  Impl::Call call{.method = "POST",
                  .target = schedule_path(request.name, request.paused ? "/pause" : "/resume")};
  if (request.paused) encode_pause_request(request, call.body);
  MS_TRY(impl_->run(call));
  return {};
}

Result<void> Client::set_timer(SetTimer request) {
  Impl::Call call{.method = "PUT", .target = schedule_path(request.name, "/timer")};
  encode_timer_request(request, call.body);
  MS_TRY(impl_->run(call));
  return {};
}

// A run that the server may have started is not requested again: that would be a second run.
Result<FireResult> Client::trigger_schedule(const std::string& name, TickSource source,
                                            std::optional<Overlap> overlap) {
  const bool wake = source == TickSource::wake;
  Impl::Call call{.method = "POST",
                  .target = schedule_path(name, wake ? "/wake" : "/trigger"),
                  .repeat = Impl::Repeat::unseen};
  if (!wake) encode_trigger_request(overlap, call.body);
  const Result<std::string> body = impl_->run(call);
  if (!body && body.error().code == ErrorCode::conflict) {
    return FireResult{.fired = 0, .skipped = 1, .jobs = {0}};
  }
  if (!body) return body.error();
  MS_TRY_ASSIGN(const JobId job, decode_trigger_response(*body));
  return FireResult{.fired = 1, .skipped = 0, .jobs = {job}};
}

Result<BackfillResult> Client::backfill_schedule(Backfill request) {
  Impl::Call call{.method = "POST", .target = schedule_path(request.name, "/backfill")};
  encode_backfill_request({request.from, request.to, request.overlap}, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  MS_TRY_ASSIGN(const BackfillResponse done, decode_backfill_response(body));
  return BackfillResult{.fired = done.fired, .skipped = done.skipped, .next = done.next};
}

Result<ScheduleInfo> Client::get_schedule(const std::string& name) {
  MS_TRY_ASSIGN(const std::string body,
                impl_->run({.method = "GET", .target = schedule_path(name)}));
  return decode_schedule_info(body);
}

Result<std::vector<ScheduleInfo>> Client::schedules(const std::string& after, int limit) {
  return read_named<ScheduleInfo>(
      after, limit,
      [&](const std::string& from, int most) {
        return impl_->run({.method = "GET", .target = list_path("/v1/schedules", from, most)});
      },
      &decode_schedules);
}

Result<Upcoming> Client::upcoming(Duration within, int limit) {
  MS_TRY_ASSIGN(const std::string body,
                impl_->run({.method = "GET",
                            .target = fmt::format("/v1/upcoming?within={}&limit={}",
                                                  format_duration(within), limit)}));
  return decode_upcoming(body);
}

Result<ScheduleChanges> Client::pause_schedules(PauseSchedules request) {
  Impl::Call call{.method = "POST",
                  .target = request.paused ? "/v1/schedules/pause" : "/v1/schedules/resume"};
  encode_schedule_set({std::move(request.which), std::move(request.reason)}, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_schedule_changes(body);
}

Result<LedgerPage> Client::ledger(const std::string& name, int limit, std::int64_t before) {
  std::string target = fmt::format("{}?limit={}", schedule_path(name, "/ledger"), limit);
  if (before != 0) target += "&cursor=" + encode_cursor(before);
  MS_TRY_ASSIGN(const std::string body, impl_->run({.method = "GET", .target = std::move(target)}));
  return decode_ledger(body);
}

Result<std::vector<PreviewTick>> Client::preview_schedule(const std::string& name,
                                                          std::optional<WallTime> from, int count) {
  std::string target = fmt::format("{}?count={}", schedule_path(name, "/preview"), count);
  if (from) target += "&from=" + percent_encode(format_wall_time(*from));
  MS_TRY_ASSIGN(const std::string body, impl_->run({.method = "GET", .target = std::move(target)}));
  return decode_preview(body);
}

}  // namespace mainspring
