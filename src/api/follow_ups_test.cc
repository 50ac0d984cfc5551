// Follow-ups in JSON: in requests and at the end of a job.
#include "api/follow_ups.h"

#include <doctest/doctest.h>

#include "api/callback_shapes.h"
#include "api/shapes.h"
#include "model/callback.h"

using namespace mainspring;

namespace {

Error refused(const std::string& then) {
  const auto read = decode_enqueue_request(R"({"kind":"k","then":)" + then + "}");
  REQUIRE_FALSE(read.has_value());
  return read.error();
}

}  // namespace

TEST_CASE("follow-ups decode with their defaults and are written as requested") {
  const std::string text =
      R"([{"queue":"a","kind":"b"},)"
      R"({"queue":"c","kind":"d","on":["completed","dead"],"priority":2,"data":{"x": [1]}}])";
  const auto read = decode_enqueue_request(R"({"kind":"k","then":)" + text + "}");
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
  const NewJob& job = read->operation.jobs.at(0);
  REQUIRE(job.follow_ups.size() == 2);
  CHECK(job.follow_ups[0] == FollowUp{.queue = "a", .kind = "b", .data = ""});
  CHECK(job.follow_ups[1] == FollowUp{.queue = "c",
                                      .kind = "d",
                                      .on = FollowUp::kCompleted | FollowUp::kDead,
                                      .priority = 2,
                                      .data = R"({"x": [1]})"});
  CHECK(encode_follow_ups(job.follow_ups) == text);
  CHECK(decode_follow_ups(text).value() == job.follow_ups);
  CHECK(encode_follow_ups({}).empty());
  CHECK(decode_follow_ups("").value().empty());
  CHECK(is_followed(job));
  CHECK_FALSE(is_followed(NewJob{.kind = "k"}));
}

TEST_CASE("a follow-up is on messages alone or on ends too, and may belong to a session") {
  const std::string text =
      R"([{"queue":"a","kind":"b","on":["message"],"session":"s 1"},)"
      R"({"queue":"a","kind":"b","on":["completed","cancelled","dead","message"]}])";
  const auto read = decode_enqueue_request(R"({"kind":"k","then":)" + text + "}");
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
  const NewJob& job = read->operation.jobs.at(0);
  CHECK(job.follow_ups.at(0).on == FollowUp::kMessage);
  CHECK(job.follow_ups.at(0).session == "s 1");
  CHECK(job.follow_ups.at(1).on == FollowUp::kEndsAndMessages);
  CHECK(encode_follow_ups(job.follow_ups) == text);
  CHECK(decode_follow_ups(text).value() == job.follow_ups);
}

TEST_CASE("a follow-up is on progress alone, on messages too, or on everything") {
  const std::string text =
      R"([{"queue":"a","kind":"b","on":["progress"]},)"
      R"({"queue":"a","kind":"b","on":["message","progress"]},)"
      R"({"queue":"a","kind":"b","on":["completed","cancelled","dead","message","progress"]}])";
  const auto read = decode_enqueue_request(R"({"kind":"k","then":)" + text + "}");
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
  const NewJob& job = read->operation.jobs.at(0);
  CHECK(job.follow_ups.at(0).on == FollowUp::kProgress);
  CHECK(job.follow_ups.at(1).on == (FollowUp::kMessage | FollowUp::kProgress));
  CHECK(job.follow_ups.at(2).on == FollowUp::kEverything);
  CHECK(encode_follow_ups(job.follow_ups) == text);
  CHECK(decode_follow_ups(text).value() == job.follow_ups);
}

TEST_CASE("reply_expires_in sets the expiry of all jobs for reply_to, in any order of fields") {
  const std::vector<FollowUp> wanted = {
      {.queue = "answers", .kind = "reply", .data = "", .expires_in = std::chrono::hours(1)},
      {.queue = "answers",
       .kind = "message",
       .on = FollowUp::kMessage,
       .data = "",
       .expires_in = std::chrono::hours(1)},
      {.queue = "answers",
       .kind = "progress",
       .on = FollowUp::kProgress,
       .data = "",
       .expires_in = std::chrono::hours(1)}};
  const auto read = decode_enqueue_request(
      R"({"kind":"k","reply_expires_in":"1h","reply_progress":true,"reply_to":"answers"})");
  REQUIRE(read);
  CHECK(read->operation.jobs.at(0).follow_ups == wanted);
  const auto alone = decode_enqueue_request(R"({"kind":"k","reply_expires_in":"1h"})");
  REQUIRE_FALSE(alone);
  CHECK(alone.error().field == "reply_expires_in");
  const auto zero = decode_enqueue_request(
      R"({"kind":"k","reply_to":"a","then":[{"queue":"a","kind":"k","expires_in":"0s"}]})");
  REQUIRE_FALSE(zero);
  CHECK(zero.error().field == "then[0].expires_in");
}

