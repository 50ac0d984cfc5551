// Passes rows to a statement as columns.
//
// Each array costs the server time per row: to unpack it, to join it with the others, and to read
// it. A number column with the same value in all rows, as in most batches, is passed as one value
// instead. A text column that is empty in all rows is omitted (Params::column).
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>

#include "store_postgres/connection.h"

namespace mainspring::pg {

// "(SELECT u.id, coalesce(u.state, $3) AS state, u.worker FROM unnest(...) AS u(...)) AS u": `key`
// is $1 and always an array; each of `numbers` takes two parameters, each of `texts` one.
std::string rows_text(std::string_view key, std::initializer_list<std::string_view> numbers,
                      std::initializer_list<std::string_view> texts = {});
// The parameters of a statement with rows_text(); the first column is the key.
template <std::size_t N>
Params rows_of(const std::array<Ints, N>& columns) {
  Params p = params(columns[0]);
  for (std::size_t i = 1; i < N; ++i) p.column(columns[i]);
  return p;
}

}  // namespace mainspring::pg
