// The WebJobs API over real sockets, row by row, with the requests of existing scripts.
#include "http/fake_host.h"
#include "http/webjobs_routes.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

HostRoutes webjobs() {
  HostRoutes routes;
  routes.webjobs_api = true;
  return routes;
}

RunRecord webjobs_sample_run() {
  RunRecord run;
  run.id = "202611211046315000";
  run.status = RunStatus::success;
  run.trigger = "External - curl/7.88.1";
  run.started = wall("2026-11-21T10:46:31.5Z");
  run.ended = wall("2026-11-21T10:46:33Z");
  return run;
}

struct WebJobs : HostServer {
  WebJobs() : HostServer(webjobs()), peer(server) {
    JobView& mailer = host.add(JobType::continuous, "mailer");
    mailer.status = ContinuousStatus::running;
    mailer.detailed_status = "3f9a1c - Running";
    host.add(JobType::triggered, "report").folder.settings_json = R"({"schedule":"0 0 3 * * *"})";
    host.add_run("report", webjobs_sample_run());
    host.add(JobType::triggered, "idle");
    host.add(JobType::queue, "photos");
  }
  // Sends the text literally and adds only the length of a body.
  Answer raw(std::string_view request_line, std::string_view headers = "",
             std::string_view body = "") {
    std::string text =
        std::string(request_line) + " HTTP/1.1\r\nHost: localhost:8080\r\n" + std::string(headers);
    if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    peer.send(text + "\r\n" + std::string(body));
    return peer.receive(request_line.starts_with("HEAD"));
  }
  Peer peer;
};

const std::string kRun =
    R"({"id":"202611211046315000","name":"202611211046315000","status":"Success",)"
    R"("start_time":"2026-11-21T10:46:31.5000000Z","end_time":"2026-11-21T10:46:33.0000000Z",)"
    R"("duration":"00:00:01.5000000","output_url":"http://localhost:8080/vfs/data/jobs/triggered/)"
    R"(report/202611211046315000/output_log.txt","error_url":null,)"
    R"("url":"http://localhost:8080/api/triggeredwebjobs/report/history/202611211046315000",)"
    R"("job_name":"report","trigger":"External - curl/7.88.1"})";
const std::string kReport =
    R"({"name":"report","run_command":"run.sh",)"
    R"("url":"http://localhost:8080/api/triggeredwebjobs/report",)"
    R"("extra_info_url":"http://localhost:8080/v1/host/jobs/triggered/report",)"
    R"("type":"triggered","error":null,"using_sdk":false,"settings":{"schedule":"0 0 3 * * *"},)"
    R"("latest_run":)" +
    kRun +
    R"(,"history_url":"http://localhost:8080/api/triggeredwebjobs/report/history",)"
    R"("scheduler_logs_url":"http://localhost:8080/vfs/data/jobs/triggered/report/)"
    R"(job_scheduler.log"})";
const std::string kMailer =
    R"({"name":"mailer","run_command":"run.sh",)"
    R"("url":"http://localhost:8080/api/continuouswebjobs/mailer",)"
    R"("extra_info_url":"http://localhost:8080/v1/host/jobs/continuous/mailer",)"
    R"("type":"continuous","error":null,"using_sdk":false,"settings":{},"status":"Running",)"
    R"("detailed_status":"3f9a1c - Running",)"
    R"("log_url":"http://localhost:8080/vfs/data/jobs/continuous/mailer/job_log.txt"})";

}  // namespace

TEST_CASE("the WebJobs API exists only if it is enabled") {
  HostServer without;
  Peer peer(without.server);
  for (std::string_view target : {"/api/webjobs", "/api/triggeredwebjobs", "/jobs",
                                  "/vfs/data/jobs/triggered/a/b/output_log.txt", "/api/hooks"}) {
    CHECK(peer.call("GET", target).status == 404);
  }
}

