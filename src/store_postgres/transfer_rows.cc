// The connection of a copy, and the marks.
#include "store_postgres/transfer_rows.h"

namespace mainspring::pg {

ConnectionOptions transfer_connection(const PostgresOptions& options, bool writable) {
  constexpr Duration kAnswer = std::chrono::minutes(30);
  return {.url = options.url,
          .connect_timeout = options.connect_timeout,
          .timeout = kAnswer,
          .prepared = options.prepared,
          .writable = writable,
          .name = "mainspring copy"};
}

std::optional<TransferPlace> read_move(Connection& connection, const std::string& schema,
                                       std::string_view what) {
  const Rows rows = connection.run(
      Statement(schema, "SELECT store, place FROM $schema.moves WHERE what = $1"), params(what));
  if (rows.empty()) return std::nullopt;
  return TransferPlace{rows.text(0, 0), rows.text(0, 1)};
}

std::optional<std::string> maybe_text(const Rows& rows, int row, int column) {
  return rows.is_null(row, column) ? std::nullopt : std::optional(rows.text(row, column));
}

}  // namespace mainspring::pg
