// Tokens by digest, failed attempts by address, request rates by token.
#include "http/authenticator.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/mutant.h"
#include "http/parser.h"
#include "model/dashboard_session.h"
#include "model/job_token.h"
#include "model/token_text.h"
#include "store/ended_sessions.h"

namespace mainspring::http {
namespace {

constexpr std::size_t kMaxTokenBytes = kMaxJobTokenBytes;
constexpr std::string_view kForwarded =
    "a token is needed: the request was forwarded by a proxy (X-Forwarded-For, Forwarded, "
    "X-Real-IP or Via)";
constexpr std::string_view kNeedsToken = "a token is needed: Authorization: Bearer TOKEN";
// One text for every reason, so that the caller does not learn whether the token was ever valid.
constexpr std::string_view kBadSession =
    "the dashboard session is not valid: it expired, or its token did or was revoked";
constexpr std::string_view kBadToken = "the token is not valid: unknown, expired or revoked";

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

std::optional<std::string> decode_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = base64_value(c);
    if (value < 0) return std::nullopt;
    bits = (bits << 6 | static_cast<unsigned>(value)) & 0xffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xff);
  }
  return out;
}

std::uint64_t first_bytes(const Digest& digest) {
  std::uint64_t out = 0;
  std::memcpy(&out, digest.data(), sizeof out);
  return out;
}

std::string from(const PeerName& peer) {
  return peer.certificate.empty() ? peer.text
                                  : fmt::format("{} cert={}", peer.text, peer.certificate);
}

}  // namespace

std::optional<std::string_view> presented_session(std::string_view authorization) {
  if (!authorization.starts_with(kSessionScheme)) return std::nullopt;
  authorization.remove_prefix(kSessionScheme.size());
  return trimmed(authorization);
}

Error too_many(std::string message, Duration wait) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  return {.code = ErrorCode::overloaded,
          .message = std::move(message),
          .retry_after_ms = static_cast<int>(std::clamp<std::int64_t>(ms, 1, 3'600'000))};
}

std::optional<Secret> presented_token(std::string_view authorization) {
  authorization = trimmed(authorization);
  const std::size_t blank = authorization.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const std::string_view scheme = authorization.substr(0, blank);
  const std::string_view rest = trimmed(authorization.substr(blank));
  if (rest.empty() || rest.size() > kMaxTokenBytes) return std::nullopt;
  if (iequals(scheme, "Bearer")) return Secret(std::string(rest));
  if (!iequals(scheme, "Basic")) return std::nullopt;
  auto decoded = decode_base64(rest);
  if (!decoded) return std::nullopt;
  const Secret pair(std::move(*decoded));  // wiped in every case
  const std::size_t colon = pair.reveal().find(':');
  if (colon == std::string::npos || colon + 1 == pair.reveal().size()) return std::nullopt;
  return Secret(pair.reveal().substr(colon + 1));
}

std::string address_group(const std::string& peer) {
  in6_addr six{};
  if (inet_pton(AF_INET6, peer.substr(0, peer.find('%')).c_str(), &six) != 1) return peer;
  char text[INET6_ADDRSTRLEN] = {};
  if (IN6_IS_ADDR_V4MAPPED(&six)) {
    inet_ntop(AF_INET, &six.s6_addr[12], text, sizeof text);
    return text;
  }
  std::fill(std::begin(six.s6_addr) + 8, std::end(six.s6_addr), std::uint8_t{0});
  inet_ntop(AF_INET6, &six, text, sizeof text);
  return fmt::format("{}/64", text);
}

// -- failures

std::optional<Duration> Failures::add(const std::string& address, Instant now) {
  MutexLock lock(mutex_);
  auto found = clean_at_.find(address);
  if (found == clean_at_.end() && clean_at_.size() >= kMaxAddresses) {
    sweep(now);
    // The shared entry of addresses beyond the limit of the table.
    found = clean_at_.size() < kMaxAddresses ? clean_at_.end() : clean_at_.try_emplace("").first;
  }
  if (found == clean_at_.end()) found = clean_at_.try_emplace(address).first;
  Instant& clean_at = found->second;
  const Instant then = std::max(clean_at, now) + kForget;
  const Duration allowed = kForget * free_;
  if (then - now > allowed) return then - now - allowed;
  clean_at = then;
  return std::nullopt;
}

void Failures::sweep(Instant now) {
  if (now < next_sweep_) return;
  next_sweep_ = now + kForget;
  std::erase_if(clean_at_, [&](const auto& entry) { return entry.second <= now; });
}

std::size_t Failures::addresses() const {
  MutexLock lock(mutex_);
  return clean_at_.size();
}

// -- connections

bool AddressBook::enter(const std::string& peer) {
  MutexLock lock(mutex_);
  std::size_t& count = connections_[address_group(peer)];
  if (count >= most_) return false;
  ++count;
  return true;
}

