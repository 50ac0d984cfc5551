// Marks and paths of copied stores.
#include "disk_sqlite/transfer_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "disk_sqlite/migrations.h"
#include "queries_data.h"  // generated from sql/queries

namespace mainspring::sqlite {

std::string database_of(const std::string& directory) {
  return directory + "/mainspring.db";
}

std::string whole_path(const std::string& directory) {
  char* found = realpath(directory.c_str(), nullptr);
  if (found == nullptr) return directory;
  std::string path = found;
  std::free(found);
  return path;
}

void write_move(Database& db, const char* what, const TransferPlace& other, WallTime at) {
  Statement row(db, queries::transfer::put_moves);
  row.bind(std::string_view(what), other.store, other.place, at.us()).run();
}

void check_schema(Database& db, const std::string& directory) {
  const std::int64_t version = schema_of(db);
  if (version == newest_schema()) return;
  throw Error{.code = ErrorCode::conflict,
              .message = fmt::format(
                  "{}: schema {}: must be {}: run `mainspring store migrate --data {}` first",
                  directory, version, newest_schema(), directory)};
}

Error transfer_error(const DiskError& error) {
  if (error.fault != DiskFault::busy && error.fault != DiskFault::interrupted)
    return to_error(error);
  return {.code = ErrorCode::unavailable, .message = error.message, .retry_after_ms = 1000};
}

Digest digest_of(std::string_view bytes) {
  Digest digest{};
  if (bytes.size() != digest.size()) throw damaged("a hash is not 32 bytes long");
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

std::string ids_to_blob(const std::vector<JobId>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(JobId)};
}

std::vector<JobId> ids_of_blob(std::string_view blob) {
  std::vector<JobId> ids(blob.size() / sizeof(JobId));
  if (!ids.empty()) std::memcpy(ids.data(), blob.data(), ids.size() * sizeof(JobId));
  return ids;
}

}  // namespace mainspring::sqlite
