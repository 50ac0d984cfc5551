// Audit: the record of who changed what, and the hash chain that reveals altered records.
//
// Each record's hash covers the previous hash. To alter, remove or add a record, an attacker must
// recompute all later hashes, and the newest hash is known elsewhere (in logs and to API clients).
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
  std::string who;     // a token's name, or "local" if no token was needed
  std::string from;    // "192.0.2.7", "unix uid=1000", "offline uid=0"
  std::string action;  // the operationId of the API, for example pause_queue
  std::string object;  // "queue/photos", "job/42", "schedule/nightly", "token/ci", "folder/…"; ""
  std::string before;  // JSON; "" = the object did not exist
  std::string after;   // JSON; "" = the object is gone
  Digest hash{};       // of this record and the previous hash
  friend bool operator==(const AuditRecord&, const AuditRecord&) = default;
};

// The position in a chain. A store without records: seq 0 and zeros.
struct AuditMark {
  std::int64_t seq = 0;
  Digest hash{};
  friend bool operator==(const AuditMark&, const AuditMark&) = default;
};

// The hash of a record that follows a record with hash `previous`. Covers every field but hash.
Digest chain_hash(const Digest& previous, const AuditRecord& record);

// Checks records in order of seq, starting after `mark`. nullopt: the records are consistent, and
// `mark` is now the last one. Otherwise a description of the first inconsistency.
std::optional<std::string> follow_chain(AuditMark& mark, const std::vector<AuditRecord>& records);

}  // namespace mainspring
