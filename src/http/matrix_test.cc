// Every route with every verb's token of every pattern, and with every kind of invalid token.
//
// The expected results are in a separate table here, not in the table of routes. A new route needs
// an entry in both: a route that is not in this table fails the test.
#include <algorithm>
#include <iterator>
#include <set>

#include "env/random.h"
#include "http/fake_host.h"
#include "http/webjobs_routes.h"
#include "model/token_text.h"

using namespace mainspring;
using namespace mainspring::http;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

enum class Rule {
  open,     // any caller
  token,    // any token
  all,      // the verb for everything
  name,     // the verb for "photos"
  folder,   // the verb for "folder/photos"
  some,     // the verb, whatever the pattern
  item,     // an object of "photos": not found for a caller with the verb for other patterns
  pair,     // the same, and a caller who finds it needs another verb too
  list,     // the verb; the list contains the object only for callers with the verb for "photos"
  folders,  // the same for "folder/photos"
  outcome,  // the same for a list of results: `marker` shows that access was denied
  secret,   // its own secret; access tokens do not work
};
struct Row {
  std::string_view id;
  Rule rule;
  std::string_view verbs;  // one of them
  std::string_view method, target;
  std::string_view body = {}, headers = {};
  std::string_view marker = {};  // of lists: the text that shows the object
  int good = 200;                // the status of an allowed request, for `open` and `token`
};

constexpr std::string_view kFile = "Content-Disposition: attachment; filename=run.sh\r\n";
constexpr std::string_view kSchedule = R"({"every":"1h","job":{"queue":"photos","kind":"k"}})";
constexpr std::string_view kTrigger =
    R"({"http":{},"secret":"a-token-of-24-characters","job":{"queue":"photos","kind":"k"}})";
constexpr std::string_view kTimes =
    R"({"from":"2026-01-01T00:00:00Z","to":"2026-01-01T01:00:00Z"})";
constexpr std::string_view kNamed = R"("name":"photos")";
constexpr std::string_view kBulk = R"({"action":"cancel","filter":{"queue":"photos"}})";
constexpr std::string_view kWorkflow =
    R"({"name":"photos","steps":[{"name":"s","job":{"queue":"photos","kind":"k"}}]})";
