// StoreSize: what a store takes on disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mainspring {

struct StoreSize {
  std::string kind;                          // "sqlite", "postgresql"
  std::int64_t schema = 0;                   // its version
  std::int64_t bytes = 0;                    // tables and indexes, free pages included
  std::optional<std::int64_t> wal_bytes{};   // of the write-ahead log
  std::optional<std::int64_t> free_bytes{};  // of `bytes`: free pages, which are used first
  std::string directory{};                   // "" = it is a database server's
};

}  // namespace mainspring
