// Schedules over real sockets: every route, accepted and refused.
#include <future>

#include "api/schedule_shapes.h"
#include "http/http_test_support.h"

using namespace mainspring;
using namespace mainspring::test;
using namespace std::chrono_literals;

namespace {

// A schedule that does not fire during a test.
constexpr std::string_view kYearly =
    R"({"cron":"0 0 1 1 *","job":{"queue":"q","kind":"k","args":{"a": 1}}})";

JobId trigger(Peer& peer, std::string_view name, std::string_view body = "") {
  const Answer answer = peer.call("POST", "/v1/schedules/" + std::string(name) + "/trigger", body);
  REQUIRE_MESSAGE(answer.status == 201, answer.body);
  return *decode_trigger_response(answer.body);
}

ScheduleInfo schedule(Peer& peer, std::string_view name) {
  const Answer answer = peer.call("GET", "/v1/schedules/" + std::string(name));
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return *decode_schedule_info(answer.body);
}

LedgerPage ledger(Peer& peer, std::string_view target) {
  const Answer answer = peer.call("GET", "/v1/schedules/" + std::string(target));
  REQUIRE_MESSAGE(answer.status == 200, answer.body);
  return *decode_ledger(answer.body);
}

}  // namespace

TEST_CASE("a schedule is put for the first time, again and changed: created, unchanged, replaced") {
  TestServer server;
  Peer peer(server);
  const Answer created = peer.call("PUT", "/v1/schedules/nightly%2Feu", kYearly);
  CHECK(created.status == 201);
  CHECK(has(created.body, R"("outcome":"created","name":"nightly/eu")"));
  const auto info = decode_schedule_info(created.body);
  REQUIRE_MESSAGE(info, created.body);
  CHECK(info->version == 1);
  CHECK(info->schedule.job.args == R"({"a": 1})");
  CHECK(info->next != WallTime::never());
  CHECK_FALSE(info->paused);

  const Answer same = peer.call("PUT", "/v1/schedules/nightly%2Feu", kYearly);
  CHECK(same.status == 200);
  CHECK(decode_put_schedule_response(same.body)->outcome == PutOutcome::unchanged);
  CHECK(decode_put_schedule_response(same.body)->version == 1);
  const Answer other = peer.call("PUT", "/v1/schedules/nightly%2Feu",
                                 R"({"every":"24h","job":{"queue":"q","kind":"k"},"paused":true})");
  CHECK(other.status == 200);
  CHECK(decode_put_schedule_response(other.body)->outcome == PutOutcome::replaced);
  const ScheduleInfo now = schedule(peer, "nightly%2Feu");
  CHECK(now.version == 2);
  CHECK(now.paused);
  CHECK(now.schedule.every == 24h);

  CHECK(peer.call("DELETE", "/v1/schedules/nightly%2Feu").body ==
        R"({"name":"nightly/eu","removed":true})");
  CHECK(peer.call("GET", "/v1/schedules/nightly%2Feu").status == 404);
  CHECK(peer.call("DELETE", "/v1/schedules/nightly%2Feu").status == 404);
  CHECK(peer.call("PUT", "/v1/schedules/nightly%2Feu", kYearly).status == 201);
  CHECK(schedule(peer, "nightly%2Feu").version == 3);
}

