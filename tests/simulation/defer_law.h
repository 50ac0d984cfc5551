// DEFER: what was put aside waits for its number.
//
//   DEF-1  a deferred job is given to no claim but one that names it
//   DEF-2  it stays as it is, whatever dies, until such a claim, an operator's retry or a cancel;
//          then the attempt has the number that it had
//   DEF-3  a claim that names a job gets that one or an error, at once
//   DEF-4  it gets none of a queue that is paused, and none of a session
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "store/store.h"

namespace mainspring::simulation {

inline const std::string kAsideQueue = "aside";

class DeferLaw {
 public:
  // Behind each batch of `store`; without a report nobody knows whether it happened. "" = DEF-1,
  // 2 and 4 hold.
  std::string applied(std::span<const Operation> batch, const BatchReport* report,
                      const Store& store);
  // The answer of a claim that named `id`, which came so long after it was sent. "" = DEF-3 holds.
  std::string answered(JobId id, const OperationResult& answer, Duration after);
  std::int64_t deferred() const { return deferred_; }
  std::int64_t named() const { return named_; }      // jobs that were given by their id
  std::int64_t refused() const { return refused_; }  // claims that named one

 private:
  std::string see(const Operation& operation, const OperationResult& result);
  std::string given(const Claim& claim, const ClaimResult& result);
  void forget(const Operation& operation);
  std::string look(const Store& store) const;
  std::string check_named(const Store& store) const;

  std::map<JobId, int> running_;  // by what attempt
  std::map<JobId, int> aside_;    // the attempt that was put aside
  std::map<JobId, int> new_;      // of aside_, in this batch
  std::vector<JobId> by_name_;    // given in this batch
  bool pauses_ = false;           // this batch
  std::uint64_t batches_ = 0;
  std::int64_t deferred_ = 0, named_ = 0, refused_ = 0;
};

}  // namespace mainspring::simulation
