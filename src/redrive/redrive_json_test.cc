// The saved state of a redrive is what it resumes from, and fits into a checkpoint.
#include "redrive/redrive_json.h"

#include <doctest/doctest.h>

#include "model/fingerprint.h"

using namespace mainspring;

namespace {

RedriveState some_state() {
  RedriveState state{.after = 41, .tried = 12, .redriven = 11};
  state.step = {.number = 3, .redriven = 7, .completed = 2, .cancelled = 1, .dead = 1, .gone = 1};
  state.steps = {{.number = 1, .redriven = 1, .completed = 1}, {.number = 2, .redriven = 3}};
  state.live = {{.id = 40, .fingerprint = "", .attempt = 3},
                {.id = 41, .fingerprint = "", .attempt = 20}};
  state.known = {"1f0c6a2be4d93857", "0000000000000001"};
  return state;
}

}  // namespace

TEST_CASE("a checkpoint decodes to what was encoded") {
  const auto back = state_of(checkpoint_of(some_state()));
  REQUIRE(back);
  CHECK(back->after == 41);
  CHECK(back->tried == 12);
  CHECK(back->redriven == 11);
  CHECK(back->step.number == 3);
  CHECK(back->step.redriven == 7);
  CHECK(back->step.completed == 2);
  CHECK(back->step.cancelled == 1);
  CHECK(back->step.dead == 1);
  CHECK(back->step.gone == 1);
  CHECK(back->steps.size() == 2);
  REQUIRE(back->live.size() == 2);
  CHECK(back->live[1].id == 41);
  CHECK(back->live[1].attempt == 20);
  CHECK(back->known == some_state().known);
  CHECK(checkpoint_of(*back) == checkpoint_of(some_state()));
}

TEST_CASE("the largest checkpoint fits, with the jobs that were redriven last") {
  RedriveState state;
  constexpr JobId kLargest = (JobId{1} << 53) - 1;
  for (JobId i = 0; i < 7000; ++i)
    state.live.push_back({.id = kLargest - 7000 + i, .fingerprint = "", .attempt = 1'000'000});
  state.known.assign(2000, "1f0c6a2be4d93857");
  const std::string text = checkpoint_of(state);
  CHECK(text.size() <= kMaxCheckpointBytes);
  const auto back = state_of(text);
  REQUIRE(back);
  CHECK(back->live.size() == kMaxLive);
  CHECK(back->live.back().id == kLargest - 1);
  CHECK(back->known.size() == kMaxKnown);
}

TEST_CASE("an invalid checkpoint is refused") {
  for (const char* bad : {"", "[]", "{\"after\":-1}", "{\"live\":[{\"job\":0}]}"}) {
    CAPTURE(bad);
    const auto state = state_of(bad);
    REQUIRE_FALSE(state);
    CHECK(state.error().code == ErrorCode::invalid_argument);
  }
}

TEST_CASE("a result has the end and its cause") {
  RedriveState state;
  state.steps = {{.number = 1, .redriven = 1}};
  CHECK(result_of({.redriven = 3, .left = 0, .end = RedriveReport::End::done}, {}) ==
        R"({"redriven":3,"left":0,"end":"done"})");
  Job again{.kind = "k", .state = JobState::retryable, .attempt = 4, .reason = "max_attempts"};
  again.id = 7;
  again.description = "no disk";
  state.steps[0].again = again;
  CHECK(result_of({.redriven = 1, .left = 9, .end = RedriveReport::End::failed_again}, state) ==
        R"({"redriven":1,"left":9,"end":"failed_again","steps":[{"step":1,"redriven":1,)"
        R"("completed":0,"cancelled":0,"dead":0,"gone":0,"again":{"job":7,"fingerprint":")" +
            fingerprint_of(again) +
            R"(","reason":"max_attempts","description":"no disk","state":"retryable",)"
            R"("attempt":4}}]})");
}