TEST_CASE("reply_progress requires reply_to and adds a follow-up to it, in any order of fields") {
  const FollowUp wanted{
      .queue = "answers", .kind = "progress", .on = FollowUp::kProgress, .session = "me"};
  for (const char* body :
       {R"({"kind":"k","reply_progress":true,"reply_to":"answers","reply_session":"me"})",
        R"({"kind":"k","reply_to":"answers","reply_session":"me","reply_progress":true})",
        R"({"jobs":[{"kind":"k","reply_progress":true,"reply_to":"answers",)"
        R"("reply_session":"me"}]})"}) {
    CAPTURE(body);
    const auto read = decode_enqueue_request(body);
    REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message));
    const NewJob& job = read->operation.jobs.at(0);
    CHECK(job.reply_to == "answers");
    CHECK(job.follow_ups == std::vector<FollowUp>{wanted});
    CHECK(validate(job));
  }
  for (const char* body : {R"({"kind":"k","reply_to":"answers","reply_progress":false})",
                           R"({"kind":"k","reply_progress":null})"})
    CHECK(decode_enqueue_request(body)->operation.jobs.at(0).follow_ups.empty());
  const auto alone = decode_enqueue_request(R"({"kind":"k","reply_progress":true})");
  REQUIRE_FALSE(alone.has_value());
  CHECK(alone.error().code == ErrorCode::invalid_argument);
  CHECK(alone.error().field == "reply_progress");
  CHECK(alone.error().message == "reply_progress: is for replies, and needs reply_to");
  const auto second = decode_enqueue_request(
      R"({"jobs":[{"kind":"k"},{"kind":"k","reply_to":null,"reply_progress":true}]})");
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().field == "jobs[1].reply_progress");
  CHECK_FALSE(decode_enqueue_request(R"({"kind":"k","reply_to":"a","reply_progress":1})"));
}

TEST_CASE("changed progress makes follow-ups on progress, before those on messages") {
  News news{.from = {.id = 7, .queue = "q", .kind = "k", .state = JobState::running}};
  news.from.attempt = 2;
  news.from.tags = {"red"};
  news.from.reply_to = "answers";
  news.from.follow_ups = {
      {.queue = "a", .kind = "x", .on = FollowUp::kEndsAndMessages},
      {.queue = "b", .kind = "y", .on = FollowUp::kProgress, .session = "s", .data = "[2]"}};
  news.token = 9;
  news.progress = Progress{0.5, "h\"alf"};
  CHECK(follow_news(news).empty());
  news.progressed = true;
  const auto made = follow_news(news);
  REQUIRE(made.size() == 1);
  CHECK(made[0].queue == "b");
  CHECK(made[0].kind == "y");
  CHECK(made[0].session == "s");
  CHECK(made[0].args ==
        R"({"job":7,"queue":"q","kind":"k","state":"running","attempt":2,"result":null,)"
        R"("tags":["red"],"progress":{"value":0.5,"text":"h\"alf"},"token":9,"data":[2]})");
  CHECK(validate(made[0]));
  news.messages = {"1"};
  std::string queues;
  for (const NewJob& job : follow_news(news)) queues += job.queue + " ";
  CHECK(queues == "b a answers ");
}

TEST_CASE("a job shows its follow-ups, and hides their data without the right to see payloads") {
  Job job{.id = 1, .queue = "q", .kind = "k", .args = "[]"};
  job.follow_ups = {{.queue = "a", .kind = "b", .data = "\"secret\""}};
  std::string shown, masked;
  encode_job(job, JobDetail::full, shown);
  CHECK(shown.find(R"("then":[{"queue":"a","kind":"b","data":"secret"}])") != std::string::npos);
  CHECK(decode_job(shown).value().follow_ups == job.follow_ups);
  encode_job(job, JobDetail::full, masked, Payload::masked);
  CHECK(masked.find("secret") == std::string::npos);
  CHECK(masked.find(R"("then":[{"queue":"a","kind":"b","data":null}])") != std::string::npos);
}

TEST_CASE("a bad follow-up is refused with the field, the value and the rule") {
  CHECK(refused(R"([{"kind":"b"}])").field == "then[0].queue");
  CHECK(refused(R"([{"queue":"a"}])").field == "then[0].kind");
  const Error name = refused(R"([{"queue":"a","kind":"b"},{"queue":"../x","kind":"b"}])");
  CHECK(name.field == "then[1].queue");
  CHECK(name.message.find("\"../x\": must be 1 to 128 letters") != std::string::npos);
  CHECK(refused(R"([{"queue":"a","kind":"b","on":["running"]}])").field == "then[0].on[0]");
  CHECK(refused(R"([{"queue":"a","kind":"b","on":[]}])").field == "then[0].on");
  const Error occasion = refused(R"([{"queue":"a","kind":"b","on":["messages"]}])");
  CHECK(occasion.field == "then[0].on[0]");
  CHECK(occasion.message.find("\"message\" or \"progress\"") != std::string::npos);
  CHECK(refused(R"([{"queue":"a","kind":"b","session":")" + std::string(513, 's') + "\"}]").field ==
        "then[0].session");
  CHECK(refused(R"([{"queue":"a","kind":"b","priority":10}])").field == "then[0].priority");
  CHECK(refused(R"([{"queue":"a","kind":"b","delay":"1s"}])").field == "then[0].delay");
  const Error size =
      refused(R"([{"queue":"a","kind":"b","data":")" + std::string(65'536, 'x') + "\"}]");
  CHECK(size.code == ErrorCode::too_large);
  CHECK(size.field == "then[0].data");
  std::string many = R"([{"queue":"a","kind":"b"})";
  for (int i = 0; i < 8; ++i) many += R"(,{"queue":"a","kind":"b"})";
  CHECK(refused(many + "]").code == ErrorCode::too_large);
  NewJob job{.kind = "k"};
  job.follow_ups = {{.queue = "a", .kind = "b", .on = 0, .data = ""}};
  CHECK(validate(job, "jobs[2].").error().field == "jobs[2].then[0].on");
  job.follow_ups[0].on = FollowUp::kEverything + 1;
  CHECK(validate(job).error().message.find("then[0].on 32: must be") != std::string::npos);
  job.follow_ups.assign(9, {.queue = "a", .kind = "b", .data = ""});
  CHECK(validate(job).error().field == "then");
}

