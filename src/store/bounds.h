// What every store counts against kPageBytes, and how every store scopes idempotency keys.
#pragma once

#include <cstddef>
#include <string>

#include "store/operations.h"

namespace mainspring {

// Of its payloads. The rest is bounded by the number of jobs.
std::size_t listed_bytes(const Job& job);
std::size_t claimed_bytes(const ClaimedJob& job);

// The name under which a store keeps an idempotency key: its queue, a line feed, the key. Requests
// for other queues never meet it. Of several queues: a digest of their names instead of the queue,
// which is no name of a queue.
std::string scoped_idempotency_key(const Enqueue& request);

}  // namespace mainspring
