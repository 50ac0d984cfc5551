// Shared by source and target of a copy: errors as results, the location of a store, its marks.
#pragma once

#include <optional>
#include <string>

#include "disk_sqlite/database.h"
#include "sql_store/store_impl.h"
#include "store/transfer.h"

namespace mainspring::sqlite {

// The database file of a directory.
std::string database_of(const std::string& directory);
// The path without links and dots, as far as it exists.
std::string whole_path(const std::string& directory);

using sql::read_move;
void write_move(Database& db, const char* what, const TransferPlace& other, WallTime at);
// Throws Error `conflict` unless the schema version is this program's.
void check_schema(Database& db, const std::string& directory);

Error transfer_error(const DiskError& error);

// Runs `act` and returns what it throws as an error.
template <class Act>
auto guarded(Act act) -> decltype(act()) {
  try {
    return act();
  } catch (const DiskError& error) {
    return transfer_error(error);
  } catch (const Error& error) {
    return error;
  }
}

// A transaction that is rolled back unless it was committed.
class Writing {
 public:
  explicit Writing(Database& db) : db_(db) { db_.execute("BEGIN IMMEDIATE"); }
  ~Writing() {
    if (!done_) sqlite3_exec(db_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  void commit() {
    db_.execute("COMMIT");
    done_ = true;
  }

 private:
  Database& db_;
  bool done_ = false;
};

// NULL becomes nullopt.
inline std::optional<std::int64_t> maybe(const Statement& row, int column) {
  return row.is_null(column) ? std::nullopt : std::optional(row.integer(column));
}
inline std::optional<std::string> maybe_text(const Statement& row, int column) {
  return row.is_null(column) ? std::nullopt : std::optional(std::string(row.text(column)));
}
inline std::optional<std::string_view> view_of(const std::optional<std::string>& text) {
  return text ? std::optional<std::string_view>(*text) : std::nullopt;
}
// Throws unless `bytes` are 32 bytes.
Digest digest_of(std::string_view bytes);
std::string ids_to_blob(const std::vector<JobId>& ids);
std::vector<JobId> ids_of_blob(std::string_view blob);
// 0 becomes NULL.
inline std::optional<std::int64_t> unless_zero(std::int64_t value) {
  return value == 0 ? std::nullopt : std::optional(value);
}

}  // namespace mainspring::sqlite
