// The connection of a leader or a reader, its transactions, and its cursors.
#include "disk_postgres/engine_connection.h"

#include <endian.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/assert.h"
#include "base/mutex.h"

namespace mainspring::pg {
namespace {

constexpr Oid kBool = 16, kBytea = 17, kInt8 = 20, kInt2 = 21, kInt4 = 23, kText = 25,
              kFloat8 = 701;

constexpr std::size_t kMostGathered = 4 << 20;  // bytes of one parameter
constexpr std::int64_t kCompactAfter = 1000;    // commits
constexpr std::string_view kPlanSettings =
    // Generic plans by index: statistics of tables that were empty a moment ago would mislead.
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = "
    "off; "
    "SET enable_mergejoin = off; SET enable_bitmapscan = off; SET jit = off";

[[noreturn]] void fail(const PgError& error) {
  sql::DiskFault fault = sql::DiskFault::failed;
  if (error.is("53100")) fault = sql::DiskFault::full;
  if (error.lost || error.passing() || error.read_only()) fault = sql::DiskFault::busy;
  throw sql::DiskError{fault, "PostgreSQL: " + error.message.substr(0, error.message.find('\n')),
                       fmt::format("{} {}", error.sqlstate, error.message)};
}

sql::DiskError another_leads() {
  return {sql::DiskFault::failed, "PostgreSQL: another node has become the leader of this store"};
}

// Calls it; a PgError becomes a DiskError.
template <class Call>
auto guarded(Call call) {
  try {
    return call();
  } catch (const PgError& error) {
    fail(error);
  }
}

template <class T>
void append(std::string& out, T big_endian) {
  out.append(reinterpret_cast<const char*>(&big_endian), sizeof big_endian);
}
void append32(std::string& out, std::uint32_t v) {
  append(out, htobe32(v));
}

template <class T>
void check_range(std::int64_t value) {
  if (value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max()) return;
  throw sql::DiskError{sql::DiskFault::failed, fmt::format("{}: too large for its column", value),
                       ""};
}

void append_integer(std::string& out, std::int64_t v, Oid type) {
  switch (type) {
    case kBool:
      out.push_back(v != 0 ? 1 : 0);
      return;
    case kInt2:
      check_range<std::int16_t>(v);
      return append(out, htobe16(static_cast<std::uint16_t>(v)));
    case kInt4:
      check_range<std::int32_t>(v);
      return append32(out, static_cast<std::uint32_t>(v));
    case kFloat8:
      return append(out, htobe64(std::bit_cast<std::uint64_t>(static_cast<double>(v))));
    case kInt8:
      return append(out, htobe64(static_cast<std::uint64_t>(v)));
    default:
      out += fmt::format("{}", v);
  }
}

void append_value(std::string& out, const sql::Value& v, Oid type) {
  switch (v.type) {
    case sql::Value::Type::null:
      return;
    case sql::Value::Type::integer:
      return append_integer(out, v.integer, type);
    case sql::Value::Type::real:
      return append(out, htobe64(std::bit_cast<std::uint64_t>(v.real)));
    case sql::Value::Type::text:
    case sql::Value::Type::bytes:
      if (type == kText && !is_storable(v.text())) {
        out += storable(v.text());
      } else {
        out.append(v.text());
      }
  }
}

// The types of the parameters of each text. The schema is the same for all stores.
class KnownTypes {
 public:
  bool find(const std::string& sql, std::vector<Oid>& types) {
    const MutexLock lock(mutex_);
    const auto found = types_.find(sql);
    if (found != types_.end()) types = found->second;
    return found != types_.end();
  }
  void add(const std::string& sql, const std::vector<Oid>& types) {
    const MutexLock lock(mutex_);
    types_.emplace(sql, types);
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::vector<Oid>> types_ MS_GUARDED_BY(mutex_);
};

KnownTypes& known_types() {
  static KnownTypes types;
  return types;
}

Params params_of(const std::vector<Oid>& types, const std::string& bytes,
                 const std::vector<int>& lengths) {
  Params out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0) {
      out.null(types[i]);
      continue;
    }
    const auto length = static_cast<std::size_t>(lengths[i]);
    out.raw(types[i], std::string_view(bytes).substr(at, length));
    at += length;
  }
  return out;
}

// Statements of the disk itself.
const Statement kBegin("", "BEGIN");
const Statement kBeginSnapshot("", "BEGIN ISOLATION LEVEL REPEATABLE READ");
const Statement kCommit("", "COMMIT");
const Statement kRollBack("", "ROLLBACK");
// Fails to find the row if another leader has raised the term since ours. 0 = we had none.
const Statement kRaiseTerm(
    "", "UPDATE leader SET term = term + 1 WHERE term = $1 OR $1 = 0 RETURNING term");
const Statement kLastCommit("", "SELECT max(seq) FROM commits");
const Statement kFindCommit("", "SELECT 1 FROM commits WHERE seq = $1 AND term = $2");
// It fails if the term has passed, or if the commit before it is missing.
const Statement kFence(
    "",
    "INSERT INTO commits (seq, term) VALUES ($1, (SELECT l.term FROM leader l, commits c WHERE "
    "l.one AND l.term = $2 AND c.seq = $1 - 1 FOR SHARE OF l))");
// Copies the valid counters to the end of the log.
const Statement kCompact(
    "",
    "WITH moved AS (INSERT INTO job_counts_log (id, a, b, c, d, e, f, g, h, i, j, k) SELECT id, a, "
    "b, c, d, e, f, g, h, i, j, k FROM job_counts RETURNING n) UPDATE job_counts_start SET start = "
    "(SELECT min(n) FROM moved)");
const Statement kPruneCounters(
    "", "DELETE FROM job_counts_log WHERE n < (SELECT start FROM job_counts_start)");
const Statement kPruneCommits("", "DELETE FROM commits WHERE seq < $1");

}  // namespace

