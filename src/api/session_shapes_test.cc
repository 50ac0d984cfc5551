// The wire shapes of sessions, and what is refused.
#include "api/session_shapes.h"

#include <doctest/doctest.h>

#include "api/shapes.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

const SessionKey kSession{"orders", "customer/7"};

template <class T>
Error session_shapes_refusal(const Result<T>& result) {
  REQUIRE_FALSE(result);
  return result.error();
}

}  // namespace

TEST_CASE("a job of a session is encoded, and its policy only if it is not the default") {
  NewJob job{.queue = "orders", .kind = "ship", .args = "{}"};
  job.reply_to = "answers";
  job.reply_session = "me";
  job.session = "customer/7";
  std::string text;
  encode_enqueue_request({.jobs = {job}}, text);
  CHECK(text.find("session_on_dead") == std::string::npos);
  CHECK(decode_enqueue_request(text)->operation.jobs[0] == job);
  job.on_dead = OnDead::block;
  text.clear();
  encode_enqueue_request({.jobs = {job}}, text);
  CHECK(text.find(R"("session":"customer/7","session_on_dead":"block")") != std::string::npos);
  CHECK(decode_enqueue_request(text)->operation.jobs[0] == job);
}

TEST_CASE("a job shows its session") {
  Job job;
  job.id = 7;
  job.queue = "orders";
  job.kind = "ship";
  job.session = "customer/7";
  job.on_dead = OnDead::park;
  job.reply_to = "answers";
  job.reply_session = "me";
  std::string text;
  encode_job(job, JobDetail::full, text);
  const auto read = decode_job(text);
  REQUIRE(read);
  CHECK(read->session == "customer/7");
  CHECK(read->on_dead == OnDead::park);
  CHECK(read->reply_session == "me");
  text.clear();
  encode_job({.id = 8, .queue = "q", .kind = "k"}, JobDetail::full, text);
  CHECK(text.find("session") == std::string::npos);
}

TEST_CASE("an invalid session request is refused with its field and the rule") {
  struct Case {
    std::string_view body, field, message;
  };
  for (const Case& c : std::initializer_list<Case>{
           {R"({"kind":"a","session":""})", "session", "session: must not be empty; leave it out"},
           {R"({"kind":"a","session":"a\nb"})", "session",
            "session \"a\nb\": must be 1 to 512 bytes without control characters and backslashes, "
            "and not . or .."},
           {R"({"kind":"a","session":"s","session_on_dead":"stop"})", "session_on_dead",
            "session_on_dead \"stop\": must be \"skip\", \"block\" or \"park\""},
           {R"({"kind":"a","session_on_dead":"block"})", "session_on_dead",
            "session_on_dead: is for jobs of a session, and needs session"},
           {R"({"kind":"a","reply_session":"s"})", "reply_session",
            "reply_session: is for replies, and needs reply_to"},
           {R"({"kind":"a","session":"s","unique":{"key":"k","on_conflict":"replace"}})",
            "unique.on_conflict",
            "unique.on_conflict \"replace\": must be keep for a job of a session"},
       }) {
    CAPTURE(c.body);
    const Error error = session_shapes_refusal(decode_enqueue_request(c.body));
    CHECK(error.code == ErrorCode::invalid_argument);
    CHECK(error.field == c.field);
    CHECK(error.message == c.message);
  }
  CHECK(decode_enqueue_request(R"({"kind":"a","session":null,"session_on_dead":null})"));
  for (const char* key : {"..", ".", "a\\b"}) CHECK_FALSE(check_session_key("session", key));
  CHECK(check_session_key("session", "a/b c…"));
}

