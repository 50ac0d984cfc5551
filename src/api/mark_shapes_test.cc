// Marks and saved views in JSON and back.
#include "api/mark_shapes.h"

#include <doctest/doctest.h>

namespace mainspring {
namespace {

const WallTime kMarkTime = WallTime::from_ms(1'767'225'600'000);

}  // namespace

TEST_CASE("marks decode to what was encoded") {
  MarkPage page;
  page.marks = {{.id = 7, .at = kMarkTime, .text = "v1 \"é\"", .by = "ci"},
                {.id = 2, .at = kMarkTime, .text = "w", .by = "w1", .source = MarkSource::worker}};
  page.next = {kMarkTime, 2};
  std::string text;
  encode_marks(page, text);
  CHECK(text.find(R"({"id":7,"at":"2026-01-01T00:00:00Z","text":"v1 \"é\"","by":"ci",)"
                  R"("source":"manual"})") != std::string::npos);
  const auto read = decode_marks(text);
  REQUIRE_MESSAGE(read, read.error().message);
  CHECK(read->marks == page.marks);
  CHECK(read->next == page.next);
  CHECK_FALSE(decode_marks(R"({"marks":[],"next_cursor":null})")->next);
  for (const char* cursor : {"", "7", "a-b", "1-", "-1-1", "1-2-3", "1- 2"})
    CHECK_MESSAGE(decode_mark_cursor(cursor).error().field == "cursor", cursor);
}

TEST_CASE("an invalid request for a mark is refused with its field") {
  CHECK(decode_add_mark_request(R"({"text":"v1"})")->text == "v1");
  CHECK(decode_add_mark_request(R"({"text":"v1","at":"2026-01-01T00:00:00Z"})")->at == kMarkTime);
  CHECK_FALSE(decode_add_mark_request(R"({"text":"v1","at":null})")->at);
  for (const auto& [body, field] :
       {std::pair(R"({})", "text"), std::pair(R"({"text":""})", "text"),
        std::pair(R"({"text":"a\nb"})", "text"), std::pair(R"({"text":"v","at":"soon"})", "at"),
        std::pair(R"({"text":"v","by":"me"})", "by"), std::pair(R"({"text":7})", "text")}) {
    const auto refused = decode_add_mark_request(body);
    REQUIRE_FALSE(refused);
    CHECK_MESSAGE(refused.error().field == field, body);
  }
}

TEST_CASE("saved views decode to what was encoded") {
  const SavedView view{.name = "dead mails",
                       .page = "jobs",
                       .query = "q=a\"b",
                       .by = "ann",
                       .updated_at = kMarkTime};
  std::string text;
  encode_views(std::vector{view}, text);
  const auto read = decode_views(text);
  REQUIRE_MESSAGE(read, read.error().message);
  CHECK(*read == std::vector{view});
  const auto put = decode_put_view_request("x", R"({"page":"jobs","query":"a=b"})");
  REQUIRE(put);
  CHECK(put->view.name == "x");
  CHECK(put->view.query == "a=b");
  CHECK(decode_put_view_request("x", R"({"query":"a=b"})").error().field == "page");
  CHECK(decode_put_view_request("a/b", R"({"page":"jobs"})").error().field == "name");
  CHECK(decode_put_view_request("x", R"({"page":"jobs","name":"y"})").error().field == "name");
}

}  // namespace mainspring
