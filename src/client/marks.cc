// Marks and saved views of a remote server.
#include <fmt/format.h>

#include "api/mark_shapes.h"
#include "client/calls.h"

namespace mainspring {
namespace {

std::string view_path(const std::string& name) {
  return "/v1/views/" + percent_encode(name);
}

}  // namespace

Result<Mark> Client::add_mark(AddMark request) {
  // If the answer is lost, the mark may have been added.
  Impl::Call call{.method = "POST", .target = "/v1/marks", .repeat = Impl::Repeat::unseen};
  encode_add_mark_request(request, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_mark(body);
}

Result<MarkPage> Client::marks(const MarkFilter& filter) {
  std::string target = fmt::format("/v1/marks?limit={}", filter.limit);
  const auto add_time = [&](std::string_view name, const std::optional<WallTime>& time) {
    if (time) target += fmt::format("&{}={}", name, percent_encode(format_wall_time(*time)));
  };
  add_time("from", filter.from);
  add_time("to", filter.to);
  if (filter.before) target += "&cursor=" + encode_mark_cursor(*filter.before);
  MS_TRY_ASSIGN(const std::string body, impl_->run({.method = "GET", .target = target}));
  return decode_marks(body);
}

Result<void> Client::remove_mark(std::int64_t id) {
  MS_TRY(impl_->run({.method = "DELETE", .target = fmt::format("/v1/marks/{}", id)}));
  return {};
}

Result<SavedView> Client::put_view(PutView request) {
  Impl::Call call{.method = "PUT", .target = view_path(request.view.name)};
  encode_put_view_request(request, call.body);
  MS_TRY_ASSIGN(const std::string body, impl_->run(call));
  return decode_view(body);
}

Result<std::vector<SavedView>> Client::views() {
  MS_TRY_ASSIGN(const std::string body, impl_->run({.method = "GET", .target = "/v1/views"}));
  return decode_views(body);
}

Result<void> Client::remove_view(const std::string& name) {
  MS_TRY(impl_->run({.method = "DELETE", .target = view_path(name)}));
  return {};
}

}  // namespace mainspring
