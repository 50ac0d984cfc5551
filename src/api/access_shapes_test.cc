// Tests of the shapes of tokens and of the audit, and of the images in its records.
#include "api/access_shapes.h"

#include <doctest/doctest.h>

#include "api/audit_images.h"

namespace mainspring {
namespace {

const WallTime kNow = WallTime::from_ms(1'700'000'000'000);

std::string field_of_refusal(std::string_view body) {
  const auto read = decode_create_token(body, kNow);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().code == ErrorCode::invalid_argument);
  return read.error().field;
}

TokenRecord token(const std::string& name) {
  TokenRecord t;
  t.name = name;
  t.digest = sha256(name);
  t.scopes = *Scopes::parse("enqueue=photos read");
  t.rate = 7;
  t.created_at = kNow;
  t.created_by = "ops";
  return t;
}

TEST_CASE("a token request has a name, scopes and an expiry") {
  const auto read = decode_create_token(
      R"({"name":"ci","scopes":["enqueue=photos","read"],"expires_in":"30d","rate":100})", kNow);
  REQUIRE(read.has_value());
  CHECK(read->name == "ci");
  CHECK(read->scopes.text() == "enqueue=photos read");
  CHECK(read->expires_at == kNow + std::chrono::hours(24 * 30));
  CHECK(read->rate == 100);
  const auto endless = decode_create_token(R"({"name":"ci","scopes":["read"]})", kNow);
  REQUIRE(endless.has_value());
  CHECK(endless->expires_at == WallTime::never());

  std::string sent;
  encode_create_token(*read, sent);
  const auto again = decode_create_token(sent, kNow);
  REQUIRE(again.has_value());
  CHECK(*again == *read);
}

TEST_CASE("a token request with missing, unknown or expired values is refused with its field") {
  CHECK(field_of_refusal(R"({"scopes":["read"]})") == "name");
  CHECK(field_of_refusal(R"({"name":"local","scopes":["read"]})") == "name");
  CHECK(field_of_refusal(R"({"name":"a b","scopes":["read"]})") == "name");
  CHECK(field_of_refusal(R"({"name":"ci"})") == "scopes");
  CHECK(field_of_refusal(R"({"name":"ci","scopes":[]})") == "scopes");
  CHECK(field_of_refusal(R"({"name":"ci","scopes":["read","root"]})") == "scopes[1]");
  CHECK(field_of_refusal(R"({"name":"ci","scopes":["read"],"rate":-1})") == "rate");
  CHECK(field_of_refusal(R"({"name":"ci","scopes":["read"],"expires_in":"0s"})") == "expires_in");
  CHECK(
      field_of_refusal(R"({"name":"ci","scopes":["read"],"expires_at":"2001-01-01T00:00:00Z"})") ==
      "expires_at");
  CHECK(field_of_refusal(R"({"name":"ci","scopes":["read"],"expires_in":"1d",)"
                         R"("expires_at":"2101-01-01T00:00:00Z"})") == "expires_at");
  CHECK(field_of_refusal(R"({"name":"ci","scopes":["read"],"digest":"00"})") == "digest");
}

TEST_CASE("lists show all fields of tokens except the secret") {
  Tokens tokens;
  for (const char* name : {"a", "b"}) tokens.emplace(name, token(name));
  tokens.at("b").revoked_at = kNow;
  std::string out;
  encode_token_list(tokens, kNow, out);
  CHECK(out.find(to_hex(tokens.at("a").digest)) == std::string::npos);
  CHECK(out.find(R"("usable":true)") != std::string::npos);
  CHECK(out.find(R"("usable":false)") != std::string::npos);
  const auto read = decode_token_list(out);
  REQUIRE(read.has_value());
  REQUIRE(read->size() == 2);
  for (auto& [name, sent] : tokens) sent.digest = {};
  CHECK((*read)[0] == tokens.at("a"));
  CHECK((*read)[1] == tokens.at("b"));
}

TEST_CASE("the secret of a token is only in the response that creates it") {
  std::string out;
  encode_created_token(token("ci"), Secret("mst_abc"), kNow, out);
  const auto text = decode_created_token(out);
  REQUIRE(text.has_value());
  CHECK(text->reveal() == "mst_abc");
  CHECK_FALSE(decode_created_token(R"({"name":"ci"})").has_value());
}

TEST_CASE("pages of the audit decode to what was encoded") {
  AuditPage page;
  page.next = 9;
  AuditRecord& record = page.records.emplace_back();
  record.seq = 8;
  record.at = kNow;
  record.who = "ci", record.from = "192.0.2.7", record.action = "pause_queue";
  record.object = "queue/photos";
  record.before = queue_image(false, std::nullopt, std::nullopt);
  record.after = queue_image(true, std::nullopt, std::chrono::hours(1));
  record.hash = chain_hash({}, record);
  std::string out;
  encode_audit_page(page, out);
  const auto read = decode_audit_page(out);
  REQUIRE(read.has_value());
  CHECK(read->records == page.records);
  CHECK(read->next == page.next);

  const AuditState state{.base = {3, sha256("x")}, .head = {8, record.hash}, .records = 5};
  out.clear();
  encode_audit_state(state, out);
  const auto marks = decode_audit_state(out);
  REQUIRE(marks.has_value());
  CHECK(marks->base == state.base);
  CHECK(marks->head == state.head);
  CHECK(marks->records == 5);
}

TEST_CASE("an image that is not JSON does not break the page") {
  AuditPage page;
  AuditRecord& record = page.records.emplace_back();
  record.seq = 1;
  record.before = "{not json";
  std::string out;
  encode_audit_page(page, out);
  const auto read = decode_audit_page(out);
  REQUIRE(read.has_value());
  CHECK(read->records[0].before == R"("{not json")");
  CHECK(read->records[0].after.empty());
}

TEST_CASE("images say what an operator changes, in one order of keys") {
  CHECK(queue_image(true, std::nullopt, std::chrono::seconds(2)) ==
        R"({"paused":true,"retention_completed_ms":null,"retention_dead_ms":2000})");
  Job job;
  job.state = JobState::running;
  job.queue = "q";
  job.cancel_requested = true;
  job.run_at = kNow;
  job.tags = {"vip"};
  job.args = R"({"card":"4111"})";
  const std::string job_shown = job_image(job);
  CHECK(job_shown.starts_with(
      R"({"state":"running","queue":"q","cancel_requested":true,"priority":5,"run_at":")"));
  CHECK(job_shown.ends_with(R"(,"tags":["vip"]})"));
  CHECK(job_shown.find("4111") == std::string::npos);
  CHECK(token_image(token("ci")) ==
        R"({"scopes":["enqueue=photos","read"],"expires_at":null,"revoked":false,"rate":7})");
  ScheduleInfo info;
  info.schedule.name = "s";
  info.schedule.every = std::chrono::seconds(60);
  info.version = 3;
  const std::string image = schedule_image(info);
  CHECK(image.starts_with(R"({"name":"s")"));
  CHECK(image.ends_with(R"(,"paused":false,"version":3})"));
  info.timeout_override = std::chrono::minutes(5);
  CHECK(schedule_image(info).ends_with(R"(,"paused":false,"timeout_override":"5m","version":3})"));
}

TEST_CASE(
    "audit records are bounded: texts are truncated, large images are replaced by their digest") {
  Audit op{.who = std::string(5000, 'w'),
           .from = "",
           .action = "put",
           .object = "x",
           .before = "",
           .after = ""};
  const std::string large = "\"" + std::string(kMaxAuditImageBytes, 'x') + "\"";
  const AuditRecord record = audit_record(op, "", large, kNow);
  CHECK(record.who.size() == kMaxAuditTextBytes);
  CHECK(record.before.empty());
  CHECK(record.after.find(to_hex(sha256(large))) != std::string::npos);
  CHECK(record.after.size() < 200);
}

TEST_CASE("the object of an audit record") {
  using Kind = AuditObject::Kind;
  CHECK(parse_audit_object("queue/a/b").name == "a/b");
  CHECK(parse_audit_object("job/42").id == 42);
  CHECK(parse_audit_object("job/42x").id == 0);
  CHECK(parse_audit_object("folder/x").kind == Kind::other);
  CHECK(parse_audit_object("").kind == Kind::other);
  CHECK(parse_audit_object("token/ci").kind == Kind::token);
}

}  // namespace
}  // namespace mainspring
