// Bulk operations as JSON: requests, the args and the checkpoint of the job that does one, and
// answers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mainspring/search.h"
#include "store/operations.h"

namespace mainspring {

struct BulkRequest {
  BulkOrder order;
  bool dry_run = false;
};
// {"action", "filter", "priority"?, "reason"?, "rate"?, "canary"?, "dry_run"?}. Validated. Errors:
// invalid_argument, with the field.
Result<BulkRequest> decode_bulk_request(std::string_view body);
void encode_bulk_request(const BulkRequest& request, std::string& out);
Result<void> validate(const BulkOrder& order);

// The args of the job.
struct BulkArgs {
  BulkOrder order;
  std::string by;
  WallTime at;  // relative times of the search are measured from here
};
Result<BulkArgs> decode_bulk_args(std::string_view json);
NewJob bulk_job(const BulkArgs& args);

// Progress: the job's checkpoint, and its result when it is done.
struct BulkProgress {
  std::optional<std::int64_t> matched{};  // nullopt = still counting
  std::int64_t counted = 0;               // so far
  JobId before = 0;                       // where it continues, to count or to change
  std::int64_t changed = 0, skipped = 0, failed = 0;
  bool canary_over = false;
  std::string error{};
};
std::string encode_bulk_progress(const BulkProgress& progress);
Result<BulkProgress> decode_bulk_progress(std::string_view json);

// The jobs that it may change: those of the search in a state for its action. Errors:
// invalid_argument, with the field; also if no state of the search suits the action.
Result<JobFilter> bulk_filter_of(const BulkOrder& order, WallTime now);

// Errors: not_found (the job is no bulk operation).
Result<BulkInfo> bulk_info_of(const Job& job);

void encode_bulk_count(const BulkCount& count, std::string& out);
Result<BulkCount> decode_bulk_count(std::string_view body);
void encode_bulk_info(const BulkInfo& info, std::string& out);
Result<BulkInfo> decode_bulk_info(std::string_view body);
void encode_bulk_list(const std::vector<BulkInfo>& bulks, std::string& out);
Result<std::vector<BulkInfo>> decode_bulk_list(std::string_view body);

std::vector<std::string_view> bulk_request_fields(std::string_view schema);

}  // namespace mainspring
