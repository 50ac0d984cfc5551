// The plans of the dead letter: dead jobs, groups by cause, redrives.
#include <fmt/format.h>

#include <algorithm>

#include "api/dead_shapes.h"
#include "api/redrive_shapes.h"
#include "base/mutant.h"
#include "broker/dead_groups.h"
#include "http/plans.h"
#include "model/fingerprint.h"

namespace mainspring::http {
namespace {

constexpr int kDeadPage = 200;       // read at once
constexpr int kMaxDeadPages = 1000;  // a page may be short

// The effect of a redrive. Whether a job gets its unique key is known only when it runs.
Result<Reply> try_redrive(const Store& store, Redrive redrive) {
  redrive.filter.state = JobState::dead;
  std::vector<JobId> ids;  // newest first
  JobId before = 0;
  bool cut = false;
  for (int pages = 0;; ++pages) {
    MS_TRY_ASSIGN(const JobPage page, store.list(redrive.filter, kDeadPage, before));
    for (const Job& job : page.jobs) {
      if (job.id > redrive.after) ids.push_back(job.id);
    }
    if (!page.next || *page.next <= redrive.after) break;
    before = *page.next;
    cut = ids.size() >= kMaxDeadLooked || pages == kMaxDeadPages;
    if (cut) break;
  }
  std::reverse(ids.begin(), ids.end());
  RedriveResult would;
  const auto limit = static_cast<std::size_t>(redrive.limit);
  if (ids.size() > limit) {
    ids.resize(limit);
    would.next = ids.back();
  }
  would.redriven = static_cast<int>(ids.size());
  would.ids = std::move(ids);
  Reply reply;
  encode_redrive_response(would, reply.body);
  reply.body.pop_back();
  reply.body += fmt::format(R"(,"dry_run":true,"cut":{}}})", cut);
  return reply;
}

// The object of an audit record; "" for a redrive of all queues.
std::string queue_object(const std::string& queue) {
  return queue.empty() ? "" : "queue/" + queue;
}

// Requires access to one queue, or to everything: the job that does it has no scopes.
Result<void> may_redrive(const Caller& caller, const std::string& queue) {
  if (!queue.empty()) return check_may(caller, Verb::admin, queue);
  if (MS_MUTANT(redrive_scope_ignored)) return {};
  return check_may_all(caller, Verb::admin);
}

}  // namespace

Plan plan_list_dead(const Request& request, Services& services) {
  auto filter = parse_filter(request);
  if (!filter) return error_reply(filter.error());
  filter->state = JobState::dead;
  const std::string* const fingerprint = query_value(request, "fingerprint");
  if (fingerprint == nullptr) return plan_page(request, services, std::move(*filter));
  auto good = check_fingerprint("fingerprint", *fingerprint);
  if (!good) return error_reply(good.error());
  return plan_page(request, services, std::move(*filter), *fingerprint);
}

Plan plan_dead_groups(const Request& request, Services& services) {
  auto filter = parse_filter(request);
  if (!filter) return error_reply(filter.error());
  const auto since = query_time(request, "since");
  if (!since) return error_reply(since.error());
  filter->state = JobState::dead;
  filter->within = request.caller->within(Verb::read);
  return DoRead{[&services, filter = std::move(*filter), since = *since,
                 payloads = request.caller->within(Verb::read_payload)] {
    auto groups = group_dead(services.store, filter, payloads, since.value_or(WallTime()));
    if (!groups) return error_reply(groups.error());
    Reply reply;
    encode_dead_groups(*groups, reply.body);
    return reply;
  }};
}

Plan plan_redrive(const Request& request, Services& services) {
  auto redrive = decode_redrive_request(request.body);
  if (!redrive) return error_reply(redrive.error());
  redrive->operation.filter.within = request.caller->within(Verb::admin);
  if (redrive->dry_run) {
    return DoRead{[&services, redrive = std::move(redrive->operation)] {
      auto would = try_redrive(services.store, redrive);
      return would ? std::move(*would) : error_reply(would.error());
    }};
  }
  std::string asked;
  encode_redrive_request(*redrive, asked);
  std::string object = queue_object(redrive->operation.filter.queue);
  return DoWrite{std::move(redrive->operation),
                 [](OperationResult& result) {
                   Reply reply;
                   encode_redrive_response(std::get<RedriveResult>(result), reply.body);
                   return reply;
                 },
                 audit_of_request(request, std::move(object), std::move(asked))};
}

Plan plan_start_redrive(const Request& request, Services&) {
  auto order = decode_redrive_order(request.body);
  if (!order) return error_reply(order.error());
  const auto may = may_redrive(*request.caller, order->filter.queue);
  if (!may) return error_reply(may.error());
  std::string asked;
  encode_redrive_order(*order, asked);
  return DoWrite{
      Enqueue{.jobs = {redrive_job(*order)}},
      [](OperationResult& result) { return enqueue_reply(std::get<EnqueueResult>(result), true); },
      audit_of_request(request, queue_object(order->filter.queue), std::move(asked))};
}

}  // namespace mainspring::http
