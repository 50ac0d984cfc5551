// callbacks key, verify: what receivers need to recognise genuine requests.
#include <fmt/format.h>

#include "cli/handlers.h"
#include "cli/shared_store.h"
#include "cli/support.h"
#include "disk_sqlite/inspect.h"
#include "engine/callback_keys.h"
#include "env/clock.h"

namespace mainspring::cli {
namespace {

constexpr std::size_t kMaxCallbackBytes = 4 << 20;
constexpr std::size_t kMaxKeyTextBytes = 4 << 10;

Result<SigningKeys> keys_of(const Invocation& invocation) {
  const Options& options = invocation.options;
  CallbackKeyPlace place;
  if (options.callback_key_file != "none") place.file = options.callback_key_file;
  if (means_shared_store(invocation)) {
    MS_TRY_ASSIGN(place.postgres, postgres_options(options));
  } else {
    place.directory = options.data;
    // Without a store in that directory, the key would belong to no store.
    MS_TRY_ASSIGN(const bool exists, sqlite_store_exists(options.data));
    if (place.file.empty() && !exists) {
      return Error{.code = ErrorCode::not_found,
                   .message = fmt::format("{}: there is no store; give --data, --store or "
                                          "callback_key_file as the server has them",
                                          options.data)};
    }
  }
  const SystemClock clock;
  SystemRandom random;
  return callback_keys(place, clock, random);
}

}  // namespace

Result<int> run_callbacks_key(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const SigningKeys keys, keys_of(invocation));
  for (const Secret& key : keys) {
    const Secret text = signing_key_text(key);
    print_line(io,
               invocation.json ? fmt::format("{{\"key\":\"{}\"}}", text.reveal()) : text.reveal());
  }
  return kExitOk;
}

Result<int> run_callbacks_verify(const Invocation& invocation, Io& io) {
  SigningKeys keys;
  if (const auto file = invocation.flag("keys")) {
    MS_TRY_ASSIGN(const std::string text, read_file(*file, kMaxKeyTextBytes));
    MS_TRY_ASSIGN(keys, parse_signing_keys("--keys " + *file, text));
  } else {
    MS_TRY_ASSIGN(keys, keys_of(invocation));
  }
  for (const char* needed : {"id", "timestamp", "signature"}) {
    if (invocation.has(needed)) continue;
    return invalid(needed, fmt::format("--{}: must be given: the request's header webhook-{}",
                                       needed, needed));
  }
  MS_TRY_ASSIGN(const std::string body, read_file("-", kMaxCallbackBytes));
  const std::string id = *invocation.flag("id");
  const std::string timestamp = *invocation.flag("timestamp");
  WallTime now = SystemClock().now().wall;
  if (invocation.has("any-time")) {
    MS_TRY_ASSIGN(const auto seconds, invocation.number("timestamp", 0, 99'999'999'999));
    now = WallTime::from_us(*seconds * 1'000'000);
  }
  const auto verified =
      verify_signature(keys, {id, timestamp, body}, *invocation.flag("signature"), now);
  if (!verified) {
    print_line(
        io, invocation.json ? "{\"verified\":false}" : "not verified: " + verified.error().message);
    return kExitProblems;
  }
  print_line(io, invocation.json ? "{\"verified\":true}" : "verified");
  return kExitOk;
}

}  // namespace mainspring::cli
