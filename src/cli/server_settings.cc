// From the table of settings to what GET /v1/settings shows; GET /v1/settings and /v1/store as
// text.
#include "cli/server_settings.h"

#include <fmt/format.h>

#include "api/json.h"
#include "cli/support.h"

namespace mainspring::cli {
namespace {

constexpr std::size_t kMostSettings = 1000;  // of a server
constexpr std::string_view kFitted = "the limit of open files";

bool has_secret(const Setting& setting, const Options& options) {
  const auto* text = std::get_if<std::string Options::*>(&setting.member);
  return text != nullptr && format_setting(setting, options) != options.**text;
}

Result<std::vector<std::pair<ShownSetting, std::string>>> decode_settings(const std::string& body) {
  std::vector<std::pair<ShownSetting, std::string>> out;  // with its JSON
  std::vector<std::string> lines;
  JsonReader in(body, JsonReader::Unknown::skip);
  const bool good = in.members([&](std::string_view name) {
    if (name != "settings") return in.skip();
    return in.array(kMostSettings, [&](std::size_t) { return in.raw(lines.emplace_back()); });
  });
  if (!good || !in.end()) return in.error();
  for (std::string& line : lines) {
    ShownSetting one;
    JsonReader setting(line, JsonReader::Unknown::skip);
    const bool read = setting.members([&](std::string_view name) {
      if (name == "name") return setting.string(one.name);
      if (name == "value") return setting.string(one.value);
      if (name == "default") return setting.string(one.default_value);
      if (name == "source") return setting.string(one.source);
      if (name == "where") return setting.string(one.where);
      return setting.skip();
    });
    if (!read || !setting.end()) return setting.error();
    out.emplace_back(std::move(one), std::move(line));
  }
  return out;
}

struct StoreAnswer {
  std::string kind, path;
  std::int64_t bytes = 0, wal_bytes = -1, free_bytes = -1, disk_free_bytes = -1;  // -1 = not said
  std::int64_t jobs = 0, live = 0, finished = 0, schema = 0;
};
Result<StoreAnswer> decode_store(const std::string& body) {
  StoreAnswer out;
  JsonReader in(body, JsonReader::Unknown::skip);
  const auto number = [&](std::int64_t& into) { return in.integer(into, 0, INT64_MAX); };
  const bool good = in.members([&](std::string_view name) {
    if (name == "kind") return in.string(out.kind);
    if (name == "path") return in.string(out.path);
    if (name == "bytes") return number(out.bytes);
    if (name == "wal_bytes") return number(out.wal_bytes);
    if (name == "free_bytes") return number(out.free_bytes);
    if (name == "disk_free_bytes") return number(out.disk_free_bytes);
    if (name == "jobs") return number(out.jobs);
    if (name == "live") return number(out.live);
    if (name == "finished") return number(out.finished);
    if (name == "schema") return number(out.schema);
    return in.skip();
  });
  if (!good || !in.end()) return in.error();
  return out;
}

}  // namespace

std::vector<ShownSetting> shown_settings(const Options& options, const Origins& origins) {
  const Options defaults;
  std::vector<ShownSetting> out;
  for (const Setting& setting : settings()) {
    if ((setting.scopes & (kServeScope | kStoreScope | kHostScope)) == 0) continue;
    ShownSetting& one = out.emplace_back();
    one.name = setting.name;
    one.value = format_setting(setting, options);
    one.default_value = format_setting(setting, defaults);
    const std::string& origin = origins.at(setting.name);
    one.source = origin.substr(0, origin.find(' '));
    if (origin != "default") one.where = origin;
    if (origin == "default" && one.value != one.default_value) one.where = kFitted;
    one.secret = has_secret(setting, options);
  }
  return out;
}

Result<int> print_server_settings(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::string body, connection->client->request("GET", "/v1/settings", ""));
  MS_TRY_ASSIGN(const auto all, decode_settings(body));
  const bool explain = invocation.has("explain");
  std::vector<Table::Column> columns = {
      {.title = "NAME", .whole = true}, {"VALUE"}, {.title = "FROM", .keep = true}};
  if (explain) columns.push_back({"DEFAULT"});
  Table table(std::move(columns));
  for (const auto& [one, json] : all) {
    if (invocation.json) {
      print_line(io, json);
      continue;
    }
    const Colour colour = one.source == "default" ? Colour::dim : Colour::bold;
    std::vector<Cell> row = {{one.name}, {one.value, colour}, {one.source, colour}};
    if (!one.where.empty()) row[2].text = one.where;
    if (explain) row.push_back({one.default_value});
    table.add(std::move(row));
  }
  if (!invocation.json) io.out(table.render(io));
  return kExitOk;
}

Result<int> print_server_store(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::string body, connection->client->request("GET", "/v1/store", ""));
  if (invocation.json) {
    print_line(io, body);
    return kExitOk;
  }
  MS_TRY_ASSIGN(const StoreAnswer store, decode_store(body));
  const auto line = [&](std::string_view name, const std::string& value) {
    io.out(fmt::format("{:<15} {}\n", name, printable(value)));
  };
  const auto bytes = [&](std::string_view name, std::int64_t value) {
    if (value >= 0) line(name, format_count(value) + " bytes");
  };
  line("kind", store.kind);
  if (!store.path.empty()) line("directory", store.path);
  line("schema", fmt::to_string(store.schema));
  bytes("database", store.bytes);
  bytes("free inside", store.free_bytes);
  bytes("log", store.wal_bytes);
  bytes("disk free", store.disk_free_bytes);
  line("jobs", fmt::format("{} ({} live, {} finished)", format_count(store.jobs),
                           format_count(store.live), format_count(store.finished)));
  return kExitOk;
}

}  // namespace mainspring::cli
