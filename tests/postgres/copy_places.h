// Stores of both kinds for tests of copies: a directory or a schema, as an end of a copy and
// opened.
#pragma once

#include <memory>
#include <string>

#include "engine/copy_store.h"
#include "store/store.h"
#include "store_postgres/postgres_store.h"

namespace mainspring::pg_testing {

enum class PlaceKind : bool { directory, schema };

// An unused place.
class CopyPlace {
 public:
  // `options`: those of the later open; a copy uses their retention times.
  explicit CopyPlace(PlaceKind kind, const StoreOptions& options = {});
  ~CopyPlace();
  CopyPlace(const CopyPlace&) = delete;
  CopyPlace& operator=(const CopyPlace&) = delete;

  PlaceKind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  Result<std::unique_ptr<Store>> open(Now now, const StoreOptions& options = {},
                                      IfMoved if_moved = IfMoved::refuse) const;
  Result<std::unique_ptr<TransferSource>> source(SourceGoesOn goes_on = SourceGoesOn::no) const;
  Result<std::unique_ptr<TransferTarget>> target() const;
  // Runs one statement: `sqlite` in a directory, `postgres` with $schema in a schema.
  void change(const std::string& sqlite, const std::string& postgres) const;
  std::int64_t ask(const std::string& sqlite, const std::string& postgres) const;

 private:
  const PlaceKind kind_;
  std::string name_;  // the directory or the schema
  PostgresOptions postgres_;
};

// Opens both ends and copies.
Result<CopyReport> copy_between(const CopyPlace& from, const CopyPlace& to, const Clock& clock,
                                CopyOptions options = {});
// The same; it must succeed and be sound at both ends.
CopyReport must_copy(const CopyPlace& from, const CopyPlace& to, const Clock& clock,
                     CopyOptions options = {});

// A clock that does not advance.
class StandingClock final : public Clock {
 public:
  explicit StandingClock(Now now) : now_(now) {}
  Now now() const override { return now_; }

 private:
  Now now_;
};

}  // namespace mainspring::pg_testing
