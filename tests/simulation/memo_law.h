// EO-3: a step of a job, once its result was acknowledged, is over for good.
//
//   EO-3a  what was acknowledged is among what every later attempt finds, with the same bytes
//   EO-3b  a name has one result, whoever looks and whenever
//   EO-3c  what a worker sent that had lost its lease, and was told so, nobody finds
//   EO-3d  a checkpoint that came with a result is there if that is, and only then
//   EO-3e  with the job's success they go
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "simulation/message_law.h"
#include "store/operations.h"

namespace mainspring::simulation {

class MemoLaw {
 public:
  using Fate = MessageLaw::Fate;

  // A worker was given the job.
  void given(JobId id, Token token);
  // The `step`-th result that it sends, and sends again until it is answered.
  Memo next(int step);
  // Is a younger attempt known of? Before a result is sent.
  bool is_late(JobId id, Token token) const { return last_.at(id) > token; }
  // What came of it; `late` = is_late() when it was sent. "" = the law holds.
  std::string told(JobId id, const Memo& memo, Fate fate, bool late);
  // What the attempt that has the job finds.
  std::string found(JobId id, const std::vector<Memo>& memos);
  // Every other job sends each result with the checkpoint that says how many there are then.
  static bool brings_checkpoints(JobId id) { return id % 2 == 0; }
  static std::string checkpoint(std::size_t results);  // "" = none yet
  // In the end, when the store has these of it.
  std::string check(const Job& job, const std::vector<Memo>& memos);

  std::int64_t kept() const { return kept_; }          // acknowledged
  std::int64_t recalled() const { return recalled_; }  // found, each time
  std::int64_t refused() const { return refused_; }    // of lost leases

 private:
  using Name = std::pair<JobId, std::string>;
  std::map<JobId, Token> last_;
  std::map<Name, std::string> acknowledged_, seen_;
  std::set<std::string> lost_;  // whose senders were told that they were too late
  std::int64_t results_ = 0, kept_ = 0, recalled_ = 0, refused_ = 0;
};

}  // namespace mainspring::simulation
