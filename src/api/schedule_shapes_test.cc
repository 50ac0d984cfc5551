// The shapes of schedules: literal bodies in and out, every refusal with its field, round trips.
#include "api/schedule_shapes.h"

#include <doctest/doctest.h>

#include "api/json.h"
#include "api/shapes.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

template <class T>
std::string schedule_shapes_field_of(const Result<T>& result) {
  return result ? "accepted" : result.error().field;
}

Schedule full_schedule() {
  Schedule schedule;
  schedule.name = "nightly/eu";
  schedule.cron = "0 30 2 * * *";
  schedule.time_zone = "Europe/Berlin";
  schedule.job = {.queue = "reports",
                  .kind = "report",
                  .args = R"({"region": "eu"})",
                  .priority = 2,
                  .tags = {"a"},
                  .headers = R"({"x":"y"})"};
  schedule.misfire = Misfire::all;
  schedule.misfire_window = 1h;
  schedule.misfire_cap = 7;
  schedule.overlap = Overlap::buffer_one;
  schedule.jitter = 30s;
  schedule.start_at = *parse_wall_time("2026-01-01T00:00:00Z");
  schedule.end_at = *parse_wall_time("2027-01-01T00:00:00Z");
  schedule.max_runs = 3;
  schedule.pause_on_failure = true;
  schedule.continuous = Continuous{.timeout = 10min, .margin = 30s, .handoff = 0s};
  return schedule;
}

}  // namespace

TEST_CASE("a schedule decodes as DESIGN specifies") {
  auto schedule = decode_schedule(
      R"({"cron":"0 30 2 * * *","time_zone":"Europe/Berlin","job":{"queue":"reports",
          "kind":"report","args":{"region": "eu"},"priority":2,"tags":["a"],"headers":{"x":"y"}},
          "misfire":"all","misfire_window":"1h","misfire_cap":7,"overlap":"buffer_one",
          "jitter":"30s","start_at":"2026-01-01T00:00:00Z","end_at":"2027-01-01T00:00:00Z",
          "max_runs":3,"pause_on_failure":true,
          "continuous":{"timeout":"10m","margin":"30s","handoff":"0s"}})");
  REQUIRE_MESSAGE(schedule, schedule.error().message);
  schedule->name = "nightly/eu";
  CHECK(*schedule == full_schedule());
}

TEST_CASE("omitted fields of a schedule have their defaults") {
  auto least = decode_schedule(R"({"every":"5m","job":{"kind":"k"},"cron":null,"at":null,
                                   "start_at":null,"end_at":null,"continuous":null})");
  REQUIRE_MESSAGE(least, least.error().message);
  Schedule expected;
  expected.every = 5min;
  expected.job.kind = "k";
  CHECK(*least == expected);
}

TEST_CASE("a definition decodes to what was encoded, byte for byte") {
  Schedule once;
  once.name = "once";
  once.at = *parse_wall_time("2026-06-01T12:00:00.5Z");
  once.job = {.kind = "k", .args = "[1, 2]"};
  for (const Schedule& schedule : {full_schedule(), once}) {
    std::string out;
    encode_schedule(schedule, out);
    CAPTURE(out);
    auto back = decode_schedule(out);
    REQUIRE(back);
    CHECK(*back == schedule);
    std::string again;
    encode_schedule(*back, again);
    CHECK(again == out);
  }
}

TEST_CASE("a malformed schedule is refused with its field") {
  const auto field = [](std::string_view member) {
    return schedule_shapes_field_of(
        decode_schedule(R"({"every":"5m","job":{"kind":"k"},)" + std::string(member) + "}"));
  };
  CHECK(field(R"("colour":1)") == "colour");
  CHECK(field(R"("every":"1m")") == "every");
  CHECK(field(R"("cron":5)") == "cron");
  CHECK(field(R"("misfire":"twice")") == "misfire");
  CHECK(field(R"("overlap":"never")") == "overlap");
  CHECK(field(R"("misfire_cap":0)") == "misfire_cap");
  CHECK(field(R"("misfire_cap":1001)") == "misfire_cap");
  CHECK(field(R"("max_runs":-1)") == "max_runs");
  CHECK(field(R"("at":"tomorrow")") == "at");
  CHECK(field(R"("jitter":"a bit")") == "jitter");
  CHECK(field(R"("continuous":{"timeout":"x"})") == "continuous.timeout");
  CHECK(field(R"("continuous":{"slots":3})") == "continuous.slots");
  CHECK(schedule_shapes_field_of(decode_schedule(R"({"job":{"queue":"q"}})")) == "job.kind");
  CHECK(schedule_shapes_field_of(decode_schedule(R"({"job":{"kind":"k","priority":12}})")) ==
        "job.priority");
  CHECK(schedule_shapes_field_of(decode_schedule(R"({"job":{"kind":"k","fence":{}}})")) ==
        "job.fence");
}

