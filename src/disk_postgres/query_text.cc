// Rewrites texts by their form: the statements in sql/queries/ are simple, and a test prepares all.
#include "disk_postgres/query_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "disk_postgres/schema.h"

namespace mainspring::pg {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Calls `found(begin, end)` for each word outside quotes; `$1` is one.
template <class Found>
void each_word(std::string_view text, Found found) {
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\'') {
      at = text.find('\'', at + 1);
      at = at == std::string_view::npos ? text.size() : at + 1;
    } else if (is_word(text[at]) || text[at] == '$') {
      std::size_t end = at + 1;
      while (end < text.size() && is_word(text[end])) ++end;
      found(at, end);
      at = end;
    } else {
      ++at;
    }
  }
}

bool has_word(std::string_view text, std::string_view word) {
  bool found = false;
  each_word(text, [&](std::size_t begin, std::size_t end) {
    found = found || text.substr(begin, end - begin) == word;
  });
  return found;
}

// `?` and `?N` as `$N`; counts them.
std::string numbered(std::string_view text, int& parameters) {
  std::string out;
  bool quoted = false;
  int next = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\'') quoted = !quoted;
    if (text[at] != '?' || quoted) {
      out.push_back(text[at]);
      continue;
    }
    int number = 0;
    for (; at + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 1])) != 0;
         ++at)
      number = number * 10 + (text[at + 1] - '0');
    if (number == 0) number = ++next;
    parameters = std::max(parameters, number);
    out += fmt::format("${}", number);
  }
  return out;
}

// $1 as u.p1, a column of the arrays.
std::string of_arrays(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  each_word(text, [&](std::size_t begin, std::size_t end) {
    if (text[begin] != '$') return;
    out.append(text.substr(at, begin - at)).append("u.p");
    out.append(text.substr(begin + 1, end - begin - 1));
    at = end;
  });
  return out.append(text.substr(at));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The parts between separators that are not in parentheses.
std::vector<std::string_view> parts(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> out;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '(') ++depth;
    if (text[at] == ')') --depth;
    if (depth != 0 || !text.substr(at).starts_with(separator)) continue;
    out.push_back(trimmed(text.substr(begin, at - begin)));
    begin = at + separator.size();
  }
  out.push_back(trimmed(text.substr(begin)));
  return out;
}

// The text in the first parentheses from `at` on; moves `at` after them.
std::string_view parenthesised(std::string_view text, std::size_t& at) {
  const std::size_t begin = text.find('(', at) + 1;
  int depth = 1;
  std::size_t end = begin;
  for (; end < text.size() && depth > 0; ++end)
    depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
  at = end;
  return text.substr(begin, end - begin - 1);
}

// The number of a lone parameter, from 0; -1 = something else.
int parameter(std::string_view text) {
  if (text.size() < 2 || text[0] != '$') return -1;
  int number = 0;
  for (const char c : text.substr(1)) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return -1;
    number = number * 10 + (c - '0');
  }
  return number - 1;
}

const std::map<std::string_view, Tables>& table_bits() {
  static const auto bits = [] {
    std::map<std::string_view, Tables> out;
    int next = 0;
    for (const std::string_view name : engine_tables()) out[name] = Tables{1} << next++;
    for (const std::string_view name : {"job_counts", "queue_counts", "leases", "job"})
      out[name] = ~Tables{0};
    out["audit_marks"] = out.at("audit");  // its trigger reads the marks
    return out;
  }();
  return bits;
}

}  // namespace

QueryText::QueryText(std::string_view text) : sql(numbered(text, parameters)) {
  reads = sql.starts_with("SELECT ") || sql.starts_with("WITH ") || has_word(sql, "RETURNING");
  const auto& bits = table_bits();
  each_word(sql, [&](std::size_t begin, std::size_t end) {
    const auto found = bits.find(std::string_view(sql).substr(begin, end - begin));
    if (found != bits.end()) tables |= found->second;
  });
  if (tables == 0) tables = ~Tables{0};  // a table of the connection
  if (!reads && parameters > 0 && !has_word(sql, "SELECT"))
    gathers = find_insert() || find_update() || find_delete();
}

bool QueryText::find_insert() {
  const std::string_view all = sql;
  const std::size_t values = all.find(" VALUES (");
  if (!all.starts_with("INSERT INTO ") || values == std::string_view::npos) return false;
  std::size_t at = values;
  const std::string_view list = parenthesised(all, at);
  const std::string_view rest = all.substr(at);
  if (rest.find('$') != std::string_view::npos) return false;
  const std::size_t update = rest.find(" DO UPDATE ");
  if (update != std::string_view::npos) {
    std::size_t head = 0, conflict = 0;
    const auto columns = parts(parenthesised(all, head), ",");
    const auto items = parts(list, ",");
    for (const std::string_view column : parts(parenthesised(rest, conflict), ",")) {
      const auto found = std::find(columns.begin(), columns.end(), column);
      if (found == columns.end()) return false;
      keys.push_back(parameter(items[static_cast<std::size_t>(found - columns.begin())]));
      if (keys.back() < 0) return false;
    }
  }
  before_ = fmt::format("{} SELECT {} FROM ", all.substr(0, values), of_arrays(list));
  after_ = rest;
  return true;
}

bool QueryText::find_update() {
  const std::string_view all = sql;
  const std::size_t where = all.rfind(" WHERE ");
  if (!all.starts_with("UPDATE ") || where == std::string_view::npos) return false;
  const std::string_view condition = all.substr(where);
  for (const std::string_view part :
       parts(condition.substr(std::string_view(" WHERE ").size()), " AND ")) {
    const std::size_t equals = part.find(" = ");
    if (equals == std::string_view::npos) return false;
    keys.push_back(parameter(trimmed(part.substr(equals + 3))));
    if (keys.back() < 0) return false;
  }
  before_ = of_arrays(all.substr(0, where)) + " FROM ";
  after_ = of_arrays(condition);
  return true;
}

bool QueryText::find_delete() {
  const std::string_view all = sql;
  const std::size_t where = all.find(" WHERE ");
  if (!all.starts_with("DELETE FROM ") || where == std::string_view::npos) return false;
  before_ = fmt::format("{} USING ", all.substr(0, where));
  after_ = of_arrays(all.substr(where));
  return true;
}

std::string QueryText::gathered(std::span<const Oid> types) const {
  std::string arrays, columns;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const char* comma = i == 0 ? "" : ", ";
    arrays += fmt::format("{}${}", comma, i + 1);
    columns += fmt::format("{}p{}", comma, i + 1);
  }
  return fmt::format("{}unnest({}) AS u ({}){}", before_, arrays, columns, after_);
}

Oid array_of(Oid type) {
  static const std::map<Oid, Oid> arrays = {{16, 1000}, {17, 1001}, {20, 1016}, {21, 1005},
                                            {23, 1007}, {25, 1009}, {701, 1022}};
  const auto found = arrays.find(type);
  return found == arrays.end() ? 0 : found->second;
}

}  // namespace mainspring::pg
