// The wire shapes of renew, and parts of requests that are refused alone.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "api/json.h"
#include "api/shapes.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

template <class T>
Error renew_refusal(Result<T> result) {
  REQUIRE_FALSE(result.has_value());
  return result.error();
}

// Of one lease, which is still renewed.
Error renew_refusal(const Result<RenewRequest>& result) {
  if (!result) return result.error();
  REQUIRE(result->refused.size() == 1);
  REQUIRE(result->leases.size() == 1);
  return result->refused[0].error;
}

template <class Encode>
std::string renew_text(Encode&& encode) {
  std::string out;
  encode(out);
  REQUIRE_MESSAGE(check_json("out", out).has_value(), out);
  return out;
}

}  // namespace

TEST_CASE("renew carries progress and checkpoints, and its response lists lost jobs") {
  auto request = decode_renew_request(
      R"({"worker":"w","leases":[{"id":1,"token":2},
          {"id":3,"token":4,"progress":{"value":0.25,"text":"half of half"},"checkpoint":[1]}]})");
  REQUIRE(request);
  CHECK_FALSE(request->leases[0].progress);
  CHECK(request->leases[1].progress == Progress{0.25, "half of half"});
  CHECK(request->leases[1].checkpoint == "[1]");
  const RenewResult result{{{1, 30s}}, {3}, {1}};
  const auto text = renew_text([&](auto& out) { encode_renew_response(result, out); });
  CHECK(text == R"({"renewed":[{"id":1,"lease_expires_in_ms":30000}],"lost":[3],"cancel":[1],)"
                R"("quiet":false,"terminate":false})");
  auto read = decode_renew_response(text);
  REQUIRE(read);
  CHECK(read->renewed.at(0).lease == 30s);
  CHECK(read->lost == result.lost);
  CHECK(read->cancel == result.cancel);
  CHECK(renew_refusal(decode_renew_request(
                          R"({"worker":"w","leases":[{"id":1,"token":2,"progress":{"value":2}}]})"))
            .field == "leases[0].progress.value");
}

TEST_CASE("a checkpoint over its limit is left out and named, and the leases stay") {
  const std::string big(kMaxCheckpointBytes, 'x');
  const auto read =
      decode_renew_request(R"({"worker":"w","leases":[{"id":1,"token":2,"checkpoint":")" + big +
                           R"("},{"id":3,"token":4,"checkpoint":[1]}]})");
  REQUIRE(read);
  REQUIRE(read->leases.size() == 2);
  CHECK_FALSE(read->leases[0].checkpoint);
  CHECK(read->leases[1].checkpoint == "[1]");
  REQUIRE(read->refused.size() == 1);
  CHECK(read->refused[0].id == 1);
  CHECK(read->refused[0].error.code == ErrorCode::too_large);
  CHECK(read->refused[0].error.field == "leases[0].checkpoint");
  const RenewResult result{
      .renewed = {{1, 30s}}, .lost = {}, .cancel = {}, .memos_full = {}, .refused = read->refused};
  const auto text = renew_text([&](auto& out) { encode_renew_response(result, out); });
  const auto answer = decode_renew_response(text);
  REQUIRE(answer);
  REQUIRE(answer->refused.size() == 1);
  CHECK(answer->refused[0].error.message == read->refused[0].error.message);
}

TEST_CASE("renew carries what a worker ignored, by reason") {
  const std::string text = R"({"worker":"w","leases":[{"id":1,"token":2,)"
                           R"("warning":{"text":"no","counts":{"progress":2,"not_json":1}}}]})";
  const auto read = decode_renew_request(text);
  REQUIRE(read);
  IgnoredRemarks remarks{.text = "no"};
  remarks.counts[static_cast<std::size_t>(RemarkFault::progress)] = 2;
  remarks.counts[static_cast<std::size_t>(RemarkFault::not_json)] = 1;
  CHECK(read->leases.at(0).warning == remarks);
  CHECK(renew_text([&](auto& out) { encode_renew_request(*read, out); }) == text);
  CHECK(renew_refusal(decode_renew_request(R"({"worker":"w","leases":[{"id":1,"token":2,)"
                                           R"("warning":{"counts":{"colour":1}}}]})"))
            .field == "leases[0].warning.counts.colour");
}