TEST_CASE("GET api/webjobs: triggered jobs, then continuous ones; the other lists; one job") {
  WebJobs s;
  const std::string all = s.raw("GET /api/webjobs").body;
  CHECK(all.starts_with(R"([{"name":"idle")"));
  CHECK(has(all, kReport + "," + kMailer + "]"));
  CHECK_FALSE(has(all, "photos"));
  CHECK(has(s.raw("GET /api/triggeredwebjobs").body, kReport + "]"));
  CHECK(s.raw("GET /api/continuouswebjobs").body == "[" + kMailer + "]");
  CHECK(s.raw("GET /api/triggeredwebjobs/report").body == kReport);
  CHECK(s.raw("GET /api/continuouswebjobs/mailer").body == kMailer);
  CHECK(has(s.raw("GET /api/triggeredwebjobs/idle").body, R"("latest_run":null)"));
  const Answer none = s.raw("GET /api/triggeredwebjobs/mailer");
  CHECK(none.status == 404);
  CHECK(none.body.starts_with(R"({"Message":)"));
  CHECK(s.raw("GET /api/continuouswebjobs/..%2Fx").status == 404);
  CHECK(s.raw("GET /api/webjobs?api-version=2016-08-01").status == 200);
}

TEST_CASE("every spelling of a path leads to the same") {
  WebJobs s;
  for (std::string_view path :
       {"/api/triggeredwebjobs", "/api/triggeredjobs", "/api/jobs/triggered", "/jobs/triggered"}) {
    CAPTURE(path);
    const std::string base = "GET " + std::string(path);
    CHECK(has(s.raw(base).body, kReport));
    CHECK(s.raw(base + "/report").body == kReport);
    CHECK(s.raw(base + "/report/history").body == R"({"runs":[)" + kRun + "]}");
  }
  for (std::string_view path : {"/api/continuouswebjobs", "/api/continuousjobs",
                                "/api/jobs/continuous", "/jobs/continuous"}) {
    CAPTURE(path);
    CHECK(s.raw("GET " + std::string(path) + "/mailer").body == kMailer);
    CHECK(s.raw("POST " + std::string(path) + "/mailer/stop").status == 200);
  }
  CHECK(s.raw("GET /api/jobs").body == s.raw("GET /api/webjobs").body);
  CHECK(s.raw("GET /jobs").body == s.raw("GET /api/webjobs").body);
  CHECK(s.raw("GET /api/triggeredjobsx").status == 404);
}

TEST_CASE("lists and history have an ETag and are not sent again to a client that has them") {
  WebJobs s;
  for (std::string_view target : {"/api/webjobs", "/api/triggeredwebjobs", "/api/continuouswebjobs",
                                  "/api/triggeredwebjobs/report/history"}) {
    CAPTURE(target);
    const std::string get = "GET " + std::string(target);
    const Answer first = s.raw(get);
    const std::string etag = first.headers.at("ETag");
    const Answer again = s.raw(get, "If-None-Match: " + etag + "\r\n");
    CHECK(again.status == 304);
    CHECK(again.body.empty());
    CHECK(again.headers.at("ETag") == etag);
    CHECK_FALSE(again.headers.contains("Content-Length"));
    CHECK(s.raw(get, "If-None-Match: \"other\", W/" + etag + "\r\n").status == 304);
    CHECK(s.raw(get, "If-None-Match: \"other\"\r\n").status == 200);
    s.host.add(JobType::triggered, "new" + std::to_string(target.size()));
    const Answer changed = s.raw(get, "If-None-Match: " + etag + "\r\n");
    CHECK(changed.status == 200);
    CHECK(changed.headers.at("ETag") != etag);
  }
}

TEST_CASE("an ETag from before a restart does not match, although host versions start again") {
  WebJobs before, after;
  REQUIRE(before.host.version() == after.host.version());
  const std::string etag = before.raw("GET /api/webjobs").headers.at("ETag");
  CHECK(after.raw("GET /api/webjobs", "If-None-Match: " + etag + "\r\n").status == 200);
}

