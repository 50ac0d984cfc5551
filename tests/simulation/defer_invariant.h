// DEFER: a deferred job waits until it is claimed by its id.
//
//   DEF-1  a deferred job is given only to a claim by its id
//   DEF-2  it stays deferred, also over crashes, until such a claim, an operator's retry or a
//          cancel; then the attempt has the same number as before
//   DEF-3  a claim by id gets that job or an error, at once
//   DEF-4  a claim by id gets no job of a paused queue or of a session
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "store/store.h"

namespace mainspring::simulation {

inline const std::string kDeferQueue = "aside";

class DeferInvariant {
 public:
  // Called after each batch of `store`; without a report its outcome is unknown. "" = DEF-1, 2
  // and 4 hold.
  std::string applied(std::span<const Operation> batch, const BatchReport* report,
                      const Store& store);
  // The answer of a claim by `id`, and how long it took. "" = DEF-3 holds.
  std::string answered(JobId id, const OperationResult& answer, Duration after);
  std::int64_t deferred() const { return defers_; }
  std::int64_t named() const { return named_; }      // jobs that were given by their id
  std::int64_t refused() const { return refused_; }  // claims that named one

 private:
  std::string see(const Operation& operation, const OperationResult& result);
  std::string given(const Claim& claim, const ClaimResult& result);
  void forget(const Operation& operation);
  std::string look(const Store& store) const;
  std::string check_named(const Store& store) const;

  std::map<JobId, int> running_;   // by attempt
  std::map<JobId, int> deferred_;  // the attempt that was deferred
  std::map<JobId, int> new_;       // of deferred_, in this batch
  std::vector<JobId> by_name_;     // given in this batch
  bool pauses_ = false;            // this batch
  std::uint64_t batches_ = 0;
  std::int64_t defers_ = 0, named_ = 0, refused_ = 0;
};

}  // namespace mainspring::simulation
