// EO-2: an acknowledged message is made once. When all has come to rest, each message that a
// simulated worker sent with a renewal has one job per follow-up on messages if the renewal was
// acknowledged, none if it was refused or lost, and at most one if its outcome is unknown. Messages
// of one claim keep the order in which they were sent.
//
// EO-6: the same for each changed progress, which a worker may report repeatedly: one job per
// follow-up on progress, however often it was reported.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/job.h"

namespace mainspring::simulation {

class MessageInvariant {
 public:
  enum class Fate : std::uint8_t { not_made, unknown, made };

  // The number of the next message, or progress, over all workers.
  std::string next(JobId from);
  Progress next_progress(JobId from);
  void told(const std::string& message, Fate fate);
  // For each renewal that reported it.
  void told(const Progress& progress, Fate fate);

  // Called for each job of the store at the end, and for each pruned job in its last state.
  void add(const Job& job);
  struct Verdict {
    std::int64_t messages = 0, progress = 0;  // that were made
    std::string broken;                       // "" = the invariants hold
  };
  Verdict check();

 private:
  enum class What : std::uint8_t { message, progress };
  struct Sent {
    JobId from = 0;
    What what = What::message;
    std::optional<Fate> fate{};  // nullopt: its worker never learned it
  };
  void check_order(Verdict& verdict);
  void check_number(std::size_t number, Verdict& verdict) const;

  std::vector<Sent> sent_;        // by number
  std::map<JobId, Job> senders_;  // as requested
  // By job, entry and token: the numbers of the messages, by the id of their job.
  struct Line {
    What what = What::message;
    JobId from = 0;
    int entry = 0;
    Token token = 0;
    friend auto operator<=>(const Line&, const Line&) = default;
  };
  std::map<Line, std::map<JobId, std::int64_t>> made_;
  std::map<std::pair<std::int64_t, int>, int> times_;  // by number and entry
};

// True if it was made from a message or progress of a running job.
bool is_news(const Job& job);

}  // namespace mainspring::simulation
