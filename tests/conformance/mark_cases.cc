// What marks and saved views promise: they are kept, in order, within their bounds.
#include <fmt/format.h>

#include "conformance/bench.h"

namespace mainspring::conformance {
namespace {

MarkPage marks_of(const Bench& b, const MarkFilter& filter = {}) {
  auto page = b.store->marks(filter);
  REQUIRE_MESSAGE(page, page.error().message);
  return std::move(*page);
}

std::vector<std::string> texts_of(const MarkPage& page) {
  std::vector<std::string> out;
  for (const Mark& mark : page.marks) out.push_back(mark.text);
  return out;
}

using MarkTexts = std::vector<std::string>;

TEST_SUITE("store: marks and saved views") {
  TEST_CASE("a mark is kept with its author, and listed by its time, latest first") {
    Bench b;
    const WallTime now = b.wall();
    const Mark second = b.one<Mark>(AddMark{.text = "second", .by = "ops"});
    CHECK(second.at == now);
    CHECK(second.by == "ops");
    const Mark third = b.one<Mark>(AddMark{.text = "third", .at = now + seconds(1), .by = "ci"});
    const Mark first = b.one<Mark>(AddMark{.text = "first", .at = now - hours(1), .by = "ci"});
    const Mark same = b.one<Mark>(AddMark{.text = "same time", .at = now, .by = "ci"});
    CHECK(third.id > second.id);
    b.reopen();
    const MarkPage all = marks_of(b);
    CHECK(all.marks == std::vector{third, same, second, first});
    CHECK_FALSE(all.next);
    CHECK(texts_of(marks_of(b, {.from = now})) == MarkTexts{"third", "same time", "second"});
    CHECK(texts_of(marks_of(b, {.to = now})) == MarkTexts{"first"});
    CHECK(texts_of(marks_of(b, {.from = now, .to = now + seconds(1)})) ==
          MarkTexts{"same time", "second"});
  }

  TEST_CASE("a page of marks continues the one before it, also between marks of one time") {
    Bench b;
    for (int i = 0; i < 5; ++i) b.one<Mark>(AddMark{.text = fmt::to_string(i), .by = "x"});
    MarkFilter filter{.limit = 2};
    MarkTexts seen;
    for (int pages = 1;; ++pages) {
      const MarkPage page = marks_of(b, filter);
      for (const std::string& text : texts_of(page)) seen.push_back(text);
      if (!page.next) {
        CHECK(pages == 3);
        break;
      }
      REQUIRE(pages < 4);
      filter.before = page.next;
      b.one<Mark>(AddMark{.text = "new", .at = b.wall() + seconds(1), .by = "x"});  // is not shown
    }
    CHECK(seen == MarkTexts{"4", "3", "2", "1", "0"});
  }

  TEST_CASE("a worker version has one mark, and each request makes its own") {
    Bench b;
    const AddMark add{.text = "Python worker 1.4", .by = "w1", .source = MarkSource::worker};
    const Mark made = b.one<Mark>(add);
    const auto before = b.store->commits();
    b.advance(hours(1));
    AddMark again = add;
    again.by = "w2";
    CHECK(b.one<Mark>(again) == made);
    CHECK(b.store->commits() == before);
    b.reopen();
    CHECK(b.one<Mark>(again) == made);
    again.source = MarkSource::manual;
    CHECK(b.one<Mark>(again).id != made.id);
    CHECK(b.one<Mark>(again).id != made.id);
    CHECK(marks_of(b).marks.size() == 3);
  }

  TEST_CASE("a mark is removed once, and its number does not come back while others are there") {
    Bench b;
    const Mark one = b.one<Mark>(AddMark{.text = "one", .by = "x"});
    const Mark two = b.one<Mark>(AddMark{.text = "two", .by = "x"});
    b.one<Done>(RemoveMark{.id = one.id});
    const auto before = b.store->commits();
    CHECK(b.refused(RemoveMark{.id = one.id}) == ErrorCode::not_found);
    CHECK(b.store->commits() == before);
    b.reopen();
    CHECK(marks_of(b).marks == std::vector{two});
    CHECK(b.one<Mark>(AddMark{.text = "three", .by = "x"}).id > two.id);
  }

  TEST_CASE("a mark is refused far ahead of the store's clock, and before 1970") {
    Bench b;
    CHECK(b.refused(AddMark{.text = "x", .at = b.wall() + kMaxMarkAhead + seconds(1), .by = "x"}) ==
          ErrorCode::invalid_argument);
    CHECK(b.refused(AddMark{.text = "x", .at = WallTime::from_us(-1), .by = "x"}) ==
          ErrorCode::invalid_argument);
    CHECK(marks_of(b).marks.empty());
  }

  TEST_CASE("a new mark over the bound removes the earliest one") {
    Bench b;
    for (std::int64_t i = 0; i < kMaxMarks; i += 1000) {
      std::vector<Operation> batch;
      for (std::int64_t j = i; j < i + 1000; ++j)
        batch.push_back(AddMark{.text = fmt::to_string(j), .at = b.wall() + seconds(j % 7)});
      b.apply(std::move(batch));
    }
    const Mark newest = b.one<Mark>(AddMark{.text = "new", .at = b.wall() + seconds(1)});
    const MarkPage first = marks_of(b, {.from = {}, .to = b.wall() + seconds(1), .limit = 1000});
    std::int64_t earliest = std::ssize(first.marks);
    for (MarkPage page = first; page.next;) {
      page = marks_of(b, {.to = b.wall() + seconds(1), .limit = 1000, .before = page.next});
      earliest += std::ssize(page.marks);
    }
    CHECK(earliest == (kMaxMarks + 6) / 7 - 1);
    b.one<Done>(RemoveMark{.id = newest.id});
  }

  TEST_CASE("a view is saved under its name, replaced, and removed") {
    Bench b;
    const SavedView view{
        .name = "dead mails", .page = "jobs", .query = "state=dead&queue=mail", .by = "ann"};
    const SavedView saved = b.one<SavedView>(PutView{view});
    CHECK(saved.updated_at == b.wall());
    const SavedView other = b.one<SavedView>(PutView{{.name = "ä", .page = "queues", .by = "ann"}});
    b.advance(seconds(5));
    SavedView changed = view;
    changed.query = "";
    changed.by = "bob";
    changed = b.one<SavedView>(PutView{changed});
    CHECK(changed.updated_at == saved.updated_at + seconds(5));
    b.reopen();
    CHECK(*b.store->views() == std::vector{changed, other});
    b.one<Done>(RemoveView{.name = view.name});
    CHECK(b.refused(RemoveView{.name = view.name}) == ErrorCode::not_found);
    CHECK(*b.store->views() == std::vector{other});
  }

  TEST_CASE("there are at most 1,000 saved views, and one that exists can still be replaced") {
    Bench b;
    std::vector<Operation> batch;
    for (std::int64_t i = 0; i < kMaxViews; ++i)
      batch.push_back(PutView{{.name = fmt::format("v{}", i), .page = "jobs"}});
    b.apply(std::move(batch));
    CHECK(b.refused(PutView{{.name = "one more", .page = "jobs"}}) == ErrorCode::overloaded);
    CHECK(b.one<SavedView>(PutView{{.name = "v7", .page = "queues"}}).page == "queues");
    b.one<Done>(RemoveView{.name = "v7"});
    b.one<SavedView>(PutView{{.name = "one more", .page = "jobs"}});
    CHECK(b.store->views()->size() == kMaxViews);
  }

  TEST_CASE("the counts of the last minutes are available by queue, over all kinds") {
    Bench b;
    HistoryRows rows;
    const WallTime minute = step_start(b.wall(), kHistoryMinute);
    const auto add = [&](WallTime at, const char* queue, const char* kind, std::int64_t n) {
      HistoryRow row{.at = at, .queue = queue, .kind = kind};
      row.counts.enqueued = row.counts.started = row.counts.completed = n;
      row.counts.run.add(milliseconds(n));
      rows.push_back(std::move(row));
    };
    add(minute, "a", "k", 1);
    add(minute, "a", "l", 2);
    add(minute - minutes(2), "a", "k", 4);
    add(minute - minutes(3), "a", "k", 100);
    add(minute, "b", "k", 8);
    b.store->offer_history(std::make_shared<const HistoryRows>(rows), HistoryWrite::always);
    const auto written = b.store->apply({}, b.clock.now());
    REQUIRE_MESSAGE(written, written.error().message);
    const auto recent = b.store->recent(minute - minutes(2));
    REQUIRE_MESSAGE(recent, recent.error().message);
    CHECK(recent->size() == 2);
    CHECK(recent->at("a").counts.completed == 7);
    CHECK(recent->at("a").counts.run.count() == 3);
    CHECK(recent->at("a").first == minute - minutes(2));
    CHECK(recent->at("b").counts.enqueued == 8);
    CHECK(recent->at("b").first == minute);
  }
}

}  // namespace
}  // namespace mainspring::conformance
