// libpq in pipeline mode, non-blocking, with poll() for deadlines.
#include "store_postgres/connection.h"

#include <endian.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/mutant.h"
#include "store_postgres/connecting.h"
#include "store_postgres/session_settings.h"

namespace mainspring::pg {
namespace {

std::atomic<int> statements_made{0};

template <class T>
void append(std::string& out, T big_endian) {
  out.append(reinterpret_cast<const char*>(&big_endian), sizeof big_endian);
}
void append32(std::string& out, std::uint32_t v) {
  append(out, htobe32(v));
}
void append64(std::string& out, std::uint64_t v) {
  append(out, htobe64(v));
}
std::uint32_t read32(const char* at) {
  std::uint32_t v = 0;
  std::memcpy(&v, at, sizeof v);
  return be32toh(v);
}
std::uint64_t read64(const char* at) {
  std::uint64_t v = 0;
  std::memcpy(&v, at, sizeof v);
  return be64toh(v);
}

// One dimension with lower bound 1, in the binary format of arrays.
void begin_array(std::string& out, Oid element, std::size_t size, bool nulls) {
  append32(out, size == 0 ? 0 : 1);
  append32(out, nulls ? 1 : 0);
  append32(out, element);
  if (size == 0) return;
  append32(out, static_cast<std::uint32_t>(size));
  append32(out, 1);
}

constexpr std::uint32_t kNull = 0xffffffff;

constexpr char kEncoded = '\x01';  // prefix of text that was encoded
constexpr std::string_view kHex = "0123456789abcdef";

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 1; i + 1 < text.size(); i += 2) {
    out.push_back(static_cast<char>(kHex.find(text[i]) * 16 + kHex.find(text[i + 1])));
  }
  return out;
}

// The length of the UTF-8 sequence at `at`; 0 = invalid. Source: Unicode 15, table 3-7.
std::size_t sequence_length(const unsigned char* at, std::size_t left) {
  const auto follows = [&](std::size_t i, unsigned low, unsigned high) {
    return left > i && at[i] >= low && at[i] <= high;
  };
  const unsigned first = at[0];
  if (first >= 0xC2 && first <= 0xDF) return follows(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool second = follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF);
    return second && follows(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first < 0xF0 || first > 0xF4) return 0;
  const bool second = follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF);
  return second && follows(2, 0x80, 0xBF) && follows(3, 0x80, 0xBF) ? 4 : 0;
}

std::string trimmed(const char* message) {
  std::string text = message == nullptr ? "" : message;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

int left_ms(Instant deadline, Instant now) {
  const auto left = (deadline - now).count();
  return left <= 0 ? 0 : static_cast<int>(std::min<std::int64_t>(left / 1000 + 1, 1'000'000));
}

}  // namespace

bool PgError::passing() const {
  return sqlstate == "40001" || sqlstate == "40P01" || sqlstate == "55P03" || sqlstate == "57014";
}

Statement::Statement(std::string_view schema, std::string_view text)
    : number(statements_made.fetch_add(1)) {
  constexpr std::string_view kSchema = "$schema.";
  std::size_t at = 0;
  for (std::size_t found = 0; (found = text.find(kSchema, at)) != std::string_view::npos;) {
    sql.append(text.substr(at, found - at)).append(schema).append(".");
    at = found + kSchema.size();
  }
  sql.append(text.substr(at));
}

bool is_storable(std::string_view text) {
  if (!text.empty() && text[0] == kEncoded) return false;
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  for (std::size_t left = text.size(); left > 0;) {
    std::uint64_t eight = 0;
    if (left >= sizeof eight) {  // plain ASCII without a zero byte, eight at a time
      std::memcpy(&eight, at, sizeof eight);
      constexpr std::uint64_t kHigh = 0x8080808080808080, kOnes = 0x0101010101010101;
      if (((eight | (eight - kOnes)) & kHigh) == 0) {
        at += sizeof eight, left -= sizeof eight;
        continue;
      }
    }
    const std::size_t length = *at != 0 && *at < 0x80 ? 1 : sequence_length(at, left);
    if (length == 0) return false;
    at += length, left -= length;
  }
  return true;
}

std::string storable(std::string_view text) {
  if (is_storable(text)) return std::string(text);
  std::string out(1, kEncoded);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(kHex[byte >> 4]);
    out.push_back(kHex[byte & 15]);
  }
  return out;
}

