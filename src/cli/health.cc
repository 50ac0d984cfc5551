// health: one line and an exit code, for container health checks and people.
#include <fmt/format.h>

#include "api/fields.h"
#include "cli/handlers.h"
#include "cli/shown_health.h"
#include "cli/support.h"

namespace mainspring::cli {
namespace {

constexpr Duration kHealthTimeout = 5s;
constexpr int kUnhealthy = 1;
constexpr std::size_t kMostParts = 100;

constexpr JsonField<ShownPart> kShownPart[] = {{"name", &as_string<&ShownPart::name>},
                                               {"status", &as_string<&ShownPart::status>},
                                               {"message", &as_string<&ShownPart::message>},
                                               {"core", &as_boolean<&ShownPart::core>}};
constexpr JsonField<ShownLimits> kShownLimits[] = {
    {"open_files", &as_count<&ShownLimits::open_files>},
    {"max_connections", &as_count<&ShownLimits::max_connections>}};
constexpr JsonField<ShownHealth> kShownHealth[] = {
    {"status", &as_string<&ShownHealth::status>},
    {"parts",
     [](JsonReader& in, ShownHealth& health) {
       return in.array(kMostParts, [&](std::size_t) {
         return in.object(kShownPart, health.parts.emplace_back());
       });
     }},
    {"limits", [](JsonReader& in, ShownHealth& health) {
       return in.object(kShownLimits, health.limits.emplace());
     }}};

std::string_view path_of(const Invocation& invocation) {
  if (invocation.has("ready")) return "/readyz";
  return invocation.has("live") ? "/livez" : "/healthz?verbose=true";
}

std::string line_of(const ShownHealth& health) {
  std::string line = health.status;
  for (const ShownPart& part : health.parts) {
    if (part.status != "ok")
      line += fmt::format("{} {} {}: {}", line == health.status ? ":" : ";", part.name, part.status,
                          printable(part.message));
  }
  return line;
}

Result<std::string> ask_health(const Invocation& invocation, Duration timeout) {
  MS_TRY_ASSIGN(ClientOptions options, client_options(invocation));
  options.connect_timeout = options.read_timeout = timeout;
  options.retry_for = Duration(0);
  SystemRandom random;
  MS_TRY_ASSIGN(const auto client, Client::open(std::move(options), random));
  return client->request("GET", path_of(invocation), "");
}

}  // namespace

Result<ShownHealth> decode_health(std::string_view body) {
  return decode_response(body, kShownHealth);
}

Result<int> run_health(const Invocation& invocation, Io& io) {
  if (invocation.has("ready") && invocation.has("live"))
    return invalid("ready", "--ready and --live: only one of them can be given");
  MS_TRY_ASSIGN(const auto timeout, invocation.duration("timeout"));
  if (timeout && *timeout <= Duration(0)) {
    return invalid("timeout",
                   fmt::format("--timeout {}: must be more than 0s", format_duration(*timeout)));
  }
  const auto body = ask_health(invocation, timeout.value_or(kHealthTimeout));
  if (!body) {
    // An invalid setting is not a state of the server.
    if (body.error().code == ErrorCode::invalid_argument) return body.error();
    if (invocation.json) {
      std::string line;
      JsonWriter w(line);
      w.begin_object().key("status").string("fail").key("message").string(body.error().message);
      w.end_object();
      print_line(io, line);
    } else {
      print_line(io, "fail: " + printable(body.error().message));
    }
    return kUnhealthy;
  }
  if (invocation.json) {
    print_line(io, *body);
    return kExitOk;
  }
  MS_TRY_ASSIGN(const ShownHealth health, decode_health(*body));
  print_line(io, line_of(health));
  return kExitOk;
}

}  // namespace mainspring::cli
