// HeldLeases: the current leases, from the batches that a store applied.
//
// An advance of the clock uses it to decide which leases would have ended. A plain value that
// belongs to TestControl, under its mutex.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "store/store.h"
#include "test_server/faults.h"

namespace mainspring {

struct HeldLease {
  enum class Kind : std::uint8_t { job, lock, session } kind = Kind::job;
  JobId job = 0;
  std::string queue;   // of the job or the session
  std::string name;    // of the lock; the key of the session
  std::string holder;  // a worker, for jobs and sessions
  Token token = 0;
  Duration length{0};
  WallTime ends;         // by the virtual clock, unless renewed
  bool renewed = false;  // at least once: its holder renews
  JobFaults faults;
  bool finish_met = false;  // its finish was lost once, and is not lost again
};

class HeldLeases {
 public:
  // Takes what the batch granted, renewed and ended.
  void note(std::span<const Operation> batch, const BatchReport& report, Now now);

  // The lease of a job, if this is its token; nullptr = it belongs to another claim.
  HeldLease* find(JobId job, Token token);
  // Held with an end at or before `until`, earliest first. Copies.
  std::vector<HeldLease> ending(WallTime until) const;
  // The earliest end after `after`; never() = none.
  WallTime next_end(WallTime after) const;
  // It is kept: its holder would have renewed it at `at`.
  void keep(const HeldLease& lease, WallTime at);
  std::vector<HeldLease> all() const;
  const std::map<JobId, HeldLease>& jobs() const { return jobs_; }

 private:
  void note_claim(const Claim& claim, const ClaimResult& result, Now now);
  void note_lock(const Operation& operation, const LeaseGrant& grant, Now now);
  void note_session(const SessionGrant& grant, const std::string& worker, Now now);
  void drop_job(JobId id) { jobs_.erase(id); }
  template <class Visit>
  void each(Visit visit) const;

  std::map<JobId, HeldLease> jobs_;
  std::map<std::string, HeldLease> locks_;
  std::map<std::pair<std::string, std::string>, HeldLease> sessions_;
};

}  // namespace mainspring