class EngineCursor : public sql::Cursor {
 public:
  EngineCursor(EngineConnection& disk, EngineConnection::Prepared& statement)
      : disk_(disk), statement_(statement) {}

  void start(std::span<const sql::Value> values) override {
    reset();
    guarded([&] { disk_.describe(statement_); });
    const auto& types = statement_.types;
    row_.bytes.clear();
    row_.lengths.clear();
    for (std::size_t i = 0; i < types.size(); ++i) {
      const std::size_t begin = row_.bytes.size();
      const bool null = i >= values.size() || values[i].type == sql::Value::Type::null;
      if (!null) append_value(row_.bytes, values[i], types[i]);
      row_.lengths.push_back(null ? -1 : static_cast<int>(row_.bytes.size() - begin));
    }
  }

  bool step() override {
    return guarded([&] {
      if (!statement_.text.reads) {
        if (!ran_) disk_.run(statement_, row_);
        ran_ = true;
        return false;
      }
      if (!ran_) {
        if (!statement_.known) start({});
        rows_ = disk_.read(statement_, row_);
      }
      ran_ = true;
      decoded_.clear();
      return ++at_ < rows_.size();
    });
  }

  void reset() override {
    ran_ = false;
    rows_ = Rows();
    at_ = -1;
    decoded_.clear();
  }

  std::int64_t changes() override {
    return guarded([&] { return disk_.changes(statement_); });
  }

  std::int64_t integer(int column) const override { return rows_.integer(at_, column); }
  double real(int column) const override { return rows_.real(at_, column); }
  bool is_null(int column) const override { return rows_.is_null(at_, column); }

  std::string_view text(int column) const override {
    if (rows_.is_null(at_, column)) return {};
    PGresult* result = rows_.get();
    const std::string_view raw(PQgetvalue(result, at_, column),
                               static_cast<std::size_t>(PQgetlength(result, at_, column)));
    if (raw.empty() || raw[0] != '\x01' || PQftype(result, column) != kText) return raw;
    auto& decoded = decoded_[column];
    if (decoded.empty()) decoded = rows_.text(at_, column);
    return decoded;
  }

  std::string column_name(int column) const override { return PQfname(rows_.get(), column); }

 private:
  EngineConnection& disk_;
  EngineConnection::Prepared& statement_;
  EngineConnection::Row row_;
  bool ran_ = false;
  Rows rows_;
  int at_ = -1;
  mutable std::map<int, std::string> decoded_;  // text that was encoded, of this row
};

// -- the connection -------------------------------------------------------------------------------

EngineConnection::EngineConnection(EngineConnectionOptions options, Role role, const Clock& clock)
    : clock_(clock), options_(std::move(options)), role_(role) {
  guarded([&] { connect(); });
}

EngineConnection::~EngineConnection() = default;

void EngineConnection::connect() {
  connection_ = std::make_unique<pg::Connection>(options_.connection, clock_);
  connection_->execute(fmt::format("SET search_path = \"{}\"; {}", options_.schema, kPlanSettings));
  if (role_ == Role::reader) return;
  const Rows raised = connection_->run(kRaiseTerm, params(term_));
  if (raised.empty()) throw another_leads();
  term_ = raised.integer(0, 0);
  seq_ = connection_->run(kLastCommit).integer(0, 0);
  compacted_ = seq_;
  connection_->finish();
}

std::unique_ptr<sql::Cursor> EngineConnection::prepare(const sql::Query& query) {
  return std::make_unique<EngineCursor>(
      *this, prepared(query.postgres == nullptr ? query.text : query.postgres));
}

