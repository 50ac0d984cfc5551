// Faults: drawn from a seed, per job and independent of the order of events.
#include "test_server/faults.h"

#include <doctest/doctest.h>

#include <vector>

namespace mainspring {
namespace {

ClaimedJob claimed(JobId id, std::string args, int attempt = 1) {
  return {.id = id,
          .token = id,
          .attempt = attempt,
          .max_attempts = 5,
          .queue = "mail",
          .kind = "send",
          .args = std::move(args)};
}

bool same(const JobFaults& a, const JobFaults& b) {
  return a.duplicate == b.duplicate && a.lost_lease == b.lost_lease && a.finish == b.finish;
}

FaultSettings half(std::uint64_t seed) {
  return {.seed = seed,
          .duplicate_delivery = 0.5,
          .lost_lease = 0.5,
          .lost_finish = 0.5,
          .delay_p = 0.5,
          .delay_max = std::chrono::milliseconds(100)};
}

}  // namespace

TEST_CASE("a seed gives the same faults to the same jobs, whatever their order and their ids") {
  Faults one(half(7)), other(half(7)), another_seed(half(8));
  std::vector<JobFaults> forward, backward, different;
  for (int i = 0; i < 100; ++i)
    forward.push_back(one.of(claimed(i + 1, std::to_string(i)), "mail"));
  for (int i = 99; i >= 0; --i)
    backward.insert(backward.begin(), other.of(claimed(1000 - i, std::to_string(i)), "mail"));
  for (int i = 0; i < 100; ++i)
    different.push_back(another_seed.of(claimed(i + 1, std::to_string(i)), "mail"));
  int faults = 0, changed = 0;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    CHECK(same(forward[i], backward[i]));
    faults += forward[i].any() ? 1 : 0;
    changed += same(forward[i], different[i]) ? 0 : 1;
  }
  CHECK(faults > 50);
  CHECK(faults < 100);
  CHECK(changed > 20);
}

TEST_CASE("equal jobs draw by their number among equals") {
  Faults faults(half(7));
  int met = 0;
  for (JobId id = 1; id <= 100; ++id) met += faults.of(claimed(id, "{}"), "mail").duplicate ? 1 : 0;
  CHECK(met > 20);
  CHECK(met < 80);
}

TEST_CASE("each attempt draws again, repeatably per job, and the last attempt has no fault") {
  Faults faults({.seed = 1, .duplicate_delivery = 1, .lost_lease = 1, .lost_finish = 1});
  CHECK(faults.of(claimed(1, "{}", 1), "mail").any());
  CHECK(faults.of(claimed(1, "{}", 4), "mail").any());
  CHECK_FALSE(faults.of(claimed(1, "{}", 5), "mail").any());
  Faults again(half(3));
  const JobFaults first = again.of(claimed(9, "{}", 2), "mail");
  CHECK(same(first, again.of(claimed(9, "{}", 2), "mail")));
}

TEST_CASE("delays are drawn for each answer of a route and stay below the maximum") {
  Faults faults(half(5)), again(half(5));
  int late = 0;
  for (int i = 0; i < 200; ++i) {
    const Duration delay = faults.delay_of("enqueue");
    CHECK(delay == again.delay_of("enqueue"));
    CHECK(delay < std::chrono::milliseconds(100));
    late += delay > Duration(0) ? 1 : 0;
  }
  CHECK(late > 50);
  CHECK(late < 150);
  CHECK(Faults().delay_of("enqueue") == Duration(0));
}

TEST_CASE("a request for faults is shown as it was read, or refused by field and rule") {
  const auto request = decode_fault_request(
      R"({"seed":42,"duplicate_delivery":0.25,"delay":{"p":1,"max":"200ms"},"crash":true})");
  REQUIRE(request);
  CHECK(request->crash);
  FaultSettings settings = request->settings;
  settings.seed = request->seed.value_or(0);
  std::string shown;
  append_faults(shown, settings);
  const auto again = decode_fault_request(shown);
  REQUIRE(again);
  CHECK(again->settings.delay_max == std::chrono::milliseconds(200));
  CHECK(again->seed == 42u);

  const auto refused = [](std::string_view body) {
    const auto bad = decode_fault_request(body);
    return bad ? std::string("accepted") : bad.error().field;
  };
  CHECK(refused(R"({"lost_lease":1.5})") == "lost_lease");
  CHECK(refused(R"({"lost_lease":"often"})") == "lost_lease");
  CHECK(refused(R"({"delay":{"p":0.5,"max":"1h"}})") == "delay.max");
  CHECK(refused(R"({"seed":-1})") == "seed");
  CHECK(refused(R"({"duplicates":1})") == "duplicates");
  CHECK(refused("[]") != "accepted");
}

}  // namespace mainspring
