// The routes of a test server: pass bodies to TestControl and return its answers.
#include "http/test_routes.h"

#include <fmt/format.h>

#include "broker/broker.h"
#include "http/plans.h"
#include "test_server/test_control.h"

namespace mainspring::http {
namespace {

using TestCall = Result<std::string> (TestControl::*)(std::string_view body);

Reply test_reply(Result<std::string> body, int status) {
  if (!body) return error_reply(body.error());
  return Reply{.status = status, .body = std::move(*body)};
}

// On a thread of its own: these calls block.
Plan test_plan(const Request& request, Services& services, TestCall call, int status = 200) {
  return DoRead{.read = [&test = *services.test, body = std::string(request.body), call,
                         status] { return test_reply((test.*call)(body), status); },
                .pool = Pool::host};
}

Plan plan_test_namespace(const Request& request, Services& services) {
  return test_plan(request, services, &TestControl::add_namespace, 201);
}
Plan plan_test_clock(const Request& request, Services& services) {
  return test_plan(request, services, &TestControl::clock);
}
Plan plan_test_drain(const Request& request, Services& services) {
  return test_plan(request, services, &TestControl::drain);
}
Plan plan_test_set_faults(const Request& request, Services& services) {
  return test_plan(request, services, &TestControl::set_faults);
}
Plan plan_test_reset(const Request& request, Services& services) {
  return test_plan(request, services, &TestControl::reset);
}
std::string space_of(const Request& request) {
  const std::string* const space = query_value(request, "namespace");
  return space == nullptr ? "" : *space;
}
Plan plan_test_faults(const Request& request, Services& services) {
  return test_reply(services.test->faults(space_of(request)), 200);
}
Plan plan_test_clear_faults(const Request& request, Services& services) {
  return test_reply(services.test->clear_faults(space_of(request)), 200);
}

struct AwaitRequest {
  JobId job = 0;
  JobState state = JobState::completed;
  Duration timeout = std::chrono::seconds(10);
};

Result<AwaitRequest> await_of(const Request& request) {
  AwaitRequest out;
  const std::string* const job = query_value(request, "job");
  if (job == nullptr) return invalid("job", "job: must be given");
  const auto id = parse_id(*job);
  if (!id) return invalid("job", id.error().message);
  out.job = *id;
  if (const std::string* const state = query_value(request, "state")) {
    const auto parsed = parse_job_state(*state);
    if (!parsed) {
      return invalid("state", fmt::format("state \"{}\": must be a state of a job, as completed",
                                          state->substr(0, 64)));
    }
    out.state = *parsed;
  }
  if (const std::string* const timeout = query_value(request, "timeout")) {
    const auto parsed = parse_duration(*timeout);
    if (!parsed) return invalid("timeout", "timeout: " + parsed.error().message);
    if (*parsed > TestControl::kMaxTimeout) {
      return invalid("timeout",
                     fmt::format("timeout {}: must be at most {}", format_duration(*parsed),
                                 format_duration(TestControl::kMaxTimeout)));
    }
    out.timeout = *parsed;
  }
  return out;
}

Plan plan_test_await(const Request& request, Services& services) {
  const auto wanted = await_of(request);
  if (!wanted) return error_reply(wanted.error());
  return DoRead{.read =
                    [&test = *services.test, wanted = *wanted, caller = request.caller] {
                      const auto job = test.await(wanted.job, wanted.state, wanted.timeout);
                      if (!job) return error_reply(job.error());
                      auto shown = job_reply(*job, 200, *caller);
                      return shown ? std::move(*shown) : no_job(wanted.job);
                    },
                .pool = Pool::host};
}

constexpr std::string_view kTestText = R"({"type":"string"})";
constexpr QueryParameter kAwaitQuery[] = {{"job", kTestText, "Its id."},
                                          {"state", kTestText, "[completed]"},
                                          {"timeout", kTestText, "[10s]"}};
constexpr QueryParameter kSpaceQuery[] = {{"namespace", kTestText, "[the whole server]"}};

constexpr Access kTestAccess = {Verb::admin, On::all};
constexpr Route kTestRoutes[] = {
    {.method = "POST",
     .pattern = "/v1/test/namespace",
     .id = "test_namespace",
     .plan = &plan_test_namespace,
     .access = kTestAccess,
     .body = BodyRule::optional},
    {.method = "GET",
     .pattern = "/v1/test/clock",
     .id = "test_time",
     .plan = &plan_test_clock,
     .access = kTestAccess},
    {.method = "POST",
     .pattern = "/v1/test/clock",
     .id = "test_clock",
     .plan = &plan_test_clock,
     .access = kTestAccess,
     .body = BodyRule::required},
    {.method = "POST",
     .pattern = "/v1/test/drain",
     .id = "test_drain",
     .plan = &plan_test_drain,
     .access = kTestAccess,
     .body = BodyRule::optional},
    {.method = "GET",
     .pattern = "/v1/test/await",
     .id = "test_await",
     .plan = &plan_test_await,
     .access = kTestAccess,
     .query = kAwaitQuery},
    {.method = "GET",
     .pattern = "/v1/test/faults",
     .id = "test_faults",
     .plan = &plan_test_faults,
     .access = kTestAccess,
     .query = kSpaceQuery},
    {.method = "POST",
     .pattern = "/v1/test/faults",
     .id = "test_set_faults",
     .plan = &plan_test_set_faults,
     .access = kTestAccess,
     .body = BodyRule::required},
    {.method = "DELETE",
     .pattern = "/v1/test/faults",
     .id = "test_clear_faults",
     .plan = &plan_test_clear_faults,
     .access = kTestAccess,
     .query = kSpaceQuery},
    {.method = "POST",
     .pattern = "/v1/test/reset",
     .id = "test_reset",
     .plan = &plan_test_reset,
     .access = kTestAccess,
     .body = BodyRule::optional},
};

std::string as_it_is(std::string_view target) {
  return std::string(target);
}

}  // namespace

MoreRoutes test_routes() {
  return {.routes = kTestRoutes, .canonical = &as_it_is};
}

bool is_test_route(const Route& route) {
  return route.pattern.starts_with("/v1/test/");
}

}  // namespace mainspring::http