// -- parameters -----------------------------------------------------------------------------------

void Params::begin(Oid type) {
  types_.push_back(type);
  begins_.push_back(bytes_.size());
}
void Params::end() {
  lengths_.push_back(static_cast<int>(bytes_.size() - begins_.back()));
}
Params& Params::null(Oid type) {
  begin(type);
  lengths_.push_back(-1);
  return *this;
}
Params& Params::add(std::int64_t v) {
  begin(kInt8);
  append64(bytes_, static_cast<std::uint64_t>(v));
  end();
  return *this;
}
Params& Params::add(bool v) {
  begin(kBool);
  bytes_.push_back(v ? 1 : 0);
  end();
  return *this;
}
void Params::append_text(std::string_view text) {
  if (is_storable(text)) {
    bytes_.append(text);
  } else {
    bytes_.append(storable(text));
  }
}
Params& Params::add(std::string_view v) {
  begin(kText);
  append_text(v);
  end();
  return *this;
}
Params& Params::bytes(std::string_view v) {
  return raw(kBytea, v);
}
Params& Params::raw(Oid type, std::string_view v) {
  begin(type);
  bytes_.append(v);
  end();
  return *this;
}
Params& Params::add(const Ints& v) {
  begin(kInt8Array);
  bytes_.reserve(bytes_.size() + 24 + v.size() * 12);
  begin_array(bytes_, kInt8, v.size(), false);
  for (const std::int64_t n : v) {
    append32(bytes_, 8);
    append64(bytes_, static_cast<std::uint64_t>(n));
  }
  end();
  return *this;
}
Params& Params::column(const Ints& v) {
  const bool same = std::all_of(v.begin(), v.end(), [&](auto value) { return value == v.front(); });
  if (same && !v.empty()) return null(kInt8Array).add(v.front());
  return add(v).null(kInt8);
}
Params& Params::column(const Texts& v) {
  const bool none = std::none_of(v.begin(), v.end(), [](const auto& text) { return text; });
  return none ? null(kTextArray) : add(v);
}
Params& Params::add(const OptInts& v) {
  begin(kInt8Array);
  begin_array(bytes_, kInt8, v.size(), true);
  for (const auto& n : v) {
    append32(bytes_, n ? 8 : kNull);
    if (n) append64(bytes_, static_cast<std::uint64_t>(*n));
  }
  end();
  return *this;
}
Params& Params::add(const Reals& v) {
  begin(kFloat8Array);
  begin_array(bytes_, kFloat8, v.size(), true);
  for (const auto& n : v) {
    append32(bytes_, n ? 8 : kNull);
    if (n) append64(bytes_, std::bit_cast<std::uint64_t>(*n));
  }
  end();
  return *this;
}
Params& Params::add(const Texts& v) {
  begin(kTextArray);
  begin_array(bytes_, kText, v.size(), true);
  for (const auto& text : v) {
    if (!text) {
      append32(bytes_, kNull);
      continue;
    }
    const std::size_t at = bytes_.size();
    append32(bytes_, 0);
    append_text(*text);
    const std::uint32_t length =
        htobe32(static_cast<std::uint32_t>(bytes_.size() - at - sizeof(std::uint32_t)));
    std::memcpy(bytes_.data() + at, &length, sizeof length);
  }
  end();
  return *this;
}
Params& Params::add(const std::vector<std::string>& v) {
  return add(Texts(v.begin(), v.end()));
}

// -- answers --------------------------------------------------------------------------------------

std::int64_t Rows::affected() const {
  return result_ ? std::strtoll(PQcmdTuples(result_.get()), nullptr, 10) : 0;
}

std::int64_t Rows::integer(int row, int column) const {
  if (is_null(row, column)) return 0;
  const char* at = PQgetvalue(result_.get(), row, column);
  switch (PQgetlength(result_.get(), row, column)) {
    case 8:
      return static_cast<std::int64_t>(read64(at));
    case 4:
      return static_cast<std::int32_t>(read32(at));
    case 2: {
      std::uint16_t v = 0;
      std::memcpy(&v, at, sizeof v);
      return static_cast<std::int16_t>(be16toh(v));
    }
    case 1:
      return *at;
    default:
      throw PgError{"", "an integer of another length", false};
  }
}

