// Leases by name: for a time, one holder in the whole system, and a token that proves it.
//
//   auto lease = engine.acquire_lease("report/eu", {.wait = 10s});
//   if (!lease) …                        // lease_held: somebody else has it
//   write(lease->token(), …);            // the token grows with every holder: a store that
//                                        // remembers the largest refuses whoever comes too late
//   lease->stop_token()                  // stop requested when the lease is lost
//
// A lease is renewed by a thread of its own at a third of its length, and released when the object
// ends. Source: the AutoRenewLease of Azure's samples, which never learned that it had lost.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "mainspring/job.h"

namespace mainspring {

inline constexpr Duration kDefaultNamedLease = std::chrono::seconds(15);
inline constexpr std::size_t kMaxLeaseValueBytes = 64 << 10;
inline constexpr int kMaxLeases = 100'000;  // held or with a value, at once

// A lease as anybody sees it.
struct LeaseInfo {
  std::string name;
  std::string holder;             // "" = free
  Token token = 0;                // of the present or last holder
  Duration expires_in{0};         // 0 = free, or expired
  std::optional<WallTime> since;  // when this holder acquired it
  std::string value;              // JSON that its holders left, "" = none
};

struct LeaseOptions {
  // Until somebody else may have it when nothing is heard of this holder. Raise for machines that
  // stall; lower to be replaced sooner. kMinLease to kMaxLease.
  Duration ttl = kDefaultNamedLease;
  Duration wait{0};  // how long to wait while somebody else has it; 0 = answer at once
  // Called once, from a thread of the lease, when it is lost: before its end by the store's clock
  // if renewals fail, at once if somebody else has it. Must not block, nor release the lease.
  std::function<void()> on_lost;
  std::stop_token stop;  // ends the waiting
};

// One holding of a lease. Movable; the last owner's end releases it.
class AutoRenewLease {
 public:
  struct State;
  explicit AutoRenewLease(std::shared_ptr<State> state);
  ~AutoRenewLease();  // releases
  AutoRenewLease(AutoRenewLease&&) noexcept;
  AutoRenewLease& operator=(AutoRenewLease&&) noexcept;

  const std::string& name() const;
  Token token() const;
  // The value as it was when the lease was acquired, or as this holder set it last.
  std::string value() const;
  // JSON, "" = none. On disk when it returns. Errors: lease_lost, invalid_argument, too_large,
  // unavailable.
  Result<void> set_value(std::string json);
  bool lost() const;
  std::stop_token stop_token() const;  // stop is requested when the lease is lost
  // Ends the holding now. Errors: lease_lost (it had been lost before), unavailable (it will
  // expire). Later calls do nothing.
  Result<void> release();

 private:
  std::shared_ptr<State> state_;
};

// What is done while a lease is held: it can look at the token and at the stop token.
using LeaseAction = std::function<Result<void>(const AutoRenewLease& lease)>;

// What became of a do_once.
enum class Once : std::uint8_t {
  ran,          // the action has been done, by this call
  done_before,  // it had been done
};

}  // namespace mainspring
