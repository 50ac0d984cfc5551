// Bulk operations in a store: dry runs, and reading them back from their jobs.
#pragma once

#include <vector>

#include "mainspring/search.h"
#include "store/store.h"

namespace mainspring {

// A dry run stops at the first of these: then its count is not exact.
inline constexpr std::int64_t kMaxBulkCounted = 100'000, kMaxBulkExamined = 2'000'000;
inline constexpr int kMaxBulkPages = 200;
inline constexpr int kMaxBulks = 100;  // in a list

// Jobs of the engine's own queues are never changed, unless the filter names the queue.
bool is_for_bulk(const JobFilter& filter, const Job& job);
// Errors: those of validate() and of the reads.
Result<BulkCount> count_bulk(const Store& store, const BulkOrder& order, WallTime now);
// The newest kMaxBulks that are kept.
Result<std::vector<BulkInfo>> list_bulks(const Store& store);
// Errors: not_found, expired.
Result<BulkInfo> get_bulk(const Store& store, JobId id);

}  // namespace mainspring