TEST_CASE("PUT of a file needs a Content-Disposition; a zip is recognized by its type") {
  WebJobs s;
  const Answer nameless =
      s.raw("PUT /api/triggeredwebjobs/new", "Content-Type: text/plain\r\n", "echo hi");
  CHECK(nameless.status == 400);
  CHECK(nameless.body == R"({"Message":"Missing Content-Disposition header."})");
  const std::string named = "Content-Disposition: attachment; filename=run.sh\r\n";
  const Answer file = s.raw("PUT /api/triggeredwebjobs/new", named, "echo hi");
  CHECK(file.status == 200);
  CHECK(has(file.body, R"("name":"new","run_command":"run.sh")"));
  CHECK(s.host.called() == "deploy_file new run.sh echo hi 7");
  const Answer zip = s.raw("PUT /api/continuouswebjobs/packed",
                           "Content-Disposition: attachment; filename=job.zip\r\n"
                           "Content-Type: application/zip\r\n",
                           "PK12");
  CHECK(zip.status == 200);
  CHECK(has(zip.body, R"("type":"continuous")"));
  CHECK(s.host.called() == "deploy_zip packed 4");
  s.host.fail_with(invalid("zip", "No runnable script file was found."));
  const Answer nothing = s.raw("PUT /api/triggeredwebjobs/new", named, "hi");
  CHECK(nothing.status == 400);
  CHECK(nothing.body == R"({"Message":"No runnable script file was found."})");
  CHECK(s.raw("PUT /api/triggeredwebjobs/.hidden", named, "hi").status == 400);
}

TEST_CASE("DELETE is always 200") {
  WebJobs s;
  CHECK(s.raw("DELETE /api/triggeredwebjobs/report").status == 200);
  CHECK(s.raw("GET /api/triggeredwebjobs/report").status == 404);
  CHECK(s.raw("DELETE /api/triggeredwebjobs/report").status == 200);
  CHECK(s.raw("DELETE /api/continuouswebjobs/unknown").status == 200);
  CHECK(s.raw("DELETE /api/continuouswebjobs/..%2F..").status == 200);
  CHECK(s.raw("GET /api/continuouswebjobs/mailer").status == 200);
}

TEST_CASE("settings of an unknown job are empty; PUT replaces them") {
  WebJobs s;
  CHECK(s.raw("GET /api/triggeredwebjobs/report/settings").body == R"({"schedule":"0 0 3 * * *"})");
  const Answer unknown = s.raw("GET /api/triggeredwebjobs/unknown/settings");
  CHECK(unknown.status == 200);
  CHECK(unknown.body == "{}");
  CHECK(s.raw("PUT /api/continuouswebjobs/mailer/settings", "Content-Type: application/json\r\n",
              R"({"is_singleton":true})")
            .status == 200);
  CHECK(s.raw("GET /api/continuouswebjobs/mailer/settings").body == R"({"is_singleton":true})");
  CHECK(s.raw("PUT /api/continuouswebjobs/unknown/settings", "", "{}").status == 404);
  CHECK(s.raw("PUT /api/continuouswebjobs/mailer/settings", "", "[1]").status == 400);
  CHECK(s.raw("PUT /api/continuouswebjobs/mailer/settings", "", "{").status == 400);
}

