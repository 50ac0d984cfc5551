// The plan of the history.
#include <fmt/format.h>

#include "api/history_shapes.h"
#include "broker/broker.h"
#include "http/plans.h"

namespace mainspring::http {
namespace {

constexpr std::size_t kShownText = 64;

Error bad_query(std::string field, const std::string& text, std::string_view rule) {
  return {.code = ErrorCode::invalid_argument,
          .message = fmt::format("{} \"{}\": {}", field, text.substr(0, kShownText), rule),
          .field = std::move(field)};
}

Result<HistoryFilter> history_filter(const Request& request) {
  HistoryFilter filter;
  if (const auto* queue = query_value(request, "queue")) {
    MS_TRY(check_name("queue", *queue));
    filter.queue = *queue;
  }
  if (const auto* kind = query_value(request, "kind")) {
    MS_TRY(check_name("kind", *kind));
    filter.kind = *kind;
  }
  MS_TRY_ASSIGN(filter.from, query_time(request, "from"));
  MS_TRY_ASSIGN(filter.to, query_time(request, "to"));
  if (const auto* text = query_value(request, "step")) {
    const auto step = parse_duration(*text);
    if (!step || *step == Duration(0))
      return bad_query("step", *text, "must be a duration such as 1m, 5m, 1h or 1d");
    filter.step = *step;
  }
  return filter;
}

}  // namespace

Plan plan_history(const Request& request, Services& services) {
  auto filter = history_filter(request);
  if (!filter) return error_reply(filter.error());
  return DoRead{
      [&services, filter = std::move(*filter), within = request.caller->within(Verb::read)] {
        auto history = services.broker.history(filter, within);
        if (!history) return error_reply(history.error());
        Reply reply;
        encode_history(*history, reply.body);
        return reply;
      }};
}

}  // namespace mainspring::http
