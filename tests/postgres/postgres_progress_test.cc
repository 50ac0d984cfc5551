// Follow-ups on progress, and copies of stores of both kinds.
#include <doctest/doctest.h>

#include "postgres/copy_places.h"
#include "postgres/sql_place.h"

namespace mainspring::pg_testing {
namespace {

NewJob shown() {
  NewJob job{.queue = "q", .kind = "k"};
  job.follow_ups = {{.queue = "then", .kind = "show", .on = FollowUp::kProgress}};
  return job;
}

}  // namespace

TEST_CASE("follow-ups on progress, and what it is compared with, go with a copy") {
  const PlaceKind kinds[] = {PlaceKind::directory, PlaceKind::schema, PlaceKind::directory};
  ManualClock clock;
  std::vector<std::unique_ptr<CopyPlace>> places;
  for (const PlaceKind kind : kinds) places.push_back(std::make_unique<CopyPlace>(kind));
  ClaimedJob job;
  {
    const auto store = must(places[0]->open(clock.now()));
    apply<EnqueueResult>(*store, Enqueue{{shown()}}, clock);
    job = claim(*store, 1, clock).at(0);
  }
  Renew renew{.worker = "w", .leases = {Renewal{.id = job.id, .token = job.token}}};
  std::size_t made = 0;
  for (std::size_t i = 0; i < std::size(kinds); ++i) {
    if (i > 0) must_copy(*places[i - 1], *places[i], clock);
    const auto store = must(places[i]->open(clock.now()));
    const auto number = [&] { return must(store->list({.queue = "then"}, 100, 0)).jobs.size(); };
    apply<RenewResult>(*store, renew, clock);
    CHECK(number() == made);
    renew.leases[0].progress = Progress{static_cast<double>(i) / 4, "of it"};
    apply<RenewResult>(*store, renew, clock);
    CHECK(number() == ++made);
  }
}

}  // namespace mainspring::pg_testing
