// copy_store(): moves a store to another place while it works, or copies it.
//
//   while the source works   everything, block by block             most of the time
//                            what changed since, as of one moment   again until that is quick
//                            verify at the target
//   behind the fence         what changed since; verify             nobody changes the source
//                            the target is sealed, the source marked as moved
//   then                     the target can be served
//
// The mark is what decides. A copy that ends before it, for whatever reason, leaves the source as
// it was, and the target unfinished, which nobody can serve; begun again, it goes on. One that ends
// behind it is finished by beginning it again.
#pragma once

#include <functional>
#include <string>

#include "env/clock.h"
#include "store/transfer.h"

namespace mainspring {

struct CopyProgress {
  enum class Stage : std::uint8_t {
    copying,      // everything, while the source works
    catching_up,  // what changed since
    verifying,
    fenced,  // nobody changes the source
  };
  Stage stage = Stage::copying;
  std::int64_t rows_done = 0, rows = 0;  // of this stage, as far as it is known
};

struct CopyOptions {
  // The source is not marked, and goes on: the target is as it was at one moment, and its ids and
  // tokens go on from far ahead.
  SourceGoesOn source = SourceGoesOn::no;
  // Nobody changes the source for longer. Raise for a store so large that looking through it takes
  // longer.
  Duration max_fence = std::chrono::seconds(10);
  // Called now and then, from the calling thread. Tests end the process here.
  std::function<void(const CopyProgress&)> progress;
};

struct CopyReport {
  std::int64_t jobs = 0;           // at the target
  std::int64_t rows = 0;           // written, by this process
  bool resumed = false;            // an unfinished copy was gone on with
  bool only_finished = false;      // the source had been marked before; nothing else was to be done
  int rounds = 0;                  // of catching up
  int fences = 0;                  // that were put up
  Duration fence{0};               // how long the last one stood
  bool verified_in_fence = false;  // all of the target; else what was written behind it
  // Laws that the target breaks; then the source was not marked, and the target is unfinished.
  std::vector<std::string> problems;
};

// Errors: conflict (the source has moved elsewhere; the target holds something; both are one
// store), unavailable (no fence could be put up, or none was long enough; try again), those of
// both ends.
Result<CopyReport> copy_store(TransferSource& source, TransferTarget& target,
                              const CopyOptions& options, const Clock& clock);

}  // namespace mainspring
