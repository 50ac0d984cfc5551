// The table of the WebJobs API, and the alternative spellings of its paths.
#include "http/webjobs_routes.h"

#include <fmt/format.h>

#include <array>

namespace mainspring::http {
namespace {

constexpr QueryParameter kRunQuery[] = {
    {"arguments", R"({"type":"string"})", "Appended to the command."}};

// Accepts and ignores unused bodies and unknown parameters: tools send both.
constexpr Route webjob(std::string_view method, std::string_view pattern, std::string_view id,
                       decltype(Route::plan) plan, decltype(Route::access) access) {
  return {.method = method,
          .pattern = pattern,
          .id = id,
          .plan = plan,
          .access = access,
          .body = method == "GET" ? BodyRule::none : BodyRule::bytes,
          .headers = true,
          .any_query = true};
}
constexpr Route with_upload(Route route) {
  route.upload = true;
  return route;
}
constexpr Route with_batch(Route route) {
  route.batch = true;
  return route;
}
constexpr Route with_arguments(Route route) {
  route.query = kRunQuery;
  return route;
}

constexpr Route kWebjobsRoutes[] = {
    webjob("GET", "/api/webjobs", "webjobs", &plan_all_webjobs, {Verb::read, On::plan}),
    webjob("GET", "/api/triggeredwebjobs", "triggered_webjobs", &plan_webjobs<JobType::triggered>,
           {Verb::read, On::plan}),
    webjob("GET", "/api/triggeredwebjobs/{name}", "triggered_webjob",
           &plan_webjob<JobType::triggered>, {Verb::read, On::folder}),
    with_upload(webjob("PUT", "/api/triggeredwebjobs/{name}", "put_triggered_webjob",
                       &plan_put_webjob<JobType::triggered>, {Verb::define_exec, On::folder})),
    webjob("DELETE", "/api/triggeredwebjobs/{name}", "remove_triggered_webjob",
           &plan_remove_webjob<JobType::triggered>, {Verb::define_exec, On::folder}),
    webjob("GET", "/api/triggeredwebjobs/{name}/settings", "triggered_webjob_settings",
           &plan_webjob_settings<JobType::triggered>, {Verb::read_payload, On::folder}),
    webjob("PUT", "/api/triggeredwebjobs/{name}/settings", "put_triggered_webjob_settings",
           &plan_put_webjob_settings<JobType::triggered>, {Verb::define_exec, On::folder}),
    with_arguments(webjob("POST", "/api/triggeredwebjobs/{name}/run", "run_webjob",
                          &plan_run_webjob, {Verb::enqueue, On::folder})),
    webjob("GET", "/api/triggeredwebjobs/{name}/history", "webjob_history", &plan_webjob_history,
           {Verb::read, On::folder}),
    webjob("GET", "/api/triggeredwebjobs/{name}/history/{run}", "webjob_run", &plan_webjob_run,
           {Verb::read, On::folder}),
    webjob("GET", "/api/triggeredwebjobsswagger", "webjobs_swagger", &plan_webjobs_swagger,
           {Verb::read, On::plan}),
    webjob("GET", "/api/continuouswebjobs", "continuous_webjobs",
           &plan_webjobs<JobType::continuous>, {Verb::read, On::plan}),
    webjob("GET", "/api/continuouswebjobs/{name}", "continuous_webjob",
           &plan_webjob<JobType::continuous>, {Verb::read, On::folder}),
    with_upload(webjob("PUT", "/api/continuouswebjobs/{name}", "put_continuous_webjob",
                       &plan_put_webjob<JobType::continuous>, {Verb::define_exec, On::folder})),
    webjob("DELETE", "/api/continuouswebjobs/{name}", "remove_continuous_webjob",
           &plan_remove_webjob<JobType::continuous>, {Verb::define_exec, On::folder}),
    webjob("GET", "/api/continuouswebjobs/{name}/settings", "continuous_webjob_settings",
           &plan_webjob_settings<JobType::continuous>, {Verb::read_payload, On::folder}),
    webjob("PUT", "/api/continuouswebjobs/{name}/settings", "put_continuous_webjob_settings",
           &plan_put_webjob_settings<JobType::continuous>, {Verb::define_exec, On::folder}),
    webjob("POST", "/api/continuouswebjobs/{name}/stop", "stop_webjob", &plan_stop_webjob,
           {Verb::admin, On::folder}),
    webjob("POST", "/api/continuouswebjobs/{name}/start", "start_webjob", &plan_start_webjob,
           {Verb::admin, On::folder}),
    with_batch(webjob("*", "/api/continuouswebjobs/{name}/passthrough", "webjob_passthrough",
                      &plan_passthrough, {Verb::enqueue, On::folder})),
    with_batch(webjob("*", "/api/continuouswebjobs/{name}/passthrough/{path*}",
                      "webjob_passthrough_path", &plan_passthrough, {Verb::enqueue, On::folder})),
    webjob("POST", "/api/hooks", "add_hook", &plan_add_hook, {Verb::admin, On::all}),
    webjob("GET", "/api/hooks", "hooks", &plan_hooks, {Verb::admin, On::all}),
    webjob("GET", "/api/hooks/{id}", "hook", &plan_webjobs_hook, {Verb::admin, On::all}),
    webjob("DELETE", "/api/hooks/{id}", "remove_hook", &plan_remove_hook, {Verb::admin, On::all}),
    webjob("POST", "/api/hooks/publish/{event}", "publish_hook", &plan_publish_hook,
           {Verb::admin, On::all}),
    webjob("GET", "/api/vfs/data/{path*}", "data_file", &plan_data_file,
           {Verb::read_payload, On::plan}),
};

// The canonical prefix and its alternative spellings. Source: Kudu's routes.
struct Spelling {
  std::string_view prefix, canonical;
};
constexpr std::array kSpellings = {
    Spelling{"/api/triggeredjobsswagger", "/api/triggeredwebjobsswagger"},
    Spelling{"/api/triggeredjobs", "/api/triggeredwebjobs"},
    Spelling{"/api/continuousjobs", "/api/continuouswebjobs"},
    Spelling{"/api/jobs/triggered", "/api/triggeredwebjobs"},
    Spelling{"/api/jobs/continuous", "/api/continuouswebjobs"},
    Spelling{"/jobs/triggered", "/api/triggeredwebjobs"},
    Spelling{"/jobs/continuous", "/api/continuouswebjobs"},
    Spelling{"/api/jobs", "/api/webjobs"},
    Spelling{"/jobs", "/api/webjobs"},
    Spelling{"/vfs", "/api/vfs"},
};

std::string canonical(std::string_view target) {
  for (const Spelling& spelling : kSpellings) {
    if (!target.starts_with(spelling.prefix)) continue;
    const std::string_view rest = target.substr(spelling.prefix.size());
    if (rest.empty() || rest.front() == '/' || rest.front() == '?') {
      return fmt::format("{}{}", spelling.canonical, rest);
    }
  }
  return std::string(target);
}

}  // namespace

MoreRoutes webjobs_routes() {
  return {kWebjobsRoutes, &canonical};
}

}  // namespace mainspring::http
