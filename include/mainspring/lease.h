// Named leases (locks): one holder at a time in the whole system, with a fencing token.
//
//   auto lease = engine.lock("report/eu", {.wait = 10s});
//   if (!lease) …                        // lease_held: another holder has it
//   write(lease->token(), …);            // the token grows with every holder: a store that keeps
//                                        // the largest token can refuse writes of older holders
//   lease->stop_token()                  // stop requested when the lease is lost
//
// A thread renews the lease at a third of its length. The lease is released when the object ends.
// Source: AutoRenewLease of Azure's samples, which did not detect a lost lease.
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

// A lease as every caller sees it.
struct LeaseInfo {
  std::string name;
  std::string holder;             // "" = free
  Token token = 0;                // of the current or last holder
  Duration expires_in{0};         // 0 = free, or expired
  std::optional<WallTime> since;  // when this holder acquired it
  std::string value;              // JSON, set by a holder; "" = none
};

struct LeaseOptions {
  // If the store hears nothing from this holder for this long, another may get the lease. Raise for
  // machines that stall; lower to be replaced sooner. kMinLease to kMaxLease.
  Duration ttl = kDefaultNamedLease;
  Duration wait{0};  // how long to wait while another holder has it; 0 = do not wait
  // Called once, on a thread of the lease, when the lease is lost: before its end by the store's
  // clock if renewals fail, at once if another holder has it. Must not block or release the lease.
  std::function<void()> on_lost;
  std::stop_token stop;  // ends the wait
};

// Holds one lease. Movable; released when the last owner ends.
class AutoRenewLease {
 public:
  struct State;
  explicit AutoRenewLease(std::shared_ptr<State> state);
  ~AutoRenewLease();  // releases
  AutoRenewLease(AutoRenewLease&&) noexcept;
  AutoRenewLease& operator=(AutoRenewLease&&) noexcept;

  const std::string& name() const;
  Token token() const;
  // The value when the lease was acquired, or as this holder set it last.
  std::string value() const;
  // JSON, "" = none. On disk when it returns. Errors: lease_lost, invalid_argument, too_large,
  // unavailable.
  Result<void> set_value(std::string json);
  bool lost() const;
  std::stop_token stop_token() const;  // stop is requested when the lease is lost
  // Ends the holding now. Errors: lease_lost (it was lost earlier), unavailable (it will expire).
  // Later calls do nothing.
  Result<void> release();

 private:
  std::shared_ptr<State> state_;
};

// An action to run while a lease is held. It can read the token and the stop token.
using LeaseAction = std::function<Result<void>(const AutoRenewLease& lease)>;

// The outcome of do_once.
enum class Once : std::uint8_t {
  ran,          // this call ran the action
  done_before,  // an earlier call ran it
};

}  // namespace mainspring
