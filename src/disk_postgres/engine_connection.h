// One connection of the engine to PostgreSQL, libpq in pipeline mode.
//
// A statement without rows is not awaited. Consecutive executions of one are gathered and sent as
// one statement over arrays, before another statement touches their table. commit() waits once. If
// a statement fails, a later step(), changes() or commit() throws.
//
// The leader's connection owns the term that it raised. Each of its transactions inserts a row
// into `commits`, which fails if another leader has raised the term since.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "disk_postgres/query_text.h"
#include "sql_store/disk.h"
#include "store_postgres/connection.h"

namespace mainspring::pg {

struct EngineConnectionOptions {
  ConnectionOptions connection;
  std::string schema;
  std::atomic<std::int64_t>* round_trips = nullptr;  // counts the waits for the server (tests)
};

class EngineConnection : public sql::Connection {
 public:
  enum class Role { leader, reader };
  // Connects. The leader raises the term. Throws sql::DiskError.
  EngineConnection(EngineConnectionOptions options, Role role, const Clock& clock);
  ~EngineConnection() override;

  std::unique_ptr<sql::Cursor> prepare(const sql::Query& query) override;
  void begin(sql::Access access) override;
  void commit() override;
  void roll_back() override;
  bool changed_elsewhere() override { return false; }

  std::int64_t term() const { return term_; }

 private:
  friend class EngineCursor;

  // One statement on this connection.
  struct Prepared {
    explicit Prepared(std::string_view sql) : text(sql), statement("", text.sql) {}
    QueryText text;
    Statement statement;
    std::vector<Oid> types;             // of its parameters
    std::unique_ptr<Statement> arrays;  // for gathered executions
    bool known = false;                 // `types` is
    bool counted = false;               // changes() is asked for: never gathered again
    // Gathered executions, by parameter.
    struct Column {
      std::string elements;  // with their lengths
      std::size_t last = 0;  // where the last one begins
      bool nulls = false, values = false;
    };
    std::vector<Column> columns;
    std::uint32_t rows = 0;
    std::unordered_set<std::string> keys;
  };
  struct Row {  // the parameters of one execution, encoded
    std::string bytes;
    std::vector<int> lengths;  // -1 = NULL
  };

  Prepared& prepared(std::string_view text);
  void describe(Prepared& statement);
  void connect();
  // Queues it, or keeps it while the transaction may still need no BEGIN.
  void post(const Statement& statement, Params params = {});
  void open_transaction();
  void send_unsent();
  // Executions without rows.
  void run(Prepared& statement, const Row& row);
  void gather(Prepared& statement, const Row& row);
  void send(Prepared& statement, const Row& row);
  void send_gathered(Prepared& statement);
  void send_gathered_of(Tables tables);
  std::int64_t changes(Prepared& statement);
  Rows read(Prepared& statement, const Row& row);
  Rows await_last();
  void count_round_trip();
  void drop_gathered(Prepared& statement);
  void compact();
  void find_out(const PgError& error);

  const Clock& clock_;
  EngineConnectionOptions options_;
  const Role role_;
  std::unique_ptr<pg::Connection> connection_;
  std::map<std::string, std::unique_ptr<Prepared>, std::less<>> statements_;
  std::vector<Prepared*> gathering_;  // with rows, in the order of their first one
  std::vector<std::pair<const Statement*, Params>> unsent_;
  sql::Access access_ = sql::Access::read;
  bool in_transaction_ = false;
  bool begun_ = false;  // BEGIN was sent, or all of it
  std::int64_t term_ = 0;
  std::int64_t seq_ = 0;        // of the last commit
  std::int64_t compacted_ = 0;  // seq of the last compact()
  std::int64_t last_changes_ = 0;
};

}  // namespace mainspring::pg
