// The routes of job folders over real sockets, with a fake host.
#include "api/json.h"
#include "http/fake_host.h"
#include "http/host_plans.h"
#include "http/http_test_support.h"
#include "http/parser.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

RunRecord sample_run() {
  RunRecord run;
  run.id = "202611211046315000";
  run.status = RunStatus::success;
  run.trigger = "External - curl/7.88.1";
  run.started = wall("2026-11-21T10:46:31.5Z");
  run.ended = wall("2026-11-21T10:46:33Z");
  run.job = 42;
  run.exit_code = 0;
  return run;
}

std::string upload(std::string_view target, std::string_view headers, std::string_view body) {
  return "PUT " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace

TEST_CASE("a server without job folders explains how to enable them") {
  TestServer server;
  Peer peer(server);
  for (std::string_view target :
       {"/v1/host", "/v1/host/jobs", "/v1/host/jobs/triggered/report",
        "/v1/host/jobs/triggered/report/history", "/v1/host/jobs/continuous/mailer/log"}) {
    CAPTURE(target);
    const Answer answer = peer.call("GET", target);
    CHECK(answer.status == 404);
    CHECK(has(message_of(answer), "serve --jobs DIR"));
  }
  CHECK(peer.call("GET", "/healthz").body == R"({"status":"ok"})");
}

TEST_CASE("the host shows its layers, also in /healthz, and its problems") {
  HostServer s;
  Peer peer(s.server);
  CHECK(peer.call("GET", "/healthz").body ==
        R"({"status":"ok","host":{"layers":[{"name":"process_group","active":true,"detail":""},)"
        R"({"name":"cgroup_memory","active":false,"detail":"no permission"}],"running":2}})");
  const Answer host = peer.call("GET", "/v1/host");
  CHECK(host.status == 200);
  CHECK(has(host.body, R"("instance":"3f9a1c")"));
  CHECK(
      has(host.body, R"("problems":["jobs/triggered/empty: No runnable script file was found."])"));
}

TEST_CASE("job folders are listed by type and shown one by one") {
  HostServer s;
  JobView& mailer = s.host.add(JobType::continuous, "mailer");
  mailer.status = ContinuousStatus::pending_restart;
  mailer.port = 4711;
  s.host.add(JobType::triggered, "report").folder.settings_json = R"({"schedule":"0 0 3 * * *"})";
  s.host.add_run("report", sample_run());
  s.host.add(JobType::queue, "photos").children = 3;
  Peer peer(s.server);
  const Answer all = peer.call("GET", "/v1/host/jobs");
  CHECK(has(all.body, R"("name":"mailer")"));
  CHECK(has(all.body, R"("name":"photos")"));
  CHECK(has(all.body, R"("children":3)"));
  const Answer some = peer.call("GET", "/v1/host/jobs?type=triggered");
  CHECK_FALSE(has(some.body, "mailer"));
  CHECK(peer.call("GET", "/v1/host/jobs/continuous/mailer").body ==
        R"({"type":"continuous","name":"mailer","directory":"/jobs/continuous/mailer",)"
        R"("run_file":"run.sh","host":"BashScriptHost","pool":"default","disabled":false,)"
        R"("frozen":false,"status":"PendingRestart","port":4711,"settings":{}})");
  const Answer report = peer.call("GET", "/v1/host/jobs/triggered/report");
  CHECK(has(report.body,
            R"("latest_run":{"id":"202611211046315000","status":"Success",)"
            R"("trigger":"External - curl/7.88.1","started":"2026-11-21T10:46:31.500Z",)"
            R"("ended":"2026-11-21T10:46:33Z","job":42,"exit_code":0})"));
  CHECK(has(report.body, R"("settings":{"schedule":"0 0 3 * * *"})"));
  CHECK(peer.call("GET", "/v1/host/jobs/triggered/report/history").body ==
        R"({"runs":[{"id":"202611211046315000","status":"Success",)"
        R"("trigger":"External - curl/7.88.1","started":"2026-11-21T10:46:31.500Z",)"
        R"("ended":"2026-11-21T10:46:33Z","job":42,"exit_code":0}]})");
  CHECK(peer.call("GET", "/v1/host/jobs/triggered/report/history/202611211046315000").status ==
        200);
}

TEST_CASE("an invalid path or request for job folders is refused with its reason") {
  HostServer s;
  s.host.add(JobType::triggered, "report");
  s.host.add(JobType::continuous, "mailer");
  Peer peer(s.server);
  check_refusals(
      peer,
      {{"GET", "/v1/host/jobs?type=cron", "", 400, "invalid_argument", "type"},
       {"GET", "/v1/host/jobs/cron/x", "", 400, "invalid_argument", "type"},
       {"GET", "/v1/host/jobs/triggered/..", "", 400, "invalid_argument", "path"},
       {"DELETE", "/v1/host/jobs/triggered/..%2F..", "", 400, "invalid_argument", "name"},
       {"GET", "/v1/host/jobs/triggered/a%00", "", 400, "invalid_argument", "path"},
       {"GET", "/v1/host/jobs/triggered/unknown", "", 404, "not_found", ""},
       {"POST", "/v1/host/jobs/continuous/mailer/run", "", 400, "invalid_argument", "type"},
       {"POST", "/v1/host/jobs/triggered/report/run", R"({"args":"x"})", 400, "invalid_argument",
        "args"},
       {"POST", "/v1/host/jobs/triggered/report/start", "", 400, "invalid_argument", "type"},
       {"POST", "/v1/host/jobs/queue/photos/stop", "", 400, "invalid_argument", "type"},
       {"GET", "/v1/host/jobs/triggered/report/history/..%2Fx", "", 404, "not_found", ""},
       {"GET", "/v1/host/jobs/triggered/report/log?run=abc", "", 404, "not_found", ""},
       {"GET", "/v1/host/jobs/continuous/mailer/log?run=12", "", 400, "invalid_argument", "run"},
       {"GET", "/v1/host/jobs/continuous/mailer/log?max=0", "", 400, "invalid_argument", "max"},
       {"GET", "/v1/host/jobs/continuous/mailer/log?follow=yes", "", 400, "invalid_argument",
        "follow"},
       {"GET", "/v1/host/jobs/continuous/mailer/log?wait=2m", "", 400, "invalid_argument", "wait"},
       {"PATCH", "/v1/host/jobs/continuous/mailer", "", 405, "method_not_allowed", ""},
       {"GET", "/v1/host/jobs/continuous/mailer/log/more", "", 404, "not_found", ""}});
}

TEST_CASE("a run is started with its arguments and the name of its caller") {
  HostServer s;
  s.host.add(JobType::triggered, "report");
  Peer peer(s.server);
  const Answer started = peer.call("POST", "/v1/host/jobs/triggered/report/run",
                                   R"({"arguments":"--region eu"})", "User-Agent: curl/7.88.1\r\n");
  CHECK(started.status == 202);
  CHECK(started.body == R"({"run":"202611211046315000"})");
  CHECK(started.headers.at("Location") ==
        "/v1/host/jobs/triggered/report/history/202611211046315000");
  CHECK(s.host.called() == "run report [--region eu] [External - curl/7.88.1]");
  CHECK(peer.call("POST", "/v1/host/jobs/triggered/report/run").status == 202);
  s.host.fail_with({ErrorCode::conflict, "Cannot start a new run since job is already running."});
  const Answer busy = peer.call("POST", "/v1/host/jobs/triggered/report/run");
  CHECK(busy.status == 409);
  CHECK(message_of(busy) == "Cannot start a new run since job is already running.");
}

TEST_CASE("stop cancels a run of a triggered job and disables a continuous one") {
  HostServer s;
  s.host.add(JobType::triggered, "report");
  s.host.add(JobType::continuous, "mailer");
  Peer peer(s.server);
  CHECK(peer.call("POST", "/v1/host/jobs/triggered/report/stop").status == 200);
  CHECK(s.host.called() == "cancel_run report");
  CHECK(peer.call("POST", "/v1/host/jobs/continuous/mailer/stop").status == 200);
  CHECK(s.host.called() == "stop_job mailer");
  CHECK(peer.call("POST", "/v1/host/jobs/continuous/mailer/start").status == 200);
  CHECK(s.host.called() == "start_job mailer");
}

TEST_CASE("settings are read and replaced unchanged") {
  HostServer s;
  s.host.add(JobType::continuous, "mailer");
  Peer peer(s.server);
  CHECK(peer.call("GET", "/v1/host/jobs/continuous/mailer/settings").body == "{}");
  const std::string settings = R"({"is_singleton": true,  "mine":[1, 2]})";
  CHECK(peer.call("PUT", "/v1/host/jobs/continuous/mailer/settings", settings).body == settings);
  CHECK(peer.call("GET", "/v1/host/jobs/continuous/mailer/settings").body == settings);
  CHECK(peer.call("PUT", "/v1/host/jobs/continuous/mailer/settings", "[1]").status == 400);
  CHECK(peer.call("PUT", "/v1/host/jobs/continuous/unknown/settings", "{}").status == 404);
}

TEST_CASE("a job is deployed as a zip or as one file, of any type, and removed") {
  HostServer s;
  Peer peer(s.server);
  const std::string_view target = "/v1/host/jobs/triggered/report";
  peer.send(upload(target, "Content-Type: application/zip\r\n", "PK\x03\x04zip"));
  const Answer zip = peer.receive();
  CHECK(zip.status == 200);
  CHECK(has(zip.body, R"("name":"report")"));
  CHECK(s.host.called() == "deploy_zip report 7");
  peer.send(upload(target,
                   "Content-Type: text/plain\r\n"
                   "Content-Disposition: attachment; filename=\"run.sh\"\r\n",
                   "echo hi"));
  CHECK(peer.receive().status == 200);
  CHECK(s.host.called() == "deploy_file report run.sh echo hi 7");
  peer.send(upload(target, "Content-Type: text/plain\r\n", "echo hi"));
  const Answer nameless = peer.receive();
  CHECK(nameless.status == 400);
  CHECK(field_of(nameless) == "Content-Disposition");
  CHECK(peer.call("DELETE", target).body ==
        R"({"type":"triggered","name":"report","removed":true})");
  CHECK(peer.call("GET", target).status == 404);
}

TEST_CASE("a large upload arrives whole, in one piece or in chunks, and one too large is refused") {
  HostRoutes routes;
  routes.max_upload_bytes = 8 << 20;
  HostServer s(routes);
  Peer peer(s.server);
  const std::string body(5 << 20, 'z');
  peer.send(upload("/v1/host/jobs/triggered/big", "Content-Type: application/zip\r\n", body));
  CHECK(peer.receive().status == 200);
  CHECK(s.host.called() == "deploy_zip big " + std::to_string(body.size()));
  peer.send(
      "PUT /v1/host/jobs/triggered/chunked HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Type: application/zip\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 4; ++i) peer.send("100000\r\n" + std::string(1 << 20, 'c') + "\r\n");
  peer.send("0\r\n\r\n");
  CHECK(peer.receive().status == 200);
  CHECK(s.host.called() == "deploy_zip chunked " + std::to_string(4 << 20));
  peer.send(
      "PUT /v1/host/jobs/triggered/big HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388609\r\n"
      "Content-Type: application/zip\r\n\r\n");
  CHECK(peer.receive().status == 413);
}

TEST_CASE("bodies that are still referenced count as buffered") {
  HostRoutes routes;
  routes.max_upload_bytes = 1 << 20;
  HttpOptions options;
  options.max_batch_body_bytes = 1 << 20;
  options.max_buffered_bytes = (1 << 20) + (1 << 19);
  HostServer s(routes, options);
  Peer first(s.server), second(s.server);
  const std::string body(1 << 20, 'z');
  // Half of the first has arrived when the second one comes.
  first.send(
      "PUT /v1/host/jobs/triggered/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n"
      "Content-Type: application/zip\r\nExpect: 100-continue\r\n\r\n");
  CHECK(first.receive().status == 100);
  first.send(body.substr(0, 1 << 19));
  wait_until([&] { return buffered_bytes(s.server) == 1 << 19; });
  second.send(upload("/v1/host/jobs/triggered/b", "Content-Type: application/zip\r\n", body));
  CHECK(second.receive().status == 429);
  first.send(body.substr(1 << 19));
  CHECK(first.receive().status == 200);
  // Buffered bytes are released: there is room again each time.
  for (int i = 0; i < 5; ++i) {
    first.send(upload("/v1/host/jobs/triggered/a", "Content-Type: application/zip\r\n", body));
    CHECK(first.receive().status == 200);
  }
}

TEST_CASE("uploads too are accepted only from pages of this server and for its host names") {
  HostServer s;
  Peer peer(s.server);
  peer.send(upload("/v1/host/jobs/triggered/a",
                   "Content-Type: application/zip\r\nOrigin: http://evil.example\r\n", "PK"));
  CHECK(peer.receive().status == 403);
  peer.send("DELETE /v1/host/jobs/triggered/a HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  CHECK(peer.receive().status == 403);
  // Other routes take JSON only, as before.
  peer.send(
      "POST /v1/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
      "Content-Length: 2\r\n\r\n{}");
  CHECK(peer.receive().status == 400);
}

TEST_CASE("the file name of a Content-Disposition is found in every form") {
  using http::disposition_file_name;
  CHECK(disposition_file_name("attachment; filename=run.sh") == "run.sh");
  CHECK(disposition_file_name("attachment; filename=\"a;b.sh\"; x=y") == "a;b.sh");
  CHECK(disposition_file_name("attachment; FileName=\"run.sh\"") == "run.sh");
  CHECK(disposition_file_name("attachment;filename*=UTF-8''r%C3%BCn.sh") == "r\xC3\xBCn.sh");
  CHECK(disposition_file_name("attachment; filename=\"../../etc/passwd\"") == "passwd");
  CHECK(disposition_file_name("attachment; filename=\"C:\\jobs\\run.sh\"") == "run.sh");
  for (std::string_view none : {"", "attachment", "attachment; filename=", "attachment; name=x",
                                "filename", ";;;", "attachment; filename=\"\""}) {
    CAPTURE(none);
    CHECK(disposition_file_name(none).empty());
  }
}

TEST_CASE("header lines are found by name, whatever their case") {
  const auto fields =
      http::header_fields("GET / HTTP/1.1\r\nHost: a\r\nX-One:  b c \r\nEmpty:\r\n\r\n");
  CHECK(fields == http::HeaderFields{{"Host", "a"}, {"X-One", "b c"}, {"Empty", ""}});
  CHECK(http::header_value(fields, "x-one") == "b c");
  CHECK(http::header_value(fields, "nothing").empty());
}

TEST_CASE("a header of a reply stays one line") {
  http::Reply reply;
  http::add_header(reply, "Location", "a\r\nSet-Cookie: b");
  CHECK(reply.headers == "Location: a  Set-Cookie: b\r\n");
}