TEST_CASE("a PUT has the name once and may have paused") {
  const std::string body = R"({"every":"5m","job":{"kind":"k"},"paused":true})";
  auto request = decode_put_schedule_request("a/b", body);
  REQUIRE(request);
  CHECK(request->schedule.name == "a/b");
  CHECK(request->paused == true);
  std::string out;
  encode_put_schedule_request(*request, out);
  auto again = decode_put_schedule_request("a/b", out);
  REQUIRE(again);
  CHECK(again->schedule == request->schedule);
  CHECK(again->paused == true);
  CHECK_FALSE(decode_put_schedule_request("a", R"({"every":"5m"})")->paused);
  CHECK(schedule_shapes_field_of(
            decode_put_schedule_request("a", R"({"name":"b","every":"5m"})")) == "name");
  CHECK(schedule_shapes_field_of(
            decode_put_schedule_request("a", R"({"every":"5m","paused":"yes"})")) == "paused");
  CHECK(schedule_shapes_field_of(
            decode_put_schedule_request("a", R"({"every":"5m","version":2})")) == "version");
}

TEST_CASE("the state of a schedule decodes to what was encoded") {
  ScheduleInfo info;
  info.schedule = full_schedule();
  info.version = 3;
  info.paused = true;
  info.paused_reason = "for the audit";
  info.problem = "time_zone: unknown";
  info.next = *parse_wall_time("2026-02-01T02:30:00Z");
  info.next_fire = info.next + 5s;
  info.remaining = 2;
  info.fired = 7;
  info.last_fired = *parse_wall_time("2026-01-31T02:30:00Z");
  info.last_job = 41;
  info.live = {41, 42};
  info.buffered = 1;
  info.timeout_override = 5min;
  info.created_at = *parse_wall_time("2026-01-01T00:00:00Z");
  info.updated_at = *parse_wall_time("2026-01-02T00:00:00Z");
  std::string out;
  encode_schedule_info(info, out);
  auto back = decode_schedule_info(out);
  REQUIRE_MESSAGE(back, back.error().message);
  std::string again;
  encode_schedule_info(*back, again);
  CHECK(again == out);
  CHECK(back->schedule == info.schedule);
  CHECK(back->live == info.live);
  CHECK(back->problem == info.problem);
  CHECK(back->timeout_override == 5min);

  ScheduleInfo ended;
  ended.schedule.name = "ended";
  ended.schedule.job.kind = "k";
  out.clear();
  encode_schedules(std::vector{info, ended}, true, out);
  CHECK(out.find(R"("next":null,"next_fire":null)") != std::string::npos);
  CHECK(out.ends_with(R"("next":"ended"})"));
  auto page = decode_schedules(out);
  REQUIRE(page);
  CHECK(page->next == "ended");
  REQUIRE(page->items.size() == 2);
  CHECK(page->items[1].next == WallTime::never());
  CHECK_FALSE(page->items[1].remaining);

  out.clear();
  encode_put_schedule_response(info, {.version = 3, .outcome = PutOutcome::unchanged}, out);
  CHECK(out.starts_with(R"({"outcome":"unchanged","name":"nightly/eu",)"));
  auto put = decode_put_schedule_response(out);
  REQUIRE(put);
  CHECK(put->version == 3);
  CHECK(put->outcome == PutOutcome::unchanged);
  CHECK_FALSE(decode_put_schedule_response(R"({"version":1})"));
}