// {workflow} is a new workflow of photos, {bulk} a new bulk operation, {job} a new job of photos,
// {held} and {token} a job that worker "w" has claimed.
constexpr Row kRows[] = {
    {"enqueue", Rule::name, "enqueue", "POST", "/v1/jobs", R"({"queue":"photos","kind":"k"})"},
    {"get_job", Rule::item, "read result", "GET", "/v1/jobs/{job}"},
    {"list_memos", Rule::item, "work read:payload", "GET", "/v1/jobs/{job}/memos"},
    {"why", Rule::item, "read", "GET", "/v1/jobs/{job}/why"},
    {"list_jobs", Rule::list, "read", "GET", "/v1/jobs", "", "", R"("queue":"photos")"},
    {"cancel_job", Rule::item, "admin", "POST", "/v1/jobs/{job}/cancel"},
    {"retry_job", Rule::item, "admin", "POST", "/v1/jobs/{job}/retry"},
    {"take_back_job", Rule::item, "admin", "POST", "/v1/jobs/{held}/take-back"},
    {"edit_job", Rule::item, "admin", "PATCH", "/v1/jobs/{job}", R"({"priority":1})"},
    {"delete_job", Rule::item, "admin", "DELETE", "/v1/jobs/{job}"},
    {"clone_job", Rule::pair, "read:payload", "POST", "/v1/jobs/{job}/clone"},
    {"start_bulk", Rule::name, "admin", "POST", "/v1/bulk", kBulk},
    {"list_bulks", Rule::list, "admin", "GET", "/v1/bulk", "", "", R"("queue":"photos")"},
    {"get_bulk", Rule::item, "admin", "GET", "/v1/bulk/{bulk}"},
    {"stop_bulk", Rule::item, "admin", "POST", "/v1/bulk/{bulk}/stop"},
    {"continue_bulk", Rule::item, "admin", "POST", "/v1/bulk/{bulk}/continue"},
    {"claim", Rule::name, "work", "POST", "/v1/claim", R"({"worker":"x","queues":["photos"]})"},
    {"finish", Rule::outcome, "work", "POST", "/v1/finish",
     R"({"worker":"w","results":[{"id":{held},"token":{token},"outcome":"complete"}]})", "",
     "not_found"},
    {"end_claims", Rule::some, "work", "POST", "/v1/claim/end", R"({"worker":"x"})"},
    {"renew", Rule::outcome, "work", "POST", "/v1/renew",
     R"({"worker":"renewer","leases":[{"id":{held},"token":{token}}]})", "", R"("lost":[{held}])"},
    {"list_queues", Rule::list, "read", "GET", "/v1/queues", "", "", kNamed},
    {"get_queue", Rule::name, "read", "GET", "/v1/queues/photos"},
    {"set_retention", Rule::name, "admin", "PUT", "/v1/queues/photos", R"({"retention":{}})"},
    {"set_queue_limits", Rule::name, "admin", "PUT", "/v1/queues/photos/limits", R"({})"},
    {"remove_queue", Rule::name, "admin", "DELETE", "/v1/queues/photos"},
    {"pause_queue", Rule::name, "admin", "POST", "/v1/queues/photos/pause"},
    {"resume_queue", Rule::name, "admin", "POST", "/v1/queues/photos/resume"},
    {"accept_session", Rule::name, "work", "POST", "/v1/queues/photos/sessions/accept",
     R"({"worker":"w"})"},
    {"renew_session", Rule::name, "work", "POST", "/v1/queues/photos/sessions/k/renew",
     R"({"token":1})"},
    {"release_session", Rule::name, "work", "POST", "/v1/queues/photos/sessions/k/release",
     R"({"token":1})"},
    {"put_session_state", Rule::name, "work", "PUT", "/v1/queues/photos/sessions/k/state",
     R"({"token":1,"state":null})"},
    {"resume_session", Rule::name, "admin", "POST", "/v1/queues/photos/sessions/k/resume"},
    {"get_session", Rule::name, "read", "GET", "/v1/queues/photos/sessions/k"},
    {"list_sessions", Rule::name, "read", "GET", "/v1/queues/photos/sessions"},
    {"start_workflow", Rule::name, "enqueue", "POST", "/v1/workflows", kWorkflow},
    {"list_workflows", Rule::list, "read", "GET", "/v1/workflows", "", "", kNamed},
    {"get_workflow", Rule::item, "read", "GET", "/v1/workflows/{workflow}"},
    {"workflow_steps", Rule::item, "read", "GET", "/v1/workflows/{workflow}/steps"},
    {"signal_workflow", Rule::item, "admin", "POST", "/v1/workflows/{workflow}/signal",
     R"({"name":"go"})"},
    {"cancel_workflow", Rule::item, "admin", "POST", "/v1/workflows/{workflow}/cancel"},
    {"pause_workflow", Rule::item, "admin", "POST", "/v1/workflows/{workflow}/pause"},
    {"resume_workflow", Rule::item, "admin", "POST", "/v1/workflows/{workflow}/resume"},
    {"retry_workflow", Rule::item, "admin", "POST", "/v1/workflows/{workflow}/retry"},
    {"fork_workflow", Rule::pair, "admin", "POST", "/v1/workflows/{workflow}/fork",
     R"({"step":"s"})"},
    {"put_trigger", Rule::name, "schedule", "PUT", "/v1/triggers/photos", kTrigger},
    {"list_triggers", Rule::list, "read", "GET", "/v1/triggers", "", "", kNamed},
    {"get_trigger", Rule::item, "read", "GET", "/v1/triggers/photos"},
    {"remove_trigger", Rule::item, "schedule", "DELETE", "/v1/triggers/photos"},
    {"pause_trigger", Rule::item, "schedule", "POST", "/v1/triggers/photos/pause"},
    {"resume_trigger", Rule::item, "schedule", "POST", "/v1/triggers/photos/resume"},
    {"fire_trigger", Rule::item, "schedule", "POST", "/v1/triggers/photos/fire"},
    {"hook", Rule::secret, "", "POST", "/hooks/photos", "{}"},
    {"trigger_events", Rule::item, "read", "GET", "/v1/triggers/photos/ledger"},
    {"acquire_lease", Rule::name, "lease", "POST", "/v1/leases/photos/acquire",
     R"({"holder":"h"})"},
    {"renew_lease", Rule::name, "lease", "POST", "/v1/leases/photos/renew",
     R"({"holder":"h","token":1})"},
    {"release_lease", Rule::name, "lease", "POST", "/v1/leases/photos/release",
     R"({"holder":"h","token":1})"},
    {"get_lease", Rule::name, "lease", "GET", "/v1/leases/photos"},
    {"list_leases", Rule::list, "lease", "GET", "/v1/leases", "", "", kNamed},
    {"put_schedule", Rule::name, "schedule", "PUT", "/v1/schedules/photos", kSchedule},
    {"get_schedule", Rule::item, "read", "GET", "/v1/schedules/photos"},
    {"list_schedules", Rule::list, "read", "GET", "/v1/schedules", "", "", kNamed},
    {"remove_schedule", Rule::item, "schedule", "DELETE", "/v1/schedules/photos"},
    {"pause_schedule", Rule::item, "schedule", "POST", "/v1/schedules/photos/pause"},
    {"resume_schedule", Rule::item, "schedule", "POST", "/v1/schedules/photos/resume"},
    {"trigger_schedule", Rule::item, "schedule", "POST", "/v1/schedules/photos/trigger"},
    {"wake_schedule", Rule::item, "schedule", "POST", "/v1/schedules/photos/wake"},
    {"backfill_schedule", Rule::item, "schedule", "POST", "/v1/schedules/photos/backfill", kTimes},
    {"set_timer", Rule::item, "schedule", "PUT", "/v1/schedules/photos/timer",
     R"({"timeout":null})"},
    {"preview_schedule", Rule::item, "read", "GET", "/v1/schedules/photos/preview"},
    {"ledger", Rule::item, "read", "GET", "/v1/schedules/photos/ledger"},
    {"upcoming", Rule::list, "read", "GET", "/v1/upcoming", "", "", R"("schedule":"photos")"},
    {"pause_schedules", Rule::list, "schedule", "POST", "/v1/schedules/pause",
     R"({"names":["photos"]})", "", R"(changed":["photos"])"},
    {"resume_schedules", Rule::list, "schedule", "POST", "/v1/schedules/resume",
     R"({"names":["photos"]})", "", R"(changed":["photos"])"},
    {"preview_definition", Rule::token, "", "POST", "/v1/schedules/preview",
     R"({"schedule":{"every":"1h"}})"},
    {"events", Rule::some, "read", "GET", "/v1/events"},
    {"list_dead", Rule::some, "read", "GET", "/v1/dead"},
    {"dead_groups", Rule::some, "read", "GET", "/v1/dead/groups"},
    {"history", Rule::some, "read", "GET", "/v1/history"},
    {"scale", Rule::list, "read", "GET", "/v1/scale", "", "", R"("queue":"photos")"},
    {"list_marks", Rule::some, "read", "GET", "/v1/marks"},
    {"add_mark", Rule::all, "admin", "POST", "/v1/marks", R"({"text":"v1"})"},
    {"remove_mark", Rule::all, "admin", "DELETE", "/v1/marks/1"},
    {"list_views", Rule::some, "read", "GET", "/v1/views"},
    {"put_view", Rule::all, "admin", "PUT", "/v1/views/made", R"({"page":"jobs"})"},
    {"remove_view", Rule::all, "admin", "DELETE", "/v1/views/made"},
    {"redrive", Rule::some, "admin", "POST", "/v1/dead/redrive"},
    {"start_redrive", Rule::name, "admin", "POST", "/v1/redrives", R"({"queue":"photos"})"},
    {"put_breaker", Rule::all, "admin", "PUT", "/v1/breakers/geocoder", "{}"},
    {"list_breakers", Rule::all, "read", "GET", "/v1/breakers"},
    {"get_breaker", Rule::all, "read", "GET", "/v1/breakers/geocoder"},
    {"open_breaker", Rule::all, "admin", "POST", "/v1/breakers/geocoder/open"},
    {"close_breaker", Rule::all, "admin", "POST", "/v1/breakers/geocoder/close"},
    {"remove_breaker", Rule::all, "admin", "DELETE", "/v1/breakers/geocoder"},
    {"list_workers", Rule::all, "read", "GET", "/v1/workers"},
    {"quiet_worker", Rule::item, "admin", "POST", "/v1/workers/w/quiet"},
    {"stop_worker", Rule::item, "admin", "POST", "/v1/workers/w/stop"},
    {"resume_worker", Rule::item, "admin", "POST", "/v1/workers/w/resume"},
    {"create_token", Rule::all, "admin", "POST", "/v1/tokens",
     R"({"name":"made","scopes":["admin"]})"},
    {"create_job_token", Rule::name, "work", "POST", "/v1/queues/photos/job_token", "{}"},
    {"list_tokens", Rule::all, "admin", "GET", "/v1/tokens"},
    {"revoke_token", Rule::all, "admin", "DELETE", "/v1/tokens/made"},
    {"audit", Rule::all, "admin", "GET", "/v1/audit"},
    {"audit_head", Rule::all, "admin", "GET", "/v1/audit/head"},
    {"settings", Rule::all, "admin", "GET", "/v1/settings"},
    {"store", Rule::all, "read", "GET", "/v1/store"},
    {"verify", Rule::all, "admin", "GET", "/v1/verify"},
    {"metrics", Rule::all, "metrics", "GET", "/metrics"},
    {"version", Rule::token, "", "GET", "/v1/version"},
    {"openapi", Rule::token, "", "GET", "/openapi.json"},
    {"healthz", Rule::open, "", "GET", "/healthz"},
    {"readyz", Rule::open, "", "GET", "/readyz"},
    {"root", Rule::open, "", "GET", "/", "", "", "", 308},
    {"livez", Rule::open, "", "GET", "/livez"},
    {"dashboard_moved", Rule::open, "", "GET", "/ui", "", "", "", 308},
    {"dashboard", Rule::open, "", "GET", "/ui/"},
    {"dashboard_file", Rule::open, "", "GET", "/ui/app.js"},
    {"open_dashboard_session", Rule::token, "", "POST", "/v1/session"},
    {"dashboard_session", Rule::token, "", "GET", "/v1/session"},
    {"close_dashboard_session", Rule::open, "", "DELETE", "/v1/session"},
    {"host", Rule::all, "read", "GET", "/v1/host"},
    {"host_jobs", Rule::folders, "read", "GET", "/v1/host/jobs", "", "", kNamed},
    {"host_job", Rule::folder, "read", "GET", "/v1/host/jobs/triggered/photos"},
    {"deploy_host_job", Rule::folder, "define-exec", "PUT", "/v1/host/jobs/triggered/photos", "x",
     kFile},
    {"remove_host_job", Rule::folder, "define-exec", "DELETE", "/v1/host/jobs/queue/photos"},
    {"host_settings", Rule::folder, "read:payload", "GET",
     "/v1/host/jobs/triggered/photos/settings"},
    {"put_host_settings", Rule::folder, "define-exec", "PUT",
     "/v1/host/jobs/triggered/photos/settings", "{}"},
    {"run_host_job", Rule::folder, "enqueue", "POST", "/v1/host/jobs/triggered/photos/run"},
    {"stop_host_job", Rule::folder, "admin", "POST", "/v1/host/jobs/continuous/photos/stop"},
    {"start_host_job", Rule::folder, "admin", "POST", "/v1/host/jobs/continuous/photos/start"},
    {"host_history", Rule::folder, "read", "GET", "/v1/host/jobs/triggered/photos/history"},
    {"host_run", Rule::folder, "read", "GET", "/v1/host/jobs/triggered/photos/history/1"},
    {"host_log", Rule::folder, "read:payload", "GET", "/v1/host/jobs/triggered/photos/log?run=1"},
    // -- of WebJobs
    {"webjobs", Rule::folders, "read", "GET", "/api/webjobs", "", "", kNamed},
    {"triggered_webjobs", Rule::folders, "read", "GET", "/api/triggeredwebjobs", "", "", kNamed},
    {"continuous_webjobs", Rule::folders, "read", "GET", "/jobs/continuous", "", "", kNamed},
    {"webjobs_swagger", Rule::folders, "read", "GET", "/api/triggeredwebjobsswagger", "", "",
     "photos/run"},
    {"triggered_webjob", Rule::folder, "read", "GET", "/api/triggeredjobs/photos"},
    {"continuous_webjob", Rule::folder, "read", "GET", "/api/continuouswebjobs/photos"},
    {"put_triggered_webjob", Rule::folder, "define-exec", "PUT", "/api/triggeredwebjobs/photos",
     "x", kFile},
    {"put_continuous_webjob", Rule::folder, "define-exec", "PUT", "/api/continuouswebjobs/photos",
     "x", kFile},
    {"remove_triggered_webjob", Rule::folder, "define-exec", "DELETE",
     "/api/triggeredwebjobs/photos"},
    {"remove_continuous_webjob", Rule::folder, "define-exec", "DELETE",
     "/api/continuouswebjobs/photos"},
    {"triggered_webjob_settings", Rule::folder, "read:payload", "GET",
     "/api/triggeredwebjobs/photos/settings"},
    {"continuous_webjob_settings", Rule::folder, "read:payload", "GET",
     "/api/continuouswebjobs/photos/settings"},
    {"put_triggered_webjob_settings", Rule::folder, "define-exec", "PUT",
     "/api/triggeredwebjobs/photos/settings", "{}"},
    {"put_continuous_webjob_settings", Rule::folder, "define-exec", "PUT",
     "/api/continuouswebjobs/photos/settings", "{}"},
    {"run_webjob", Rule::folder, "enqueue", "POST", "/api/triggeredwebjobs/photos/run"},
    {"webjob_history", Rule::folder, "read", "GET", "/api/triggeredwebjobs/photos/history"},
    {"webjob_run", Rule::folder, "read", "GET", "/api/triggeredwebjobs/photos/history/1"},
    {"stop_webjob", Rule::folder, "admin", "POST", "/api/continuouswebjobs/photos/stop"},
    {"start_webjob", Rule::folder, "admin", "POST", "/api/continuouswebjobs/photos/start"},
    {"webjob_passthrough", Rule::folder, "enqueue", "GET",
     "/api/continuouswebjobs/photos/passthrough"},
    {"webjob_passthrough_path", Rule::folder, "enqueue", "DELETE",
     "/api/continuouswebjobs/photos/passthrough/a/b"},
    {"add_hook", Rule::all, "admin", "POST", "/api/hooks",
     R"({"url":"http://example.com","event":"TriggeredJobFinished"})"},
    {"hooks", Rule::all, "admin", "GET", "/api/hooks"},
    {"hook", Rule::all, "admin", "GET", "/api/hooks/1"},
    {"remove_hook", Rule::all, "admin", "DELETE", "/api/hooks/1"},
    {"publish_hook", Rule::all, "admin", "POST", "/api/hooks/publish/e", "{}"},
    {"data_file", Rule::folder, "read:payload", "GET", "/vfs/data/jobs/triggered/photos/a.txt"},
};

constexpr std::string_view kVerbNames[] = {"enqueue",      "work",       "lease",    "read",
                                           "read:payload", "result",     "schedule", "metrics",
                                           "admin",        "define-exec"};
static_assert(std::size(kVerbNames) == kVerbs);
constexpr std::string_view kPatterns[] = {"photos", "folder/photos", "films", "*"};

struct Given {
  std::string_view verb, pattern;
};

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::string_view one = words.substr(0, words.find(' '));
    if (one == word) return true;
    words.remove_prefix(std::min(words.size(), one.size() + 1));
  }
  return false;
}

