// PgConnection, with libpq.
#include <fmt/format.h>
#include <libpq-fe.h>

#include "postgres/cluster.h"

namespace mainspring::pg_testing {
namespace {

struct ClearResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using ResultPtr = std::unique_ptr<PGresult, ClearResult>;

Rows rows_of(const PGresult* result) {
  Rows rows;
  for (int r = 0; r < PQntuples(result); ++r) {
    auto& row = rows.emplace_back();
    for (int c = 0; c < PQnfields(result); ++c) row.emplace_back(PQgetvalue(result, r, c));
  }
  return rows;
}

}  // namespace

void PgConnection::Close::operator()(pg_conn* connection) const {
  PQfinish(connection);
}

Result<PgConnection> PgConnection::open(const std::string& url) {
  PgConnection opened;
  opened.connection_.reset(PQconnectdb(url.c_str()));
  pg_conn* c = opened.connection_.get();
  if (PQstatus(c) != CONNECTION_OK) return Error{ErrorCode::unavailable, PQerrorMessage(c)};
  PQsetNoticeProcessor(
      c, [](void*, const char*) {}, nullptr);
  return opened;
}

Result<void> PgConnection::send(const std::string& text) {
  if (PQsendQuery(connection_.get(), text.c_str()) == 1) return {};
  return Error{ErrorCode::unavailable, PQerrorMessage(connection_.get())};
}

Result<Rows> PgConnection::answer() {
  Rows rows;
  std::string failed;
  while (const ResultPtr result{PQgetResult(connection_.get())}) {
    const ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_TUPLES_OK) {
      rows = rows_of(result.get());
    } else if (status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY) {
      const char* state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
      failed =
          fmt::format("{} {}", state == nullptr ? "" : state, PQresultErrorMessage(result.get()));
    }
  }
  if (failed.empty()) return rows;
  // A server that ends a connection may send the reason first. A dead server sends nothing, and
  // libpq may still report the connection as good: an error without SQLSTATE is libpq's own.
  const bool lost = PQstatus(connection_.get()) != CONNECTION_OK || failed.front() == ' ';
  return Error{lost ? ErrorCode::unavailable : ErrorCode::internal, failed};
}

Result<Rows> PgConnection::sql(const std::string& text) {
  MS_TRY(send(text));
  return answer();
}

int PgConnection::backend() const {
  return PQbackendPID(connection_.get());
}

}  // namespace mainspring::pg_testing