std::optional<std::int64_t> Rows::maybe(int row, int column) const {
  if (is_null(row, column)) return std::nullopt;
  return integer(row, column);
}

double Rows::real(int row, int column) const {
  return std::bit_cast<double>(read64(PQgetvalue(result_.get(), row, column)));
}

std::string Rows::text(int row, int column) const {
  const std::string_view raw = bytes(row, column);
  if (raw.empty() || raw[0] != kEncoded || PQftype(result_.get(), column) == Params::kBytea)
    return std::string(raw);
  return decoded(raw);
}

namespace {

// Calls `element(bytes, length)` for each element of a one-dimensional array; length -1 = NULL.
template <class Element>
void read_array(std::string_view bytes, Element element) {
  if (bytes.size() < 20) return;  // empty, or NULL
  const char* at = bytes.data() + 12;
  const std::uint32_t size = read32(at);
  at += 8;
  for (std::uint32_t i = 0; i < size; ++i) {
    const auto length = static_cast<std::int32_t>(read32(at));
    at += 4;
    element(at, length);
    if (length > 0) at += length;
  }
}

}  // namespace

std::vector<std::int64_t> Rows::ints(int row, int column) const {
  std::vector<std::int64_t> all;
  read_array(bytes(row, column), [&](const char* at, std::int32_t length) {
    all.push_back(length == 8 ? static_cast<std::int64_t>(read64(at)) : 0);
  });
  return all;
}

std::vector<std::string> Rows::texts(int row, int column) const {
  std::vector<std::string> all;
  read_array(bytes(row, column), [&](const char* at, std::int32_t length) {
    const std::string_view raw(at, length < 0 ? 0 : static_cast<std::size_t>(length));
    all.push_back(!raw.empty() && raw[0] == kEncoded ? decoded(raw) : std::string(raw));
  });
  return all;
}

// -- the connection -------------------------------------------------------------------------------

Connection::Connection(const ConnectionOptions& options, const Clock& clock)
    : clock_(clock), options_(options), connection_(connect_to_any(options, clock)) {
  PQsetNoticeProcessor(
      connection_, [](void*, const char*) {}, nullptr);
  if (PQsetnonblocking(connection_, 1) != 0 || PQenterPipelineMode(connection_) != 1)
    lose("entering pipeline mode");
  if (!options_.prepared || MS_MUTANT(session_settings_not_set)) return;
  // The role's own statement_timeout ends even this on a slow machine.
  constexpr int kTries = 100;
  for (int left = kTries - 1;; --left) {
    try {
      execute(kSessionSettings);
      return;
    } catch (const PgError& e) {
      if (left > 0 && connection_ != nullptr && e.sqlstate == "57014") continue;
      if (connection_ != nullptr) PQfinish(connection_);
      throw;
    }
  }
}

Connection::~Connection() {
  if (connection_ != nullptr) PQfinish(connection_);
}

void Connection::lose(std::string_view what) {
  const std::string why = connection_ == nullptr ? "closed" : trimmed(PQerrorMessage(connection_));
  if (connection_ != nullptr) PQfinish(connection_);
  connection_ = nullptr;
  pending_ = 0;
  preparing_.clear();
  throw PgError{"", fmt::format("{}: {}", what, why), true};
}

void Connection::wait(bool for_reading, Instant deadline) {
  pollfd fd{.fd = PQsocket(connection_),
            .events = static_cast<short>(for_reading ? POLLIN : POLLOUT),
            .revents = 0};
  for (;;) {
    const int ready = poll(&fd, 1, left_ms(deadline, clock_.now().instant));
    if (ready > 0) return;
    if (ready < 0 && errno == EINTR) continue;
    if (PQisBusy(connection_) != 0 || ready <= 0) {
      PQfinish(connection_);
      connection_ = nullptr;
      pending_ = 0;
      preparing_.clear();
      throw PgError{"", "no answer in time", true};
    }
  }
}

