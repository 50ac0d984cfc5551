// Places of both kinds, the schemas on the test program's server.
#include "postgres/copy_places.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>

#include "disk_sqlite/database.h"
#include "disk_sqlite/sqlite_store.h"
#include "disk_sqlite/transfer.h"
#include "postgres/places.h"
#include "store_postgres/transfer.h"

namespace mainspring::pg_testing {
namespace {

NullLog& no_log() {
  static NullLog log;
  return log;
}

std::string with_schema(std::string text, const std::string& schema) {
  constexpr std::string_view kName = "$schema";
  for (std::size_t at = 0; (at = text.find(kName, at)) != std::string::npos;)
    text.replace(at, kName.size(), schema);
  return text;
}

}  // namespace

CopyPlace::CopyPlace(PlaceKind kind, const StoreOptions& options) : kind_(kind) {
  if (kind_ == PlaceKind::schema) {
    postgres_ = new_place();
    postgres_.store = options;
    name_ = postgres_.schema;
    return;
  }
  std::string path = "/tmp/mainspring_copy_XXXXXX";
  if (mkdtemp(path.data()) == nullptr) fail_test("no temporary directory");
  name_ = path;
}

CopyPlace::~CopyPlace() {
  if (kind_ == PlaceKind::directory) std::filesystem::remove_all(name_);
}

Result<std::unique_ptr<Store>> CopyPlace::open(Now now, const StoreOptions& options,
                                               IfMoved if_moved) const {
  if (kind_ == PlaceKind::directory) {
    SqliteOptions o{.directory = name_, .store = options, .reserve_bytes = 0};
    o.if_moved = if_moved;
    o.packed_workflows = pg_testing::packs_workflows();
    return open_sqlite_store(std::move(o), now, no_log());
  }
  PostgresOptions o = postgres_;
  o.store = options;
  o.if_moved = if_moved;
  MS_TRY_ASSIGN(auto opened, open_postgres_store(std::move(o), now, no_log()));
  return std::unique_ptr<Store>(std::move(opened));
}

Result<std::unique_ptr<TransferSource>> CopyPlace::source(SourceGoesOn goes_on) const {
  if (kind_ == PlaceKind::directory) return open_sqlite_source(name_, goes_on);
  return open_postgres_source(postgres_, "schema " + name_, goes_on);
}

Result<std::unique_ptr<TransferTarget>> CopyPlace::target() const {
  if (kind_ == PlaceKind::directory) return open_sqlite_target(name_);
  return open_postgres_target(postgres_, "schema " + name_);
}

void CopyPlace::change(const std::string& sqlite, const std::string& postgres) const {
  if (kind_ == PlaceKind::directory) {
    sqlite::Database db(name_ + "/mainspring.db", sqlite::Database::Mode::read_write, "");
    db.execute(sqlite.c_str());
  } else {
    must(the_cluster().sql(with_schema(postgres, name_), the_database()));
  }
}

std::int64_t CopyPlace::ask(const std::string& sqlite, const std::string& postgres) const {
  if (kind_ == PlaceKind::directory) {
    sqlite::Database db(name_ + "/mainspring.db", sqlite::Database::Mode::read_only, "");
    return db.query_int(sqlite.c_str());
  }
  const Rows rows = must(the_cluster().sql(with_schema(postgres, name_), the_database()));
  return rows.empty() || rows[0][0].empty() ? 0 : std::stoll(rows[0][0]);
}

Result<CopyReport> copy_between(const CopyPlace& from, const CopyPlace& to, const Clock& clock,
                                CopyOptions options) {
  MS_TRY_ASSIGN(const auto source, from.source(options.source));
  MS_TRY_ASSIGN(const auto target, to.target());
  return copy_store(*source, *target, options, clock);
}

CopyReport must_copy(const CopyPlace& from, const CopyPlace& to, const Clock& clock,
                     CopyOptions options) {
  CopyReport report = must(copy_between(from, to, clock, std::move(options)));
  if (!report.problems.empty()) fail_test("the copy is not sound: " + report.problems[0]);
  auto opened = from.open(clock.now(), {}, IfMoved::open);
  // A directory that the test itself has open.
  if (!opened && opened.error().message.find("is open in process") != std::string::npos)
    return report;
  const auto source = must(std::move(opened));
  const VerifyReport verified = must(source->verify());
  if (!verified.problems.empty()) fail_test("the source is not sound: " + verified.problems[0]);
  return report;
}

}  // namespace mainspring::pg_testing
