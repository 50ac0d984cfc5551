// Shared by source and target of a copy: the connection, errors as results, marks.
#pragma once

#include <optional>
#include <string>

#include "store/transfer.h"
#include "store_postgres/connection.h"
#include "store_postgres/postgres_store.h"

namespace mainspring::pg {

// Runs `act` and returns what it throws as an error.
template <class Act>
auto guarded(Act act) -> decltype(act()) {
  try {
    return act();
  } catch (const PgError& error) {
    return to_error(error);
  } catch (const Error& error) {
    return error;
  }
}

// A walk over a large store is one statement, whose answer may take long.
ConnectionOptions transfer_connection(const PostgresOptions& options, bool writable);

// The row `what` of moves; nullopt = none.
std::optional<TransferPlace> read_move(Connection& connection, const std::string& schema,
                                       std::string_view what);

// NULL becomes nullopt.
std::optional<std::string> maybe_text(const Rows& rows, int row, int column);
inline std::optional<std::string_view> view_of(const std::optional<std::string>& text) {
  return text ? std::optional<std::string_view>(*text) : std::nullopt;
}

}  // namespace mainspring::pg