void AddressBook::leave(const std::string& peer) {
  MutexLock lock(mutex_);
  const auto found = connections_.find(address_group(peer));
  if (found != connections_.end() && --found->second == 0) connections_.erase(found);
}

// -- tokens

Authenticator::Authenticator(AuthenticatorOptions options, Source source, Registry& registry)
    : options_(options),
      source_(std::move(source)),
      failures_(options.free_failures),
      unauthenticated_(registry.counter("mainspring_http_unauthenticated_total",
                                        "Requests without a required valid token.")),
      throttled_(registry.counter("mainspring_http_throttled_total",
                                  "Requests over a token's rate, or from addresses with too many "
                                  "bad tokens.")) {}

std::shared_ptr<const Authenticator::Snapshot> Authenticator::snapshot() {
  // In this order: a snapshot is never older than the version that it is stored under.
  const std::int64_t version = source_.version();
  MutexLock lock(mutex_);
  if (snapshot_ != nullptr && snapshot_->version == version) return snapshot_;
  const std::shared_ptr<const Tokens> tokens = source_.tokens();
  auto fresh = std::make_shared<Snapshot>();
  fresh->version = version;
  for (const auto& [name, token] : *tokens) {
    Entry entry{token, std::make_shared<const Scopes>(token.scopes), nullptr};
    if (snapshot_ != nullptr) {
      if (const Entry* old = find(*snapshot_, token.digest)) entry.bucket = old->bucket;
    }
    if (entry.bucket == nullptr) entry.bucket = std::make_shared<Bucket>();
    fresh->entries.emplace(first_bytes(token.digest), std::move(entry));
  }
  snapshot_ = fresh;
  return fresh;
}

const Authenticator::Entry* Authenticator::find(const Snapshot& snapshot, const Digest& digest) {
  const auto [begin, end] = snapshot.entries.equal_range(first_bytes(digest));
  const Entry* found = nullptr;
  for (auto it = begin; it != end; ++it) {
    if (equal_in_constant_time(it->second.token.digest, digest)) found = &it->second;
  }
  return found;
}

const Authenticator::Entry* Authenticator::find_usable(const Snapshot& snapshot, std::uint64_t id,
                                                       WallTime now) {
  const auto [begin, end] = snapshot.entries.equal_range(id);
  const auto found =
      std::find_if(begin, end, [&](const auto& entry) { return entry.second.token.usable(now); });
  return found == end ? nullptr : &found->second;
}

// The burst is one second's worth of requests.
Result<void> Authenticator::spend(const Entry& entry, Instant now) const {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const int rate = entry.token.rate > 0 ? entry.token.rate : options_.rate_per_token;
  if (rate <= 0) return {};
  const std::int64_t present = now.us() * 1000;
  const std::int64_t each = kSecond / rate;
  std::atomic<std::int64_t>& spent = entry.bucket->spent_until;
  std::int64_t until = spent.load();
  std::int64_t then = 0;
  do {
    then = std::max(until, present) + each;
    if (then - present > kSecond) {
      return too_many(
          fmt::format("the token \"{}\" may send {} requests per second", entry.token.name, rate),
          Duration((then - present - kSecond + 999) / 1000));
    }
  } while (!spent.compare_exchange_weak(until, then));
  return {};
}

Error Authenticator::refuse(const PeerName& peer, std::string message, Instant now) {
  if (const auto wait = failures_.add(address_group(peer.text), now)) {
    throttled_.add();
    return too_many("too many requests without a valid token from this address", *wait);
  }
  unauthenticated_.add();
  return {ErrorCode::unauthenticated, std::move(message)};
}

Result<Pass> Authenticator::admit(const PeerName& peer, const Secret* authorization, bool forwarded,
                                  const Pass& earlier, Now now) {
  if (authorization == nullptr) {
    if (forwarded && !MS_MUTANT(proxied_is_local)) {
      return refuse(peer, std::string(kForwarded), now.instant);
    }
    if (!peer.local || options_.require_token) {
      return refuse(peer, std::string(kNeedsToken), now.instant);
    }
    if (earlier.caller != nullptr && !earlier.by_token && earlier.caller->scopes == nullptr) {
      return earlier;
    }
    return Pass{.caller = std::make_shared<Caller>(Caller{"local", from(peer), nullptr})};
  }
  if (const auto session = presented_session(authorization->reveal())) {
    return admit_session(peer, *session, now);
  }
  const auto presented = presented_token(authorization->reveal());
  if (!presented) return refuse(peer, std::string(kNeedsToken), now.instant);
  if (presented->reveal().starts_with(kJobTokenPrefix)) return admit_job(peer, *presented, now);
  const auto digest = digest_of_token(presented->reveal());
  const auto known = snapshot();
  const Entry* const entry = digest ? find(*known, *digest) : nullptr;
  const bool usable =
      entry != nullptr && (entry->token.usable(now.wall) ||
                           (MS_MUTANT(expired_token_accepted) && !entry->token.revoked_at));
  if (!usable) return refuse(peer, std::string(kBadToken), now.instant);
  if (auto good = spend(*entry, now.instant); !good) {
    throttled_.add();
    return good.error();
  }
  if (earlier.by_token && earlier.version == known->version && earlier.digest == *digest) {
    return earlier;
  }
  return Pass{
      .caller = std::make_shared<Caller>(Caller{entry->token.name, from(peer), entry->scopes,
                                                entry->token.expires_at, first_bytes(*digest)}),
      .by_token = true,
      .digest = *digest,
      .expires_at = entry->token.expires_at,
      .version = known->version};
}

