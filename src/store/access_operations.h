// Operations on access tokens, and the audit record of a change.
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

// A token as stored. The store keeps the digest of the token's text, never the text.
struct TokenRecord {
  std::string name;  // as check_name
  Digest digest{};   // SHA-256 of the text
  Scopes scopes;
  int rate = 0;  // requests per second; 0 = the server's default
  WallTime created_at;
  std::string created_by;                   // who, as in audit records
  WallTime expires_at = WallTime::never();  // the token is refused from this time
  std::optional<WallTime> revoked_at;
  bool usable(WallTime now) const { return !revoked_at && now < expires_at; }
  friend bool operator==(const TokenRecord&, const TokenRecord&) = default;
};

// Answers Done. Errors: conflict (a usable token already has this name, or any token has this
// digest), overloaded (there are kMaxTokens usable tokens). A revoked or expired token of the same
// name is replaced. At kMaxTokens, the oldest unusable token is removed.
struct CreateToken {
  TokenRecord token;  // created_at and revoked_at are the store's; has passed validate()
};
// Answers Done, also for a token that is already revoked. Errors: not_found.
struct RevokeToken {
  std::string name;
};

// Records who makes a change. An Audit must follow the operation that it records, in the same
// batch. If that operation succeeds and changes its object, the store appends an audit record in
// the same transaction; otherwise the store appends nothing. Answers Done. Errors: invalid_argument
// (the batch has no operation before this one). Texts are cut to kMaxAuditTextBytes. Images over
// kMaxAuditImageBytes become {"bytes", "sha256"}.
struct Audit {
  std::string who, from, action;
  std::string object;
  // Filled in by the store for "queue/NAME", "job/ID", "schedule/NAME" and "token/NAME". For other
  // objects the caller gives both (JSON, or "").
  std::string before, after;
  // The record is about something outside the store and does not depend on the operation before it.
  bool alone = false;
  // Append a record even if the object did not change: the request itself is worth a record. Still
  // not recorded: a claim that returned no job, a renewal, a finish of which nothing was accepted.
  bool always = false;
};
inline constexpr std::size_t kMaxAuditTextBytes = 512;
inline constexpr std::size_t kMaxAuditImageBytes = 64 << 10;

// -- reads

// All tokens by name. An immutable snapshot.
using Tokens = std::map<std::string, TokenRecord>;

struct AuditFilter {  // empty fields do not restrict
  std::string who, action, object;
};
enum class AuditOrder { oldest_first, newest_first };
struct AuditPage {
  std::vector<AuditRecord> records;
  std::optional<std::int64_t> next;  // the `from` of the next page; nullopt = no more
};
inline constexpr int kMaxAuditPage = 1000;  // the largest page that callers ask for
// The part of the audit chain that is kept. `base` is the chain hash of the newest pruned record.
struct AuditState {
  AuditMark base;
  AuditMark head;
  std::int64_t records = 0;
};

}  // namespace mainspring
