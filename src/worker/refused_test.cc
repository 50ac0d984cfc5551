// A worker whose outcomes the server does not accept.
#include "worker/worker_rig.h"

namespace mainspring {

TEST_CASE("an outcome that is refused for good is counted, and logged if the token is the reason") {
  WorkerRig rig;
  rig.jobs.on_finish = [](const Finish&) -> Result<FinishResult> {
    return Error{.code = ErrorCode::unauthenticated, .message = "the token has been revoked"};
  };
  std::string told;
  rig.make().on("k", [](const ClaimedJob&, Context&) { return done(); });
  rig.worker->on_refused([&](const Error& error) { told = error.message; });
  REQUIRE(rig.worker->start().has_value());
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await([&] { return rig.jobs.finishes.size() == 1; }));
  rig.worker->stop();
  CHECK(rig.worker->stats().refused == 1);
  CHECK(rig.worker->stats().completed == 0);
  CHECK(told == "the token has been revoked");
}

TEST_CASE("a job whose outcome the server never accepts is dead and does not run again") {
  WorkerRig rig;
  int calls = 0;
  rig.jobs.on_finish = [&](const Finish& finish) -> Result<FinishResult> {
    FinishResult result;
    result.results.push_back(++calls == 1 ? FinishStatus::refused : FinishStatus::ok);
    if (calls == 1) {
      const Error error{.code = ErrorCode::too_large, .message = "result: has 9 bytes"};
      result.refused.push_back({finish.results.at(0).id, error});
    }
    return result;
  };
  rig.make().on("k", [](const ClaimedJob&, Context&) { return done(); });
  REQUIRE(rig.worker->start().has_value());
  rig.jobs.add("k");
  REQUIRE(rig.jobs.await([&] { return rig.jobs.finishes.size() == 2; }));
  rig.worker->stop();
  const Outcome second =
      rig.jobs.with_lock([&] { return rig.jobs.finishes.at(1).results.at(0).outcome; });
  REQUIRE(std::holds_alternative<Dead>(second));
  CHECK(std::get<Dead>(second).reason == "outcome_refused");
  CHECK(std::get<Dead>(second).description == "result: has 9 bytes");
  CHECK(rig.worker->stats().refused == 1);
  CHECK(rig.worker->stats().dead == 1);
}

}  // namespace mainspring