TEST_CASE("an invalid schedule is refused with its field, before any change") {
  TestServer server;
  Peer peer(server);
  const std::string path = "/v1/schedules/s";
  struct Case {
    std::string_view body, field;
  };
  for (const Case& c :
       {Case{R"({"job":{"kind":"k"}})", "cron"},
        {R"({"cron":"* * *","job":{"kind":"k"}})", "cron"},
        {R"({"cron":"99 * * * *","job":{"kind":"k"}})", "cron"},
        {R"({"cron":"0 0 31 2 *","job":{"kind":"k"}})", "cron"},
        {R"({"cron":"@daily","every":"5m","job":{"kind":"k"}})", "cron"},
        {R"({"cron":"@daily","time_zone":"Mars/Base","job":{"kind":"k"}})", "time_zone"},
        {R"({"every":"1ms","job":{"kind":"k"}})", "every"},
        {R"({"every":"5m"})", "job.kind"},
        {R"({"every":"5m","job":{"kind":"k","priority":12}})", "job.priority"},
        {R"({"every":"5m","job":{"kind":"k","delay":"1s"}})", "job.delay"},
        {R"({"every":"5m","job":{"kind":"k"},"misfire":"twice"})", "misfire"},
        {R"({"every":"5m","job":{"kind":"k"},"misfire_cap":0})", "misfire_cap"},
        {R"({"every":"5m","job":{"kind":"k"},"name":"t"})", "name"},
        {R"({"every":"5m","job":{"kind":"k"},"versoin":1})", "versoin"}}) {
    CAPTURE(c.body);
    const Answer answer = peer.call("PUT", path, c.body);
    CAPTURE(answer.body);
    CHECK(answer.status == 400);
    CHECK(field_of(answer) == c.field);
    CHECK(has(message_of(answer), c.field.substr(c.field.rfind('.') + 1)));
  }
  CHECK(peer.call("GET", path).status == 404);
  check_refusals(
      peer,
      {{"PUT", "/v1/schedules/a%20b", kYearly, 400, "invalid_argument", "name"},
       {"PUT", path, "", 400, "invalid_argument", ""},
       {"GET", "/v1/schedules/none", "", 404, "not_found", ""},
       {"POST", "/v1/schedules/none/pause", "", 404, "not_found", ""},
       {"POST", "/v1/schedules/none/resume", "", 404, "not_found", ""},
       {"POST", "/v1/schedules/none/trigger", "", 404, "not_found", ""},
       {"POST", "/v1/schedules/none/wake", "", 404, "not_found", ""},
       {"POST", "/v1/schedules/none/backfill",
        R"({"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"})", 404, "not_found", ""},
       {"PUT", "/v1/schedules/none/timer", R"({"timeout":"5m"})", 404, "not_found", ""},
       {"GET", "/v1/schedules/none/preview", "", 404, "not_found", ""},
       {"GET", "/v1/schedules/none/ledger", "", 404, "not_found", ""},
       {"POST", "/v1/schedules/s/trigger", R"({"overlap":"x"})", 400, "invalid_argument",
        "overlap"},
       {"POST", "/v1/schedules/s/pause", R"({"until":"x"})", 400, "invalid_argument", "until"},
       {"POST", "/v1/schedules/s/backfill", R"({"from":"2026-01-01T00:00:00Z"})", 400,
        "invalid_argument", "to"},
       {"PUT", "/v1/schedules/s/timer", "{}", 400, "invalid_argument", "timeout"},
       {"GET", "/v1/schedules/s/preview?count=1001", "", 400, "invalid_argument", "count"},
       {"GET", "/v1/schedules/s/preview?from=today", "", 400, "invalid_argument", "from"},
       {"GET", "/v1/schedules/s/ledger?cursor=x", "", 400, "invalid_argument", "cursor"},
       {"POST", "/v1/schedules/preview", R"({"schedule":{"cron":"x"}})", 400, "invalid_argument",
        "schedule.cron"},
       {"POST", "/v1/schedules/preview", R"({"schedule":{"cron":"@daily"},"count":0})", 400,
        "invalid_argument", "count"},
       {"POST", "/v1/schedules/s", "", 405, "method_not_allowed", ""},
       {"GET", "/v1/schedules/s/trigger", "", 405, "method_not_allowed", ""}});
  CHECK(peer.call("DELETE", "/v1/schedules").headers.at("Allow") == "GET, HEAD");
}

TEST_CASE("schedules are listed by name, page by page") {
  TestServer server;
  Peer peer(server);
  for (const char* name : {"c", "a", "b"})
    CHECK(peer.call("PUT", "/v1/schedules/" + std::string(name), kYearly).status == 201);
  const Answer first = peer.call("GET", "/v1/schedules?limit=2");
  CHECK(has(first.body, R"("next":"b")"));
  CHECK(decode_schedules(first.body)->items.at(0).schedule.name == "a");
  const Answer rest = peer.call("GET", "/v1/schedules?limit=2&after=b");
  CHECK(has(rest.body, R"("next":null)"));
  CHECK(decode_schedules(rest.body)->items.at(0).schedule.name == "c");
}

