// The seam between the engine and the database below it: named statements, one durable commit per
// batch, and snapshots for readers. It knows no SQLite and no libpq.
//
// Threads: a connection and its cursors are used by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring::sql {

// A statement of sql/queries/, by name. Its parameters are `?` in order, or `?1`, `?2`, … .
struct Query {
  // Not explicit: programs for one database have statements of their own.
  constexpr Query(const char* text_) : text(text_) {}
  constexpr Query(const char* name_, const char* text_, const char* postgres_)
      : name(name_), text(text_), postgres(postgres_) {}
  const char* name = "";           // "jobs.insert_job"; "" = none
  const char* text;                // for SQLite
  const char* postgres = nullptr;  // its form for PostgreSQL; nullptr = `text`
};

// What is thrown by everything here, and caught where the functions of the store return a Result.
enum class DiskFault {
  failed,       // the outcome is unknown, or the disk cannot be trusted
  full,         // no space; nothing was written
  busy,         // another program holds its lock; nothing was written
  interrupted,  // by another thread; nothing was written
  damaged,      // what it has breaks a rule
};
struct DiskError {
  DiskFault fault = DiskFault::failed;
  std::string message;   // for users: the place, the problem, what to do
  std::string detail{};  // for the log: the statement and the database's message
};
inline DiskError damaged(std::string message) {
  return {DiskFault::damaged, std::move(message)};
}
Error to_error(const DiskError& error);

// A parameter. Text is not copied: it must live until the statement was run or is reset.
struct Value {
  enum class Type : std::uint8_t { null, integer, real, text, bytes };
  Value() : type(Type::null), integer(0) {}
  explicit Value(std::int64_t v) : type(Type::integer), integer(v) {}
  explicit Value(double v) : type(Type::real), real(v) {}
  Value(Type text_or_bytes, std::string_view v)
      : type(text_or_bytes), size(static_cast<std::uint32_t>(v.size())), data(v.data()) {}
  std::string_view text() const { return {data, size}; }

  Type type;
  std::uint32_t size = 0;  // of text and bytes, which are less than 4 GiB
  union {
    std::int64_t integer;
    double real;
    const char* data;
  };
};

// A prepared statement of one connection.
class Cursor {
 public:
  virtual ~Cursor() = default;
  // Ends an earlier use and sets all parameters.
  virtual void start(std::span<const Value> values) = 0;
  // Moves to the next row; false: there is none. A statement without rows is run, or queued until
  // the commit or the next statement with rows.
  virtual bool step() = 0;
  // Ends the use: no read stays open.
  virtual void reset() = 0;
  // Rows that the last run changed.
  virtual std::int64_t changes() = 0;
  // Columns of the row, from 0. NULL is 0 and "".
  virtual std::int64_t integer(int column) const = 0;
  virtual double real(int column) const = 0;
  virtual bool is_null(int column) const = 0;
  virtual std::string_view text(int column) const = 0;  // until the next step or reset
  virtual std::string column_name(int column) const = 0;
};

enum class Access { read, write };

// All its cursors must be gone before a connection is.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual std::unique_ptr<Cursor> prepare(const Query& query) = 0;
  // read: a snapshot, until roll_back().
  virtual void begin(Access access) = 0;
  // When it returns, what was written since begin() survives a crash.
  virtual void commit() = 0;
  // No effect outside a transaction.
  virtual void roll_back() = 0;
  // Whether another process has written since the last call. Cheap within a transaction.
  virtual bool changed_elsewhere() = 0;

  // The first column of the first row; 0 = no row.
  std::int64_t query_int(const Query& query);
};

// The opened database of one store.
class Disk {
 public:
  virtual ~Disk() = default;
  // For messages: the directory, or the database. Any thread.
  virtual std::string place() const = 0;
  virtual Connection& writer() = 0;
  // A new connection that sees committed data only. Any thread.
  virtual std::unique_ptr<Connection> reader() const = 0;
  // Commits what the writer wrote. Throws if that would not reach a later start.
  virtual void commit() = 0;

