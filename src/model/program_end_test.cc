// How programs end: the rules and the text that describes it.
#include "model/program_end.h"

#include <doctest/doctest.h>
#include <signal.h>

namespace mainspring {

TEST_CASE("a program's end beyond its limits is refused by name") {
  const auto field = [](const ProgramEnd& end) {
    const auto good = check_program_end(end, "results[3].");
    return good ? "" : good.error().field;
  };
  CHECK(field({}) == "");
  CHECK(field({.exit_code = 0, .peak_memory = 0}) == "");
  CHECK(field({.exit_code = 255, .oom = true, .peak_memory = kMaxPeakMemoryBytes}) == "");
  CHECK(field({.signal = SIGKILL}) == "");
  CHECK(field({.signal = SIGRTMAX}) == "");
  CHECK(field({.exit_code = 256}) == "results[3].exit_code");
  CHECK(field({.exit_code = -1}) == "results[3].exit_code");
  CHECK(field({.signal = 99}) == "results[3].signal");
  CHECK(field({.signal = -9}) == "results[3].signal");
  CHECK(field({.exit_code = 1, .signal = SIGKILL}) == "results[3].exit_code");
  CHECK(field({.peak_memory = -1}) == "results[3].peak_memory");
  CHECK(field({.peak_memory = kMaxPeakMemoryBytes + 1}) == "results[3].peak_memory");
  CHECK(check_program_end({.peak_memory = -1}).error().message ==
        "peak_memory -1: must be 0 to 9007199254740992 bytes");
}

TEST_CASE("invalid parts of a handler's program end are dropped, and the rest is kept") {
  Outcome outcome = Retry{
      .error = "no", .after = {}, .program = {.exit_code = 300, .signal = 99, .peak_memory = 4096}};
  hold_within_rules(*program_end_of(outcome));
  CHECK(std::get<Retry>(outcome).program == ProgramEnd{.peak_memory = 4096});
  ProgramEnd both{.exit_code = 1, .signal = SIGSEGV, .oom = true, .peak_memory = -1};
  hold_within_rules(both);
  CHECK(both == ProgramEnd{.signal = SIGSEGV, .oom = true});
  outcome = Complete{};
  CHECK(program_end_of(outcome) == nullptr);
}

TEST_CASE("one line describes how a program ended") {
  CHECK(program_end_text({}) == "");
  CHECK(program_end_text({.exit_code = 3}) == "exit code 3");
  CHECK(program_end_text({.signal = SIGKILL, .oom = true, .peak_memory = 50'331'648}) ==
        "killed by SIGKILL, out of memory, peak memory 48.0 MiB");
}

}  // namespace mainspring
