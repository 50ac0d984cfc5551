// The plans of schedules. Calendar computations run here or on a reader thread, never on the
// broker's thread.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "api/schedule_shapes.h"
#include "broker/broker.h"
#include "broker/schedule_plans.h"
#include "http/plans.h"
#include "model/schedule.h"

namespace mainspring::http {
namespace {

// How many ledger rows are searched for a tick that was just skipped: other ticks may have been
// decided since.
constexpr int kRowsBack = 50;

// A schedule whose jobs go to queues in `within`; others are reported as missing.
Result<ScheduleInfo> find_schedule(const Services& services, const std::string& name,
                                   const Within& within) {
  MS_TRY_ASSIGN(ScheduleInfo info, services.store.schedule(name));
  if (within.has(info.schedule.job.queue)) return info;
  return Error{ErrorCode::not_found, fmt::format("schedule {}: there is no such schedule", name)};
}

Reply schedule_reply(const Services& services, const std::string& name, const Caller& caller,
                     Verb verb) {
  auto info = find_schedule(services, name, caller.within(verb));
  if (!info) return error_reply(info.error());
  Reply reply;
  info->problem = schedule_problem(info->schedule);
  encode_schedule_info(*info, reply.body, payload_for(caller, info->schedule.job.queue));
  return reply;
}

// A change, answered with the schedule after it.
template <class T>
DoWrite change_schedule(const Request& request, const Services& services, T operation) {
  operation.within = request.caller->within(Verb::schedule);
  return DoWrite{std::move(operation),
                 [&services, name = request.param,
                  caller = request.caller](OperationResult&) -> DoWrite::Answer {
                   return DoRead{[&services, name, caller] {
                     return schedule_reply(services, name, *caller, Verb::schedule);
                   }};
                 },
                 audit_of(request, "schedule/" + request.param)};
}

Result<PutSchedule> put_schedule_of(const Request& request, const Services& services) {
  MS_TRY(check_name("name", request.param));
  MS_TRY_ASSIGN(PutScheduleRequest put, decode_put_schedule_request(request.param, request.body));
  MS_TRY(check_may_make(*request.caller, Verb::schedule, put.schedule.job));
  MS_TRY(check_callback(services, put.schedule.job, "job."));
  MS_TRY_ASSIGN(PutSchedule operation,
                plan_put(std::move(put.schedule), put.paused, services.clock.now().wall, put.runs));
  operation.within = request.caller->within(Verb::schedule);
  return operation;
}

Reply put_schedule_reply(const Services& services, const std::string& name,
                         const PutScheduleResult& result, const Caller& caller) {
  auto info = services.store.schedule(name);
  if (!info) return error_reply(info.error());
  Reply reply{.status = result.outcome == PutOutcome::created ? 201 : 200};
  encode_put_schedule_response(*info, result, reply.body,
                               payload_for(caller, info->schedule.job.queue));
  return reply;
}

// Why the newest tick of this source was skipped.
Reply skipped_reply(const Services& services, const std::string& name, TickSource source) {
  auto page = services.store.ledger(name, kRowsBack, 0);
  if (!page) return error_reply(page.error());
  const auto row = std::find_if(page->rows.begin(), page->rows.end(), [&](const LedgerRow& one) {
    return one.source == source && one.state == TickState::skipped;
  });
  return error_reply(
      {ErrorCode::conflict, fmt::format("schedule \"{}\" did not run: {}", name,
                                        row == page->rows.end() ? "see its ledger" : row->reason)});
}

DoWrite run_now(const Request& request, const Services& services, TickSource source,
                std::optional<Overlap> overlap) {
  FireSchedule fire = plan_trigger(request.param, source, overlap);
  // Timers wake themselves all the time: that counts as work.
  Audit audit = audit_of(request, "schedule/" + request.param);
  audit.always = source == TickSource::trigger || services.options.audit_all;
  fire.within = request.caller->within(Verb::schedule);
  return DoWrite{
      std::move(fire),
      [&services, name = request.param, source](OperationResult& result) -> DoWrite::Answer {
        const auto& fired = std::get<FireResult>(result);
        const JobId job = fired.jobs.empty() ? 0 : fired.jobs.front();
        if (job == 0) {
          return DoRead{
              [&services, name, source] { return skipped_reply(services, name, source); }};
        }
        Reply reply{.status = 201};
        encode_trigger_response(job, reply.body);
        return reply;
      },
      std::move(audit)};
}

Reply preview_reply(const Schedule& schedule, WallTime from, int count) {
  Reply reply;
  encode_preview(preview(schedule, from, count), reply.body);
  return reply;
}

Reply backfill_reply(Services& services, const Backfill& backfill, Audit audit) {
  auto done = services.broker.backfill_schedule(backfill);
  if (!done) return error_reply(done.error());
  JsonWriter w(audit.after);
  w.begin_object().key("from").time(backfill.from).key("to").time(backfill.to);
  w.key("fired").number(done->fired).end_object();
  // Not under the schedule's name, as the store would add the schedule's image.
  if (auto kept = append_record(services, std::move(audit)); !kept) {
    return error_reply(kept.error());
  }
  Reply reply;
  encode_backfill_response({.fired = done->fired, .skipped = done->skipped, .next = done->next},
                           reply.body);
  return reply;
}

}  // namespace

Plan plan_put_schedule(const Request& request, Services& services) {
  auto put = put_schedule_of(request, services);
  if (!put) return error_reply(put.error());
  return DoWrite{
      std::move(*put),
      [&services, name = request.param,
       caller = request.caller](OperationResult& result) -> DoWrite::Answer {
        return DoRead{[&services, name, caller, put = std::get<PutScheduleResult>(result)] {
          return put_schedule_reply(services, name, put, *caller);
        }};
      },
      audit_of(request, "schedule/" + request.param)};
}

Plan plan_get_schedule(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  return DoRead{[&services, name = request.param, caller = request.caller] {
    return schedule_reply(services, name, *caller, Verb::read);
  }};
}

Plan plan_list_schedules(const Request& request, Services& services) {
  const auto limit = parse_limit(request);
  if (!limit) return error_reply(limit.error());
  const auto* after = query_value(request, "after");
  return DoRead{[&services, limit = *limit, after = after == nullptr ? std::string() : *after,
                 caller = request.caller] {
    auto schedules = read_shown<ScheduleInfo>(
        after, limit,
        [&](const std::string& from, int most) { return services.store.schedules(from, most); },
        [&](const ScheduleInfo& one) { return caller->may(Verb::read, one.schedule.job.queue); },
        [](const ScheduleInfo& one) { return one.schedule.name; },
        [](const ScheduleInfo& one) { return payload_bytes(one.schedule.job); });
    if (!schedules) return error_reply(schedules.error());
    for (ScheduleInfo& one : schedules->items) one.problem = schedule_problem(one.schedule);
    Reply reply;
    encode_schedules(schedules->items, schedules->more, reply.body,
                     caller->within(Verb::read_payload));
    return reply;
  }};
}

Plan plan_remove_schedule(const Request& request, Services&) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  RemoveSchedule remove{request.param};
  remove.within = request.caller->within(Verb::schedule);
  return DoWrite{std::move(remove),
                 [name = request.param](OperationResult&) -> DoWrite::Answer {
                   Reply reply;
                   encode_schedule_removed(name, reply.body);
                   return reply;
                 },
                 audit_of(request, "schedule/" + request.param)};
}

