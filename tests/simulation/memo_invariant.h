// EO-3: a step of a job is done for good once its result was acknowledged.
//
//   EO-3a  every later attempt finds each acknowledged result, with the same bytes
//   EO-3b  a name has one result, in all reads
//   EO-3c  a result that was refused because its worker had lost the lease is never found
//   EO-3d  a checkpoint sent with a result is stored if and only if the result is
//   EO-3e  the results are removed when the job succeeds
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "simulation/message_invariant.h"
#include "store/operations.h"

namespace mainspring::simulation {

class MemoInvariant {
 public:
  using Fate = MessageInvariant::Fate;

  // A worker got the job.
  void given(JobId id, Token token);
  // The `step`-th result that it sends, repeatedly until it is answered.
  Memo next(int step);
  // True if a later attempt is known. Called before a result is sent.
  bool is_late(JobId id, Token token) const { return last_.at(id) > token; }
  // Its outcome; `late` = is_late() when it was sent. "" = the invariant holds.
  std::string told(JobId id, const Memo& memo, Fate fate, bool late);
  // The results that the current attempt finds.
  std::string found(JobId id, const std::vector<Memo>& memos);
  // Every other job sends each result with a checkpoint, the number of results so far.
  static bool brings_checkpoints(JobId id) { return id % 2 == 0; }
  static std::string checkpoint(std::size_t results);  // "" = none yet
  // At the end, with the results in the store.
  std::string check(const Job& job, const std::vector<Memo>& memos);

  std::int64_t kept() const { return kept_; }          // acknowledged
  std::int64_t recalled() const { return recalled_; }  // found, each time
  std::int64_t refused() const { return refused_; }    // of lost leases

 private:
  using Name = std::pair<JobId, std::string>;
  std::map<JobId, Token> last_;
  std::map<Name, std::string> acknowledged_, seen_;
  std::set<std::string> lost_;  // refused as too late
  std::int64_t results_ = 0, kept_ = 0, recalled_ = 0, refused_ = 0;
};

}  // namespace mainspring::simulation