void Connection::queue(const Statement& statement, const Params& params) {
  if (connection_ == nullptr) throw PgError{"", "the connection is closed", true};
  const auto number = static_cast<std::size_t>(statement.number);
  std::vector<const char*> values;
  values.reserve(params.types_.size());
  for (std::size_t i = 0; i < params.types_.size(); ++i)
    values.push_back(params.lengths_[i] < 0 ? nullptr : params.bytes_.data() + params.begins_[i]);
  const std::vector<int> formats(params.types_.size(), 1);
  const int count = static_cast<int>(params.types_.size());
  bool prepares = false;
  int sent = 0;
  if (options_.prepared) {
    if (prepared_.size() <= number) prepared_.resize(number + 1, false);
    const std::string name = fmt::format("ms{}_{}", generation_, number);
    if (!prepared_[number]) {
      if (PQsendPrepare(connection_, name.c_str(), statement.sql.c_str(), count,
                        params.types_.data()) != 1)
        lose("preparing");
      prepares = true;
      prepared_[number] = true;
    }
    sent = PQsendQueryPrepared(connection_, name.c_str(), count, values.data(),
                               params.lengths_.data(), formats.data(), 1);
  } else {
    sent = PQsendQueryParams(connection_, statement.sql.c_str(), count, params.types_.data(),
                             values.data(), params.lengths_.data(), formats.data(), 1);
  }
  if (sent != 1) lose("sending");
  preparing_.push_back(prepares);
  ++pending_;
  flushed_ = false;
}

void Connection::send_all(Instant deadline) {
  for (;;) {
    const int left = PQflush(connection_);
    if (left < 0) lose("sending");
    if (left == 0) return;
    // The server may block until its answers are read.
    pollfd fd{.fd = PQsocket(connection_), .events = POLLIN | POLLOUT, .revents = 0};
    const int ready = poll(&fd, 1, left_ms(deadline, clock_.now().instant));
    if (ready == 0) wait(false, Instant());
    if (ready > 0 && (fd.revents & POLLIN) != 0 && PQconsumeInput(connection_) != 1)
      lose("receiving");
  }
}

// Makes the server answer all queued statements. A sync also ends the skipping after an error.
void Connection::sync(Instant deadline) {
  if (flushed_) return;
  if (PQpipelineSync(connection_) != 1) lose("sending");
  ++syncs_;
  send_all(deadline);
  flushed_ = true;
}

// The next result; nullptr = end of one statement's results.
PGresult* Connection::take(Instant deadline) {
  while (PQisBusy(connection_) != 0) {
    wait(true, deadline);
    if (PQconsumeInput(connection_) != 1) lose("receiving");
  }
  return PQgetResult(connection_);
}

// The next result that answers a statement.
PGresult* Connection::take_answer(Instant deadline) {
  for (;;) {
    PGresult* result = take(deadline);
    if (result == nullptr) lose("receiving: an answer is missing");
    if (PQresultStatus(result) != PGRES_PIPELINE_SYNC) return result;
    PQclear(result);
    --syncs_;
  }
}

// Reads up to the last sync.
void Connection::drain(Instant deadline) {
  for (int quiet = 0; syncs_ > 0;) {
    const Rows rows(take(deadline));
    if (rows.get() == nullptr) {
      if (PQstatus(connection_) == CONNECTION_BAD || ++quiet > 100'000) lose("receiving");
    } else if (PQresultStatus(rows.get()) == PGRES_PIPELINE_SYNC) {
      --syncs_;
    }
  }
}

Rows Connection::next() {
  if (connection_ == nullptr) throw PgError{"", "the connection is closed", true};
  const Instant deadline = clock_.now().instant + options_.timeout;
  sync(deadline);
  const bool prepares = preparing_.front();
  preparing_.pop_front();
  --pending_;
  for (int part = prepares ? 0 : 1; part < 2; ++part) {
    Rows rows(take_answer(deadline));
    PGresult* result = rows.get();
    const ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) fail(result);
    Rows end(take(deadline));
    if (end.get() != nullptr) lose("receiving: an answer too many");
    if (part == 1) return rows;
  }
  lose("receiving");
}