Plan plan_pause_schedule(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  auto pause = decode_pause_request(request.param, request.body);
  if (!pause) return error_reply(pause.error());
  return change_schedule(request, services, std::move(*pause));
}

Plan plan_resume_schedule(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  return change_schedule(request, services,
                         PauseSchedule{.name = request.param, .paused = false, .reason = {}});
}

Plan plan_set_timer(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  auto timer = decode_timer_request(request.param, request.body);
  if (!timer) return error_reply(timer.error());
  return change_schedule(request, services, std::move(*timer));
}

Plan plan_trigger_schedule(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  auto overlap = decode_trigger_request(request.body);
  if (!overlap) return error_reply(overlap.error());
  return run_now(request, services, TickSource::trigger, *overlap);
}

Plan plan_wake_schedule(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  return run_now(request, services, TickSource::wake, std::nullopt);
}

// On a reader thread: it may have to find thousands of ticks.
Plan plan_backfill_schedule(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  auto decoded = decode_backfill_request(request.body);
  if (!decoded) return error_reply(decoded.error());
  return DoRead{[&services,
                 backfill = Backfill{request.param, *decoded->from, *decoded->to, decoded->overlap,
                                     request.caller->within(Verb::schedule)},
                 audit = audit_of(request, "backfill/" + request.param)] {
    return backfill_reply(services, backfill, audit);
  }};
}

Plan plan_preview_schedule(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  const auto from = query_time(request, "from");
  if (!from) return error_reply(from.error());
  const auto count = query_integer(request, "count", PreviewRequest::kDefaultPreview, kMaxPreview);
  if (!count) return error_reply(count.error());
  return DoRead{[&services, name = request.param, from = from->value_or(services.clock.now().wall),
                 count = *count, within = request.caller->within(Verb::read)] {
    auto info = find_schedule(services, name, within);
    if (!info) return error_reply(info.error());
    return preview_reply(info->schedule, from, count);
  }};
}

Plan plan_preview_definition(const Request& request, Services& services) {
  auto decoded = decode_preview_request(request.body);
  if (!decoded) return error_reply(decoded.error());
  if (auto good = validate(decoded->schedule); !good) {
    Error error = good.error();
    if (!error.field.empty()) error.field = "schedule." + error.field;
    return error_reply(error);
  }
  const WallTime from = decoded->from.value_or(services.clock.now().wall);
  return DoRead{[schedule = std::move(decoded->schedule), from, count = decoded->count] {
    return preview_reply(schedule, from, count);
  }};
}

Plan plan_ledger(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  const auto limit = parse_limit(request);
  if (!limit) return error_reply(limit.error());
  const auto* cursor = query_value(request, "cursor");
  const auto before = decode_cursor(cursor == nullptr ? std::string_view() : *cursor);
  if (!before) return error_reply(before.error());
  return DoRead{[&services, name = request.param, limit = *limit, before = *before,
                 within = request.caller->within(Verb::read)] {
    if (auto there = find_schedule(services, name, within); !there) {
      return error_reply(there.error());
    }
    auto page = services.store.ledger(name, limit, before);
    if (!page) return error_reply(page.error());
    Reply reply;
    encode_ledger(*page, reply.body);
    return reply;
  }};
}

}  // namespace mainspring::http