TEST_CASE("a claim of a held session names it instead of queues") {
  ClaimRequest request{.operation = {.worker = "w", .queues = {session_queue(kSession)}},
                       .wait = 10s};
  request.operation.session_token = 42;
  std::string text;
  encode_claim_request(request, text);
  CHECK(text.find(R"("session":{"queue":"orders","key":"customer/7","token":42})") !=
        std::string::npos);
  CHECK(text.find("queues") == std::string::npos);
  const auto read = decode_claim_request(text);
  REQUIRE(read);
  CHECK(read->operation.queues == request.operation.queues);
  CHECK(read->operation.session_token == 42);
  CHECK(read->wait == 10s);
  const auto field_of = [](std::string_view members) {
    return session_shapes_refusal(
               decode_claim_request(R"({"worker":"w","session":{"queue":"q","key":"k","token":1})" +
                                    std::string(members) + "}"))
        .field;
  };
  CHECK(field_of(R"(,"queues":["q"])") == "queues");
  CHECK(field_of(R"(,"max":2)") == "max");
  CHECK(field_of(R"(,"kinds":["k"])") == "kinds");
  CHECK(session_shapes_refusal(decode_claim_request(R"({"worker":"w"})")).field == "queues");
  CHECK(session_shapes_refusal(
            decode_claim_request(R"({"worker":"w","session":{"queue":"q","token":1}})"))
            .field == "session.key");
  CHECK(session_shapes_refusal(
            decode_claim_request(R"({"worker":"w","session":{"queue":"q","key":"k"}})"))
            .field == "session.token");
  CHECK(session_shapes_refusal(decode_claim_request(R"({"worker":"w","queues":["~accept/q"]})"))
            .field == "queues[0]");
}

TEST_CASE("a claimed job includes the state of its session") {
  ClaimResult result;
  ClaimedJob& job = result.jobs.emplace_back(ClaimedJob{.id = 3, .token = 4, .queue = "q"});
  job.kind = "k";
  job.session = "s";
  job.session_state = R"({"seen": 7})";
  std::string text;
  encode_claim_response(result, text);
  const auto read = decode_claim_response(text);
  REQUIRE(read);
  CHECK(read->jobs[0].session == "s");
  CHECK(read->jobs[0].session_state == R"({"seen": 7})");
  CHECK_FALSE(read->session);
}

TEST_CASE("a finish sets the session state, removes it with null, and keeps it if omitted") {
  const auto state_of = [](std::string_view member) {
    const auto read =
        decode_finish_request(R"({"worker":"w","results":[{"id":1,"token":2,"outcome":"complete")" +
                              std::string(member) + "}]}");
    REQUIRE(read);
    std::string text;
    encode_finish_request(read->operation, nullptr, text);
    const auto again = decode_finish_request(text);
    REQUIRE(again);
    CHECK(again->operation.results[0].session_state == read->operation.results[0].session_state);
    return read->operation.results[0].session_state;
  };
  CHECK(state_of("") == std::nullopt);
  CHECK(state_of(R"(,"session_state":null)") == "");
  CHECK(state_of(R"(,"session_state":{"n": 1})") == R"({"n": 1})");
  const std::string big = R"({"worker":"w","results":[{"id":1,"token":2,"outcome":"complete",)"
                          R"("session_state":")" +
                          std::string(kMaxSessionStateBytes, 'x') + "\"}]}";
  const auto refused = decode_finish_request(big);
  REQUIRE(refused);
  CHECK(refused->operation.results.empty());
  const Error error = refused->refused.at(0).part.error;
  CHECK(error.code == ErrorCode::too_large);
  CHECK(error.field == "results[0].session_state");
}

TEST_CASE("an accept names a session, or takes the next one and waits for it") {
  for (const AcceptRequest& request :
       {AcceptRequest{.worker = "w", .session = {"orders", ""}, .lease = 20s, .wait = 5s},
        AcceptRequest{.worker = "w", .session = kSession}}) {
    std::string text;
    encode_accept_request(request, text);
    const auto read = decode_accept_request("orders", text);
    REQUIRE(read);
    CHECK(read->session == request.session);
    CHECK(read->worker == "w");
    CHECK(read->lease == request.lease);
    CHECK(read->wait == request.wait);
  }
  const auto field_of = [](std::string_view body) {
    return session_shapes_refusal(decode_accept_request("orders", body)).field;
  };
  CHECK(field_of("{}") == "worker");
  CHECK(field_of(R"({"worker":"w","session":""})") == "session");
  CHECK(field_of(R"({"worker":"w","session":"s","wait":"1s"})") == "wait");
  CHECK(field_of(R"({"worker":"w","wait":"2m"})") == "wait");
  CHECK(field_of(R"({"worker":"w","lease":"1ms"})") == "lease");
}