EngineConnection::Prepared& EngineConnection::prepared(std::string_view text) {
  const auto found = statements_.find(text);
  if (found != statements_.end()) return *found->second;
  return *statements_.emplace(std::string(text), std::make_unique<Prepared>(text)).first->second;
}

void EngineConnection::describe(Prepared& statement) {
  if (statement.known) return;
  if (statement.text.parameters > 0 && !known_types().find(statement.text.sql, statement.types)) {
    open_transaction();
    count_round_trip();
    statement.types = connection_->describe(statement.statement);
    known_types().add(statement.text.sql, statement.types);
  }
  statement.known = true;
  const auto gathers = [](Oid type) { return array_of(type) != 0; };
  if (!statement.text.gathers ||
      !std::all_of(statement.types.begin(), statement.types.end(), gathers))
    return;
  statement.arrays = std::make_unique<Statement>("", statement.text.gathered(statement.types));
  statement.columns.resize(statement.types.size());
}

// -- transactions ---------------------------------------------------------------------------------

void EngineConnection::begin(sql::Access access) {
  MS_ASSERT(!in_transaction_, "transactions are not nested");
  access_ = access;
  in_transaction_ = true;
  begun_ = false;
}

void EngineConnection::post(const Statement& statement, Params params) {
  if (!in_transaction_ || begun_) {
    open_transaction();
    connection_->queue(statement, params);
    return;
  }
  unsent_.emplace_back(&statement, std::move(params));
}

// A connection that was lost within a transaction is not replaced before its end.
void EngineConnection::open_transaction() {
  if (begun_) return;
  if (connection_ == nullptr || !connection_->is_open()) connect();
  if (!in_transaction_) return;
  connection_->queue(access_ == sql::Access::write ? kBegin : kBeginSnapshot);
  begun_ = true;
  send_unsent();
}

void EngineConnection::send_unsent() {
  for (const auto& [statement, params] : unsent_) connection_->queue(*statement, params);
  unsent_.clear();
}

void EngineConnection::commit() {
  MS_ASSERT(in_transaction_, "a commit ends a transaction");
  guarded([&] {
    send_gathered_of(~Tables{0});
    if (!begun_ && unsent_.empty()) {
      in_transaction_ = false;
      return;
    }
    if (seq_ - compacted_ >= kCompactAfter) compact();
    if (!begun_) {
      // Without BEGIN, statements up to the end of a pipeline are one transaction.
      if (connection_ == nullptr || !connection_->is_open()) connect();
      send_unsent();
    }
    connection_->queue(kFence, params(seq_ + 1, term_));
    if (begun_) connection_->queue(kCommit);
    begun_ = true;  // for a failure
    count_round_trip();
    try {
      connection_->finish();
    } catch (const PgError& error) {
      find_out(error);
    }
    ++seq_;
    in_transaction_ = begun_ = false;
  });
}

// Whether the commit with number seq_ + 1 happened; if not, throws its error. The raised term makes
// the answer certain: the old connection can no longer commit.
void EngineConnection::find_out(const PgError& error) {
  if (error.is("23502")) throw another_leads();  // no term in its row
  if (!error.lost) throw error;
  const std::int64_t term = term_, seq = seq_ + 1;
  bool found = false;
  try {
    connect();
    found = !connection_->run(kFindCommit, params(seq, term)).empty();
  } catch (const PgError& again) {
    throw sql::DiskError{
        sql::DiskFault::failed,
        "PostgreSQL: the connection was lost during a commit, and its outcome is unknown",
        fmt::format("{}; then {}", error.message, again.message)};
  }
  if (!found) throw error;
  seq_ = seq - 1;
}

// Dead rows of counters and of old commits are never read: see the schema.
void EngineConnection::compact() {
  post(kCompact);
  post(kPruneCounters);
  post(kPruneCommits, params(seq_ - kCompactAfter));
  compacted_ = seq_;
}

void EngineConnection::roll_back() {
  in_transaction_ = false;
  while (!gathering_.empty()) drop_gathered(*gathering_.back());
  unsent_.clear();
  if (!std::exchange(begun_, false) || connection_ == nullptr || !connection_->is_open()) return;
  guarded([&] {
    connection_->forget();
    connection_->queue(kRollBack);
    count_round_trip();
    connection_->finish();
  });
}

void EngineConnection::drop_gathered(Prepared& statement) {
  statement.rows = 0;
  statement.keys.clear();
  for (auto& column : statement.columns) column = {};
  std::erase(gathering_, &statement);
}

// -- statements without rows ----------------------------------------------------------------------

void EngineConnection::run(Prepared& statement, const Row& row) {
  describe(statement);
  if (!in_transaction_) {
    begin(sql::Access::write);
    open_transaction();
    send(statement, row);
    last_changes_ = await_last().affected();
    commit();
    return;
  }
  if (statement.arrays != nullptr && !statement.counted) {
    gather(statement, row);
    return;
  }
  send_gathered_of(statement.text.tables);
  send(statement, row);
}

