// PgBouncer: a private connection pooler in front of a PgCluster, in transaction mode.
#pragma once

#include <memory>
#include <string>

#include "postgres/cluster.h"

namespace mainspring::pg_testing {

class PgBouncer {
 public:
  // Creates and starts one, with at most `pool` connections to the server. Errors: unavailable,
  // internal; not_found (pgbouncer is not installed).
  static Result<std::unique_ptr<PgBouncer>> make(const PgCluster& cluster, int pool = 10);
  ~PgBouncer();
  PgBouncer(const PgBouncer&) = delete;
  PgBouncer& operator=(const PgBouncer&) = delete;

  std::string url(const std::string& database) const;
  Result<void> start();
  void kill9() { server_.kill(); }
  std::string log() const { return server_.log(); }

 private:
  PgBouncer() = default;
  std::string directory_;
  ServerProcess server_;
};

}  // namespace mainspring::pg_testing
