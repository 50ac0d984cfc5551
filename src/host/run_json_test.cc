// A run as Azure WebJobs shows it.
#include <doctest/doctest.h>

#include "host/control.h"

using namespace mainspring;

namespace {

WallTime run_json_at(std::string_view text) {
  return parse_wall_time(text).value();
}

RunRecord sample() {
  RunRecord run;
  run.id = "202611211046315000";
  run.status = RunStatus::success;
  run.trigger = "External - \"curl\"";
  run.started = run_json_at("2026-11-21T10:46:31.500120Z");
  run.ended = run_json_at("2026-11-21T11:47:33Z");
  return run;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an ended run has the fields of WebJobs, in their order") {
  CHECK(run_json(sample(), "report", "http://localhost:8080", at("2026-11-22T00:00:00Z")) ==
        R"({"id":"202611211046315000","name":"202611211046315000","status":"Success",)"
        R"("start_time":"2026-11-21T10:46:31.5001200Z","end_time":"2026-11-21T11:47:33.0000000Z",)"
        R"("duration":"01:01:01.4998800","output_url":"http://localhost:8080/vfs/data/jobs/)"
        R"(triggered/report/202611211046315000/output_log.txt","error_url":null,)"
        R"("url":"http://localhost:8080/api/triggeredwebjobs/report/history/202611211046315000",)"
        R"("job_name":"report","trigger":"External - \"curl\""})");
}

TEST_CASE("a running run lasts until now and has no end") {
  RunRecord run = sample();
  run.status = RunStatus::running;
  run.ended.reset();
  const std::string json = run_json(run, "report", "", run_json_at("2026-11-23T12:46:31.500120Z"));
  CHECK(has(json, R"("status":"Running")"));
  CHECK(has(json, R"("end_time":"0001-01-01T00:00:00","duration":"2.02:00:00.0000000")"));
  // The clock was set back.
  CHECK(has(run_json(run, "report", "", run_json_at("2026-11-20T00:00:00Z")),
            R"("duration":"00:00:00.0000000")"));
}
