// Audit: the record of who changed what, and the chain that shows if a record was altered.
//
// Each record's hash covers the one before it: whoever alters, removes or adds one in the middle
// has to make all later hashes anew, and the newest is known elsewhere (logs, whoever asked for
// it).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "env/digest.h"
#include "mainspring/time.h"

namespace mainspring {

struct AuditRecord {
  std::int64_t seq = 0;  // from 1, without gaps
  WallTime at;
  std::string who;     // a token's name, or "local": no token was needed
  std::string from;    // "192.0.2.7", "unix uid=1000", "offline uid=0"
  std::string action;  // what was asked: an operationId of the API, as pause_queue
  std::string object;  // "queue/photos", "job/42", "schedule/nightly", "token/ci", "folder/…"; ""
  std::string before;  // JSON; "" = there was nothing
  std::string after;   // JSON; "" = there is nothing
  Digest hash{};       // of the record and of the hash before it
  friend bool operator==(const AuditRecord&, const AuditRecord&) = default;
};

// Where a chain stands. A store without records: seq 0 and zeros.
struct AuditMark {
  std::int64_t seq = 0;
  Digest hash{};
  friend bool operator==(const AuditMark&, const AuditMark&) = default;
};

// The hash that a record must have after one with the hash `previous`. Covers every field but hash.
Digest chain_hash(const Digest& previous, const AuditRecord& record);

// Follows records in order of seq, beginning behind `mark`; nullopt = they fit, and `mark` is the
// last one. Else what does not fit.
std::optional<std::string> follow_chain(AuditMark& mark, const std::vector<AuditRecord>& records);

}  // namespace mainspring
