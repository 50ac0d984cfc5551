// SqliteDisk: the files of a store, its space, and connections to its database.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "disk_sqlite/database.h"
#include "disk_sqlite/guard.h"
#include "disk_sqlite/space.h"
#include "disk_sqlite/sqlite_store.h"

namespace mainspring::sqlite {

class SqliteDisk final : public Disk {
 public:
  // `guard` = nullptr: no files beside the database (simulated disks, reads from outside).
  SqliteDisk(SqliteOptions options, std::unique_ptr<FileGuard> guard, Log& log);

  // Opens the database for writing and applies missing migrations. Before it, only reader(),
  // check_pages() and backup() may be called. Throws DiskError, or Error: conflict (see
  // open_sqlite_store).
  void open();

  std::string place() const override { return options_.directory; }
  Connection& writer() override { return *db_; }
  std::unique_ptr<Connection> reader() const override;
  void commit() override;
  bool refuses_new_jobs(Instant now) override;
  bool find_space() override;
  std::string shortage() const override { return space_.shortage(); }
  void with_reserve(const std::function<void()>& write) override { space_.with_reserve(write); }
  void check_pages(Connection& reader, std::vector<std::string>& problems) const override;
  Result<void> backup(const std::string& directory) const override;

  // Call once the store is open: without space for the reserve, new jobs are refused.
  void take_reserve();

 private:
  const SqliteOptions options_;
  const std::string path_;
  const std::unique_ptr<FileGuard> guard_;
  Space space_;
  std::optional<Database> db_;  // of the writer
};

}  // namespace mainspring::sqlite