TEST_CASE("a message makes follow-ups on messages, and a message for reply_to in its session") {
  News sent{.from = {.id = 7, .queue = "q", .kind = "k", .state = JobState::running}};
  sent.from.attempt = 2;
  sent.from.reply_to = "answers";
  sent.from.reply_session = "web-7";
  sent.from.follow_ups = {
      {.queue = "a", .kind = "x", .on = FollowUp::kEveryEnd, .data = ""},
      {.queue = "b", .kind = "y", .on = FollowUp::kMessage, .session = "s", .data = "[2]"}};
  sent.token = 9;
  sent.messages = {"1", R"({"x": 2})"};
  const auto made = follow_news(sent);
  REQUIRE(made.size() == 4);
  CHECK(made[0].queue == "b");
  CHECK(made[0].kind == "y");
  CHECK(made[0].session == "s");
  CHECK(made[0].correlation_id == "7");
  CHECK(made[0].args ==
        R"({"job":7,"queue":"q","kind":"k","state":"running","attempt":2,"result":null,)"
        R"("progress":null,"token":9,"seq":null,"message":1,"data":[2]})");
  CHECK(made[1].queue == "answers");
  CHECK(made[1].kind == "message");
  CHECK(made[1].session == "web-7");
  CHECK(made[3].args.find(R"("message":{"x": 2},"data":null)") != std::string::npos);
  sent.first_seq = 5;
  sent.progress = Progress{0.5, "h\"alf"};
  const auto numbered = follow_news(sent);
  CHECK(numbered[0].args.find(R"("progress":{"value":0.5,"text":"h\"alf"},"token":9,"seq":5,)") !=
        std::string::npos);
  CHECK(numbered[3].args.find(R"("seq":6,)") != std::string::npos);
  for (const NewJob& job : numbered) {
    CHECK(validate(job));
    CHECK(check_json("args", job.args));
  }
  sent.from.follow_ups.clear();
  sent.from.reply_to = "";
  CHECK(follow_news(sent).empty());
  EndedJob ended = sent.from;
  ended.state = JobState::completed;
  ended.reply_to = "answers";
  ended.reply_session = "web-7";
  CHECK(follow(ended).at(0).kind == "reply");
  CHECK(follow(ended).at(0).session == "web-7");
}

TEST_CASE("a delivery of a callback has its own max_attempts; other follow-ups have the default") {
  EndedJob ended{.id = 7, .queue = "q", .kind = "k", .state = JobState::completed};
  ended.follow_ups = {make_callback("https://a.example/", FollowUp::kEveryEnd),
                      {.queue = "next", .kind = "n"}};
  const auto made = follow(ended);
  REQUIRE(made.size() == 2);
  CHECK(made[0].max_attempts == kCallbackAttempts);
  CHECK(made[1].max_attempts == NewJob{}.max_attempts);
}

TEST_CASE("the end of a job makes its follow-ups in order, with the reply last") {
  EndedJob ended{.id = 7, .queue = "q", .kind = "k", .state = JobState::dead, .attempt = 3};
  ended.reason = "poison", ended.description = "text", ended.reply_to = "answers";
  ended.follow_ups = {
      {.queue = "a", .kind = "x", .on = FollowUp::kCompleted, .data = ""},
      {.queue = "b", .kind = "y", .on = FollowUp::kDead, .priority = 1, .data = "[2]"}};
  const auto made = follow(ended);
  REQUIRE(made.size() == 2);
  CHECK(made[0].queue == "b");
  CHECK(made[0].kind == "y");
  CHECK(made[0].priority == 1);
  CHECK(made[0].correlation_id == "7");
  CHECK(made[0].args ==
        R"({"job":7,"queue":"q","kind":"k","state":"dead","attempt":3,"result":null,)"
        R"("reason":"poison","description":"text","data":[2]})");
  CHECK(made[1].queue == "answers");
  CHECK(made[1].kind == "reply");
  CHECK(made[1].priority == 5);
  CHECK(check_json("args", made[1].args));
  for (const NewJob& job : made) CHECK(validate(job));
}
