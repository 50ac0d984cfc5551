// What the index of searchable paths promises: it has every job from `complete_from` on, through
// all changes of jobs and of the declaration. Also: the dead letter by fingerprints.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "api/search_keys.h"
#include "conformance/bench.h"
#include "model/fingerprint.h"

namespace mainspring::conformance {
namespace {

void declare_paths(Bench& b, std::vector<std::string> paths, const std::string& queue = "q") {
  b.one<Done>(SetQueueLimits{.queue = queue, .limits = {.searchable = std::move(paths)}});
}

JobId enqueue_args(Bench& b, std::string args, const std::string& queue = "q") {
  NewJob n = b.job(queue);
  n.args = std::move(args);
  return b.enqueue(std::move(n));
}

// Runs steps until the index is complete.
void settle_index(Bench& b) {
  for (int steps = 0; steps < 1000; ++steps) {
    if (b.store->agenda().next_prune > b.wall()) return;
    b.one<StepResult>(PruneJobs{.limit = 3});
  }
  FAIL("the index is never done");
}

struct IndexAnswer {
  std::vector<JobId> ids;  // jobs with the value in their args, newest first
  JobId complete_from = 0;
};

// All pages of two.
std::optional<IndexAnswer> ask_index(const Bench& b, const std::string& path,
                                     const std::string& value, const std::string& queue = "q") {
  IndexAnswer out;
  JobId before = 0;
  for (int pages = 0; pages < 1000; ++pages) {
    const auto page = b.store->indexed(
        {.queue = queue, .path = path, .value = value, .before = before, .limit = 2});
    REQUIRE_MESSAGE(page, page.error().message);
    if (!*page) return std::nullopt;
    out.complete_from = (*page)->complete_from;
    const auto& ids = (*page)->ids;
    CHECK(ids.size() <= 2);
    CHECK(std::is_sorted(ids.rbegin(), ids.rend()));
    for (const JobId id : ids) {
      if (before != 0) CHECK(id < before);
      before = id;
      const std::vector<std::string> names = split_path(path);
      const Job job = b.get(id);
      const ScalarsAt scalars(job.args, {&names});
      if (scalars.at(0) != nullptr && is_value(*scalars.at(0), value)) out.ids.push_back(id);
    }
    if (ids.size() < 2) return out;
  }
  FAIL("the pages have no end");
  return std::nullopt;
}

std::vector<JobId> in_index(const Bench& b, const std::string& path, const std::string& value,
                            const std::string& queue = "q") {
  const auto all = ask_index(b, path, value, queue);
  REQUIRE(all);
  CHECK(all->complete_from <= 1);
  return all->ids;
}

JobId died_of(Bench& b, const std::string& kind, const std::string& error,
              const std::string& queue = "q") {
  NewJob n = b.job(queue);
  n.kind = kind;
  const JobId id = b.enqueue(n);
  const auto jobs = b.claim(1, {queue});
  REQUIRE(jobs.size() == 1);
  b.finish(jobs[0], Dead{.reason = "failed", .description = error});
  return id;
}

using DeadByError = std::map<std::tuple<std::string, std::string, std::string>,
                             std::tuple<std::int64_t, JobId, JobId>>;
DeadByError dead_by_error(const Bench& b, const std::string& queue = "",
                          const Within& within = {}) {
  const auto all = b.store->dead_counts(queue, 1000, within, {});
  REQUIRE_MESSAGE(all, all.error().message);
  CHECK_FALSE(all->cut);
  DeadByError out;
  for (const DeadCount& c : all->counts)
    out[{c.queue, c.kind, c.fingerprint}] = {c.count, c.first, c.last};
  return out;
}

std::string error_print(const std::string& kind, const std::string& error) {
  return fingerprint_of({.kind = kind, .reason = "failed", .description = error});
}

}  // namespace

TEST_SUITE("store: searchable paths") {
  TEST_CASE(
      "jobs are found by strings, numbers and booleans at a declared path, and by no others") {
    Bench b;
    declare_paths(b, {"order", "customer.id", "items.0.sku"});
    settle_index(b);
    const JobId number = enqueue_args(b, R"({"order":4711,"customer":{"id":"c"}})");
    const JobId text = enqueue_args(b, R"({"order":"4711","items":[{"sku":"x1"},{"sku":"x2"}]})");
    const JobId notation = enqueue_args(b, R"({"order":47.110e2})");
    const JobId yes = enqueue_args(b, R"({"order":true})");
    enqueue_args(b, R"({"order":null,"customer":{"id":{"c":1}}})");
    enqueue_args(b, R"({"order":[4711]})");
    enqueue_args(b, R"([1,2])");
    enqueue_args(b, R"({"order":4711})", "other");
    CHECK(in_index(b, "order", "4711") == std::vector<JobId>{notation, text, number});
    CHECK(in_index(b, "order", "4711.0") == std::vector<JobId>{notation, number});
    CHECK(in_index(b, "order", "true") == std::vector<JobId>{yes});
    CHECK(in_index(b, "order", "false").empty());
    CHECK(in_index(b, "customer.id", "c") == std::vector<JobId>{number});
    CHECK(in_index(b, "items.0.sku", "x1") == std::vector<JobId>{text});
    CHECK(in_index(b, "items.0.sku", "x2").empty());
    CHECK_FALSE(ask_index(b, "order", "null"));  // null is not in the index
    CHECK_FALSE(ask_index(b, "customer", "c"));
    CHECK_FALSE(ask_index(b, "order", "4711", "other"));
    CHECK_FALSE(ask_index(b, "order", "4711", "unknown"));
  }

  TEST_CASE("integers of 64 bits, long texts and odd bytes are found exactly") {
    Bench b;
    declare_paths(b, {"n"});
    settle_index(b);
    const std::string longer(300, 'x');
    const std::vector<std::pair<std::string, std::string>> values = {
        {"9223372036854775807", "9223372036854775807"},
        {"9223372036854775806", "9223372036854775806"},
        {"18446744073709551615", "18446744073709551615"},
        {"1e400", "1e400"},
        {"1e99999999999", "1e99999999999"},
        {"-0.0", "0"},
        {"-2.50", "-2.5"},
        {"\"" + longer + "\"", longer},
        {"\"" + longer + "y\"", longer + "y"},
        {"\"\\u00fc\\n\\\"\\\\\"", "\u00fc\n\"\\"},
        {R"("\ud83d\ude00")", "\U0001F600"},
        {"\"%_'$\"", "%_'$"},
        {"\"\"", ""}};
    std::map<std::string, std::vector<JobId>> wanted;
    for (const auto& [json, text] : values)
      wanted[text].push_back(enqueue_args(b, "{\"n\":" + json + "}"));
    for (const auto& [text, ids] : wanted) {
      INFO(text.substr(0, 40));
      CHECK(in_index(b, "n", text) == ids);
    }
  }

  TEST_CASE("args with a zero byte in a string do not hide their other values") {
    Bench b;
    declare_paths(b, {"n"});
    settle_index(b);
    const JobId id = enqueue_args(b, R"({"zero":"a\u0000b","n":5})");
    CHECK(in_index(b, "n", "5") == std::vector<JobId>{id});
  }

  TEST_CASE("jobs from before the declaration are added step by step, the newest first") {
    Bench b;
    std::vector<JobId> ids;
    for (int i = 0; i < 10; ++i) ids.push_back(enqueue_args(b, R"({"order":1})"));
    enqueue_args(b, R"({"order":1})", "other");
    declare_paths(b, {"order"});
    JobId from = ask_index(b, "order", "1")->complete_from;
    const JobId later = enqueue_args(b, R"({"order":1})");
    for (int steps = 0; b.store->agenda().next_prune <= b.wall(); ++steps) {
      REQUIRE(steps < 100);
      b.one<StepResult>(PruneJobs{.limit = 3});
      const auto now = ask_index(b, "order", "1");
      REQUIRE(now);
      if (now->complete_from < from) from = now->complete_from;
      // A complete index has all of them.
      for (const JobId id : ids) {
        const bool there = std::find(now->ids.begin(), now->ids.end(), id) != now->ids.end();
        if (id >= now->complete_from) CHECK(there);
      }
    }
    ids.push_back(later);
    std::reverse(ids.begin(), ids.end());
    CHECK(in_index(b, "order", "1") == ids);
  }

  TEST_CASE("the index follows edits, replacements, deletions and pruning of jobs") {
    Bench b;
    declare_paths(b, {"order"});
    settle_index(b);
    const JobId edited = enqueue_args(b, R"({"order":1})");
    b.one<EditResult>(EditJob{.id = edited, .args = R"({"order":2})"});
    CHECK(in_index(b, "order", "1").empty());
    CHECK(in_index(b, "order", "2") == std::vector<JobId>{edited});
    b.one<EditResult>(EditJob{.id = edited, .priority = 1});
    CHECK(in_index(b, "order", "2") == std::vector<JobId>{edited});
    NewJob n = b.job();
    n.args = R"({"order":3})";
    n.unique = Unique{.key = "k", .on_conflict = OnConflict::replace};
    const JobId replaced = b.enqueue(n);
    n.args = R"({"order":4})";
    CHECK(b.enqueue(n) == replaced);
    CHECK(in_index(b, "order", "3").empty());
    CHECK(in_index(b, "order", "4") == std::vector<JobId>{replaced});
    b.cancel(replaced);
    CHECK(in_index(b, "order", "4") == std::vector<JobId>{replaced});  // it is kept
    b.one<Done>(DeleteJob{.id = replaced});
    CHECK(in_index(b, "order", "4").empty());
    b.cancel(edited);
    b.advance(hours(25));
    settle_index(b);
    CHECK(in_index(b, "order", "2").empty());
  }

  TEST_CASE("jobs that other jobs make are in the index") {
    Bench b;
    declare_paths(b, {"state"}, "next");
    settle_index(b);
    NewJob n = b.job();
    n.follow_ups = {{.queue = "next", .kind = "after"}};
    b.completed(n);
    CHECK(in_index(b, "state", "completed", "next").size() == 1);
  }

  TEST_CASE("a removed path is not searchable, its values go, and it can be declared again") {
    Bench b;
    declare_paths(b, {"order", "kind"});
    settle_index(b);
    const JobId first = enqueue_args(b, R"({"order":1,"kind":"a"})");
    declare_paths(b, {"kind"});
    CHECK_FALSE(ask_index(b, "order", "1"));
    CHECK(in_index(b, "kind", "a") == std::vector<JobId>{first});
    const JobId second = enqueue_args(b, R"({"order":1,"kind":"a"})");
    declare_paths(b, {"order"});  // before the old values are deleted
    CHECK_FALSE(ask_index(b, "kind", "a"));
    settle_index(b);
    CHECK(in_index(b, "order", "1") == std::vector<JobId>{second, first});
    declare_paths(b, {});
    settle_index(b);
    const JobId third = enqueue_args(b, R"({"order":1})");
    CHECK_FALSE(ask_index(b, "order", "1"));
    declare_paths(b, {"order"});
    settle_index(b);
    CHECK(in_index(b, "order", "1") == std::vector<JobId>{third, second, first});
  }

  TEST_CASE("an index survives a restart, also an incomplete one") {
    Bench b;
    const JobId first = enqueue_args(b, R"({"order":1})");
    declare_paths(b, {"order"});
    b.reopen();
    const JobId second = enqueue_args(b, R"({"order":1})");
    settle_index(b);
    b.reopen();
    CHECK(in_index(b, "order", "1") == std::vector<JobId>{second, first});
  }

  TEST_CASE("a complete index asks for no more steps and no commits") {
    Bench b;
    enqueue_args(b, R"({"order":1})");
    declare_paths(b, {"order"});
    settle_index(b);
    const auto commits = b.store->commits();
    CHECK_FALSE(b.one<StepResult>(PruneJobs{}).more);
    CHECK(b.store->commits() == commits);
  }

  TEST_CASE("a store has a bounded number of queues with searchable paths") {
    Bench b;
    for (int i = 0; i < kMaxSearchableQueues; ++i)
      declare_paths(b, {"order"}, fmt::format("q{}", i));
    const SetQueueLimits more{.queue = "more", .limits = {.searchable = {"order"}}};
    CHECK(b.refused(more) == ErrorCode::conflict);
    declare_paths(b, {"order", "kind"}, "q0");
    declare_paths(b, {}, "q1");
    declare_paths(b, {"order"}, "more");
    settle_index(b);
  }
}

TEST_SUITE("store: the dead letter by errors") {
  TEST_CASE("dead jobs are counted by queue, kind and error") {
    Bench b;
    const JobId first = died_of(b, "send", "no disk 1 for 'a'");
    const JobId second = died_of(b, "send", "no disk 22 for 'b'");
    const JobId other = died_of(b, "send", "timeout");
    const JobId kind = died_of(b, "copy", "no disk 3 for 'c'");
    const JobId queue = died_of(b, "send", "no disk 4 for 'd'", "p");
    const std::string disk = error_print("send", "no disk 1 for 'a'");
    DeadByError all = {{{"q", "send", disk}, {2, first, second}},
                       {{"q", "send", error_print("send", "timeout")}, {1, other, other}},
                       {{"q", "copy", error_print("copy", "no disk 3 for 'c'")}, {1, kind, kind}},
                       {{"p", "send", disk}, {1, queue, queue}}};
    CHECK(dead_by_error(b) == all);
    CHECK(dead_by_error(b, "p").size() == 1);
    CHECK(dead_by_error(b, "unknown").empty());
    const auto newest = b.store->dead_counts("", 2, {}, {});
    REQUIRE(newest);
    CHECK(newest->cut);
    CHECK(newest->examined == 2);
    CHECK(newest->counts.size() == 2);
  }

  TEST_CASE("the last death of an error is the latest one, also if that job is the oldest") {
    Bench b;
    const JobId older = died_of(b, "send", "timeout");
    b.advance(std::chrono::minutes(2));
    const JobId newer = died_of(b, "send", "timeout");
    const WallTime first_at = b.wall();
    b.advance(std::chrono::hours(72));
    b.retry(older);
    b.finish(b.claim_one(), Dead{.reason = "failed", .description = "timeout"});
    for (const bool reopened : {false, true}) {
      CAPTURE(reopened);
      if (reopened) b.reopen();
      const auto counts = b.store->dead_counts("", 10, {}, {});
      REQUIRE(counts);
      REQUIRE(counts->counts.size() == 1);
      CHECK(counts->counts[0].first == older);
      CHECK(counts->counts[0].last == newer);
      CHECK(counts->counts[0].first_at == first_at);
      CHECK(counts->counts[0].last_at == b.wall());
    }
  }

  TEST_CASE("only deaths since a time are counted, by the time of death") {
    Bench b;
    const JobId older = died_of(b, "send", "timeout");
    const JobId other = died_of(b, "send", "no disk");
    const JobId newer = died_of(b, "send", "timeout");
    b.advance(std::chrono::hours(1));
    const WallTime since = b.wall();
    b.retry(older);
    b.finish(b.claim_one(), Dead{.reason = "failed", .description = "timeout"});
    const auto counts = b.store->dead_counts("", 10, {}, since);
    REQUIRE(counts);
    CHECK(counts->examined == 3);
    CHECK_FALSE(counts->cut);
    REQUIRE(counts->counts.size() == 1);
    CHECK(counts->counts[0].count == 1);
    CHECK(counts->counts[0].first == older);
    CHECK(counts->counts[0].last == older);
    CHECK(counts->counts[0].first_at == since);
    CHECK(newer > other);
    // The newest two died earlier: there may be more.
    const auto newest = b.store->dead_counts("", 2, {}, since);
    REQUIRE(newest);
    CHECK(newest->cut);
    CHECK(newest->counts.empty());
  }

  TEST_CASE("a retried job that dies of another error counts for the new error") {
    Bench b;
    const JobId id = died_of(b, "send", "timeout");
    b.retry(id);
    CHECK(dead_by_error(b).empty());
    b.finish(b.claim_one(), Dead{.reason = "failed", .description = "no space"});
    const DeadByError one = {{{"q", "send", error_print("send", "no space")}, {1, id, id}}};
    CHECK(dead_by_error(b) == one);
    b.reopen();
    CHECK(dead_by_error(b) == one);
    b.one<Done>(DeleteJob{.id = id});
    CHECK(dead_by_error(b).empty());
  }
}

}  // namespace mainspring::conformance
