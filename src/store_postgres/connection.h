// Connection: libpq with RAII, binary parameters and results, a deadline for each round trip, and
// errors as one exception type that never leaves this module.
//
// A connection uses libpq's pipeline mode: queue() sends a statement without waiting, next()
// returns the oldest answer not yet taken. So a transaction of several statements costs one round
// trip if no statement depends on the answer of another.
//
// Threads: one at a time. After an error with `lost` the connection is closed: open another one.
#pragma once

#include <libpq-fe.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"
#include "env/clock.h"
#include "mainspring/result.h"

namespace mainspring::pg {

// Thrown by all functions here; caught where the module's functions return a Result.
struct PgError {
  std::string sqlstate;  // of the server; "" = connection error
  std::string message;
  bool lost = false;  // the connection is unusable
  // Whether this is a serialization failure, deadlock, lock timeout or statement timeout: the
  // transaction was rolled back and may be retried.
  bool passing() const;
  // The server no longer accepts writes, for example after a failover of its address. The
  // transaction was rolled back; another connection may succeed.
  bool read_only() const { return sqlstate == "25006"; }
  bool is(std::string_view state) const { return sqlstate == state; }
};

// One statement. `$schema.` in the text is replaced by the schema. Created once per store and used
// on every connection; prepared at its first use on each.
struct Statement {
  Statement(std::string_view schema, std::string_view sql);
  std::string sql;
  int number;  // of its prepared name
};

using Ints = std::vector<std::int64_t>;
using OptInts = std::vector<std::optional<std::int64_t>>;
using Reals = std::vector<std::optional<double>>;
using Texts =
    std::vector<std::optional<std::string_view>>;  // must live until the statement is sent

// Encodes text for a column of type text: the server refuses zero bytes and invalid UTF-8, which
// callers may pass. Such text is sent as 0x01 and its bytes in hexadecimal; Rows decodes it.
std::string storable(std::string_view text);
// True if the text needs no encoding.
bool is_storable(std::string_view text);

// "" as NULL.
inline std::optional<std::string_view> text_or_null(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional<std::string_view>(text);
}

// The parameters of one execution, in order, in the server's binary format: bigint, float8, bool,
// text, bytea, and arrays of bigint, float8 and text. Cast in the SQL if a column is smaller.
class Params {
 public:
  Params& add(std::int64_t v);
  Params& add(int v) { return add(static_cast<std::int64_t>(v)); }
  Params& add(bool v);
  Params& add(std::string_view v);
  Params& add(const std::string& v) { return add(std::string_view(v)); }
  Params& add(const char* v) { return add(std::string_view(v)); }
  Params& bytes(std::string_view v);  // bytea
  // A value of any type, as the server's binary format has it.
  Params& raw(Oid type, std::string_view v);
  Params& add(const Ints& v);
  Params& add(const OptInts& v);
  Params& add(const Reals& v);
  Params& add(const Texts& v);
  Params& add(const std::vector<std::string>& v);
  Params& add(const std::optional<std::int64_t>& v) { return v ? add(*v) : null(kInt8); }
  Params& add(const std::optional<std::string_view>& v) { return v ? add(*v) : null(kText); }
  Params& add(const std::optional<Ints>& v) { return v ? add(*v) : null(kInt8Array); }
  // A column of rows_text(): one value or none, if that is sufficient.
  Params& column(const Ints& v);
  Params& column(const Texts& v);
  // "" becomes NULL.
  Params& text_or_null(std::string_view v) { return v.empty() ? null(kText) : add(v); }

  static constexpr Oid kBool = 16, kBytea = 17, kInt8 = 20, kText = 25, kFloat8 = 701,
                       kTextArray = 1009, kInt8Array = 1016, kFloat8Array = 1022;

  Params& null(Oid type);

