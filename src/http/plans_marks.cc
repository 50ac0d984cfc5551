// The plans of marks and saved views.
#include <fmt/format.h>

#include "api/mark_shapes.h"
#include "base/mutant.h"
#include "broker/broker.h"
#include "http/parser.h"
#include "http/plans.h"

namespace mainspring::http {
namespace {

Result<MarkFilter> mark_filter(const Request& request) {
  MarkFilter filter;
  MS_TRY_ASSIGN(filter.limit, parse_limit(request));
  MS_TRY_ASSIGN(filter.from, query_time(request, "from"));
  MS_TRY_ASSIGN(filter.to, query_time(request, "to"));
  if (const auto* cursor = query_value(request, "cursor")) {
    MS_TRY_ASSIGN(filter.before, decode_mark_cursor(*cursor));
  }
  MS_TRY(check_mark_filter(filter));
  return filter;
}

// A view belongs to the queue that its query names. The dashboard needs the view of hidden keys to
// cover payloads.
bool may_see(const Caller& caller, const SavedView& view) {
  constexpr std::string_view kHiddenKeys = "hidden-keys", kQueue = "queue=";
  if (caller.may_all(Verb::read) || MS_MUTANT(views_for_all)) return true;
  if (view.name == kHiddenKeys) return caller.may_some(Verb::read_payload);
  const std::string query = "&" + view.query;
  const std::size_t at = query.find("&" + std::string(kQueue));
  if (at == std::string::npos) return false;
  const std::string_view rest = std::string_view(query).substr(at + 1 + kQueue.size());
  const auto queue = percent_decode(rest.substr(0, rest.find('&')), Plus::space);
  return queue && !queue->empty() && caller.may(Verb::read, *queue);
}

DoWrite::Answer no_content(OperationResult&) {
  return Reply{.status = 204};
}

}  // namespace

Plan plan_list_marks(const Request& request, Services& services) {
  const auto filter = mark_filter(request);
  if (!filter) return error_reply(filter.error());
  // Marks name versions, hosts and changes of all queues.
  const bool shown = request.caller->may_all(Verb::read) || MS_MUTANT(marks_for_all);
  return DoRead{[&services, filter = *filter, shown] {
    const auto page = shown ? services.broker.marks(filter) : Result<MarkPage>(MarkPage());
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

Plan plan_list_views(const Request& request, Services& services) {
  return DoRead{[&services, caller = request.caller] {
    auto views = services.broker.views();
    if (!views) return error_reply(views.error());
    std::erase_if(*views, [&](const SavedView& view) { return !may_see(*caller, view); });
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
