// Bulk operations of an engine: one change for all jobs that match a search.
//
//   auto bulk = engine.bulk();
//   auto count = bulk.count({.action = BulkAction::cancel, .filter = {.q = "tag:import"}});
//   auto started = bulk.start({.action = BulkAction::cancel, .filter = {.q = "tag:import"}});
//
// A bulk operation is a job of the queue "mainspring.redrives". It survives restarts. Guide:
// docs/guides/search.md.
#pragma once

#include <vector>

#include "mainspring/search.h"

namespace mainspring {

class Questions;

// Borrows the engine, which must outlive it. Thread-safe. Errors of all calls: invalid_argument
// (with the field), unavailable.
class EngineBulk {
 public:
  explicit EngineBulk(Questions& questions) : questions_(&questions) {}

  // What start() would change now. Changes nothing.
  Result<BulkCount> count(const BulkOrder& order);
  // Durable when it returns. Errors also: overloaded, storage_full.
  Result<BulkInfo> start(const BulkOrder& order);
  // Newest first, at most 100.
  Result<std::vector<BulkInfo>> list();
  // Errors of these: not_found, expired.
  Result<BulkInfo> get(JobId id);
  // Changes made so far stay. Errors also: conflict (it has ended).
  Result<BulkInfo> stop(JobId id);
  // Continues after the canary. Errors also: conflict (it is not paused).
  Result<BulkInfo> proceed(JobId id);

 private:
  Questions* questions_;
};

}  // namespace mainspring
