// SQL text of statements whose rows are passed as columns.
#include "store_postgres/columns.h"

#include <fmt/format.h>

namespace mainspring::pg {

namespace {
std::string names_text(std::string_view key, std::initializer_list<std::string_view> numbers,
                       std::initializer_list<std::string_view> texts) {
  std::string names(key);
  for (const auto& more : {numbers, texts}) {
    for (const std::string_view name : more) names.append(", ").append(name);
  }
  return names;
}
}  // namespace

std::string rows_text(std::string_view key, std::initializer_list<std::string_view> numbers,
                      std::initializer_list<std::string_view> texts) {
  std::string values = fmt::format("u.{}", key);
  std::string arrays = "$1::bigint[]";
  int parameter = 2;
  for (const std::string_view name : numbers) {
    arrays += fmt::format(", ${}::bigint[]", parameter);
    values += fmt::format(", coalesce(u.{0}, ${1}::bigint) AS {0}", name, parameter + 1);
    parameter += 2;
  }
  for (const std::string_view name : texts) {
    arrays += fmt::format(", ${}::text[]", parameter++);
    values += fmt::format(", u.{}", name);
  }
  return fmt::format("(SELECT {} FROM unnest({}) AS u({})) AS u", values, arrays,
                     names_text(key, numbers, texts));
}

}  // namespace mainspring::pg
