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
// replaced; or any token has the digest), overloaded (kMaxTokens usable ones; of the others the
// oldest makes room).
struct CreateToken {
  TokenRecord token;  // created_at and revoked_at are the store's; has passed validate()
};
// Answers Done; of a revoked one too. Errors: not_found.
struct RevokeToken {
  std::string name;
};

// Says who makes a change: stands behind the operation that it is about, in the same batch. If that
// operation was not refused and the object is another one after it, a record is appended, in the
// same transaction; otherwise nothing. Answers Done. Errors: invalid_argument (nothing stands
// before it that it could be about). Texts are cut to kMaxAuditTextBytes, images over
// kMaxAuditImageBytes become {"bytes", "sha256"}.
struct Audit {
  std::string who, from, action;
  std::string object;  // "queue/NAME", "job/ID", "schedule/NAME", "token/NAME": the store fills in
                       // before and after. Of others it takes those given (JSON, or ""):
  std::string before, after;
  // A record of its own, about something outside the store: whatever stands before it in the batch.
  bool alone = false;
  // Also if nothing is different after it: what was asked is worth a record. A claim that gave
  // nothing, a renewal and a finish of which nothing was accepted are not.
  bool always = false;
};
inline constexpr std::size_t kMaxAuditTextBytes = 512;
inline constexpr std::size_t kMaxAuditImageBytes = 64 << 10;

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
inline constexpr int kMaxAuditPage = 1000;  // what callers ask for at most
// What of the chain is kept. `base` is the mark of the newest record that was pruned.
struct AuditState {
  AuditMark base;
  AuditMark head;
  std::int64_t records = 0;
};

}  // namespace mainspring