TEST_CASE("a bad result among others is refused alone") {
  const auto read = [](std::string_view bad) {
    return decode_finish_request(fmt::format(
        R"({{"worker":"w","results":[{},{{"id":2,"token":8,"outcome":"complete"}}]}})", bad));
  };
  for (const auto& [members, field] : std::initializer_list<std::pair<std::string, std::string>>{
           {R"("outcome":"done")", "outcome"},
           {R"("outcome":"snooze")", "after"},
           {R"("outcome":"retry","after":"-1s")", "after"},
           {R"("outcome":"complete","colour":1)", "colour"},
           {R"("outcome":"dead","exit_code":256)", "exit_code"},
           {R"("outcome":"complete","next":[{"queue":"a"}])", "next[0].kind"}}) {
    const auto request = read(R"({"id":1,"token":7,)" + members + "}");
    REQUIRE_MESSAGE(request.has_value(), members);
    REQUIRE(request->operation.results.size() == 1);
    CHECK(request->operation.results[0].id == 2);
    REQUIRE(request->refused.size() == 1);
    CHECK(request->refused[0].place == 0);
    CHECK(request->refused[0].part.id == 1);
    CHECK(request->refused[0].part.error.field == "results[0]." + field);
  }
  // Which job it is about must be known, and the rest of the request must be right.
  CHECK(renew_refusal(read(R"({"token":7,"outcome":"done"})")).field == "results[0].id");
  CHECK(renew_refusal(read("1")).field == "results[0]");
  CHECK(renew_refusal(
            decode_finish_request(R"({"worker":"w","results":[{"id":1,"token":7,"outcome":"done"},)"
                                  R"({"id":2,"token":8,"outcome":"complete"}],"claim":{"max":1}})"))
            .field == "results[0].outcome");
}

TEST_CASE("a lease with a bad report is renewed without its reports, alone and among others") {
  const auto alone = decode_renew_request(
      R"({"worker":"w","leases":[{"id":1,"token":7,"progress":{"value":2},"checkpoint":1}]})");
  REQUIRE(alone);
  CHECK(alone->leases.at(0).token == 7);
  CHECK_FALSE(alone->leases[0].checkpoint.has_value());
  CHECK(alone->refused.at(0).error.field == "leases[0].progress.value");
  const auto read = decode_renew_request(
      R"({"worker":"w","leases":[{"id":1,"token":7,"progress":{"value":2},"checkpoint":1},)"
      R"({"id":2,"token":8,"checkpoint":2},{"id":3,"token":9,"colour":1}]})");
  REQUIRE(read);
  REQUIRE(read->leases.size() == 3);
  CHECK(read->leases[0].id == 1);
  CHECK_FALSE(read->leases[0].checkpoint.has_value());
  CHECK(read->leases[1].checkpoint == "2");
  REQUIRE(read->refused.size() == 2);
  CHECK(read->refused[0].id == 1);
  CHECK(read->refused[0].error.field == "leases[0].progress.value");
  CHECK(read->refused[1].error.field == "leases[2].colour");
  CHECK(renew_refusal(decode_renew_request(
                          R"({"worker":"w","leases":[{"id":1,"token":7},{"id":2,"colour":1}]})"))
            .field == "leases[1].colour");
}

TEST_CASE("a result, a session state and next jobs over their limits are refused alone") {
  const std::string large(kMaxResultBytes, 'x');
  const std::string next = R"({"queue":"q","kind":"k","args":")" + large.substr(2) + "\"}";
  const auto read = decode_finish_request(
      R"({"worker":"w","results":[{"id":1,"token":1,"outcome":"complete","result":")" + large +
      R"("},{"id":2,"token":2,"outcome":"complete","result":"fits"},)"
      R"({"id":3,"token":3,"outcome":"dead","session_state":")" +
      large + R"("},{"id":4,"token":4,"outcome":"complete","next":[)" + next + "," + next + "," +
      next + "," + next + "," + next + "]}]}");
  REQUIRE(read);
  REQUIRE(read->operation.results.size() == 1);
  CHECK(read->operation.results[0].id == 2);
  REQUIRE(read->refused.size() == 3);
  CHECK(read->refused[0].part.error.field == "results[0].result");
  CHECK(read->refused[1].part.error.field == "results[2].session_state");
  CHECK(read->refused[2].part.error.field.starts_with("results[3].next"));

  std::vector<JobId> ids = {2};
  FinishResult result{.results = {FinishStatus::stale}};
  add_refused(read->refused, ids, result);
  CHECK(ids == std::vector<JobId>{1, 2, 3, 4});
  const auto text =
      renew_text([&](auto& out) { encode_finish_response(ids, result, nullptr, out); });
  const auto answer = decode_finish_response(text);
  REQUIRE(answer);
  CHECK(answer->ids == ids);
  CHECK(answer->result.results == result.results);
  CHECK(answer->result.results[1] == FinishStatus::stale);
  REQUIRE(answer->result.refused.size() == 3);
  CHECK(answer->result.refused[2].error.field == result.refused[2].error.field);
}

