// The rows of a workflow, to text and back.
#include "workflow/step_rows.h"

#include <doctest/doctest.h>

namespace mainspring::workflow {

TEST_CASE("a start of a workflow decodes to what was encoded, whatever it contains") {
  const std::vector<StartText> starts = {
      {},
      {.input = "{}", .asked = "", .specs = {"a"}},
      {.input = "\"1 2\\n3\"", .asked = "[7]", .specs = {"", "2 3 4\n", "x"}},
      {.input = std::string(5000, '9'), .asked = "", .specs = {kMaxPackedSteps, "{}"}},
  };
  for (const StartText& start : starts) {
    const auto read = decode_start(encode(start));
    REQUIRE(read.has_value());
    CHECK(*read == start);
  }
}

TEST_CASE("rows that are truncated, too long or have too many packed steps are refused") {
  const std::string whole = encode(StartText{.input = "{}", .asked = "[1]", .specs = {"ab", "c"}});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(decode_start(whole.substr(0, length)).has_value());
  }
  CHECK_FALSE(decode_start(whole + "x").has_value());
  CHECK_FALSE(decode_start("17 0 0\n").has_value());
  CHECK_FALSE(decode_start("1 0 0 99999999999999999999\n").has_value());
  CHECK_FALSE(decode_start("1 18446744073709551615 1 0\nx").has_value());
  CHECK_FALSE(decode_start("-1 0 0\n").has_value());
}

TEST_CASE("a packed workflow has its states in its own row, other workflows have none") {
  Summary summary{.steps = 3, .open = 2};
  CHECK_FALSE(summary.packed());
  CHECK(encode(summary).find("states") == std::string::npos);
  summary.states = {{.state = StepState::completed, .job = 5, .seq = 1, .ended_at = 9},
                    {.state = StepState::running, .job = 6, .started_at = 9},
                    {.pending = 1}};
  summary.queues = "a\nb\n";
  const auto read = decode_summary(encode(summary));
  REQUIRE(read.has_value());
  CHECK(*read == summary);
}

TEST_CASE("values that only a damaged row has are refused") {
  CHECK_FALSE(decode_status(R"({"state":8})").has_value());
  CHECK_FALSE(decode_status(R"({"state":-1})").has_value());
  CHECK_FALSE(decode_status(R"({"first":2147483647})").has_value());
  CHECK_FALSE(decode_summary(R"({"undo_order":2})").has_value());
  CHECK_FALSE(decode_summary(R"({"steps":-1})").has_value());
  CHECK(decode_status(R"({"state":7,"started_at":1795618726047336})").has_value());
}

TEST_CASE("a reason in the rows has no U+0000, which no database accepts") {
  const std::string said("core\0dumped", 11);
  const StepStatus failed{.state = StepState::failed, .reason = said};
  CHECK(encode(failed).find("u0000") == std::string::npos);
  CHECK(decode_status(encode(failed))->reason == "core?dumped");
  const Summary summary{.reason = said, .states = {failed}};
  CHECK(encode(summary).find("u0000") == std::string::npos);
  CHECK(decode_summary(encode(summary))->states.front().reason == "core?dumped");
}

}  // namespace mainspring::workflow
