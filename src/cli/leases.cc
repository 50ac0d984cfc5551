// leases list, show.
#include <fmt/format.h>

#include "api/lease_shapes.h"
#include "cli/handlers.h"
#include "cli/sheet.h"
#include "cli/support.h"
#include "env/clock.h"

namespace mainspring::cli {
namespace {

constexpr int kLeasesPage = 1000;

std::string lease_time_left(const LeaseInfo& lease) {
  if (lease.holder.empty()) return "-";
  return format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(lease.expires_in));
}

}  // namespace

Result<int> run_leases_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  const WallTime now = SystemClock().now().wall;
  Table table({{.title = "LEASE", .keep = true},
               {"HOLDER"},
               {"TOKEN", Align::right},
               {.title = "SINCE", .drop = 1},
               {"EXPIRES IN", Align::right},
               {.title = "VALUE", .least = 16, .below = true}});
  std::string after;
  for (;;) {
    MS_TRY_ASSIGN(const std::vector<LeaseInfo> page, connection->jobs().leases(after, kLeasesPage));
    for (const LeaseInfo& lease : page) {
      if (invocation.json) {
        std::string line;
        encode_lease(lease, line);
        print_line(io, line);
        continue;
      }
      const bool free = lease.holder.empty();
      table.add({{lease.name},
                 {free ? "free" : lease.holder, free ? Colour::dim : Colour::none},
                 {fmt::to_string(lease.token)},
                 {lease.since && !free ? relative_to(*lease.since, now) : "-"},
                 {lease_time_left(lease)},
                 {lease.value}});
    }
    if (page.size() < kLeasesPage) break;
    after = page.back().name;
  }
  if (!invocation.json) io.out(table.empty() ? "no leases\n" : table.render(io));
  return kExitOk;
}

Result<int> run_leases_show(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const LeaseInfo lease, connection->jobs().get_lease(*invocation.argument("NAME")));
  if (invocation.json) {
    std::string line;
    encode_lease(lease, line);
    print_line(io, line);
    return kExitOk;
  }
  Sheet sheet(io);
  sheet.add("name", lease.name);
  sheet.add("holder", lease.holder.empty() ? "free" : lease.holder);
  sheet.add("token", fmt::to_string(lease.token));
  if (!lease.holder.empty()) {
    sheet.add("since", lease.since, SystemClock().now().wall);
    sheet.add("expires_in", lease_time_left(lease));
  }
  sheet.add("value", lease.value);
  io.out(sheet.text());
  return kExitOk;
}

}  // namespace mainspring::cli