TEST_CASE("renew carries messages in order and their number, up to 16 of up to 64 KiB") {
  const std::string text = R"({"worker":"w","leases":[{"id":1,"token":2,)"
                           R"("messages":[{"a": 1},null,"x"],"first_seq":4}]})";
  const auto read = decode_renew_request(text);
  REQUIRE(read);
  const Renewal& lease = read->leases.at(0);
  CHECK(lease.messages == std::vector<std::string>{"{\"a\": 1}", "null", "\"x\""});
  CHECK(lease.first_seq == 4);
  CHECK(renew_text([&](auto& out) { encode_renew_request(*read, out); }) == text);
  const auto said = [](const std::string& rest) {
    return renew_refusal(
        decode_renew_request(R"({"worker":"w","leases":[{"id":1,"token":2,)" + rest + "}]}"));
  };
  const auto part =
      decode_renew_request(R"({"worker":"w","leases":[{"id":1,"token":2,"messages":[1,")" +
                           std::string(kMaxMessageBytes, 'x') + R"(",3]}]})");
  REQUIRE(part);
  CHECK(part->leases.at(0).messages == std::vector<std::string>{"1"});  // none after it
  const Error large = part->refused.at(0).error;
  CHECK(large.code == ErrorCode::too_large);
  CHECK(large.field == "leases[0].messages[1]");
  CHECK(large.message.find("message has 65538 bytes: must be at most 65536") != std::string::npos);
  std::string many = R"("messages":[0)";
  for (std::size_t i = 0; i < kMaxMessages; ++i) many += ",1";
  CHECK(said(many + "]").field == "leases[0].messages");
  CHECK(said(R"("messages":[1],"first_seq":0)").field == "leases[0].first_seq");
  CHECK(said(R"("messages":{})").field == "leases[0].messages");
}

TEST_CASE("renew carries results of steps, up to 16 of up to 64 KiB") {
  const std::string text = R"({"worker":"w","leases":[{"id":1,"token":2,)"
                           R"("memos":[{"name":"a-1_B","result":{"a": 1}}]}]})";
  const auto read = decode_renew_request(text);
  REQUIRE(read);
  CHECK(read->leases.at(0).memos == std::vector<Memo>{{"a-1_B", "{\"a\": 1}"}});
  CHECK(renew_text([&](auto& out) { encode_renew_request(*read, out); }) == text);
  const auto said = [](const std::string& memos) {
    return renew_refusal(decode_renew_request(
        R"({"worker":"w","leases":[{"id":1,"token":2,"memos":)" + memos + "}]}"));
  };
  const std::string large = "\"" + std::string(kMaxMemoBytes, 'x') + "\"";
  const auto part = decode_renew_request(
      R"({"worker":"w","leases":[{"id":1,"token":2,"memos":[{"name":"a","result":)" + large +
      R"(},{"name":"b","result":1}]}]})");
  REQUIRE(part);
  CHECK(part->leases.at(0).memos == std::vector<Memo>{{"b", "1"}});
  CHECK(part->refused.at(0).error.field == "leases[0].memos[0].result");
  CHECK(part->refused.at(0).error.code == ErrorCode::too_large);
  CHECK(said(R"([{"name":"a"}])").field == "leases[0].memos[0].result");
  CHECK(said(R"([{"result":1}])").field == "leases[0].memos[0].name");
  CHECK(said(R"([{"name":"a.b","result":1}])").field == "leases[0].memos[0].name");
  CHECK(said("[{\"name\":\"" + std::string(65, 'a') + "\",\"result\":1}]").field ==
        "leases[0].memos[0].name");
  std::string many = R"([{"name":"a","result":1})";
  for (std::size_t i = 0; i < kMaxRenewalMemos; ++i) many += R"(,{"name":"a","result":1})";
  CHECK(said(many + "]").field == "leases[0].memos");
}
