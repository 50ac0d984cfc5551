// The plans of marks and saved views.
#include <fmt/format.h>

#include "api/mark_shapes.h"
#include "broker/broker.h"
#include "http/plans.h"

namespace mainspring::http {
namespace {

constexpr std::size_t kShownTime = 64;

Result<std::optional<WallTime>> mark_time(const Request& request, std::string_view name) {
  const auto* text = query_value(request, name);
  if (text == nullptr) return std::optional<WallTime>();
  const auto time = parse_wall_time(*text);
  if (time) return std::optional<WallTime>(*time);
  return Error{.code = ErrorCode::invalid_argument,
               .message = fmt::format("{} \"{}\": must be a time such as 2026-01-31T09:00:00Z",
                                      name, text->substr(0, kShownTime)),
               .field = std::string(name)};
}

Result<MarkFilter> mark_filter(const Request& request) {
  MarkFilter filter;
  MS_TRY_ASSIGN(filter.limit, parse_limit(request));
  MS_TRY_ASSIGN(filter.from, mark_time(request, "from"));
  MS_TRY_ASSIGN(filter.to, mark_time(request, "to"));
  if (const auto* cursor = query_value(request, "cursor")) {
    MS_TRY_ASSIGN(filter.before, decode_mark_cursor(*cursor));
  }
  MS_TRY(check_mark_filter(filter));
  return filter;
}

DoWrite::Answer no_content(OperationResult&) {
  return Reply{.status = 204};
}

}  // namespace

Plan plan_list_marks(const Request& request, Services& services) {
  const auto filter = mark_filter(request);
  if (!filter) return error_reply(filter.error());
  return DoRead{[&services, filter = *filter] {
    const auto page = services.broker.marks(filter);
    if (!page) return error_reply(page.error());
    Reply reply;
    encode_marks(*page, reply.body);
    return reply;
  }};
}

Plan plan_add_mark(const Request& request, Services&) {
  auto add = decode_add_mark_request(request.body);
  if (!add) return error_reply(add.error());
  add->by = request.caller->who;
  std::string image;
  encode_add_mark_request(*add, image);
  return DoWrite{std::move(*add),
                 [](OperationResult& result) -> DoWrite::Answer {
                   Reply reply{.status = 201};
                   encode_mark(std::get<Mark>(result), reply.body);
                   return reply;
                 },
                 audit_of_request(request, "mark", std::move(image))};
}

Plan plan_remove_mark(const Request& request, Services&) {
  const auto id = parse_id(request.param);
  if (!id) return error_reply(id.error());
  return DoWrite{RemoveMark{.id = *id}, &no_content,
                 audit_of_request(request, fmt::format("mark/{}", *id), "")};
}

Plan plan_list_views(const Request&, Services& services) {
  return DoRead{[&services] {
    const auto views = services.broker.views();
    if (!views) return error_reply(views.error());
    Reply reply;
    encode_views(*views, reply.body);
    return reply;
  }};
}

Plan plan_put_view(const Request& request, Services&) {
  auto put = decode_put_view_request(request.param, request.body);
  if (!put) return error_reply(put.error());
  put->view.by = request.caller->who;
  std::string image;
  encode_put_view_request(*put, image);
  return DoWrite{std::move(*put),
                 [](OperationResult& result) -> DoWrite::Answer {
                   Reply reply;
                   encode_view(std::get<SavedView>(result), reply.body);
                   return reply;
                 },
                 audit_of_request(request, "view/" + request.param, std::move(image))};
}

Plan plan_remove_view(const Request& request, Services&) {
  if (auto good = check_view_name(request.param); !good) return error_reply(good.error());
  return DoWrite{RemoveView{.name = request.param}, &no_content,
                 audit_of_request(request, "view/" + request.param, "")};
}

}  // namespace mainspring::http
