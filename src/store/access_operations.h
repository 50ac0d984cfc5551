// Operations on tokens, and the audit record that goes with a change.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "env/digest.h"
#include "mainspring/time.h"
#include "model/access.h"
#include "model/audit.h"

namespace mainspring {

inline constexpr std::size_t kMaxTokens = 10'000;  // with those revoked and expired
inline constexpr int kMaxTokenRate = 1'000'000;

// A token as it is kept: its text is nowhere.
struct TokenRecord {
  std::string name;  // as check_name
  Digest digest{};   // SHA-256 of the text
  Scopes scopes;
  int rate = 0;  // requests per second; 0 = the server's default
  WallTime created_at;
  std::string created_by;                   // who, as in audit records
  WallTime expires_at = WallTime::never();  // from then on it is refused
  std::optional<WallTime> revoked_at;
  bool usable(WallTime now) const { return !revoked_at && now < expires_at; }
  friend bool operator==(const TokenRecord&, const TokenRecord&) = default;
};

// Answers Done. Errors: conflict (a usable token has the name; one that is revoked or expired is
// replaced), overloaded (kMaxTokens usable ones; of the others the oldest makes room).
struct CreateToken {
  TokenRecord token;  // created_at and revoked_at are the store's
};
// Answers Done; of a revoked one too. Errors: not_found.
struct RevokeToken {
  std::string name;
};

// Says who makes a change: stands behind the operation that it is about, in the same batch. If that
// operation was not refused and the object is another one after it, a record is appended, in the
// same transaction; otherwise nothing. Answers Done.
struct Audit {
  std::string who, from, action;
  std::string object;  // "queue/NAME", "job/ID", "schedule/NAME", "token/NAME": the store fills in
                       // before and after. Of others it takes those given:
  std::string before, after;
  // A record of its own, about something outside the store: whatever stands before it in the batch.
  bool alone = false;
  // Also if nothing is different after it: what was asked is worth a record.
  bool always = false;
};

// -- reads

// Every token, by name; a snapshot that does not change.
using Tokens = std::map<std::string, TokenRecord>;

struct AuditFilter {  // empty fields do not restrict
  std::string who, action, object;
};
enum class AuditOrder { oldest_first, newest_first };
struct AuditPage {
  std::vector<AuditRecord> records;
  std::optional<std::int64_t> next;  // the `from` of the next page; nullopt = no more
};
// What of the chain is kept. `base` is the mark of the newest record that was pruned.
struct AuditState {
  AuditMark base;
  AuditMark head;
  std::int64_t records = 0;
};

// What class Store gets for them:
//
//   // From every thread; cheap: a pointer that is exchanged when tokens change.
//   virtual std::shared_ptr<const Tokens> tokens() const = 0;
//   // Another number after each change of tokens; cheap enough to ask with every request.
//   virtual std::int64_t tokens_version() const = 0;
//   // Records with seq >= from (oldest first) or <= from (newest first; 0 = from the newest).
//   virtual Result<AuditPage> audit(const AuditFilter& filter, AuditOrder order, int limit,
//                                   std::int64_t from) const = 0;
//   virtual AuditState audit_state() const = 0;
//
// Store::verify() follows the whole chain. PruneJobs also removes audit records that are older than
// StoreOptions::audit_retention (365 days; the agenda knows) and moves `base`.

}  // namespace mainspring
