// EO-2: a message that was acknowledged is made once. Of each message that a simulated worker sent
// with a renewal there is, when all has come to rest, one job for each who asked for messages of
// its job, if the renewal was answered for; none if it was refused or lost; and one at most if
// nobody knows. Those of one claim are in the order in which they were sent.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mainspring/job.h"

namespace mainspring::simulation {

class MessageLaw {
 public:
  enum class Fate : std::uint8_t { made, not_made, unknown };

  // The next message of all workers.
  std::string next(JobId from, Token token);
  void told(const std::string& message, Fate fate);

  // Each job that is there in the end, and each as it was when it was pruned.
  void add(const Job& job);
  struct Verdict {
    std::int64_t messages = 0;  // that were made
    std::string broken;         // "" = the law holds
  };
  Verdict check();

 private:
  struct Sent {
    JobId from = 0;
    Token token = 0;
    Fate fate = Fate::unknown;
  };
  std::vector<Sent> sent_;        // by number
  std::map<JobId, Job> senders_;  // as they were asked for
  // By job, entry and token: the numbers of the messages, by the id of what was made of them.
  struct Line {
    JobId from = 0;
    int entry = 0;
    Token token = 0;
    friend auto operator<=>(const Line&, const Line&) = default;
  };
  std::map<Line, std::map<JobId, std::int64_t>> made_;
};

// Was it made of a message?
bool is_message(const Job& job);

}  // namespace mainspring::simulation
