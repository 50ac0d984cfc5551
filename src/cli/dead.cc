// dead groups: the dead letter by what jobs died of; and which dead jobs a command line means.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "api/shapes.h"
#include "cli/dead.h"
#include "cli/handlers.h"
#include "cli/support.h"
#include "client/calls.h"
#include "env/clock.h"
#include "model/fingerprint.h"

namespace mainspring::cli {
namespace {

struct Group {
  std::string fingerprint, kind, reason, message;
  std::int64_t count = 0;
  std::string first, last;  // when
};

bool read_at(JsonReader& in, std::string& at) {
  return in.members(
      [&](std::string_view name) { return name == "at" ? in.string(at) : in.skip(); });
}

Result<Group> decode_group(const std::string& json) {
  Group group;
  JsonReader in(json, JsonReader::Unknown::skip);
  const bool good = in.members([&](std::string_view name) {
    if (name == "fingerprint") return in.string(group.fingerprint);
    if (name == "kind") return in.string(group.kind);
    if (name == "reason") return in.string(group.reason);
    if (name == "message") return in.null() || in.string(group.message);
    if (name == "count") return in.integer(group.count, 0, INT64_MAX);
    if (name == "first") return read_at(in, group.first);
    if (name == "last") return read_at(in, group.last);
    return in.skip();
  });
  if (!good) return in.error();
  return group;
}

std::string age_of(const std::string& at, WallTime now) {
  const auto time = parse_wall_time(at);
  return time ? format_age(now - *time) : at;
}

std::string first_line(const Group& group) {
  const std::string& text = group.message.empty() ? group.reason : group.message;
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string dead_query_of(const Invocation& invocation) {
  std::string query;
  for (const char* name : {"queue", "kind", "tag", "fingerprint"}) {
    if (const auto value = invocation.flag(name)) {
      query += fmt::format("&{}={}", name, percent_encode(*value));
    }
  }
  return query;
}

Result<int> run_dead_groups(const Invocation& invocation, Io& io) {
  constexpr std::size_t kMaxGroups = 10'000;
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  std::string path = "/v1/dead/groups" + dead_query_of(invocation);
  if (const std::size_t first = path.find('&'); first != std::string::npos) path[first] = '?';
  MS_TRY_ASSIGN(const std::string body, connection->client->request("GET", path, ""));
  std::vector<std::string> groups;
  std::int64_t jobs = 0;
  bool cut = false;
  JsonReader in(body, JsonReader::Unknown::skip);
  const bool good = in.members([&](std::string_view name) {
    if (name == "jobs") return in.integer(jobs, 0, INT64_MAX);
    if (name == "cut") return in.boolean(cut);
    if (name != "groups") return in.skip();
    return in.array(kMaxGroups, [&](std::size_t) { return in.raw(groups.emplace_back()); });
  });
  if (!good) return in.error();
  const WallTime now = SystemClock().now().wall;
  Table table({{"FINGERPRINT"},
               {"JOBS", Align::right},
               {"KIND"},
               {"FIRST", Align::right},
               {"LAST", Align::right},
               {"ERROR"}});
  for (const std::string& json : groups) {
    if (invocation.json) {
      print_line(io, json);
      continue;
    }
    MS_TRY_ASSIGN(const Group group, decode_group(json));
    table.add({{group.fingerprint},
               {format_count(group.count)},
               {group.kind},
               {age_of(group.first, now)},
               {age_of(group.last, now)},
               {first_line(group)}});
  }
  if (!invocation.json) io.out(table.empty() ? "the dead letter is empty\n" : table.render(io));
  if (cut)
    io.err(fmt::format("(of the newest {} dead jobs; there are more)\n", format_count(jobs)));
  return kExitOk;
}

Result<std::vector<DeadJob>> find_dead(const Invocation& invocation, Client& client,
                                       std::int64_t limit, const std::stop_token& stop) {
  std::vector<DeadJob> found;
  std::string cursor;
  while (!stop.stop_requested() && found.size() < kMaxFound) {
    const std::string path = "/v1/dead?limit=200" + dead_query_of(invocation) + cursor;
    MS_TRY_ASSIGN(const std::string body, client.request("GET", path, ""));
    MS_TRY_ASSIGN(const JobPage page, decode_job_page(body));
    for (const Job& job : page.jobs) found.push_back({job.id, fingerprint_of(job), job.attempt});
    if (!page.next) break;
    cursor = "&cursor=" + percent_encode(encode_cursor(*page.next));
  }
  std::reverse(found.begin(), found.end());
  if (static_cast<std::int64_t>(found.size()) > limit) {
    found.resize(static_cast<std::size_t>(limit));
  }
  return found;
}

}  // namespace mainspring::cli
