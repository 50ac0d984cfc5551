// Breakers of a remote server.
#include "api/breaker_shapes.h"
#include "client/calls.h"

namespace mainspring {
namespace {

std::string breaker_path(const std::string& name, std::string_view verb = "") {
  return "/v1/breakers/" + percent_encode(name) + std::string(verb);
}

}  // namespace

Result<void> Client::put_breaker(PutBreaker request) {
  Impl::Call call{.method = "PUT", .target = breaker_path(request.name)};
  encode_put_breaker_request(request, call.body);
  MS_TRY(impl_->run(call));
  return {};
}

Result<void> Client::remove_breaker(const std::string& name) {
  MS_TRY(impl_->run({.method = "DELETE", .target = breaker_path(name)}));
  return {};
}

Result<void> Client::open_breaker(OpenBreaker request) {
  Impl::Call call{.method = "POST", .target = breaker_path(request.name, "/open")};
  encode_open_breaker_request(request, call.body);
  MS_TRY(impl_->run(call));
  return {};
}

Result<void> Client::close_breaker(const std::string& name) {
  MS_TRY(impl_->run({.method = "POST", .target = breaker_path(name, "/close")}));
  return {};
}

Result<BreakerInfo> Client::get_breaker(const std::string& name) {
  MS_TRY_ASSIGN(const std::string body,
                impl_->run({.method = "GET", .target = breaker_path(name)}));
  return decode_breaker(body);
}

Result<std::vector<BreakerInfo>> Client::breakers() {
  MS_TRY_ASSIGN(const std::string body, impl_->run({.method = "GET", .target = "/v1/breakers"}));
  return decode_breakers(body);
}

}  // namespace mainspring
