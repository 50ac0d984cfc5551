// The plans of breakers.
#include "api/breaker_shapes.h"
#include "broker/breakers.h"
#include "http/plans.h"

namespace mainspring::http {
namespace {

Reply breaker_reply(const Services& services, const std::string& name) {
  const auto info = find_breaker(services.store, name, services.clock.now().wall);
  if (!info) return error_reply(info.error());
  Reply reply;
  encode_breaker(*info, reply.body);
  return reply;
}

// Answered with the breaker after the change.
Plan change_breaker(const Request& request, Services& services, Operation operation,
                    std::string image) {
  return DoWrite{std::move(operation),
                 [&services, name = request.param](OperationResult&) -> DoWrite::Answer {
                   return DoRead{[&services, name] { return breaker_reply(services, name); }};
                 },
                 audit_of_request(request, "breaker/" + request.param, std::move(image))};
}

}  // namespace

Plan plan_put_breaker(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  auto put = decode_put_breaker_request(request.param, request.body);
  if (!put) return error_reply(put.error());
  std::string image = breaker_settings_text(put->settings);
  return change_breaker(request, services, std::move(*put), std::move(image));
}

Plan plan_get_breaker(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  return DoRead{[&services, name = request.param] { return breaker_reply(services, name); }};
}

Plan plan_list_breakers(const Request&, Services& services) {
  return DoRead{[&services] {
    const auto all = services.store.breakers(services.clock.now().wall);
    if (!all) return error_reply(all.error());
    Reply reply;
    encode_breakers(*all, reply.body);
    return reply;
  }};
}

Plan plan_remove_breaker(const Request& request, Services&) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  return DoWrite{RemoveBreaker{.name = request.param},
                 [name = request.param](OperationResult&) -> DoWrite::Answer {
                   Reply reply;
                   encode_breaker_removed(name, reply.body);
                   return reply;
                 },
                 audit_of_request(request, "breaker/" + request.param, "")};
}

Plan plan_open_breaker(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  auto open = decode_open_breaker_request(request.param, request.body);
  if (!open) return error_reply(open.error());
  return change_breaker(request, services, std::move(*open), R"({"state":"open"})");
}

Plan plan_close_breaker(const Request& request, Services& services) {
  if (auto good = check_name("name", request.param); !good) return error_reply(good.error());
  return change_breaker(request, services, CloseBreaker{.name = request.param},
                        R"({"state":"closed"})");
}

}  // namespace mainspring::http