 private:
  friend class Connection;
  void begin(Oid type);
  void append_text(std::string_view text);
  void end();
  std::string bytes_;  // of all parameters
  std::vector<Oid> types_;
  std::vector<std::size_t> begins_;
  std::vector<int> lengths_;  // -1 = NULL
};
template <class... Args>
Params params(Args&&... args) {
  Params all;
  (all.add(std::forward<Args>(args)), ...);
  return all;
}

// The answer of one statement.
class Rows {
 public:
  Rows() = default;
  explicit Rows(PGresult* result) : result_(result, &PQclear) {}
  int size() const { return result_ ? PQntuples(result_.get()) : 0; }
  bool empty() const { return size() == 0; }
  PGresult* get() const { return result_.get(); }
  std::int64_t affected() const;
  bool is_null(int row, int column) const { return PQgetisnull(result_.get(), row, column) != 0; }
  // bigint, integer, smallint and bool, by the received length. NULL is 0.
  std::int64_t integer(int row, int column) const;
  std::optional<std::int64_t> maybe(int row, int column) const;
  double real(int row, int column) const;  // float8
  // Text as given to Params; for bytea the bytes. NULL is "".
  std::string text(int row, int column) const;
  std::string string(int row, int column) const { return text(row, column); }
  std::vector<std::int64_t> ints(int row, int column) const;  // of bigint[]
  std::vector<std::string> texts(int row, int column) const;  // of text[]; NULLs are ""

 private:
  std::string_view bytes(int row, int column) const {
    return {PQgetvalue(result_.get(), row, column),
            static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
  }
  std::unique_ptr<PGresult, void (*)(PGresult*)> result_{nullptr, &PQclear};
};

struct ConnectionOptions {
  Secret url;
  Duration connect_timeout{0};
  Duration timeout{0};  // of each wait for an answer
  bool prepared = true;
  bool writable = true;  // refuse a read-only server
  std::string name;      // application_name
};

class Connection {
 public:
  // Throws PgError. Waits at most connect_timeout per host; several hosts in parallel.
  Connection(const ConnectionOptions& options, const Clock& clock);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Sends without waiting. Throws if the connection is lost.
  void queue(const Statement& statement, const Params& params = {});
  // The answer of the oldest queued statement. If it failed, all later queued statements are
  // dropped too; the caller must end the transaction.
  Rows next();
  Rows run(const Statement& statement, const Params& params = {}) {
    queue(statement, params);
    return next();
  }
  // The types that the server gives to the parameters of a statement. Waits for the answers of all
  // queued statements.
  std::vector<Oid> describe(const Statement& statement);
  // Waits for the answers of all queued statements, and for the end of their transaction. Without
  // BEGIN, the statements queued since the last answer are one transaction, and this commits it.
  // Throws if any statement or the commit failed.
  void finish();
  std::size_t pending() const { return pending_; }
  bool is_open() const { return connection_ != nullptr; }
  // Drops pending answers and errors.
  void forget();
  // Text without parameters, possibly several statements; not in the pipeline. For migrations. No
  // statement may be pending.
  void execute(const std::string& sql);
  // A round trip without a transaction. Throws if there is no answer in time.
  void ping();
  // To wait for notifications.
  PGconn* handle() { return connection_; }
  int server_version() const { return PQserverVersion(connection_); }

 private:
  [[noreturn]] void lose(std::string_view what);
  [[noreturn]] void fail(const PGresult* result);
  void send_all(Instant deadline);
  void wait(bool for_reading, Instant deadline);
  void sync(Instant deadline);
  PGresult* take(Instant deadline);
  PGresult* take_answer(Instant deadline);
  void drain(Instant deadline);

  const Clock& clock_;
  ConnectionOptions options_;
  PGconn* connection_ = nullptr;
  std::vector<bool> prepared_;  // by the statement's number
  std::deque<bool> preparing_;  // one per pending statement: an answer of PREPARE comes first
  std::size_t pending_ = 0;
  bool flushed_ = true;  // a sync follows the last queued statement
  int syncs_ = 0;        // syncs without an answer
  int generation_ = 0;   // of prepared names
};

// The error for a caller. `unavailable` for errors that may be retried.
Error to_error(const PgError& error);

}  // namespace mainspring::pg