void replace(std::string& text, std::string_view what, const std::string& by) {
  const std::size_t at = text.find(what);
  if (at != std::string::npos) text.replace(at, what.size(), by);
}

std::string number_after(const std::string& text, std::string_view key) {
  const std::size_t at = text.find(key) + key.size();
  return text.substr(at, text.find_first_not_of("0123456789", at) - at);
}

HostRoutes with_webjobs() {
  HostRoutes routes;
  routes.webjobs_api = true;
  return routes;
}
HttpOptions with_tokens() {
  HttpOptions options;
  options.job_token_key = Secret(std::string(32, 'k'));
  options.require_token = true;
  options.free_failures = 1'000'000;
  return options;
}

struct Matrix : HostServer {
  Matrix() : HostServer(with_webjobs(), with_tokens()), peer(std::make_unique<Peer>(server)) {
    root = token("root", *Scopes::parse("enqueue work lease read schedule admin"));
    for (const std::string_view verb : kVerbNames) {
      for (const std::string_view pattern : kPatterns) {
        const std::string scope = std::string(verb) + "=" + std::string(pattern);
        single[scope] = token("t" + std::to_string(single.size()), *Scopes::parse(scope));
      }
    }
  }
  void apply(Operation operation) {
    std::atomic<int> done = 0;
    server.broker->submit(std::move(operation), [&](OperationResult result) {
      done = std::holds_alternative<Error>(result) ? 2 : 1;
    });
    wait_until([&] { return done != 0; });
    REQUIRE(done == 1);
  }
  std::string token(const std::string& name, Scopes scopes,
                    std::optional<Duration> lives = std::nullopt) {
    const Secret text = make_token_text(random);
    TokenRecord record;
    record.name = name;
    record.digest = *digest_of_token(text.reveal());
    record.scopes = std::move(scopes);
    if (lives) record.expires_at = server.clock.now().wall + *lives;
    apply(CreateToken{record});
    return "Authorization: Bearer " + text.reveal() + "\r\n";
  }
  Answer ask(std::string_view method, std::string_view target, std::string_view body,
             const std::string& headers) {
    std::string text(method);
    text.append(" ").append(target).append(" HTTP/1.1\r\nHost: localhost\r\n").append(headers);
    if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    text.append("\r\n").append(body);
    peer->send(text);
    Answer answer = peer->receive(method == "HEAD");
    REQUIRE(answer.status != 0);
    const auto connection = answer.headers.find("Connection");
    const bool stream = answer.headers.contains("Transfer-Encoding");  // and has no end
    if (stream || (connection != answer.headers.end() && connection->second == "close")) {
      peer = std::make_unique<Peer>(server);
    }
    return answer;
  }
  // The object of the row exists, whatever the previous request did to it.
  Answer ask(const Row& row, const std::string& header) {
    host.add(JobType::triggered, "photos");
    host.add(JobType::continuous, "photos");
    if (row.rule == Rule::item || row.rule == Rule::list || row.rule == Rule::secret) {
      ask("PUT", "/v1/schedules/photos", kSchedule, root);
      ask("PUT", "/v1/triggers/photos", kTrigger, root);
      ask("POST", "/v1/leases/photos/acquire", R"({"holder":"h"})", root);
    }
    if (row.target.starts_with("/v1/workers/"))
      ask("POST", "/v1/claim", R"({"worker":"w","queues":["photos"]})", root);
    job = held = fence = workflow = bulk = "1";
    if (row.target.find("{bulk}") != std::string_view::npos)
      bulk = number_after(ask("POST", "/v1/bulk", kBulk, root).body, R"("id":)");
    if (row.id.find("workflow") != std::string_view::npos && row.id != "start_workflow") {
      workflow = number_after(ask("POST", "/v1/workflows", kWorkflow, root).body, R"("id":)");
    }
    if (row.target.find("{job}") != std::string_view::npos || row.rule == Rule::outcome ||
        row.id == "list_jobs") {
      job = number_after(ask("POST", "/v1/jobs", R"({"queue":"photos","kind":"k"})", root).body,
                         R"("id":)");
    }
    if (row.rule == Rule::outcome) {
      const std::string claim =
          ask("POST", "/v1/claim", R"({"worker":"w","queues":["photos"]})", root).body;
      held = number_after(claim, R"("id":)");
      fence = number_after(claim, R"("token":)");
    }
    return ask(row.method, filled(row.target), filled(row.body), header + std::string(row.headers));
  }
  std::string filled(std::string_view text) const {
    std::string out(text);
    replace(out, "{workflow}", workflow);
    replace(out, "{job}", job);
    replace(out, "{bulk}", bulk);
    replace(out, "{held}", held);
    replace(out, "{token}", fence);
    return out;
  }

