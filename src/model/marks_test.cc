// Rules of marks and saved views.
#include "mainspring/marks.h"

#include <doctest/doctest.h>

namespace mainspring {

TEST_CASE("a mark has a short text and a time that is not far in the future") {
  CHECK(check_mark_text("v1.4"));
  CHECK(check_mark_text(std::string(kMaxMarkBytes, 'x')));
  for (const std::string& bad : {std::string(), std::string(kMaxMarkBytes + 1, 'x'),
                                 std::string("a\nb"), std::string("a\0b", 3), std::string("\x7f")})
    CHECK(check_mark_text(bad).error().field == "text");
  const WallTime now = WallTime::from_us(1'800'000'000'000'000);
  CHECK(check_mark_time(now, now));
  CHECK(check_mark_time(now + kMaxMarkAhead, now));
  CHECK(check_mark_time(WallTime(), now));
  CHECK(check_mark_time(now + kMaxMarkAhead + Duration(1), now).error().field == "at");
  CHECK(check_mark_time(WallTime::from_us(-1), now).error().field == "at");
}

TEST_CASE("the name of a saved view fits into a URL, and its page stays below /ui/") {
  const SavedView good{.name = "dead mails", .page = "jobs", .query = "state=dead&queue=mail"};
  CHECK(validate(good));
  for (const char* name : {"", ".", "..", "a/b", "a\\b", " a", "a ", "a\tb"}) {
    SavedView view = good;
    view.name = name;
    CHECK_MESSAGE(validate(view).error().field == "name", name);
  }
  CHECK(check_view_name("Größe…"));
  for (const char* page : {"", "/jobs", "//evil.example", "javascript:alert(1)", "jobs?a", "jobs#a",
                           "a b", "a\\b", "h\xc3\xa9"}) {
    SavedView view = good;
    view.page = page;
    CHECK_MESSAGE(validate(view).error().field == "page", page);
  }
  SavedView view = good;
  view.query = std::string(kMaxViewQueryBytes + 1, 'q');
  CHECK(validate(view).error().field == "query");
  view.query = "";
  CHECK(validate(view));
}

}  // namespace mainspring