  // Called before each batch: whether new jobs are refused for lack of space.
  virtual bool refuses_new_jobs(Instant now) = 0;
  // After DiskFault::full: frees space for a batch without new jobs. False: another try is useless.
  virtual bool find_space() = 0;
  // Why new jobs are refused, and until when; "" = they are not. Any thread.
  virtual std::string shortage() const = 0;
  // Runs a write that the opening of a store depends on, also when there is little space.
  virtual void with_reserve(const std::function<void()>& write) = 0;

  // Adds what is wrong below the rows. Any thread, with a connection of reader().
  virtual void check_pages(Connection& reader, std::vector<std::string>& problems) const = 0;
  // Writes a copy to a new directory. Any thread. Errors: see Store::backup.
  virtual Result<void> backup(const std::string& directory) const = 0;
};

// A prepared statement, created once and used many times: bind(), then step() until it returns
// false, then reset() before the next use (run() does all of it for a statement without rows).
class Statement {
 public:
  Statement(Connection& connection, const Query& query);

  template <class... Args>
  Statement& bind(const Args&... args) {
    if constexpr (sizeof...(Args) == 0) {
      cursor_->start({});
    } else {
      const Value values[] = {value_of(args)...};
      cursor_->start(values);
    }
    return *this;
  }
  bool step() { return cursor_->step(); }
  void run() {
    while (step()) {
    }
    reset();
  }
  // The first column of the only row of INSERT … RETURNING id.
  std::int64_t run_returning() {
    const std::int64_t id = step() ? integer(0) : 0;
    reset();
    return id;
  }
  void reset() { cursor_->reset(); }
  std::int64_t changes() { return cursor_->changes(); }

  std::int64_t integer(int column) const { return cursor_->integer(column); }
  // A value of an enumeration that ends with `last`; throws for other values, as on a damaged disk.
  template <class Enum>
  Enum one_of(int column, Enum last) const {
    const std::int64_t value = integer(column);
    if (value < 0 || value > static_cast<std::int64_t>(last)) fail_unknown(column, value);
    return static_cast<Enum>(value);
  }
  double real(int column) const { return cursor_->real(column); }
  bool is_null(int column) const { return cursor_->is_null(column); }
  // Valid until the next step or reset. NULL is "".
  std::string_view text(int column) const { return cursor_->text(column); }

  static Value blob(std::string_view bytes) { return {Value::Type::bytes, bytes}; }
  // "" becomes NULL.
  static std::optional<std::string_view> text_or_null(std::string_view v) {
    return v.empty() ? std::nullopt : std::optional<std::string_view>(v);
  }

 private:
  static Value value_of(const Value& v) { return v; }
  static Value value_of(std::nullptr_t) { return {}; }
  static Value value_of(std::int64_t v) { return Value(v); }
  static Value value_of(int v) { return Value(std::int64_t{v}); }
  static Value value_of(double v) { return Value(v); }
  static Value value_of(std::string_view v) { return {Value::Type::text, v}; }
  template <class T>
  static Value value_of(const std::optional<T>& v) {
    return v ? value_of(*v) : Value();
  }
  [[noreturn]] void fail_unknown(int column, std::int64_t value) const;

  std::unique_ptr<Cursor> cursor_;
};

// Resets a statement at the end of the scope, so that no read stays open.
class ResetGuard {
 public:
  explicit ResetGuard(Statement& s) : statement_(s) {}
  ~ResetGuard() { statement_.reset(); }
  ResetGuard(const ResetGuard&) = delete;
  ResetGuard& operator=(const ResetGuard&) = delete;

 private:
  Statement& statement_;
};

// A read transaction, so that several statements see the same state.
class Snapshot {
 public:
  explicit Snapshot(Connection& connection) : connection_(connection) {
    connection_.begin(Access::read);
  }
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

 private:
  Connection& connection_;
};

}  // namespace mainspring::sql