TEST_CASE("an accept returns the held session and its first job") {
  std::string text;
  encode_accept_response({}, text);
  CHECK(text == R"({"session":null,"jobs":[]})");
  CHECK_FALSE(decode_accept_response(text)->session);
  ClaimResult result;
  result.session = SessionGrant{
      .session = kSession, .token = 9, .lease = 30s, .state = R"({"n":1})", .held = true};
  result.jobs.push_back({.id = 1, .token = 2, .queue = "orders"});
  result.jobs[0].kind = "k";
  text.clear();
  encode_accept_response(result, text);
  const auto read = decode_accept_response(text);
  REQUIRE(read);
  CHECK(read->session == result.session);
  CHECK(read->jobs.size() == 1);
  CHECK(decode_accept_response(R"({"session":{"queue":"q","key":"k"},"jobs":[]})").error().code ==
        ErrorCode::internal);
}

TEST_CASE("requests of a holder are encoded with its token") {
  std::string text;
  encode_renew_session_request({.session = kSession, .token = 5, .lease = 40s}, text);
  const auto renew = decode_renew_session_request(kSession, text);
  REQUIRE(renew);
  CHECK(renew->session == kSession);
  CHECK(renew->token == 5);
  CHECK(renew->lease == 40s);
  CHECK(decode_renew_session_request(kSession, R"({"token":5})")->lease == 0s);
  text.clear();
  encode_session_renewed({.session = kSession, .token = 5, .lease = 40s, .state = "1"}, text);
  CHECK(text == R"({"queue":"orders","key":"customer/7","token":5,"lease_expires_in_ms":40000})");
  CHECK(decode_session_renewed(text)->session == kSession);
  text.clear();
  encode_release_session_request({.session = kSession, .token = 5}, text);
  CHECK(decode_release_session_request(kSession, text)->token == 5);
  for (const char* state : {"", R"({"n": 1})"}) {
    text.clear();
    encode_put_state_request({.session = kSession, .token = 5, .state = state}, text);
    CHECK(decode_put_state_request(kSession, text)->state == state);
  }
  CHECK(session_shapes_refusal(decode_renew_session_request(kSession, "{}")).field == "token");
  CHECK(session_shapes_refusal(decode_release_session_request(kSession, R"({"token":0})")).field ==
        "token");
  CHECK(session_shapes_refusal(decode_put_state_request(kSession, R"({"token":5})")).field ==
        "state");
  CHECK(session_shapes_refusal(decode_release_session_request({"orders", "a\\b"}, R"({"token":1})"))
            .field == "session");
}

TEST_CASE("a session shows its head job, its holder and why it is blocked") {
  SessionInfo session{.session = kSession,
                      .jobs = 3,
                      .head = 41,
                      .stop = SessionStop::blocked,
                      .stopped_by = 40,
                      .worker = "w",
                      .token = 9,
                      .expires_in = 12s,
                      .state = R"({"n":1})",
                      .state_bytes = 7,
                      .changed_at = *parse_wall_time("2026-01-31T09:00:00Z")};
  std::string text;
  encode_session(session, text);
  const auto read = decode_session(text);
  REQUIRE(read);
  CHECK(read->session == kSession);
  CHECK(read->jobs == 3);
  CHECK(read->head == 41);
  CHECK(read->stop == SessionStop::blocked);
  CHECK(read->stopped_by == 40);
  CHECK(read->worker == "w");
  CHECK(read->token == 9);
  CHECK(read->expires_in == 12s);
  CHECK(read->state == R"({"n":1})");
  CHECK(read->state_bytes == 7);
  CHECK(read->changed_at == session.changed_at);
  text.clear();
  encode_session(session, text, Payload::masked);
  CHECK(text.find(R"("state":null)") != std::string::npos);
  CHECK(decode_session(text)->state.empty());
  text.clear();
  encode_sessions({.sessions = {session}, .next = kSession}, text);
  CHECK(text.find(R"("state":)") == std::string::npos);
  const auto page = decode_sessions(text);
  REQUIRE(page);
  CHECK(page->sessions.size() == 1);
  CHECK(page->next->key == "customer/7");
}
