// Questions to a remote server, and following its events.
#include <fmt/format.h>

#include <algorithm>

#include "api/bulk_shapes.h"
#include "api/dead_shapes.h"
#include "api/event_shapes.h"
#include "api/history_shapes.h"
#include "api/redrive_shapes.h"
#include "api/shapes.h"
#include "client/calls.h"
#include "client/event_blocks.h"

namespace mainspring {
namespace {

constexpr Duration kFirstStreamPause = std::chrono::milliseconds(250);  // after a broken stream
constexpr Duration kLongestStreamPause = std::chrono::seconds(5);

void add(std::string& query, std::string_view name, std::string_view value) {
  query += fmt::format("{}{}={}", query.empty() ? "?" : "&", name, percent_encode(value));
}

std::string query_of(const EventFilter& filter) {
  std::string query;
  for (const std::string& queue : filter.queues) add(query, "queue", queue);
  for (const std::string& kind : filter.kinds) add(query, "kind", kind);
  for (const std::string& tag : filter.tags) add(query, "tag", tag);
  for (const EventType type : filter.types) add(query, "type", to_string(type));
  for (const JobId id : filter.jobs) add(query, "job", fmt::to_string(id));
  return query;
}

bool passes_over(const Error& error) {
  return error.code == ErrorCode::unavailable || error.code == ErrorCode::timeout ||
         error.code == ErrorCode::overloaded;
}

}  // namespace

Result<void> EventBlocks::take(std::string_view piece,
                               const std::function<Result<void>(const std::string&)>& data) {
  text_ += piece;
  std::size_t begin = 0;
  for (std::size_t end; (end = text_.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    MS_TRY(take_block(std::string_view(text_).substr(begin, end - begin), data));
  }
  text_.erase(0, begin);
  if (text_.size() > kMaxBlockBytes) return Error{.message = "an event without an end"};
  return {};
}

Result<void> EventBlocks::take_block(std::string_view block,
                                     const std::function<Result<void>(const std::string&)>& data) {
  std::string text;
  while (!block.empty()) {
    const std::string_view line = block.substr(0, block.find('\n'));
    block.remove_prefix(std::min(block.size(), line.size() + 1));
    if (line.starts_with("id: ")) last_id_ = line.substr(4);
    if (line.starts_with("data: ")) text = line.substr(6);
  }
  return text.empty() ? Result<void>() : data(text);
}

Result<Why> Client::why(JobId id) {
  MS_TRY_ASSIGN(const std::string body,
                impl_->run({.method = "GET", .target = fmt::format("/v1/jobs/{}/why", id)}));
  MS_TRY_ASSIGN(WhyAnswer answer, decode_why(body));
  const auto gate = parse_gate(answer.gate);
  if (!gate) {
    return Error{.message = fmt::format("job {}: the server names the gate {}, which this version "
                                        "does not know: {}",
                                        id, answer.gate, answer.why)};
  }
  return Why{.gate = *gate,
             .text = std::move(answer.why),
             .until = answer.until,
             .ahead = answer.ahead,
             .estimated_start = answer.estimated_start};
}

Result<DeadGroups> Client::dead_groups(const DeadFilter& filter, WallTime since) {
  std::string query;
  if (!filter.queue.empty()) add(query, "queue", filter.queue);
  if (!filter.kind.empty()) add(query, "kind", filter.kind);
  if (!filter.tag.empty()) add(query, "tag", filter.tag);
  if (since > WallTime()) add(query, "since", format_wall_time(since));
  MS_TRY_ASSIGN(const std::string body,
                impl_->run({.method = "GET", .target = "/v1/dead/groups" + query}));
  return decode_dead_groups(body);
}

Result<History> Client::history(const HistoryFilter& filter) {
  std::string query;
  if (!filter.queue.empty()) add(query, "queue", filter.queue);
  if (!filter.kind.empty()) add(query, "kind", filter.kind);
  if (filter.from) add(query, "from", format_wall_time(*filter.from));
  if (filter.to) add(query, "to", format_wall_time(*filter.to));
  if (filter.step != Duration(0)) add(query, "step", format_duration(filter.step));
  MS_TRY_ASSIGN(const std::string body,
                impl_->run({.method = "GET", .target = "/v1/history" + query}));
  return decode_history(body);
}

Result<RedriveStarted> Client::start_redrive(const DeadFilter& filter, const RedrivePace& pace) {
  const RedriveOrder order{filter, pace};
  MS_TRY(validate(order));
  std::string body;
  encode_redrive_order(order, body);
  MS_TRY_ASSIGN(const std::string answer,
                impl_->run({.method = "POST", .target = "/v1/redrives", .body = std::move(body)}));
  MS_TRY_ASSIGN(const EnqueueResult made, decode_enqueue_response(answer));
  return RedriveStarted{.job = made.jobs.at(0).id, .duplicate = made.jobs.at(0).duplicate};
}

Result<BulkCount> Client::count_bulk(const BulkOrder& order) {
  MS_TRY(validate(order));
  Impl::Call call{.method = "POST", .target = "/v1/bulk"};
  encode_bulk_request({.order = order, .dry_run = true}, call.body);
  MS_TRY_ASSIGN(const std::string answer, impl_->run(call));
  return decode_bulk_count(answer);
}

Result<BulkInfo> Client::start_bulk(const BulkOrder& order) {
  MS_TRY(validate(order));
  Impl::Call call{.method = "POST", .target = "/v1/bulk", .repeat = Impl::Repeat::unseen};
  encode_bulk_request({.order = order}, call.body);
  MS_TRY_ASSIGN(const std::string answer, impl_->run(call));
  return decode_bulk_info(answer);
}

Result<std::vector<BulkInfo>> Client::bulks() {
  MS_TRY_ASSIGN(const std::string answer, impl_->run({.method = "GET", .target = "/v1/bulk"}));
  return decode_bulk_list(answer);
}

Result<BulkInfo> Client::get_bulk(JobId id) {
  MS_TRY_ASSIGN(const std::string answer,
                impl_->run({.method = "GET", .target = fmt::format("/v1/bulk/{}", id)}));
  return decode_bulk_info(answer);
}

Result<BulkInfo> Client::stop_bulk(JobId id) {
  MS_TRY_ASSIGN(const std::string answer,
                impl_->run({.method = "POST", .target = fmt::format("/v1/bulk/{}/stop", id)}));
  return decode_bulk_info(answer);
}

Result<BulkInfo> Client::continue_bulk(JobId id) {
  MS_TRY_ASSIGN(const std::string answer,
                impl_->run({.method = "POST", .target = fmt::format("/v1/bulk/{}/continue", id)}));
  return decode_bulk_info(answer);
}

// An error in the server's first answer ends the call. A stream that breaks later is resumed after
// the last event, and the server reports a gap if there is one.
Result<void> Client::follow(const EventFilter& filter, const EventSink& sink,
                            std::stop_token stop) {
  MS_TRY(validate(filter));
  const std::string query = query_of(filter);
  EventBlocks blocks;
  bool started = false, connected = false;
  Result<void> read;
  const auto event_of = [&](const std::string& data) -> Result<void> {
    MS_TRY_ASSIGN(const auto event, decode_event(data));
    if (event && !stop.stop_requested()) sink.event(*event);
    return {};
  };
  const auto take = [&](std::string_view piece) {
    if (!started) sink.started();
    started = connected = true;
    read = blocks.take(piece, event_of);
    return read.has_value() && !stop.stop_requested();
  };
  Duration wait = kFirstStreamPause;
  while (!stop.stop_requested()) {
    std::string path = query;
    if (!blocks.last_id().empty()) add(path, "after", blocks.last_id());
    blocks.begin();
    connected = false;
    const auto ended = stream("/v1/events" + path, take, stop);
    if (!read) return read;
    if (stop.stop_requested()) break;
    if (!ended && (!started || !passes_over(ended.error()))) return ended;
    if (connected) wait = kFirstStreamPause;
    impl_->pause(wait, stop);
    wait = std::min(wait * 2, kLongestStreamPause);
  }
  return {};
}

}  // namespace mainspring
