// Operations on leases by name: mutual exclusion for whoever shares the store.
//
// A lease is free, or held until an expiry on the store's steady clock. Each new holder gets a
// token from the store's one sequence of tokens, so it is larger than that of every holder before,
// for ever. Renewals without a value write nothing to disk, unless they are for longer than any
// before; after a restart every lease begins anew with its whole length, except the leadership: see
// kLeadershipLease. A lease that has expired is free, and nothing is left of it but its value.
#pragma once

#include <optional>
#include <string>

#include "mainspring/lease.h"

namespace mainspring {

// Whoever holds this runs the scheduler's duties. The embedded store forgets it when it is opened:
// its owner lock proves that no other node lives.
inline constexpr std::string_view kLeadershipLease = "mainspring/leader";
// Names that begin so are the engine's own; the door refuses them from outside.
inline constexpr std::string_view kReservedLeases = "mainspring/";

// Makes an operation depend on a lease: refused with lease_lost, changing nothing, unless the lease
// is held with this token and has not expired. An empty name is no fence.
struct Fence {
  std::string lease;
  Token token = 0;
  friend bool operator==(const Fence&, const Fence&) = default;
};

// Answers LeaseGrant. Errors: lease_held (retry_after_ms = until it expires), overloaded
// (kMaxLeases). The present holder gets its own lease again, renewed, with the same token and
// `held` set: a repeated request does no harm.
struct AcquireLease {
  std::string name;    // as check_name
  std::string holder;  // an incarnation: random, new for each holding
  Duration ttl = kDefaultNamedLease;
};
struct LeaseGrant {
  Token token = 0;
  Duration ttl{0};    // until it must be renewed, from the answer's commit
  std::string value;  // what holders before left, "" = none
  bool held = false;  // the holder had it already
};

// Answers LeaseGrant, with `held` set. Errors: lease_lost, too_large (kMaxLeaseValueBytes).
struct RenewLease {
  std::string name;
  std::string holder;
  Token token = 0;
  Duration ttl{0};                   // 0 = as long as it was acquired (or last renewed) for
  std::optional<std::string> value;  // JSON, kept after the release; "" removes it
};

// The server stood still for the last `gap`: no holder could renew. A lease of a job, of a session
// or by name that was alive when the gap began is extended by the gap, but to no more than its full
// length from now. So a wrong `gap` costs at most one lease. Answers Done. Changes nothing durable.
struct ExtendLeases {
  Duration gap{0};
};

// The server is about to restart. Every lease that is held, or renewed from now on, lasts at least
// to the end of the allowance. Leases of jobs end no later than their time limit
// allows; the leadership is not extended. Durable: the next open starts every lease with at least
// the allowance. It is forgotten once it has passed after an open. Answers Done.
struct AllowRestart {
  Duration allowance{0};
};

// Answers Done. Errors: lease_lost, too_large. Releasing again what this token released is ok while
// nobody else has acquired it, for at least as long as it would have been held.
struct ReleaseLease {
  std::string name;
  std::string holder;
  Token token = 0;
  std::optional<std::string> value;
};

}  // namespace mainspring
