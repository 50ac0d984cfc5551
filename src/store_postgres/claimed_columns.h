// The columns that a claim returns for each job, in the order of read_claimed().
#pragma once

// How a claim changes a job's row; $3 to $7 are the claim's parameters.
#define MS_BEGUN                                                                                  \
  "state = 3, attempt = attempt + 1, version = version + 1, token = "                             \
  "nextval('$schema.tokens_given'), worker = $3, lease = $4, lease_until = $5, claimed_at = $7, " \
  "started_at = $6, kept = NULL"

#define MS_CLAIMED                                                                         \
  "j.id, j.token, j.attempt, j.max_attempts, j.priority, j.run_at, j.timeout, j.flags, "   \
  "j.schedule, j.queue, j.kind, j.args, j.headers, j.tags, j.correlation_id, j.reply_to, " \
  "j.session, CASE WHEN j.flags & 64 <> 0 THEN (SELECT x.state FROM $schema.sessions x "   \
  "WHERE x.queue = j.queue AND x.key = j.session) END AS session_state"

// Bytes of a job k that count against kPageBytes, and that limit: a claim returns jobs until they
// reach it.
#define MS_CLAIMED_BYTES "octet_length(k.args) + coalesce(octet_length(k.headers), 0)"
#define MS_PAGE_BYTES "8388608"

// The same columns without a job, and their number.
#define MS_NO_CLAIMED                                                                          \
  "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, " \
  "NULL, "                                                                                     \
  "NULL, NULL"

namespace mainspring::pg {
inline constexpr int kClaimedColumns = 18;
}