TEST_CASE("a schedule whose time zone has vanished since it was stored says why it does not fire") {
  TestServer server;
  Peer peer(server);
  CHECK(peer.call("PUT", "/v1/schedules/sound", kYearly).status == 201);
  CHECK(schedule(peer, "sound").problem.empty());
  Schedule stored = schedule(peer, "sound").schedule;
  stored.name = "lost";
  stored.time_zone = "Europe/Atlantis";
  const WallTime later = server.clock.now().wall + 24h;
  std::promise<bool> stored_it;
  server.broker->submit(PutSchedule{.schedule = stored, .next = later, .next_fire = later},
                        [&](const OperationResult& done) {
                          stored_it.set_value(std::holds_alternative<PutScheduleResult>(done));
                        });
  REQUIRE(stored_it.get_future().get());
  CHECK(has(schedule(peer, "lost").problem, "Europe/Atlantis"));
  CHECK(has(peer.call("GET", "/v1/schedules").body, R"("problem":")"));
  CHECK(has(server.broker->get_schedule("lost")->problem, "Europe/Atlantis"));
  CHECK(has(server.broker->schedules("", 10)->at(0).problem, "Europe/Atlantis"));
}

TEST_CASE("B1: on demand: a trigger makes the job now, also while the schedule is paused") {
  TestServer server;
  Peer peer(server);
  CHECK(peer.call("PUT", "/v1/schedules/s", kYearly).status == 201);
  CHECK(peer.call("POST", "/v1/schedules/s/pause", R"({"reason":"audit"})").status == 200);
  CHECK(schedule(peer, "s").paused_reason == "audit");
  const JobId job = trigger(peer, "s");
  const auto made = decode_job(peer.call("GET", "/v1/jobs/" + std::to_string(job)).body);
  REQUIRE(made);
  CHECK(made->state == JobState::available);
  CHECK(made->args == R"({"a": 1})");
  CHECK(has(made->headers, R"("mainspring-schedule":"s")"));
  const LedgerPage page = ledger(peer, "s/ledger");
  REQUIRE(page.rows.size() == 1);
  CHECK(page.rows[0].job == job);
  CHECK(page.rows[0].source == TickSource::trigger);
  CHECK(page.rows[0].job_state == JobState::available);
  CHECK(peer.call("POST", "/v1/schedules/s/resume").status == 200);
  const ScheduleInfo info = schedule(peer, "s");
  CHECK_FALSE(info.paused);
  CHECK(info.last_job == job);
  CHECK(info.live == std::vector<JobId>{job});
}

TEST_CASE("B2: overlapping: a run that the policy forbids is a conflict with the ledger's reason") {
  TestServer server;
  Peer peer(server);
  CHECK(peer.call("PUT", "/v1/schedules/s", kYearly).status == 201);
  const JobId first = trigger(peer, "s");
  const Answer skipped = peer.call("POST", "/v1/schedules/s/trigger");
  CHECK(skipped.status == 409);
  CHECK(code_of(skipped) == "conflict");
  CHECK(has(message_of(skipped), "job " + std::to_string(first) + " has not ended"));
  const JobId beside = trigger(peer, "s", R"({"overlap":"allow"})");
  const auto waiting = trigger(peer, "s", R"({"overlap":"buffer_one"})");
  const auto state = [&](JobId id) {
    return decode_job(peer.call("GET", "/v1/jobs/" + std::to_string(id)).body)->state;
  };
  CHECK(state(beside) == JobState::available);
  CHECK(state(waiting) == JobState::waiting);
  CHECK(schedule(peer, "s").buffered == 1);
  for (const JobId id : {first, beside})
    CHECK(peer.call("POST", "/v1/jobs/" + std::to_string(id) + "/cancel").status == 200);
  CHECK(state(waiting) == JobState::available);
  CHECK(ledger(peer, "s/ledger?limit=1").next.has_value());
}

TEST_CASE("a preview shows the next ticks of a stored schedule and of one that is not stored") {
  TestServer server;
  Peer peer(server);
  CHECK(peer.call("PUT", "/v1/schedules/s",
                  R"({"cron":"30 2 * * *","time_zone":"Europe/Berlin","job":{"kind":"k"}})")
            .status == 201);
  const auto stored = decode_preview(
      peer.call("GET", "/v1/schedules/s/preview?from=2026-03-28T00:00:00Z&count=2").body);
  REQUIRE(stored);
  REQUIRE(stored->size() == 2);
  CHECK(format_wall_time((*stored)[0].nominal) == "2026-03-28T01:30:00Z");
  CHECK(format_wall_time((*stored)[1].nominal) == "2026-03-29T01:00:00Z");
  CHECK(has((*stored)[1].note, "shifted"));
  const Answer other = peer.call("POST", "/v1/schedules/preview",
                                 R"({"schedule":{"cron":"30 2 * * *","time_zone":"Europe/Berlin"},)"
                                 R"("from":"2026-03-28T00:00:00Z","count":2})");
  CHECK(other.status == 200);
  CHECK(decode_preview(other.body)->at(1).nominal == (*stored)[1].nominal);
  CHECK(decode_preview(peer.call("GET", "/v1/schedules/s/preview").body)->size() == 10);
}

TEST_CASE("a backfill runs the ticks of a time that has passed, once") {
  TestServer server;
  Peer peer(server);
  CHECK(peer.call("PUT", "/v1/schedules/s",
                  R"({"every":"1h","job":{"queue":"q","kind":"k"},"paused":true})")
            .status == 201);
  const std::string day = R"({"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"})";
  CHECK(peer.call("POST", "/v1/schedules/s/backfill", day).body ==
        R"({"fired":24,"skipped":0,"next":null})");
  CHECK(peer.call("POST", "/v1/schedules/s/backfill", day).body ==
        R"({"fired":0,"skipped":24,"next":null})");
  CHECK(schedule(peer, "s").buffered == 23);
  std::size_t fired = 0;
  std::string cursor;
  for (int page = 0; page < 10; ++page) {
    const LedgerPage rows = ledger(peer, "s/ledger?limit=10" + cursor);
    for (const LedgerRow& row : rows.rows) fired += row.state == TickState::fired ? 1 : 0;
    if (!rows.next) break;
    cursor = "&cursor=" + std::to_string(*rows.next);
  }
  CHECK(fired == 24);
  check_refusals(peer, {{"POST", "/v1/schedules/s/backfill",
                         R"({"from":"2026-01-02T00:00:00Z","to":"2026-01-01T00:00:00Z"})", 400,
                         "invalid_argument", "to"}});
}

TEST_CASE("C1, C4: a continuous timer's timeout and kill switch are changed while it runs") {
  TestServer server;
  Peer peer(server);
  CHECK(peer.call("PUT", "/v1/schedules/t",
                  R"({"cron":"0 0 1 1 *","job":{"queue":"q","kind":"k"},)"
                  R"("continuous":{"timeout":"20m","margin":"60s","handoff":"30s"}})")
            .status == 201);
  const auto woken = decode_trigger_response(peer.call("POST", "/v1/schedules/t/wake").body);
  REQUIRE(woken);
  const auto standby = decode_trigger_response(peer.call("POST", "/v1/schedules/t/wake").body);
  REQUIRE(standby);
  const Answer third = peer.call("POST", "/v1/schedules/t/wake");
  CHECK(third.status == 409);
  CHECK(has(message_of(third), "the next run is already queued"));

  const Answer shorter = peer.call("PUT", "/v1/schedules/t/timer", R"({"timeout":"5m"})");
  CHECK(shorter.status == 200);
  CHECK(decode_schedule_info(shorter.body)->timeout_override == 5min);
  const std::string recorded = peer.call("GET", "/v1/audit?object=schedule%2Ft&limit=1").body;
  CHECK(has(recorded, R"("action":"set_timer")"));
  CHECK(has(recorded, R"("timeout_override":"5m")"));
  CHECK_FALSE(
      decode_schedule_info(peer.call("PUT", "/v1/schedules/t/timer", R"({"timeout":null})").body)
          ->timeout_override);
  CHECK(peer.call("POST", "/v1/schedules/t/pause").status == 200);
  CHECK(schedule(peer, "t").paused);
  CHECK(has(message_of(peer.call("POST", "/v1/schedules/t/wake")), "paused"));

  CHECK(peer.call("PUT", "/v1/schedules/s", kYearly).status == 201);
  check_refusals(peer,
                 {{"PUT", "/v1/schedules/s/timer", R"({"timeout":"5m"})", 409, "conflict", ""}});
}
