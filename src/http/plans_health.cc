// The plans of the health probes: liveness, readiness, and the state of each part.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "broker/broker.h"
#include "cluster/leader.h"
#include "env/process_stats.h"
#include "http/host_shapes.h"
#include "http/plans.h"

namespace mainspring::http {
namespace {

Reply report_reply(Services& services, bool may_know) {
  const auto report = services.health.report(services.host);
  Reply reply{.status = report->state == PartState::fail ? 503 : 200};
  if (may_know) {
    reply.body = report->body;
    reply.body.pop_back();
    reply.body += fmt::format(R"(,"limits":{{"open_files":{},"max_connections":{}}}}})",
                              open_file_limit(), services.options.max_connections);
    return reply;
  }
  JsonWriter w(reply.body);
  w.begin_object().key("status").string(to_string(report->state));
  if (report->state == PartState::fail) {
    w.key("error").begin_object().key("code").string("unavailable");
    w.key("message").string("a core part of the server fails").end_object();
  }
  w.end_object();
  return reply;
}

Reply failed_reply(Services& services, bool may_know) {
  services.health.report(services.host);
  const std::string why = services.health.failure();
  if (why.empty()) return Reply{.body = R"({"status":"ready"})"};
  return error_reply({.code = ErrorCode::unavailable,
                      .message = may_know ? why : "the server is not ready",
                      .retry_after_ms = 1000});
}

}  // namespace

Plan plan_livez(const Request& request, Services& services) {
  const std::string why = services.health.stuck();
  if (why.empty()) return Reply{.body = R"({"status":"live"})"};
  const bool may_know = request.caller->may_all(Verb::read);
  return error_reply({.code = ErrorCode::unavailable,
                      .message = may_know ? why : "a thread of the server does not respond"});
}

// Details are for callers that may read everything.
Plan plan_healthz(const Request& request, Services& services) {
  const std::string* const given = query_value(request, "verbose");
  const bool verbose = given != nullptr && *given != "false";
  const bool may_know = request.caller->may_all(Verb::read);
  if (verbose) return DoRead{[&services, may_know] { return report_reply(services, may_know); }};
  if (services.host == nullptr || !request.caller->may_all(Verb::read))
    return Reply{.body = R"({"status":"ok"})"};
  // Not on the threads of job folders: a slow upload is not bad health.
  return DoRead{[&host = *services.host] {
    const HostView view = host.view();
    Reply reply;
    JsonWriter w(reply.body);
    w.begin_object().key("status").string("ok").key("host").begin_object().key("layers");
    write_layers(w, view);
    w.key("running").number(view.running).end_object().end_object();
    return reply;
  }};
}

namespace {

// Unreadable job folders do not make the server unready.
void write_host_state(JsonWriter& w, const HostView& host) {
  constexpr std::size_t kMaxShownProblems = 20;
  w.key("host").begin_object().key("missing").number(host.missing).key("problems").begin_array();
  for (std::size_t i = 0; i < std::min(host.problems.size(), kMaxShownProblems); ++i) {
    w.string(host.problems[i]);
  }
  w.end_array().end_object();
}

}  // namespace

Plan plan_readyz(const Request& request, Services& services) {
  const bool may_know = request.caller->may_all(Verb::read);
  std::string why = services.not_ready();
  if (why.empty() && services.options.unready) why = services.options.unready().value_or("");
  if (why.empty() && services.options.leadership != nullptr)
    why = services.options.leadership->not_ready().value_or("");
  if (why.empty()) why = services.health.stuck();
  // A core part failed in the last report: check again.
  if (why.empty() && !services.health.failure().empty()) {
    return DoRead{[&services, may_know] { return failed_reply(services, may_know); }};
  }
  if (!why.empty()) {
    return error_reply({.code = ErrorCode::unavailable,
                        .message = may_know ? why : "the server is not ready",
                        .retry_after_ms = 1000});
  }
  const HttpOptions& options = services.options;
  std::string warning = may_know ? services.store.shortage() : "";
  if (may_know && warning.empty()) warning = services.health.housekeeping();
  if (may_know && (options.store_state || services.host != nullptr)) {
    return DoRead{[&options, host = services.host, warning] {
      Reply reply;
      JsonWriter w(reply.body);
      w.begin_object().key("status").string("ready");
      if (options.store_state) {
        w.key("store").raw(options.store_state());
      } else {
        w.key("durability").string(options.durability);
      }
      if (host != nullptr) write_host_state(w, host->view());
      if (!warning.empty()) w.key("warning").string(warning);
      w.end_object();
      return reply;
    }};
  }
  Reply reply;
  JsonWriter w(reply.body);
  w.begin_object().key("status").string("ready");
  if (may_know) w.key("durability").string(options.durability);
  if (!warning.empty()) w.key("warning").string(warning);
  w.end_object();
  return reply;
}

}  // namespace mainspring::http
