// Bulk operations of an engine, forwarded to the broker or the server.
#include "broker/questions.h"
#include "mainspring/bulk.h"

namespace mainspring {

Result<BulkCount> EngineBulk::count(const BulkOrder& order) {
  return questions_->count_bulk(order);
}

Result<BulkInfo> EngineBulk::start(const BulkOrder& order) {
  return questions_->start_bulk(order);
}

Result<std::vector<BulkInfo>> EngineBulk::list() {
  return questions_->bulks();
}

Result<BulkInfo> EngineBulk::get(JobId id) {
  return questions_->get_bulk(id);
}

Result<BulkInfo> EngineBulk::stop(JobId id) {
  return questions_->stop_bulk(id);
}

Result<BulkInfo> EngineBulk::proceed(JobId id) {
  return questions_->continue_bulk(id);
}

}  // namespace mainspring
