// bulk cancel, retry, delete, reprioritise; list, show, stop, continue.
#include <fmt/format.h>

#include "api/bulk_shapes.h"
#include "api/search_shapes.h"
#include "cli/handlers.h"
#include "cli/job_search.h"
#include "cli/sheet.h"
#include "cli/support.h"
#include "env/clock.h"

namespace mainspring::cli {
namespace {

Colour colour_of_bulk(BulkState state) {
  switch (state) {
    case BulkState::done:
      return Colour::green;
    case BulkState::failed:
      return Colour::red;
    case BulkState::running:
      return Colour::blue;
    default:
      return Colour::none;
  }
}

std::string matched_text(const BulkInfo& info) {
  return info.matched ? format_count(*info.matched) : "counting";
}

std::string filter_text(const JobSearch& search) {
  std::string text;
  JsonWriter w(text);
  write_search(w, search);
  return text;
}

Result<BulkOrder> order_of_bulk(const Invocation& invocation, const Io& io, BulkAction action) {
  BulkOrder order{.action = action};
  MS_TRY_ASSIGN(order.filter, search_of(invocation, io));
  order.reason = invocation.flag("reason").value_or("");
  order.rate = invocation.flag("rate").value_or("");
  MS_TRY_ASSIGN(const auto canary, invocation.number("canary", 1, kMaxBulkCanary));
  order.canary = canary.value_or(0);
  if (action == BulkAction::reprioritise) {
    MS_TRY_ASSIGN(const auto priority, invocation.number("priority", 0, kLowestPriority));
    if (!priority) return invalid("priority", "--priority: must be given");
    order.priority = static_cast<int>(*priority);
  }
  if (auto good = validate(order); !good) {
    if (good.error().field == "filter") {
      return invalid(
          "", "no filter: give --queue, --kind, --tag, --state, --since, --until or --search");
    }
    return with_search_flags(good.error());
  }
  return order;
}

int show_count(const Invocation& invocation, Io& io, const BulkCount& count) {
  if (invocation.json) {
    std::string line;
    encode_bulk_count(count, line);
    print_line(io, line);
    return kExitOk;
  }
  const bool more = count.matched > std::ssize(count.sample);
  print_line(io, fmt::format("{}{} would be changed{}{}{}", count.exact ? "" : "more than ",
                             counted(count.matched, "job"), count.matched == 0 ? "" : ": ",
                             fmt::join(count.sample, ", "), more ? ", …" : ""));
  return kExitOk;
}

Result<int> start(const Invocation& invocation, Io& io, BulkAction action) {
  MS_TRY_ASSIGN(const BulkOrder order, order_of_bulk(invocation, io, action));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  if (invocation.has("dry-run")) {
    MS_TRY_ASSIGN(const BulkCount count, connection->client->count_bulk(order));
    return show_count(invocation, io, count);
  }
  MS_TRY_ASSIGN(const BulkInfo info, connection->client->start_bulk(order));
  if (invocation.json) {
    std::string line;
    encode_bulk_info(info, line);
    print_line(io, line);
    return kExitOk;
  }
  print_line(io, fmt::format("bulk operation {} started", info.id));
  io.err(fmt::format("progress: mainspring bulk show {0}; stop it: mainspring bulk stop {0}\n",
                     info.id));
  return kExitOk;
}

int print_bulk(const Invocation& invocation, Io& io, const BulkInfo& info) {
  if (invocation.json) {
    std::string line;
    encode_bulk_info(info, line);
    print_line(io, line);
    return kExitOk;
  }
  const WallTime now = SystemClock().now().wall;
  Sheet sheet(io);
  sheet.add("id", fmt::to_string(info.id));
  sheet.add("state", to_string(info.state));
  sheet.add("action", to_string(info.order.action));
  sheet.add("filter", filter_text(info.order.filter));
  if (info.order.action == BulkAction::reprioritise)
    sheet.add("priority", fmt::to_string(info.order.priority));
  sheet.add("reason", info.order.reason);
  sheet.add("rate", info.order.rate);
  if (info.order.canary != 0) sheet.add("canary", fmt::to_string(info.order.canary));
  sheet.add("matched", matched_text(info));
  sheet.add("changed", format_count(info.changed));
  sheet.add("skipped", format_count(info.skipped));
  sheet.add("failed", format_count(info.failed));
  sheet.add("error", info.error);
  sheet.add("by", info.by);
  sheet.add("started_at", info.started_at, now);
  sheet.add("finished_at", info.finished_at, now);
  io.out(sheet.text());
  return kExitOk;
}

using ChangeBulk = Result<BulkInfo> (Client::*)(JobId);

Result<int> change_bulk(const Invocation& invocation, Io& io, ChangeBulk change) {
  MS_TRY_ASSIGN(const std::vector<JobId> ids, ids_of(invocation, "ID"));
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const BulkInfo info, (connection->client.get()->*change)(ids.at(0)));
  return print_bulk(invocation, io, info);
}

}  // namespace

Result<int> run_bulk_cancel(const Invocation& invocation, Io& io) {
  return start(invocation, io, BulkAction::cancel);
}
Result<int> run_bulk_retry(const Invocation& invocation, Io& io) {
  return start(invocation, io, BulkAction::retry);
}
Result<int> run_bulk_delete(const Invocation& invocation, Io& io) {
  return start(invocation, io, BulkAction::remove);
}
Result<int> run_bulk_reprioritise(const Invocation& invocation, Io& io) {
  return start(invocation, io, BulkAction::reprioritise);
}
Result<int> run_bulk_show(const Invocation& invocation, Io& io) {
  return change_bulk(invocation, io, &Client::get_bulk);
}
Result<int> run_bulk_stop(const Invocation& invocation, Io& io) {
  return change_bulk(invocation, io, &Client::stop_bulk);
}
Result<int> run_bulk_continue(const Invocation& invocation, Io& io) {
  return change_bulk(invocation, io, &Client::continue_bulk);
}

Result<int> run_bulk_list(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::vector<BulkInfo> bulks, connection->client->bulks());
  const WallTime now = SystemClock().now().wall;
  Table table({{"ID", Align::right},
               {.title = "ACTION", .whole = true},
               {.title = "STATE", .whole = true},
               {"MATCHED", Align::right},
               {"CHANGED", Align::right},
               {.title = "SKIPPED", .align = Align::right, .drop = 2},
               {"FAILED", Align::right},
               {"AGE", Align::right},
               {.title = "BY", .drop = 1},
               {.title = "FILTER", .least = 20, .below = true}});
  for (const BulkInfo& info : bulks) {
    if (invocation.json) {
      std::string line;
      encode_bulk_info(info, line);
      print_line(io, line);
      continue;
    }
    table.add({{fmt::to_string(info.id)},
               {std::string(to_string(info.order.action))},
               {std::string(to_string(info.state)), colour_of_bulk(info.state)},
               {matched_text(info)},
               {format_count(info.changed)},
               {format_count(info.skipped)},
               {format_count(info.failed)},
               {format_age(now - info.started_at)},
               {info.by},
               {filter_text(info.order.filter)}});
  }
  if (!invocation.json && bulks.empty()) io.out("no bulk operations\n");
  table.flush(io);
  return kExitOk;
}

}  // namespace mainspring::cli
