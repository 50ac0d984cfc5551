// copy_store(): moves or copies a store to another place while the source is running.
//
//   while the source runs    everything, block by block             most of the time
//                            what changed since, as of one moment   repeated until it is fast
//                            verify at the target
//   under the fence          what changed since; verify             the source cannot change
//                            seal the target, mark the source as moved
//   then                     the target can be served
//
// The mark is the commit point. If a copy stops before the mark, for whatever reason, the source is
// unchanged and the target is unfinished and cannot be served. Starting the copy again continues
// it. If a copy stops after the mark, starting it again finishes it.
#pragma once

#include <functional>
#include <string>

#include "env/clock.h"
#include "store/transfer.h"

namespace mainspring {

struct CopyProgress {
  enum class Stage : std::uint8_t {
    copying,      // everything, while the source is running
    catching_up,  // what changed since
    verifying,
    fenced,  // the source cannot change
  };
  Stage stage = Stage::copying;
  std::int64_t rows_done = 0, rows = 0;  // of this stage, as far as known
};

struct CopyOptions {
  // `yes`: the source is not marked and continues to run. The target is a snapshot whose ids and
  // tokens start far ahead of the source's.
  SourceGoesOn source = SourceGoesOn::no;
  // Maximum time during which the source cannot change. Raise it for a store so large that
  // comparing it takes longer.
  Duration max_fence = std::chrono::seconds(10);
  // Called from time to time, on the calling thread. Tests end the process here.
  std::function<void(const CopyProgress&)> progress;
};

struct CopyReport {
  std::int64_t jobs = 0;           // at the target
  std::int64_t rows = 0;           // written, by this process
  bool resumed = false;            // continued an unfinished copy
  bool only_finished = false;      // the source was already marked; nothing else was needed
  int rounds = 0;                  // of catching up
  int fences = 0;                  // number of fences
  Duration fence{0};               // duration of the last fence
  bool verified_in_fence = false;  // the whole target; else only what the fence wrote
  // Invariants that the target breaks. If any, the source was not marked and the target is
  // unfinished.
  std::vector<std::string> problems;
};

// Errors: conflict (the source has moved elsewhere; the target is not empty; both are the same
// store), unavailable (the fence failed, or every fence timed out; try again), and those of both
// stores.
Result<CopyReport> copy_store(TransferSource& source, TransferTarget& target,
                              const CopyOptions& options, const Clock& clock);

}  // namespace mainspring
