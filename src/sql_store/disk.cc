// Statements over any disk.
#include "sql_store/disk.h"

#include <fmt/format.h>

namespace mainspring::sql {

Error to_error(const DiskError& error) {
  return Error{
      .code = error.fault == DiskFault::full ? ErrorCode::storage_full : ErrorCode::io_error,
      .message = error.message};
}

std::int64_t Connection::query_int(const Query& query) {
  Statement statement(*this, query);
  return statement.bind().step() ? statement.integer(0) : 0;
}

Statement::Statement(Connection& connection, const Query& query)
    : cursor_(connection.prepare(query)) {}

void Statement::fail_unknown(int column, std::int64_t value) const {
  throw damaged(fmt::format("the store is damaged: {} has the unknown value {}",
                            cursor_->column_name(column), value));
}

Snapshot::~Snapshot() {
  try {
    connection_.roll_back();
  } catch (const DiskError&) {
    // The connection is lost, and its snapshot with it.
  }
}

}  // namespace mainspring::sql