void EngineConnection::gather(Prepared& statement, const Row& row) {
  std::string key;
  if (!statement.text.keys.empty()) {
    std::size_t at = 0;
    std::vector<std::size_t> begins;
    for (const int length : row.lengths) {
      begins.push_back(at);
      at += static_cast<std::size_t>(std::max(length, 0));
    }
    for (const int parameter : statement.text.keys) {
      const auto i = static_cast<std::size_t>(parameter);
      append32(key, static_cast<std::uint32_t>(row.lengths[i]));
      key.append(row.bytes, begins[i], static_cast<std::size_t>(std::max(row.lengths[i], 0)));
    }
    if (statement.keys.contains(key)) send_gathered(statement);
  }
  if (statement.rows == 0) {
    send_gathered_of(statement.text.tables);
    gathering_.push_back(&statement);
  }
  if (!key.empty()) statement.keys.insert(std::move(key));
  std::size_t at = 0, most = 0;
  for (std::size_t i = 0; i < row.lengths.size(); ++i) {
    auto& column = statement.columns[i];
    const int length = row.lengths[i];
    column.last = column.elements.size();
    append32(column.elements, static_cast<std::uint32_t>(length));
    (length < 0 ? column.nulls : column.values) = true;
    if (length > 0) {
      column.elements.append(row.bytes, at, static_cast<std::size_t>(length));
      at += static_cast<std::size_t>(length);
    }
    most = std::max(most, column.elements.size());
  }
  ++statement.rows;
  if (most > kMostGathered) send_gathered(statement);
}

void EngineConnection::send(Prepared& statement, const Row& row) {
  post(statement.statement, params_of(statement.types, row.bytes, row.lengths));
}

// A column without values is sent as NULL: unnest() then adds NULLs.
void EngineConnection::send_gathered(Prepared& statement) {
  if (statement.rows == 0) return;
  Params all;
  const bool alone = statement.rows == 1;
  for (std::size_t i = 0; i < statement.columns.size(); ++i) {
    auto& column = statement.columns[i];
    const Oid type = alone ? statement.types[i] : array_of(statement.types[i]);
    if (!column.values) {
      all.null(type);
    } else if (alone) {
      all.raw(type, std::string_view(column.elements).substr(sizeof(std::uint32_t)));
    } else {
      std::string header;
      append32(header, 1);  // dimensions
      append32(header, column.nulls ? 1 : 0);
      append32(header, statement.types[i]);
      append32(header, statement.rows);
      append32(header, 1);  // the first index
      all.raw(type, header + column.elements);
    }
  }
  post(alone ? statement.statement : *statement.arrays, std::move(all));
  drop_gathered(statement);
}

void EngineConnection::send_gathered_of(Tables tables) {
  for (const std::vector<Prepared*> all = gathering_; Prepared * statement : all) {
    if ((statement->text.tables & tables) != 0) send_gathered(*statement);
  }
}

// -- answers --------------------------------------------------------------------------------------

void EngineConnection::count_round_trip() {
  if (options_.round_trips != nullptr) ++*options_.round_trips;
}

Rows EngineConnection::await_last() {
  count_round_trip();
  Rows rows;
  while (connection_->pending() > 0) rows = connection_->next();
  return rows;
}

// The last execution must not be one of several in a gathered statement.
std::int64_t EngineConnection::changes(Prepared& statement) {
  if (!std::exchange(statement.counted, true) && statement.rows > 0) {
    Row row;
    for (auto& column : statement.columns) {
      const std::string_view last = std::string_view(column.elements).substr(column.last);
      row.lengths.push_back(static_cast<int>(be32toh(
          std::bit_cast<std::uint32_t>(std::array<char, 4>{last[0], last[1], last[2], last[3]}))));
      row.bytes.append(last.substr(sizeof(std::uint32_t)));
      column.elements.resize(column.last);
    }
    if (--statement.rows > 0) {
      send_gathered(statement);
    } else {
      drop_gathered(statement);
    }
    send(statement, row);
  }
  open_transaction();
  if (connection_->pending() > 0) last_changes_ = await_last().affected();
  return last_changes_;
}

Rows EngineConnection::read(Prepared& statement, const Row& row) {
  send_gathered_of(statement.text.tables);
  const bool repeatable = !begun_ && unsent_.empty();  // nothing depends on the connection
  try {
    open_transaction();
    send(statement, row);
    return await_last();
  } catch (const PgError& error) {
    if (!error.lost || !repeatable) throw;
  }
  begun_ = false;
  open_transaction();
  send(statement, row);
  return await_last();
}

}  // namespace mainspring::pg
