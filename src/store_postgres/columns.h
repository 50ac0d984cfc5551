// Rows that go to a statement as columns.
//
// An array costs the server time for each of its rows: to take it apart, to join it to the others,
// and to read it there. A column of numbers that is the same in all rows, as most are in most
// batches, goes as one value instead; one of texts that has none not at all (Params::column).
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
