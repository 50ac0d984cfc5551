// Callbacks in JSON: the engine decodes what a client encodes.
#include "api/callback_shapes.h"

#include <doctest/doctest.h>

#include "api/shapes.h"
#include "model/callback.h"

using namespace mainspring;

TEST_CASE("a callback is kept through a request, a response and a new request") {
  Enqueue enqueue;
  NewJob& job = enqueue.jobs.emplace_back();
  job.kind = "k";
  job.follow_ups = {{.queue = "next", .kind = "n", .data = ""},
                    make_callback("https://example.com/a?b=\"c\"", FollowUp::kDead)};
  std::string text;
  encode_enqueue_request(enqueue, text);
  CHECK(text.find(R"("then":[{"queue":"next","kind":"n"}],"callback":{"url":)") !=
        std::string::npos);
  job.follow_ups[1] = make_callback("https://example.com/a", FollowUp::kDead);
  text.clear();
  encode_enqueue_request(enqueue, text);
  const auto back = decode_enqueue_request(text);
  REQUIRE_MESSAGE(back, back.error().message);
  CHECK(back->operation.jobs.at(0) == job);

  Job kept{.id = 7, .queue = "q", .kind = "k"};
  kept.follow_ups = job.follow_ups;
  text.clear();
  encode_job(kept, JobDetail::full, text);
  CHECK(decode_job(text)->follow_ups == job.follow_ups);
  text.clear();
  encode_job(kept, JobDetail::full, text, Payload::masked);
  CHECK(text.find("example.com") == std::string::npos);
  const auto masked = decode_job(text);
  REQUIRE(masked);
  CHECK(callback_url(masked->follow_ups.at(1)).empty());
}

TEST_CASE("a job has at most one callback; only callbacks go to the engine's own queues") {
  NewJob job;
  job.kind = "k";
  job.follow_ups = {make_callback("https://a.example/", FollowUp::kEveryEnd)};
  CHECK(validate(job));
  job.follow_ups.push_back(make_callback("https://b.example/", FollowUp::kEveryEnd));
  CHECK(validate(job).error().field == "callback");
  job.follow_ups = {{.queue = "mainspring.callbacks", .kind = "other", .data = ""}};
  CHECK(validate(job).error().field == "then[0].queue");
  job.follow_ups = {{.queue = "mainspring.x", .kind = "callback", .data = ""}};
  CHECK(validate(job).error().field == "then[0].queue");
}

TEST_CASE("a job that is not a callback has no url") {
  CHECK(callback_url({.queue = "q", .kind = "callback", .data = R"({"url":"x"})"}).empty());
  FollowUp callback = make_callback("https://a.example/", 1);
  CHECK(callback_url(callback) == "https://a.example/");
  for (const char* data : {"", "null", "[]", "{}", R"({"url":null})"}) {
    callback.data = data;
    CHECK(callback_url(callback).empty());
  }
}