TEST_CASE("POST run: 202 with the run's place, 404, 409 and 503 in the words of WebJobs") {
  WebJobs s;
  const Answer run = s.raw("POST /api/triggeredwebjobs/report/run?arguments=--region%20eu+x",
                           "User-Agent: curl/7.88.1\r\n");
  CHECK(run.status == 202);
  CHECK(run.body.empty());
  CHECK(run.headers.at("Location") ==
        "http://localhost:8080/api/triggeredwebjobs/report/history/202611211046315000");
  CHECK(s.host.called() == "run report [--region eu x] [External - curl/7.88.1]");
  // As `curl -d ''` and other clients send it.
  CHECK(s.raw("POST /api/triggeredwebjobs/report/run",
              "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0\r\n")
            .status == 202);
  CHECK(s.host.called() == "run report [] [External - ]");
  CHECK(s.raw("POST /api/triggeredwebjobs/unknown/run").status == 404);
  CHECK(s.raw("POST /api/continuouswebjobs/mailer/run").status == 404);
  s.host.fail_with({ErrorCode::conflict, "Cannot start a new run since job is already running."});
  const Answer busy = s.raw("POST /api/triggeredwebjobs/report/run");
  CHECK(busy.status == 409);
  CHECK(busy.body == R"({"Message":"Cannot start a new run since job is already running."})");
  s.host.fail_with({ErrorCode::conflict, "WebJobs are currently in \"stopped\" state."});
  CHECK(s.raw("POST /api/triggeredwebjobs/report/run").body ==
        R"({"Message":"WebJobs are currently in \"stopped\" state."})");
  s.host.fail_with({ErrorCode::unavailable, "the disk is read-only"});
  CHECK(s.raw("POST /api/triggeredwebjobs/report/run").status == 503);
}

TEST_CASE("history: newest first; 404 for a job that never ran; one run or 404") {
  WebJobs s;
  CHECK(s.raw("GET /api/triggeredwebjobs/report/history").body == R"({"runs":[)" + kRun + "]}");
  CHECK(s.raw("GET /api/triggeredwebjobs/idle/history").status == 404);
  CHECK(s.raw("GET /api/triggeredwebjobs/unknown/history").status == 404);
  CHECK(s.raw("GET /api/triggeredwebjobs/report/history/202611211046315000").body == kRun);
  CHECK(s.raw("GET /api/triggeredwebjobs/report/history/202611211046315001").status == 404);
  CHECK(s.raw("GET /api/triggeredwebjobs/report/history/x").status == 404);
}

TEST_CASE("stop and start of a continuous job: 200, 404, 409 when the file cannot be written") {
  WebJobs s;
  CHECK(s.raw("POST /api/continuouswebjobs/mailer/stop").status == 200);
  CHECK(s.host.called() == "stop_job mailer");
  CHECK(s.raw("POST /api/continuouswebjobs/mailer/start", "Content-Length: 0\r\n").status == 200);
  CHECK(s.host.called() == "start_job mailer");
  CHECK(s.raw("POST /api/continuouswebjobs/unknown/stop").status == 404);
  for (const ErrorCode code : {ErrorCode::conflict, ErrorCode::io_error}) {
    s.host.fail_with({code, "disable.job: permission denied"});
    CHECK(s.raw("POST /api/continuouswebjobs/mailer/stop").status == 409);
    CHECK(s.raw("POST /api/continuouswebjobs/mailer/start").status == 409);
  }
}

TEST_CASE("the swagger document has one POST for each triggered job") {
  WebJobs s;
  const Answer swagger = s.raw("GET /api/triggeredwebjobsswagger");
  CHECK(swagger.body.starts_with(
      R"({"swagger":"2.0","info":{"version":"v1","title":"WebJobs"},"host":"localhost:8080",)"
      R"("schemes":["http"],"paths":{"/api/triggeredwebjobs/idle/run":{"post":{)"
      R"("deprecated":false,"operationId":"idle",)"));
  CHECK(has(swagger.body, R"("/api/triggeredwebjobs/report/run":{"post":)"));
  CHECK_FALSE(has(swagger.body, "mailer"));
}

