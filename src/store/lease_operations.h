// Operations on named locks (leases): mutual exclusion between clients of a store.
//
// A lease is free, or held until an expiry time on the store's steady clock. Each new holder gets a
// token from the store's single token sequence. So its token is larger than the token of every
// earlier holder. Renewals without a value do not write to disk, except when they ask for a longer
// time than any renewal before. After a restart every lease starts again with its full length,
// except the leadership: see kLeadershipLease. An expired lease is free and keeps only its value.
#pragma once

#include <optional>
#include <string>

#include "mainspring/lease.h"

namespace mainspring {

// The holder of this lease runs the scheduler. The embedded store drops this lease when it opens:
// its owner lock proves that no other node is running.
inline constexpr std::string_view kLeadershipLease = "mainspring/leader";
// Prefix of the engine's own lease names. The API refuses such names from clients.
inline constexpr std::string_view kReservedLeases = "mainspring/";

// Makes an operation depend on a lease. The operation is refused with lease_lost and changes
// nothing, unless the lease is held with this token and has not expired. An empty name disables the
// check.
struct Fence {
  std::string lease;
  Token token = 0;
  friend bool operator==(const Fence&, const Fence&) = default;
};

// Answers LeaseGrant. Errors: lease_held (retry_after_ms = time until it expires), overloaded
// (kMaxLeases). The current holder gets its own lease again, renewed, with the same token and
// `held` set. So a request can be repeated.
struct AcquireLease {
  std::string name;    // as check_name
  std::string holder;  // random id of the holder, new for each acquisition
  Duration ttl = kDefaultNamedLease;
};
struct LeaseGrant {
  Token token = 0;
  Duration ttl{0};    // time to renew it, from the commit of the answer
  std::string value;  // value left by earlier holders, "" = none
  bool held = false;  // the caller already held the lease
};

// Answers LeaseGrant, with `held` set. Errors: lease_lost, too_large (kMaxLeaseValueBytes).
struct RenewLease {
  std::string name;
  std::string holder;
  Token token = 0;
  Duration ttl{0};                   // 0 = the time of the last acquire or renewal
  std::optional<std::string> value;  // JSON, kept after the release; "" removes it
};

// The server was suspended for the last `gap`, so no holder could renew. Every lease (job, session,
// named lock) that was valid when the gap began is extended by the gap, but to at most its full
// length from now. So a wrong `gap` costs at most one lease length. Answers Done. Changes nothing
// on disk.
struct ExtendLeases {
  Duration gap{0};
};

// The server is about to restart. Every lease that is held, or renewed from now on, lasts at least
// until the end of the allowance. A job's lease still ends at the job's time limit, and the
// leadership is not extended. Durable: the next open starts every session and named lock with at
// least the allowance, and a job's lease with what its last renewal reported. The store drops the
// allowance after it has passed once after an open. Answers Done.
struct AllowRestart {
  Duration allowance{0};
};

// Answers Done. Errors: lease_lost, too_large. A repeated release with the same token succeeds as
// long as no other client has acquired the lease, at least for the time it would have been held.
struct ReleaseLease {
  std::string name;
  std::string holder;
  Token token = 0;
  std::optional<std::string> value;
};

}  // namespace mainspring