  SystemRandom random;
  std::unique_ptr<Peer> peer;
  std::string root, job, held, fence, workflow, bulk;
  std::map<std::string, std::string> single;  // header lines by scope
};

// The expected result of a request with this one scope.
void check(Matrix& m, const Row& row, const Given& given, const Answer& answer) {
  const bool of_folder = row.rule == Rule::folder || row.rule == Rule::folders;
  const bool verb = has_word(row.verbs, given.verb);
  const bool match =
      verb && (given.pattern == "*" || given.pattern == (of_folder ? "folder/photos" : "photos"));
  const bool in = answer.status != 401 && answer.status != 403;
  switch (row.rule) {
    case Rule::open:
    case Rule::token:
      CHECK(answer.status == row.good);
      break;
    case Rule::all:
      CHECK(in == (verb && given.pattern == "*"));
      break;
    case Rule::name:
    case Rule::folder:
      CHECK(in == match);
      break;
    case Rule::some:
      CHECK(in == verb);
      break;
    case Rule::item:
      CHECK(in == verb);
      if (verb) CHECK((answer.status != 404) == match);
      break;
    case Rule::pair:
      CHECK(answer.status == (verb && !match ? 404 : 403));
      break;
    case Rule::list:
    case Rule::folders:
      CHECK((answer.status == 200) == verb);
      if (verb) CHECK(has(answer.body, row.marker) == match);
      break;
    case Rule::outcome:
      CHECK((answer.status == 200) == verb);
      if (verb) CHECK(has(answer.body, m.filled(row.marker)) == !match);
      break;
    case Rule::secret:
      CHECK((answer.status == 401 || answer.status == 429));
      return;
  }
  if (!in) CHECK(answer.status == 403);
}

}  // namespace

