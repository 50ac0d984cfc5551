// EO-2: a message that was acknowledged is made once. Of each message that a simulated worker sent
// with a renewal there is, when all has come to rest, one job for each who asked for messages of
// its job, if the renewal was answered for; none if it was refused or lost; and one at most if
// nobody knows. Those of one claim are in the order in which they were sent.
//
// EO-6: the same of each other progress, which a worker may report again until it has another one:
// one job for each who asked for progress, however often it was reported.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/job.h"

namespace mainspring::simulation {

class MessageLaw {
 public:
  enum class Fate : std::uint8_t { not_made, unknown, made };

  // The next message, or progress, of all workers.
  std::string next(JobId from);
  Progress next_progress(JobId from);
  void told(const std::string& message, Fate fate);
  // For each renewal that reported it.
  void told(const Progress& progress, Fate fate);

  // Each job that is there in the end, and each as it was when it was pruned.
  void add(const Job& job);
  struct Verdict {
    std::int64_t messages = 0, progress = 0;  // that were made
    std::string broken;                       // "" = the laws hold
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
  std::map<JobId, Job> senders_;  // as they were asked for
  // By job, entry and token: the numbers of the messages, by the id of what was made of them.
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

// Was it made of what a job said while it ran?
bool is_news(const Job& job);

}  // namespace mainspring::simulation
