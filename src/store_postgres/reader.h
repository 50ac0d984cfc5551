// Reader: a connection for reads, and the use of the pool of readers.
//
//   return with_reader([&](Connection& c) { return read_job(c.run(read_sql_.get_job, params(id)));
//   });
//
// The lambda may run twice, so it must only read, and start from scratch each time.
#pragma once

#include <memory>
#include <utility>

#include "store_postgres/store_impl.h"

namespace mainspring::pg {

struct PostgresStore::Reader {
  Reader(const ConnectionOptions& options, const Clock& clock) : connection(options, clock) {}
  Connection connection;
};

// Several statements in one snapshot; its start costs no extra round trip.
class Snapshot {
 public:
  Snapshot(Connection& connection, const ReadStatements& sql) : connection_(connection), sql_(sql) {
    connection_.queue(sql_.begin_snapshot);
  }
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;
  Rows run(const Statement& statement, const Params& params = {}) {
    connection_.queue(statement, params);
    if (!started_) connection_.next();
    started_ = true;
    return connection_.next();
  }
  // If end() is not called, because of an exception, the connection is not reused.
  void end() {
    connection_.queue(sql_.end_snapshot);
    connection_.forget();
  }

 private:
  Connection& connection_;
  const ReadStatements& sql_;
  bool started_ = false;
};

template <class Read>
auto PostgresStore::with_reader(Read read) const
    -> Result<decltype(read(std::declval<Connection&>()))> {
  constexpr int kTries = 2;  // idle connections are often lost together
  reads_.fetch_add(1, std::memory_order_relaxed);
  for (int attempt = 1;; ++attempt) {
    std::unique_ptr<Reader> reader;
    try {
      reader = take_reader();
      auto answer = read(reader->connection);
      give_back(std::move(reader));
      return answer;
    } catch (const PgError& error) {
      const bool reached = reader != nullptr;  // if unreachable, do not try again
      if (reader != nullptr) drop_readers(std::move(reader));
      if (!error.lost || !reached || attempt == kTries) return to_error(error);
    } catch (...) {
      if (reader != nullptr) drop_readers(std::move(reader));
      throw;
    }
  }
}

}  // namespace mainspring::pg