TEST_CASE("matrix: every route is in the table of expected results, once") {
  std::multiset<std::string_view> here, there;
  for (const Row& row : kRows) here.insert(row.id);
  for (const Route& route : routes()) there.insert(route.id);
  for (const Route& route : webjobs_routes().routes) there.insert(route.id);
  CHECK(here == there);
  for (const Row& row : kRows) {
    CAPTURE(row.id);
    const Match found = match(row.method, row.target, webjobs_routes());
    REQUIRE(found.route != nullptr);
    CHECK(found.route->id == row.id);
  }
}

TEST_CASE("matrix: every route with every verb of every pattern") {
  Matrix m;
  int asked = 0;
  for (const Row& row : kRows) {
    CAPTURE(row.id);
    for (const std::string_view verb : kVerbNames) {
      for (const std::string_view pattern : kPatterns) {
        const std::string scope = std::string(verb) + "=" + std::string(pattern);
        CAPTURE(scope);
        const Answer answer = m.ask(row, m.single.at(scope));
        CAPTURE(answer.body);
        check(m, row, {verb, pattern}, answer);
        ++asked;
        if (row.method != "GET") continue;
        const int head = m.ask("HEAD", m.filled(row.target), "", m.single.at(scope)).status;
        CHECK((head == 403) == (answer.status == 403));
      }
    }
  }
  CHECK(asked == static_cast<int>(std::size(kRows) * std::size(kVerbNames) * std::size(kPatterns)));
}

