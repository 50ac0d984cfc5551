// Election: decides which node of the cluster leads.
//
//   following ──no leader · handed over · refused · silent──▶ raises the term ──▶ waiting ──▶
//   leading
//       ▲                                                          │ another node was faster   │
//       └──────────────────────────────────────────────────────────┴── the term has passed ────┘
//
// The term in the database is the only truth: every write of a leader fails once it has passed. A
// leader answers reads only for `confirm` after the term was confirmed, by a commit or by reading
// the row. A node that raises the term while the old leader may still run waits for as long before
// it leads, so no two nodes answer. A lease need not be renewed: an idle cluster makes no
// transactions.
//
// Threads: step() from one at a time, the rest from any.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "cluster/leader.h"
#include "env/random.h"
#include "mainspring/result.h"

namespace mainspring {

// The row of the leader in the database.
struct LeaderRow {
  std::int64_t term = 0;
  std::int64_t node = 0;       // 0 = none
  std::string address;         // HOST:PORT of its HTTP server
  WallTime since = {};         // when the term began, by the database's clock
  std::string why;             // why the term was raised
  std::int64_t successor = 0;  // the node that a stopping leader chose; 0 = none
};

// Errors of all functions: unavailable (the database does not answer).
class LeaderTable {
 public:
  virtual ~LeaderTable() = default;
  virtual Result<LeaderRow> read() = 0;
  struct Raised {
    LeaderRow row;
    // No session of the old leader is left: it cannot have confirmed its term meanwhile.
    bool old_is_gone = false;
  };
  // Makes `next` the leader and ends the sessions of the old one, unless the term is no longer
  // `next.term - 1`: then nullopt.
  virtual Result<std::optional<Raised>> raise(const LeaderRow& next) = 0;
  // Ends the own term and names the next leader. No effect after the term has passed.
  virtual Result<void> hand_over(std::int64_t term, std::int64_t successor) = 0;
};

class Election {
 public:
  struct Options {
    std::int64_t node = 0;
    std::string address;
    // A leader that does not answer for this long is lost.
    Duration silence = std::chrono::seconds(2);
    // How long a leader answers reads after its term was confirmed.
    Duration confirm = std::chrono::seconds(3);
  };
  // All references outlive it. `changed` is called from any thread when step() should be called.
  Election(Options options, LeaderTable& table, Leadership& leadership, Random& random,
           std::function<void()> changed);

  // What is due: reads the row, raises the term, begins to lead. Returns when to call again.
  Instant step(Now now) MS_EXCLUDES(mutex_);

  // The term that this node raised, while it leads or waits for that; 0 = none. A link for another
  // term is refused.
  std::int64_t own_term() const MS_EXCLUDES(mutex_);

  // What this node's link to the leader of `term` says.
  enum class Reach : std::uint8_t { answers, refused, silent };
  void note(std::int64_t term, Reach reach, Instant since) MS_EXCLUDES(mutex_);

  // A commit or a read with the own term, started at `at`, succeeded.
  void confirmed(std::int64_t term, Instant at) MS_EXCLUDES(mutex_);
  // A write or a read with the own term found another one.
  void lost(std::int64_t term) MS_EXCLUDES(mutex_);
  // This node raised its own term, to end its transactions with an unknown outcome.
  void raised(std::int64_t from, std::int64_t to) MS_EXCLUDES(mutex_);
  // Whether this node may answer reads without asking the database.
  bool may_answer(Instant now) const MS_EXCLUDES(mutex_);
  // Asks the database, and notes the answer. False: this node does not lead, or the database does
  // not answer.
  bool confirm(Now now) MS_EXCLUDES(mutex_);

  // At a clean stop, after the last commit: names `successor` (0 = none).
  void hand_over(std::int64_t successor) MS_EXCLUDES(mutex_);

 private:
  enum class State : std::uint8_t { unknown, following, waiting, leading };
  Instant follow(const LeaderRow& row) MS_EXCLUDES(mutex_);
  Instant take_over(const LeaderRow& row, std::string why, Now now) MS_EXCLUDES(mutex_);
  Instant lead(Now now) MS_EXCLUDES(mutex_);
  Instant again(Now now) MS_EXCLUDES(mutex_);
  void show(const LeaderRow& row, bool is_me);
  Duration pause(Duration most);

  const Options options_;
  LeaderTable& table_;
  Leadership& leadership_;
  Random& random_;
  const std::function<void()> changed_;
  mutable Mutex mutex_;
  State state_ MS_GUARDED_BY(mutex_) = State::unknown;
  LeaderRow row_ MS_GUARDED_BY(mutex_);                 // as last read or raised
  Reach reach_ MS_GUARDED_BY(mutex_) = Reach::answers;  // the leader of row_, last
  Instant due_ MS_GUARDED_BY(mutex_);                   // when the state has something to do
  Instant confirmed_ MS_GUARDED_BY(mutex_);             // when the own term was, last
  bool stopped_ MS_GUARDED_BY(mutex_) = false;
};

}  // namespace mainspring
