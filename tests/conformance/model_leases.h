// The leases by name of the model store.
#pragma once

#include <set>

#include "conformance/model_state.h"

namespace mainspring {

template <class T>
concept LeaseOperation = std::is_same_v<T, AcquireLease> || std::is_same_v<T, RenewLease> ||
    std::is_same_v<T, ReleaseLease>;

class ModelLeases {
 public:
  explicit ModelLeases(ModelDisk& disk) : disk_(disk) {}

  struct Answer {
    OperationResult result;
    bool wrote = false;
  };
  Answer run(const AcquireLease& op, Now now);
  Answer run(const RenewLease& op, Now now);
  Answer run(const ReleaseLease& op, Now now);
  bool holds(const Fence& fence, Instant now) const;
  static Error lost() { return {.code = ErrorCode::lease_lost, .message = "the lease is lost"}; }

  void start_over(Instant now, ModelOpening how);
  std::vector<std::string> take_released(Instant now);
  Instant free_at(const std::string& name, Instant now) const;
  Result<LeaseInfo> read(const std::string& name, Instant now) const;
  std::vector<LeaseInfo> list(const std::string& after, int limit, Instant now) const;

 private:
  LeaseRecord* held(const std::string& name, const std::string& holder, Token token, Instant now);
  bool extend(const std::string& name, LeaseRecord& lease, Duration ttl, Instant now);
  void end_at(LeaseRecord& lease, Instant ends);
  void sweep(Instant now);

  ModelDisk& disk_;
  Instant first_end_;               // no sweep is needed before
  std::set<std::string> released_;  // in this batch
};

}  // namespace mainspring