TEST_CASE("matrix: every route without a token, and with each kind of bad one") {
  Matrix m;
  const Scopes all = Scopes::all();
  const std::string expired = m.token("expired", all, 1us);
  const std::string revoked = m.token("revoked", all);
  m.apply(RevokeToken{"revoked"});
  const std::string good = m.token("good", all);
  const std::string unknown =
      "Authorization: Bearer " + make_token_text(m.random).reveal() + "\r\n";
  wait_until(
      [&, end = m.server.clock.now().wall + 1us] { return m.server.clock.now().wall > end; });
  for (const Row& row : kRows) {
    CAPTURE(row.id);
    for (const std::string& header :
         {std::string(), std::string("Authorization:\r\n"),
          std::string("Authorization: Bearer \r\n"), std::string("Authorization: Basic Og==\r\n"),
          unknown, expired, revoked}) {
      CAPTURE(header);
      CHECK(m.ask(row, header).status == (row.rule == Rule::open ? row.good : 401));
      if (row.method == "GET") {
        CHECK(m.ask("HEAD", m.filled(row.target), "", header).status ==
              (row.rule == Rule::open ? row.good : 401));
      }
    }
    const int status = m.ask(row, good).status;
    CHECK((status == 401) == (row.rule == Rule::secret));
    CHECK(status != 403);
  }
}
