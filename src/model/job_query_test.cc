// Search texts: their meaning and refusals.
#include "model/job_query.h"

#include <doctest/doctest.h>

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

const WallTime kNow = *parse_wall_time("2026-11-26T12:00:00Z");

Job some_job() {
  Job job{.id = 42, .queue = "mail", .kind = "send", .state = JobState::dead};
  job.tags = {"eu", "vip customer"};
  job.session = "s1";
  job.correlation_id = "order-7";
  job.created_at = job.run_at = kNow - 1h;
  job.started_at = kNow - 50min;
  job.finished_at = kNow - 20min;
  return job;
}

bool matches(std::string_view text, const Job& job = some_job()) {
  const auto query = parse_job_query(text, kNow);
  REQUIRE_MESSAGE(query, query.error().message);
  return matches_record(*query, job);
}

std::string refused(std::string_view text) {
  const auto query = parse_job_query(text, kNow);
  REQUIRE_FALSE(query);
  CHECK(query.error().code == ErrorCode::invalid_argument);
  CHECK(query.error().field == "q");
  return query.error().message;
}

}  // namespace

TEST_CASE("each token of a search compares its field, and a list means any of its values") {
  for (const char* text : {"id:42",
                           "id:7,42",
                           "kind:send",
                           "kind:x,send",
                           "queue:mail",
                           "state:dead",
                           "state:completed,dead",
                           "tag:eu",
                           "tag:\"vip customer\"",
                           "session:s1",
                           "correlation:order-7",
                           "before:30m",
                           "after:2h",
                           "after:2026-11-26T10:59:00Z",
                           "wait>9m",
                           "run>29m",
                           "-kind:other",
                           "-wait>10m",
                           "",
                           "  ",
                           "queue:mail state:dead tag:eu"}) {
    CAPTURE(text);
    CHECK(matches(text));
  }
  for (const char* text : {"id:41", "kind:sen", "queue:other", "state:completed", "tag:vip",
                           "session:s", "worker:w", "limit_key:k", "before:2h", "after:59m",
                           "wait>10m", "run>30m", "-queue:mail", "queue:mail state:completed"}) {
    CAPTURE(text);
    CHECK_FALSE(matches(text));
  }
}

TEST_CASE("a job that waits or runs is measured up to now") {
  Job job = some_job();
  job.state = JobState::running;
  job.finished_at.reset();
  CHECK(matches("run>49m", job));
  CHECK_FALSE(matches("run>50m", job));
  job.state = JobState::available;
  job.started_at.reset();
  CHECK(matches("wait>59m", job));
  CHECK_FALSE(matches("run>0s", job));
}

TEST_CASE("words without a token are text, quotes keep blanks and colons, a minus negates") {
  const auto query = parse_job_query(R"(Timeout -"No Route" args.customer.id="a b" "x:y")", kNow);
  REQUIRE(query);
  REQUIRE(query->terms.size() == 4);
  using About = JobTerm::About;
  CHECK(query->terms[0].about == About::text);
  CHECK(query->terms[0].any[0] == "timeout");
  CHECK(query->terms[1].negated);
  CHECK(query->terms[1].any[0] == "no route");
  CHECK(query->terms[2].about == About::args);
  CHECK(query->terms[2].path == std::vector<std::string>{"customer", "id"});
  CHECK(query->terms[2].any[0] == "a b");
  CHECK(query->terms[3].any[0] == "x:y");
  CHECK(query->payload_term() == &query->terms[0]);
  CHECK(parse_job_query("kind:k wait>1s", kNow)->payload_term() == nullptr);
}

TEST_CASE("an unknown term is refused by its name, with those that exist") {
  const std::string message = refused("colour:red");
  CHECK(message.find("\"colour:\"") != std::string::npos);
  CHECK(message.find("limit_key:") != std::string::npos);
  CHECK(message.find("double quotes") != std::string::npos);
  CHECK(message.find("did you mean") == std::string::npos);
  CHECK(refused("stat:dead").find("did you mean state:?") != std::string::npos);
  CHECK(refused("stete:dead").find("did you mean state:?") != std::string::npos);
  CHECK(refused("quue:x").find("did you mean queue:?") != std::string::npos);
  CHECK(refused("run=5").find("\"run=\"") != std::string::npos);
}

TEST_CASE("invalid values are refused") {
  for (const char* text :
       {"id:x", "id:0", "id:1,,2", "state:ready", "before:soon", "wait>", "run>x", "wait>none",
        "queue:", "args.=1", "args.a..b=1", "\"open", "-\"\"", "workflow:w"}) {
    CAPTURE(text);
    refused(text);
  }
  refused(std::string(kMaxQueryBytes + 1, 'x'));
  std::string many;
  for (std::size_t i = 0; i <= kMaxQueryTerms; ++i) many += "a ";
  refused(many);
}

TEST_CASE("texts are found regardless of case") {
  CHECK(contains_folded("Connection REFUSED", "refused"));
  CHECK(contains_folded("aab", "ab"));
  CHECK_FALSE(contains_folded("abc", "abcd"));
  CHECK_FALSE(contains_folded("", "a"));
  CHECK(contains_folded("\xc3\x84rger", "\xc3\x84rger"));
}
