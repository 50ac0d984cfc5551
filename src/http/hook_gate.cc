// Authenticates and rate-limits requests to hooks.
#include "http/hook_gate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "callbacks/signature.h"
#include "env/digest.h"

namespace mainspring::http {
namespace {

// The same for each reason: a caller without the secret does not learn which hooks exist.
Error refused_hook() {
  return {ErrorCode::unauthenticated,
          "there is no such hook, or it needs other credentials: Authorization: Bearer SECRET, or "
          "webhook-id, webhook-timestamp (of now) and webhook-signature"};
}

// Compares digests, so that the time does not depend on the presented value.
Result<void> check_token(std::string_view secret, std::string_view authorization) {
  const auto presented = presented_token(authorization);
  const auto wanted = digest_from_hex(secret);
  if (presented && wanted && equal_in_constant_time(sha256(presented->reveal()), *wanted))
    return {};
  return refused_hook();
}

Result<void> check_signature(std::string_view secret, const HookCall& call, WallTime now) {
  if (call.id.empty() || call.timestamp.empty() || call.signature.empty()) return refused_hook();
  MS_TRY_ASSIGN(Secret key, parse_signing_key(secret));
  const SigningKeys keys{std::move(key)};
  const auto good =
      verify_signature(keys, {call.id, call.timestamp, call.body}, call.signature, now);
  return good ? good : refused_hook();
}

}  // namespace

Result<void> HookGate::admit(const Trigger& trigger, std::string_view secret, const HookCall& call,
                             Now now) {
  const auto good = trigger.http->auth == HookAuth::token ? check_token(secret, call.authorization)
                                                          : check_signature(secret, call, now.wall);
  if (!good && !MS_MUTANT(any_hook_signature)) return refuse(call.peer, now.instant);
  return spend(trigger, now.instant);
}

Error HookGate::refuse(std::string_view peer, Instant now) {
  const auto wait = failures_.add(address_group(std::string(peer)), now);
  if (!wait) return refused_hook();
  return too_many("too many refused hook requests from this address", *wait);
}

// The burst is one second's worth of requests.
Result<void> HookGate::spend(const Trigger& trigger, Instant now) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t present = now.us() * 1000;
  const std::int64_t each = kSecond / trigger.http->rate;
  MutexLock lock(mutex_);
  if (spent_until_.size() >= kMaxBuckets)
    std::erase_if(spent_until_, [&](const auto& entry) { return entry.second <= present; });
  if (spent_until_.size() >= kMaxBuckets && !spent_until_.contains(trigger.name))
    return too_many("too many hooks are called at once", std::chrono::seconds(1));
  std::int64_t& spent = spent_until_[trigger.name];
  const std::int64_t then = std::max(spent, present) + each;
  if (then - present > kSecond) {
    return too_many(
        fmt::format("the hook {} takes {} requests per second", trigger.name, trigger.http->rate),
        Duration((then - present - kSecond + 999) / 1000));
  }
  spent = then;
  return {};
}

}  // namespace mainspring::http
