// One SET statement per connection, and one query at open.
#include "store_postgres/session_settings.h"

#include <fmt/format.h>

#include <cstdlib>

namespace mainspring::pg {
namespace {

constexpr std::int64_t kMinIdleMs = 1000;  // between two statements of a transaction
constexpr std::int64_t kMinLockMs = 100;   // to wait for a lock

constexpr std::string_view kReadSettings =
    "SELECT name, setting, current_user, current_database(), pg_encoding_to_char(encoding) FROM "
    "pg_settings, pg_database WHERE datname = current_database() AND name = ANY($1) ORDER BY name";

struct SettingRule {
  std::string_view name;
  std::string_view needed;    // the command sets this
  bool only_pooled = true;    // else the store sets it itself
  std::int64_t least_ms = 0;  // 0 = must equal `needed`; else `needed`, or at least this
};

bool is_met(const SettingRule& rule, std::string_view value) {
  if (value == rule.needed) return true;
  return rule.least_ms > 0 && std::atoll(std::string(value).c_str()) >= rule.least_ms;
}

}  // namespace

// Transactions of a node are short, and the node limits how long it waits for an answer. A node
// that is suspended within a transaction must not keep its locks.
// `statement_timeout` is the first, because the role's own one holds until then.
const char* const kSessionSettings =
    "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_session_timeout = 0; SET "
    "idle_in_transaction_session_timeout = '60s'; SET default_transaction_isolation = 'read "
    "committed'; SET default_transaction_deferrable = off; SET standard_conforming_strings = on; "
    "SET search_path = pg_catalog; SET DateStyle = 'ISO, MDY'; SET IntervalStyle = postgres";

void check_settings(Connection& connection, bool pooled, Duration limit) {
  const std::int64_t limit_ms = limit.count() / 1000;
  const SettingRule rules[] = {
      {.name = "default_transaction_isolation", .needed = "read committed"},
      {.name = "default_transaction_read_only", .needed = "off", .only_pooled = false},
      {.name = "idle_in_transaction_session_timeout", .needed = "0", .least_ms = kMinIdleMs},
      {.name = "lock_timeout", .needed = "0", .least_ms = kMinLockMs},
      {.name = "statement_timeout", .needed = "0", .least_ms = limit_ms},
  };
  std::vector<std::string> names;
  for (const SettingRule& rule : rules) names.emplace_back(rule.name);
  const Rows rows = connection.run(Statement("", kReadSettings), params(names));
  for (int i = 0; i < rows.size(); ++i) {
    if (rows.text(i, 4) != "UTF8") {
      throw Error{.code = ErrorCode::conflict,
                  .message = fmt::format("database {}: its encoding is {}: must be UTF8 (CREATE "
                                         "DATABASE … ENCODING 'UTF8' TEMPLATE template0)",
                                         rows.text(i, 3), rows.text(i, 4))};
    }
    for (const SettingRule& rule : rules) {
      if (rule.name != rows.text(i, 0) || (rule.only_pooled && !pooled)) continue;
      if (is_met(rule, rows.text(i, 1))) continue;
      throw Error{
          .code = ErrorCode::conflict,
          .message = fmt::format(
              "{} is {} for role {}: must be {}: run ALTER ROLE \"{}\" IN DATABASE \"{}\" "
              "SET {} = '{}'",
              rule.name, rows.text(i, 1), rows.text(i, 2),
              rule.least_ms > 0 ? fmt::format("{}, or at least {} ms", rule.needed, rule.least_ms)
                                : std::string(rule.needed),
              rows.text(i, 2), rows.text(i, 3), rule.name, rule.needed)};
    }
  }
}

}  // namespace mainspring::pg