std::vector<Oid> Connection::describe(const Statement& statement) {
  while (pending_ > 0) next();
  if (connection_ == nullptr) throw PgError{"", "the connection is closed", true};
  if (PQsendPrepare(connection_, "", statement.sql.c_str(), 0, nullptr) != 1 ||
      PQsendDescribePrepared(connection_, "") != 1)
    lose("preparing");
  flushed_ = false;
  const Instant deadline = clock_.now().instant + options_.timeout;
  sync(deadline);
  std::vector<Oid> types;
  for (int part = 0; part < 2; ++part) {
    const Rows answer(take_answer(deadline));
    if (PQresultStatus(answer.get()) != PGRES_COMMAND_OK) fail(answer.get());
    for (int i = 0; part == 1 && i < PQnparams(answer.get()); ++i)
      types.push_back(PQparamtype(answer.get(), i));
    const Rows end(take(deadline));
    if (end.get() != nullptr) lose("receiving: an answer too many");
  }
  return types;
}

void Connection::finish() {
  if (connection_ == nullptr) throw PgError{"", "the connection is closed", true};
  while (pending_ > 0) next();
  const Instant deadline = clock_.now().instant + options_.timeout;
  sync(deadline);
  for (int quiet = 0; syncs_ > 0;) {
    const Rows rows(take(deadline));
    if (rows.get() == nullptr) {
      if (PQstatus(connection_) == CONNECTION_BAD || ++quiet > 100'000) lose("receiving");
    } else if (PQresultStatus(rows.get()) == PGRES_PIPELINE_SYNC) {
      --syncs_;
    } else {
      fail(rows.get());
    }
  }
}

// After a failed statement the server skips all statements up to the next sync.
void Connection::fail(const PGresult* result) {
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  PgError error{state == nullptr ? "" : state, trimmed(PQresultErrorMessage(result)), false};
  if (PQstatus(connection_) == CONNECTION_BAD) lose("receiving");
  // The server shuts down, or one of its processes crashed: this connection receives nothing more.
  error.lost = error.sqlstate.rfind("57P", 0) == 0;
  // Later PREPAREs in the pipeline were skipped; their names are not reused.
  prepared_.clear();
  ++generation_;
  const Instant deadline = clock_.now().instant + options_.timeout;
  sync(deadline);
  drain(deadline);
  pending_ = 0;
  preparing_.clear();
  throw error;
}

void Connection::forget() {
  while (pending_ > 0) {
    try {
      next();
    } catch (const PgError& error) {
      if (error.lost) throw;
    }
  }
}

void Connection::execute(const std::string& sql) {
  if (connection_ == nullptr) throw PgError{"", "the connection is closed", true};
  const Instant deadline = clock_.now().instant + options_.timeout;
  drain(deadline);
  if (PQexitPipelineMode(connection_) != 1) lose("leaving pipeline mode");
  if (PQsendQuery(connection_, sql.c_str()) != 1) lose("sending");
  send_all(deadline);
  PgError error;
  while (PGresult* taken = take(deadline)) {
    const Rows rows(taken);
    const ExecStatusType status = PQresultStatus(taken);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY)
      continue;
    const char* state = PQresultErrorField(taken, PG_DIAG_SQLSTATE);
    error.sqlstate = state == nullptr ? "XX000" : state;
    error.message = trimmed(PQresultErrorMessage(taken));
  }
  if (PQstatus(connection_) == CONNECTION_BAD) lose("receiving");
  if (PQenterPipelineMode(connection_) != 1) lose("entering pipeline mode");
  if (!error.message.empty()) throw error;
}

void Connection::ping() {
  if (connection_ == nullptr) throw PgError{"", "the connection is closed", true};
  const Instant deadline = clock_.now().instant + options_.timeout;
  drain(deadline);
  flushed_ = false;
  sync(deadline);
  drain(deadline);
}

Error to_error(const PgError& error) {
  if (error.is("42501")) {
    // The rest of the message quotes the statement, whole tables of it.
    const std::string why = error.message.substr(0, error.message.find("\nLINE "));
    return {
        .code = ErrorCode::unauthenticated,
        .message = fmt::format("PostgreSQL: {}: grant the role this right, or create the tables "
                               "with `mainspring store migrate` as their owner",
                               why)};
  }
  if (error.is("28P01") || error.is("28000"))
    return {.code = ErrorCode::unauthenticated, .message = "PostgreSQL: " + error.message};
  if (error.is("53100"))
    return {.code = ErrorCode::storage_full,
            .message = "PostgreSQL: " + error.message,
            .retry_after_ms = 5000};
  return {.code = ErrorCode::unavailable,
          .message = "PostgreSQL: " + error.message,
          .retry_after_ms = 1000};
}

}  // namespace mainspring::pg
