// The key of a step in headers: set, read, and removed from copies.
#include "api/step_key.h"

#include <doctest/doctest.h>

#include "api/follow_ups.h"
#include "api/json.h"

using namespace mainspring;

namespace {

const std::string kWith = R"({"mainspring-idempotency-key":"ms-w1-2-ab","a":"b"})";

}  // namespace

TEST_CASE("a step key is put before other headers, replaces an old one, and is found again") {
  CHECK(with_step_key("", "k") == R"({"mainspring-idempotency-key":"k"})");
  CHECK(with_step_key("{ }", "k") == R"({"mainspring-idempotency-key":"k" })");
  CHECK(with_step_key(R"({"a":"b"})", "ms-w1-2-ab") == kWith);
  CHECK(with_step_key(kWith, "new") == R"({"mainspring-idempotency-key":"new","a":"b"})");
  CHECK(check_json("headers", with_step_key("{ }", "k")));
  CHECK(step_key_of(kWith) == "ms-w1-2-ab");
  CHECK(step_key_of(R"({"a" : "b", "mainspring-idempotency-key" : "k"})") == "k");
  for (const char* none : {"", "{}", R"({"a":"mainspring-idempotency-key"})"}) {
    CAPTURE(none);
    CHECK(step_key_of(none).empty());
  }
}

TEST_CASE("removing the step key leaves the other headers unchanged") {
  CHECK(without_step_key(kWith) == R"({"a":"b"})");
  CHECK(without_step_key(R"({"mainspring-idempotency-key":"k"})").empty());
  for (const char* as_it_is :
       {"", "{}", R"({ "a" : "b" })", R"({ "a" : "mainspring-idempotency-key" })"}) {
    CAPTURE(as_it_is);
    CHECK(without_step_key(as_it_is) == as_it_is);
  }
  CHECK(without_step_key(R"({"q\"":"\u00e4", "mainspring-idempotency-key":"k","z":"1"})") ==
        R"({"q\"":"\u00e4","z":"1"})");
}

TEST_CASE("jobs that a client enqueues, and follow-ups of a step's job, do not have its key") {
  Operation enqueue = Enqueue{.jobs = {NewJob{.kind = "k", .headers = kWith}}};
  drop_step_keys(enqueue);
  CHECK(std::get<Enqueue>(enqueue).jobs.at(0).headers == R"({"a":"b"})");
  Complete complete;
  complete.next = {NewJob{.kind = "k", .headers = kWith}};
  Operation finish = Finish{.worker = "w", .results = {{1, 1, complete}}};
  drop_step_keys(finish);
  const auto& done = std::get<Complete>(std::get<Finish>(finish).results.at(0).outcome);
  CHECK(done.next.at(0).headers == R"({"a":"b"})");
  EndedJob ended{.id = 7, .queue = "q", .kind = "k", .state = JobState::completed};
  ended.headers = kWith, ended.reply_to = "answers";
  CHECK(follow(ended).at(0).headers == R"({"a":"b"})");
}