TEST_CASE("hooks are added once, listed, shown, removed; events are published") {
  WebJobs s;
  const std::string_view hook =
      R"({"url":"http://me:secret@localhost/x","event":"TriggeredJobFinished","more":1})";
  const std::string added =
      R"({"id":"hook1","url":"http://me:secret@localhost/x","event":"TriggeredJobFinished",)"
      R"("insecure_ssl":false,"last_status":null,"last_reason":null,"last_datetime":null,)"
      R"("last_context":null})";
  const Answer first = s.raw("POST /api/hooks", "Content-Type: application/json\r\n", hook);
  CHECK(first.status == 201);
  CHECK(first.body == added);
  CHECK(s.raw("POST /api/hooks", "", hook).body == added);
  CHECK(s.raw("POST /api/hooks", "",
              R"({"url":"http://me:secret@localhost/x","event":"PostDeployment"})")
            .status == 409);
  CHECK(s.raw("POST /api/hooks", "", R"({"url":"gopher://x","event":"PostDeployment"})").status ==
        400);
  CHECK(s.raw("POST /api/hooks", "", "{").status == 400);
  CHECK(s.raw("GET /api/hooks").body == "[" + added + "]");
  CHECK(s.raw("GET /api/hooks/hook1").body == added);
  CHECK(s.raw("GET /api/hooks/hook2").status == 404);
  CHECK(s.raw("POST /api/hooks/publish/TriggeredJobFinished", "", R"({"a":1})").status == 200);
  CHECK(s.host.called() == R"(publish TriggeredJobFinished {"a":1})");
  CHECK(s.raw("DELETE /api/hooks/hook1").status == 200);
  CHECK(s.raw("DELETE /api/hooks/hook1").status == 200);
  CHECK(s.raw("GET /api/hooks").body == "[]");
}

TEST_CASE("files of the data directory are read, and no others") {
  WebJobs s;
  for (std::string_view root : {"/vfs/data/", "/api/vfs/data/"}) {
    const Answer log = s.raw("GET " + std::string(root) +
                             "jobs/triggered/report/202611211046315000/output_log.txt");
    CHECK(log.status == 200);
    CHECK(log.headers.at("Content-Type") == "text/plain; charset=utf-8");
    CHECK(log.body == "the text of jobs/triggered/report/202611211046315000/output_log.txt");
  }
  CHECK(s.raw("GET /vfs/data/page.html").headers.at("Content-Type") == "application/octet-stream");
  CHECK(s.raw("GET /vfs/data/a%20b/c").body == "the text of a b/c");
  for (std::string_view path : {"../secret", "%2e%2e/secret", "a/..%2F..%2Fsecret", "a%00b"}) {
    CAPTURE(path);
    const int status = s.raw("GET /vfs/data/" + std::string(path)).status;
    CHECK((status == 404 || status == 400));
  }
  CHECK(s.raw("GET /vfs/data/large.bin").status == 413);
  const Answer list = s.raw("GET /vfs/data/jobs/triggered/report/");
  CHECK(list.status == 200);
  CHECK(list.body ==
        R"([{"name":"a b","size":0,"mtime":"2026-01-01T00:00:00Z","mime":"inode/directory",)"
        R"("href":"http://localhost:8080/vfs/data/jobs/triggered/report/a%20b/"},)"
        R"({"name":"log.txt","size":12,"mtime":"2026-01-01T00:00:00Z","mime":"text/plain",)"
        R"("href":"http://localhost:8080/vfs/data/jobs/triggered/report/log.txt"}])");
  CHECK(s.raw("GET /vfs/data/%2e%2e/").status == 400);
  CHECK(s.raw("PUT /vfs/data/x", "", "y").status == 405);
  CHECK(s.raw("GET /vfs/other/x").status == 404);
}

TEST_CASE("spellings apply to whole segments, and the query is kept") {
  const auto canonical = http::webjobs_routes().canonical;
  CHECK(canonical("/api/jobs/triggered/a?x=/jobs") == "/api/triggeredwebjobs/a?x=/jobs");
  CHECK(canonical("/jobs?x") == "/api/webjobs?x");
  CHECK(canonical("/jobsx") == "/jobsx");
  CHECK(canonical("/api/triggeredjobsswagger") == "/api/triggeredwebjobsswagger");
}
