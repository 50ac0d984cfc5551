// Authenticator: identifies the caller of a request by its Authorization header and peer address,
// and limits failed attempts.
//
//   header ─▶ SHA-256 ─▶ a usable token? ─▶ not over its rate? ─▶ Pass (Caller)
//                             └─ no ─▶ has the address failures left? ─▶ 401, else 429
//
// A job token (model/job_token.h) or a dashboard session (model/dashboard_session.h) is signed by
// this server or another one of its store. Its requests count towards the rate of the token that
// requested it.
//
// A valid token always passes, whatever its address did before: peers that share an address do not
// lock each other out, and 256 random bits cannot be guessed.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/mutex.h"
#include "base/secret.h"
#include "env/digest.h"
#include "http/caller.h"
#include "store/access_operations.h"
#include "telemetry/metrics.h"

namespace mainspring::http {

// The peer of a connection.
struct PeerName {
  std::string text;         // "192.0.2.7", "unix uid=1000"
  bool local = false;       // loopback or a unix socket
  std::string certificate;  // the name in the peer's certificate, "" = none
};

// The result of an admission.
struct Pass {
  std::shared_ptr<const Caller> caller;  // nullptr = no request was admitted yet
  bool by_token = false;
  Digest digest{};            // of the token, or of the session's text
  bool by_job_token = false;  // or by a dashboard session; `issuer` is the token that opened it
  std::uint64_t issuer = 0;   // Caller::token_id; 0 = the server itself
  WallTime opened_at = WallTime::never();  // of a dashboard session
  WallTime expires_at = WallTime::never();
  std::int64_t version = 0;  // of the token set that was checked
};

// The text of a session, in the value that parse_head() makes of its cookie.
std::optional<std::string_view> presented_session(std::string_view authorization);
// The presented secret: the token of "Bearer TOKEN", or the password of "Basic …". nullopt: another
// scheme, or empty.
std::optional<Secret> presented_token(std::string_view authorization);

// Groups the addresses of one client: one IPv4 address, or a /64 IPv6 network.
std::string address_group(const std::string& peer);

// Failed attempts by address, each forgotten after kForget. The table is bounded; beyond the bound
// all new addresses share one entry.
class Failures {
 public:
  static constexpr Duration kForget = std::chrono::seconds(6);
  static constexpr std::size_t kMaxAddresses = 10'000;
  explicit Failures(int free) : free_(free) {}
  // Counts a failure. nullopt = it is within the free ones; else the time until one is free again.
  std::optional<Duration> add(const std::string& address, Instant now) MS_EXCLUDES(mutex_);
  std::size_t addresses() const MS_EXCLUDES(mutex_);

 private:
  void sweep(Instant now) MS_REQUIRES(mutex_);
  const int free_;
  mutable Mutex mutex_;
  // When all failures of an address are forgotten.
  std::unordered_map<std::string, Instant> clean_at_ MS_GUARDED_BY(mutex_);
  Instant next_sweep_ MS_GUARDED_BY(mutex_);
};

// Limits the connections of each address. Has entries only for addresses with open connections.
class AddressBook {
 public:
  explicit AddressBook(std::size_t most) : most_(most) {}
  bool enter(const std::string& peer) MS_EXCLUDES(mutex_);
  void leave(const std::string& peer) MS_EXCLUDES(mutex_);

 private:
  const std::size_t most_;
  Mutex mutex_;
  std::unordered_map<std::string, std::size_t> connections_ MS_GUARDED_BY(mutex_);
};

struct AuthenticatorOptions {
  bool require_token = false;  // also from local peers
  int rate_per_token = 0;      // requests per second; 0 = unlimited
  int free_failures = 10;      // per address
  Secret job_token_key = {};   // empty = no job token and no dashboard session is valid
};

// The error `overloaded` with the time to wait.
Error too_many(std::string message, Duration wait);

class Authenticator {
 public:
  // See class Store. Both are called from every io thread.
  struct Source {
    std::function<std::shared_ptr<const Tokens>()> tokens;
    std::function<std::int64_t()> version;
  };
  Authenticator(AuthenticatorOptions options, Source source, Registry& registry);

  // Identifies the caller. `authorization` is the header's value, nullptr = no header. `forwarded`:
  // a proxy on this machine passed the request on, so its local address proves nothing. `earlier`
  // is the pass of the connection's previous request; it is reused if nothing changed. Errors:
  // unauthenticated, overloaded (too many failures of the address, or requests with the token).
  Result<Pass> admit(const PeerName& peer, const Secret* authorization, bool forwarded,
                     const Pass& earlier, Now now);
  // For open routes: an invalid or missing token gives an anonymous pass.
  Pass admit_anybody(const PeerName& peer, const Secret* authorization, Now now);
  // Returns whether the pass is still valid, for a caller that waits.
  bool still_good(Pass& pass, WallTime now);

 private:
  // The time in nanoseconds until which evenly spaced requests would have used the rate.
  struct Bucket {
    std::atomic<std::int64_t> spent_until{0};
  };
  struct Entry {
    TokenRecord token;
    std::shared_ptr<const Scopes> scopes;
    std::shared_ptr<Bucket> bucket;
  };
  struct Snapshot {
    std::int64_t version = -1;
    std::unordered_multimap<std::uint64_t, Entry> entries;  // by the digest's first bytes
  };

  std::shared_ptr<const Snapshot> snapshot() MS_EXCLUDES(mutex_);
  static const Entry* find(const Snapshot& snapshot, const Digest& digest);
  // The usable token with this Caller::token_id.
  static const Entry* find_usable(const Snapshot& snapshot, std::uint64_t id, WallTime now);
  Result<Pass> admit_job(const PeerName& peer, const Secret& text, Now now);
  Result<Pass> admit_session(const PeerName& peer, std::string_view text, Now now);
  bool was_ended(const Digest& session, std::uint64_t token_id, WallTime opened_at);
  Result<void> spend(const Entry& entry, Instant now) const;
  Error refuse(const PeerName& peer, std::string message, Instant now);

  const AuthenticatorOptions options_;
  const Source source_;
  Failures failures_;
  Counter& unauthenticated_;
  Counter& throttled_;
  Mutex mutex_;
  std::shared_ptr<const Snapshot> snapshot_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring::http
