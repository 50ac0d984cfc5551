// Doorman: who sends a request, by its Authorization header and its peer; how many may try.
//
//   header ─▶ SHA-256 ─▶ a usable token? ─▶ not over its rate? ─▶ Pass (Caller)
//                             └─ no ─▶ has the address failures left? ─▶ 401, else 429
//
// A job token (model/job_token.h) or a dashboard session (model/dashboard_session.h) is signed by
// this server or another one of its store, and spends the rate of the token that asked for it.
//
// A good token always passes, whatever its address did before: neighbours behind one address do
// not lock each other out, and 256 random bits are not guessed.
#pragma once

#include <atomic>
#include <functional>
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

// Where a connection comes from.
struct PeerName {
  std::string text;         // "192.0.2.7", "unix uid=1000"
  bool local = false;       // loopback or a unix socket
  std::string certificate;  // the name in the peer's, "" = it gave none
};

// With what a request was let in.
struct Pass {
  std::shared_ptr<const Caller> caller;  // nullptr = of nobody yet
  bool by_token = false;
  Digest digest{};
  bool by_job_token = false;  // or by a dashboard session; the access token that opened it is:
  std::uint64_t issuer = 0;   // Caller::token_id; 0 = the server itself
  WallTime expires_at = WallTime::never();
  std::int64_t version = 0;  // of the tokens that were looked at
};

// What a bearer presents: of "Bearer TOKEN", and of "Basic …" the password. nullopt: neither, or
// nothing in it.
std::optional<Secret> presented_token(std::string_view authorization);

// Addresses of one person: one IPv4 address, or the 64 bits of an IPv6 network.
std::string address_group(const std::string& peer);

// Failures by address, each forgotten after kForget; the table has a bound, and beyond it all new
// addresses are counted as one.
class Failures {
 public:
  static constexpr Duration kForget = std::chrono::seconds(6);
  static constexpr std::size_t kMaxAddresses = 10'000;
  explicit Failures(int free) : free_(free) {}
  // One more. nullopt = it was among the free ones; else how long until there is one again.
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

// Connections by address, each at most so many. Has an entry for addresses that have connections.
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

struct DoormanOptions {
  bool require_token = false;  // of local peers too
  int rate_per_token = 0;      // requests per second; 0 = without limit
  int free_failures = 10;      // per address
  Secret job_token_key = {};   // empty = no job token and no dashboard session is valid
};

// The error `overloaded` that asks the caller to wait.
Error too_many(std::string message, Duration wait);

class Doorman {
 public:
  // As of class Store. Both are called from every io thread.
  struct Source {
    std::function<std::shared_ptr<const Tokens>()> tokens;
    std::function<std::int64_t()> version;
  };
  Doorman(DoormanOptions options, Source source, Registry& registry);

  // `authorization` is the header's value, nullptr = there is none. `forwarded`: a proxy on this
  // machine has passed the request on, so that its being here says nothing of who asks. `earlier`
  // is the pass of the connection's request before, which is used again where it is the same.
  // Errors: unauthenticated, overloaded (too many failures of the address, or requests with the
  // token).
  Result<Pass> admit(const PeerName& peer, const Secret* authorization, bool forwarded,
                     const Pass& earlier, Now now);
  // Of requests that everybody may send: what is no good is as none, and gets the pass of nobody.
  Pass admit_anybody(const PeerName& peer, const Secret* authorization, Now now);
  // May the one with this pass still have what it waits for?
  bool still_good(Pass& pass, WallTime now);

 private:
  // The time at which the requests that came so far would have come evenly: in nanoseconds.
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
  // A usable token that Caller::token_id names.
  static const Entry* find_usable(const Snapshot& snapshot, std::uint64_t id, WallTime now);
  Result<Pass> admit_job(const PeerName& peer, const Secret& text, Now now);
  Result<Pass> admit_session(const PeerName& peer, std::string_view text, Now now);
  Result<void> spend(const Entry& entry, Instant now) const;
  Error refuse(const PeerName& peer, std::string message, Instant now);

  const DoormanOptions options_;
  const Source source_;
  Failures failures_;
  Counter& unauthenticated_;
  Counter& throttled_;
  Mutex mutex_;
  std::shared_ptr<const Snapshot> snapshot_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring::http
