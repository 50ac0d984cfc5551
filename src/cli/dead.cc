// dead groups: the dead letter by cause; and the selection of dead jobs by flags.
#include <fmt/format.h>

#include <algorithm>

#include "api/dead_shapes.h"
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

// With --json: the groups as the server wrote them, one per line.
Result<void> print_groups(Io& io, const std::string& body) {
  JsonReader in(body, JsonReader::Unknown::skip);
  const bool good = in.members([&](std::string_view name) {
    if (name != "groups") return in.skip();
    return in.array(kMaxDeadGroups, [&](std::size_t) {
      std::string group;
      if (!in.raw(group)) return false;
      print_line(io, group);
      return true;
    });
  });
  return good ? Result<void>() : in.error();
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
  MS_TRY_ASSIGN(const auto since, past_time(invocation, io, "since"));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  std::string query = dead_query_of(invocation);
  if (since) query += "&since=" + percent_encode(format_wall_time(*since));
  if (!query.empty()) query[0] = '?';
  MS_TRY_ASSIGN(const std::string body,
                connection->client->request("GET", "/v1/dead/groups" + query, ""));
  MS_TRY_ASSIGN(const DeadGroups groups, decode_dead_groups(body));
  if (invocation.json) MS_TRY(print_groups(io, body));
  const WallTime now = SystemClock().now().wall;
  Table table({{.title = "FINGERPRINT", .whole = true},
               {"JOBS", Align::right},
               {.title = "KIND", .keep = true},
               {"FIRST", Align::right},
               {"LAST", Align::right},
               {.title = "ERROR", .least = 40, .below = true}});
  for (const DeadGroup& group : groups.groups) {
    table.add({{group.fingerprint},
               {format_count(group.count)},
               {group.kind},
               {format_age(now - group.first_at)},
               {format_age(now - group.last_at)},
               {telling_line(group.message.empty() ? group.reason : group.message)}});
  }
  if (!invocation.json) io.out(table.empty() ? "no dead jobs\n" : table.render(io));
  if (groups.cut)
    io.err(
        fmt::format("(of the newest {} dead jobs; there are more)\n", format_count(groups.jobs)));
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