TEST_CASE("of thousands of living jobs, the first ones and the total are listed") {
  ScheduleInfo info;
  info.schedule = full_schedule();
  for (JobId id = 1; id <= 20'000; ++id) info.live.push_back(id);
  std::string out;
  encode_schedule_info(info, out);
  CHECK(out.find(R"(,100],"live_count":20000,)") != std::string::npos);
  auto back = decode_schedule_info(out);
  REQUIRE(back);
  CHECK(back->live.size() == kMaxLiveShown);
}

TEST_CASE("the calls on a schedule are read strictly and written as they are read") {
  CHECK(decode_pause_request("a", "")->paused);
  CHECK(decode_pause_request("a", R"({"reason":"why"})")->reason == "why");
  CHECK(schedule_shapes_field_of(decode_pause_request("a", R"({"until":1})")) == "until");
  std::string out;
  encode_pause_request({.name = "a", .reason = "why"}, out);
  CHECK(out == R"({"reason":"why"})");

  CHECK(decode_timer_request("a", R"({"timeout":"5m"})")->timeout == 5min);
  CHECK(decode_timer_request("a", R"({"timeout":null})")->timeout == 0s);
  CHECK(schedule_shapes_field_of(decode_timer_request("a", "{}")) == "timeout");
  CHECK(schedule_shapes_field_of(decode_timer_request("a", R"({"timeout":"0s"})")) == "timeout");
  out.clear();
  encode_timer_request({.name = "a", .timeout = 0s}, out);
  CHECK(out == R"({"timeout":null})");

  CHECK_FALSE(*decode_trigger_request(""));
  CHECK(**decode_trigger_request(R"({"overlap":"allow"})") == Overlap::allow);
  CHECK(schedule_shapes_field_of(decode_trigger_request(R"({"overlap":"x"})")) == "overlap");
  out.clear();
  encode_trigger_response(9, out);
  CHECK(out == R"({"job":9})");
  CHECK(*decode_trigger_response(out) == 9);

  const std::string range =
      R"({"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","overlap":"allow"})";
  auto backfill = decode_backfill_request(range);
  REQUIRE(backfill);
  out.clear();
  encode_backfill_request(*backfill, out);
  CHECK(out == range);
  CHECK(schedule_shapes_field_of(decode_backfill_request(R"({"to":"2026-01-02T00:00:00Z"})")) ==
        "from");
  CHECK(schedule_shapes_field_of(decode_backfill_request(R"({"from":"2026-01-02T00:00:00Z"})")) ==
        "to");
  out.clear();
  encode_backfill_response({.fired = 1, .skipped = 2, .next = backfill->to}, out);
  CHECK(out == R"({"fired":1,"skipped":2,"next":"2026-01-02T00:00:00Z"})");
  CHECK(decode_backfill_response(out)->next == backfill->to);
}

TEST_CASE("a preview needs neither name nor job") {
  auto request = decode_preview_request(
      R"({"schedule":{"cron":"@daily"},"from":"2026-01-01T00:00:00Z","count":3})");
  REQUIRE(request);
  CHECK(request->schedule.cron == "@daily");
  CHECK(request->count == 3);
  CHECK(schedule_shapes_field_of(
            decode_preview_request(R"({"schedule":{"cron":"@daily"},"count":0})")) == "count");
  CHECK(schedule_shapes_field_of(decode_preview_request(R"({"schedule":{"cron":7}})")) ==
        "schedule.cron");
  CHECK(schedule_shapes_field_of(decode_preview_request(
            R"({"schedule":{"job":{"kind":"a b"}}})")) == "schedule.job.kind");
  std::string out;
  encode_preview_request(*request, out);
  CHECK(decode_preview_request(out)->schedule == request->schedule);
  const WallTime t = *parse_wall_time("2026-03-29T01:00:00Z");
  out.clear();
  encode_preview(std::vector<PreviewTick>{{t, t + 1s, "shifted: 02:30 does not exist"}}, out);
  CHECK(out == R"({"ticks":[{"nominal":"2026-03-29T01:00:00Z","fires_at":"2026-03-29T01:00:01Z",)"
               R"("note":"shifted: 02:30 does not exist"}]})");
  CHECK(decode_preview(out)->at(0).note == "shifted: 02:30 does not exist");
}

TEST_CASE("the ledger lists the outcome of each tick") {
  const WallTime t = *parse_wall_time("2026-01-01T00:00:00Z");
  LedgerPage page;
  page.rows.push_back({.seq = 9,
                       .version = 2,
                       .nominal = t,
                       .source = TickSource::backfill,
                       .past_due = true,
                       .job = 4,
                       .job_state = JobState::running,
                       .note = "n",
                       .decided_at = t + 1s});
  page.rows.push_back({.seq = 8,
                       .nominal = t,
                       .until = t + 1h,
                       .count = 0,
                       .state = TickState::skipped,
                       .reason = "paused",
                       .decided_at = t});
  page.next = 8;
  std::string out;
  encode_ledger(page, out);
  CHECK(out ==
        R"({"ticks":[{"seq":9,"version":2,"nominal":"2026-01-01T00:00:00Z","source":"backfill",)"
        R"("state":"fired","past_due":true,"job":4,"job_state":"running","note":"n",)"
        R"("decided_at":"2026-01-01T00:00:01Z"},)"
        R"({"seq":8,"version":1,"nominal":"2026-01-01T00:00:00Z","until":"2026-01-01T01:00:00Z",)"
        R"("count":null,"source":"schedule","state":"skipped","reason":"paused",)"
        R"("decided_at":"2026-01-01T00:00:00Z"}],"next_cursor":"8"})");
  auto back = decode_ledger(out);
  REQUIRE(back);
  CHECK(back->next == 8);
  CHECK(back->rows.at(0).count == 1);
  CHECK(back->rows.at(0).job_state == JobState::running);
  CHECK(back->rows.at(1).count == 0);
  CHECK(back->rows.at(1).until == t + 1h);
}
