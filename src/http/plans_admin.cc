// The plans of queues, workers and the server itself.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "api/limit_shapes.h"
#include "api/pause_shapes.h"
#include "base/mutant.h"
#include "broker/broker.h"
#include "http/gzip.h"
#include "http/host_shapes.h"
#include "http/plans.h"
#include "http/routes_queues.h"
#include "model/callback.h"

namespace mainspring::http {
namespace {

Plan plan_pause(const Request& request, const Services& services, bool paused) {
  auto name = check_name("queue", request.param);
  if (!name) return error_reply(name.error());
  auto create = query_flag(request, "create", false);
  if (!create) return error_reply(create.error());
  PauseQueue pause{request.param, paused, *create};
  if (paused) {
    auto asked = decode_pause_queue(request.param, request.body, services.clock.now().wall);
    if (!asked) return error_reply(asked.error());
    pause = std::move(*asked);
    pause.create = *create;
    pause.by = request.caller->who;
  }
  return DoWrite{pause,
                 [pause](OperationResult&) {
                   Reply reply;
                   encode_paused(pause, reply.body);
                   return reply;
                 },
                 audit_of(request, "queue/" + request.param)};
}

Reply verify_reply(Services& services) {
  if (services.verifying.exchange(true)) {
    return error_reply({.code = ErrorCode::overloaded,
                        .message = "another verification is running; wait for its end",
                        .retry_after_ms = 10'000});
  }
  auto report = services.store.verify();
  services.verifying = false;
  if (!report) return error_reply(report.error());
  if (report->problems.empty() && services.options.verified) services.options.verified();
  Reply reply;
  encode_verify(*report, reply.body);
  return reply;
}

}  // namespace

Plan plan_list_queues(const Request& request, Services& services) {
  const auto limit = query_integer(request, "limit", kMostListedQueues, kMostListedQueues);
  if (!limit) return error_reply(limit.error());
  const auto* from = query_value(request, "after");
  return DoRead{[&services, caller = request.caller, limit = *limit,
                 after = from == nullptr ? std::string() : *from] {
    auto queues = services.broker.queues();
    if (!queues) return error_reply(queues.error());
    std::erase_if(*queues, [&](const QueueStats& queue) {
      return queue.name <= after || !caller->may(Verb::read, queue.name);
    });
    const bool more = std::ssize(*queues) > limit;
    if (more) queues->resize(static_cast<std::size_t>(limit));
    Reply reply;
    encode_queues(*queues, services.clock.now().wall, more, reply.body);
    return reply;
  }};
}

Plan plan_get_queue(const Request& request, Services& services) {
  auto name = check_name("queue", request.param);
  if (!name) return error_reply(name.error());
  return DoRead{[&services, queue = request.param] {
    auto queues = services.broker.queues();
    if (!queues) return error_reply(queues.error());
    const auto found = std::find_if(queues->begin(), queues->end(),
                                    [&](const QueueStats& q) { return q.name == queue; });
    if (found == queues->end()) {
      return error_reply({ErrorCode::not_found, fmt::format("there is no queue \"{}\"", queue)});
    }
    Reply reply;
    encode_queue(*found, services.clock.now().wall, reply.body);
    return reply;
  }};
}

Plan plan_pause_queue(const Request& request, Services& services) {
  return plan_pause(request, services, true);
}

Plan plan_resume_queue(const Request& request, Services& services) {
  return plan_pause(request, services, false);
}

Plan plan_remove_queue(const Request& request, Services&) {
  auto name = check_name("queue", request.param);
  if (!name) return error_reply(name.error());
  return DoWrite{RemoveQueue{.queue = request.param},
                 [queue = request.param](OperationResult&) {
                   Reply reply;
                   encode_queue_removed(queue, reply.body);
                   return reply;
                 },
                 audit_of(request, "queue/" + request.param)};
}

Plan plan_set_retention(const Request& request, Services&) {
  auto name = check_name("queue", request.param);
  if (!name) return error_reply(name.error());
  auto retention = decode_retention_request(request.param, request.body);
  if (!retention) return error_reply(retention.error());
  auto create = query_flag(request, "create", true);
  if (!create) return error_reply(create.error());
  retention->create = *create;
  return DoWrite{*retention,
                 [retention = *retention](OperationResult&) {
                   Reply reply;
                   encode_retention_response(retention, reply.body);
                   return reply;
                 },
                 audit_of(request, "queue/" + request.param)};
}

namespace {

// A queue can open its breaker for all queues that share it. An attached breaker may stay.
Result<void> check_may_attach(const Caller& caller, const Store& store, const std::string& queue,
                              const std::string& breaker) {
  const auto may = check_may(caller, Verb::admin, breaker_scope(breaker));
  if (may) return may;
  MS_TRY_ASSIGN(const std::vector<QueueStats> queues, store.queues());
  const bool attached = std::any_of(queues.begin(), queues.end(), [&](const QueueStats& q) {
    return q.name == queue && q.limits.breaker == breaker;
  });
  return attached || MS_MUTANT(breaker_for_all) ? Result<void>() : may;
}

}  // namespace

Plan plan_set_queue_limits(const Request& request, Services& services) {
  auto name = check_name("queue", request.param);
  if (!name) return error_reply(name.error());
  auto limits = decode_limits_request(request.param, request.body);
  if (!limits) return error_reply(limits.error());
  auto create = query_flag(request, "create", true);
  if (!create) return error_reply(create.error());
  limits->create = *create;
  std::function<Result<void>()> check;
  const std::string& breaker = limits->limits.breaker;
  if (!breaker.empty() && request.caller->scopes != nullptr) {
    check = [&store = services.store, caller = request.caller, queue = request.param, breaker] {
      return check_may_attach(*caller, store, queue, breaker);
    };
  }
  return DoWrite{*limits,
                 [limits = *limits](OperationResult&) {
                   Reply reply;
                   encode_limits_response(limits, reply.body);
                   return reply;
                 },
                 audit_of(request, "queue/" + request.param), std::move(check)};
}

Plan plan_verify(const Request&, Services& services) {
  return DoRead{[&services] { return verify_reply(services); }};
}

Plan plan_version(const Request&, Services& services) {
  Reply reply;
  JsonWriter w(reply.body);
  w.begin_object().key("name").string("mainspring").key("version");
  w.string(services.options.version).key("api").string("v1").end_object();
  return reply;
}

// Uses OpenMetrics for clients that accept it, as Prometheus does.
Plan plan_metrics(const Request& request, Services& services) {
  const std::string_view accepts = header_value(request.headers, "accept");
  const bool open = accepts.find("application/openmetrics-text") != std::string_view::npos;
  return DoRead{[&services, open, packed = accepts_gzip(request.headers)] {
    Reply reply;
    reply.body =
        services.registry.render(open ? MetricsFormat::openmetrics : MetricsFormat::prometheus);
    reply.content_type = open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                              : "text/plain; version=0.0.4; charset=utf-8";
    add_header(reply, "Vary", "Accept, Accept-Encoding");
    if (packed) compress(reply);
    return reply;
  }};
}

Plan plan_openapi(const Request&, Services& services) {
  return Reply{.body = services.openapi};
}

}  // namespace mainspring::http