Result<Pass> Authenticator::admit_job(const PeerName& peer, const Secret& text, Now now) {
  std::optional<JobToken> token;
  if (!options_.job_token_key.empty()) {
    token = read_job_token(text.reveal(), options_.job_token_key);
  }
  if (!token || now.wall >= token->expires_at) {
    return refuse(peer, std::string(kBadToken), now.instant);
  }
  std::string who = "(job)";
  if (token->issuer != 0) {
    const auto known = snapshot();
    const Entry* const issuer = find_usable(*known, token->issuer, now.wall);
    if (issuer == nullptr) return refuse(peer, std::string(kBadToken), now.instant);
    if (auto good = spend(*issuer, now.instant); !good) {
      throttled_.add();
      return good.error();
    }
    who = fmt::format("{} (job)", issuer->token.name);
  }
  return Pass{.caller = std::make_shared<Caller>(
                  Caller{std::move(who), from(peer),
                         std::make_shared<const Scopes>(token->scopes()), token->expires_at}),
              .by_token = true,
              .by_job_token = true,
              .issuer = token->issuer,
              .expires_at = token->expires_at};
}

// Has the rights of the token that opened the session, while both are valid.
Result<Pass> Authenticator::admit_session(const PeerName& peer, std::string_view text, Now now) {
  std::optional<DashboardSession> session;
  if (!options_.job_token_key.empty()) {
    session = read_dashboard_session(text, options_.job_token_key);
  }
  const Digest digest = sha256(text);
  if (!session || now.wall >= session->expires_at ||
      was_ended(digest, session->token_id, opened_at(*session))) {
    return refuse(peer, std::string(kBadSession), now.instant);
  }
  const auto known = snapshot();
  const Entry* const entry = find_usable(*known, session->token_id, now.wall);
  if (entry == nullptr) return refuse(peer, std::string(kBadSession), now.instant);
  if (auto good = spend(*entry, now.instant); !good) {
    throttled_.add();
    return good.error();
  }
  const WallTime end = std::min(session->expires_at, entry->token.expires_at);
  return Pass{.caller = std::make_shared<Caller>(
                  // The caller has the token too: what it makes may live as long as the token.
                  Caller{entry->token.name, from(peer), entry->scopes, entry->token.expires_at,
                         session->token_id}),
              .by_token = true,
              .digest = digest,
              .by_job_token = true,
              .issuer = session->token_id,
              .opened_at = opened_at(*session),
              .expires_at = end};
}

// See store/ended_sessions.h.
bool Authenticator::was_ended(const Digest& session, std::uint64_t token_id, WallTime opened_at) {
  if (MS_MUTANT(signed_out_accepted)) return false;
  const auto known = snapshot();
  if (find(*known, session) != nullptr) return true;
  const Entry* const all = find(*known, sha256(all_sessions_of(token_id)));
  constexpr Duration kMaxSkew = std::chrono::seconds(10);  // of the clocks of two nodes
  return all != nullptr && opened_at <= all->token.created_at + kMaxSkew;
}

Pass Authenticator::admit_anybody(const PeerName& peer, const Secret* authorization, Now now) {
  const bool unasked = authorization == nullptr && (!peer.local || options_.require_token);
  if (!unasked) {
    if (auto pass = admit(peer, authorization, false, {}, now)) return std::move(*pass);
  }
  return Pass{
      .caller = std::make_shared<Caller>(Caller{"", from(peer), std::make_shared<const Scopes>()})};
}

bool Authenticator::still_good(Pass& pass, WallTime now) {
  if (!pass.by_token) return true;
  if (now >= pass.expires_at) return false;
  if (pass.by_job_token) {
    if (pass.opened_at != WallTime::never() && was_ended(pass.digest, pass.issuer, pass.opened_at))
      return false;
    return pass.issuer == 0 || find_usable(*snapshot(), pass.issuer, now) != nullptr;
  }
  if (source_.version() == pass.version) return true;
  const auto known = snapshot();
  const Entry* const entry = find(*known, pass.digest);
  if (entry == nullptr || !entry->token.usable(now)) return false;
  pass.version = known->version;
  return true;
}

}  // namespace mainspring::http
