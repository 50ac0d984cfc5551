// A worker whose outcomes the server does not take.
#include "worker/worker_rig.h"

namespace mainspring {

TEST_CASE("an outcome that is refused for good is counted, and told if the token is the reason") {
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

}  // namespace mainspring
