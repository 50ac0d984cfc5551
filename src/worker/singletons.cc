// Singleton jobs: names of their leases, and which jobs wait for a lease.
#include "worker/singletons.h"

#include <ctype.h>
#include <fmt/format.h>

#include "api/json.h"
#include "base/fnv.h"
#include "mainspring/worker.h"

namespace mainspring {
namespace {

constexpr Duration kLeastPause = std::chrono::seconds(1);

bool plain(char c) {
  return isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
}

std::string encoded(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (plain(c)) {
      out += c;
    } else {
      out += fmt::format(":{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string hashed(std::string_view text) {
  return fmt::format("{:016x}{:016x}", fnv1a(text), fnv1a(text, kOtherFnvBasis));
}

Result<std::string> value_of(const std::string& args, std::string_view field) {
  std::optional<std::string> value;
  JsonReader in(args, JsonReader::Unknown::skip);
  const bool good = in.members([&](std::string_view name) {
    if (name != field) return in.skip();
    if (in.peek() == JsonType::string) return in.string(value.emplace());
    if (in.peek() == JsonType::number) return in.raw(value.emplace());
    return in.skip();
  });
  if (!good) return in.error();
  if (!value) {
    return invalid(fmt::format("args.{}", field),
                   fmt::format("args.{}: must be a string or a number: the job runs under a lease "
                               "that is named by it",
                               field));
  }
  return *value;
}

}  // namespace

Result<std::string> singleton_name(std::string_view pattern, const std::string& args) {
  std::string name;
  while (!pattern.empty()) {
    const std::size_t open = std::min(pattern.find('{'), pattern.size());
    name += pattern.substr(0, open);
    pattern.remove_prefix(open);
    if (pattern.empty()) break;
    const std::size_t close = pattern.find('}');
    MS_TRY_ASSIGN(const std::string value, value_of(args, pattern.substr(1, close - 1)));
    name += encoded(value);
    pattern.remove_prefix(close + 1);
  }
  if (name.size() > kMaxNameBytes) {
    const std::string hash = hashed(name);
    name.resize(kMaxNameBytes - hash.size());
    name += hash;
  }
  return name;
}

Result<void> check_singleton(std::string_view pattern) {
  std::string sample;
  bool inside = false, empty = true;
  for (const char c : pattern) {
    const bool opens = c == '{', closes = c == '}';
    if ((opens && inside) || (closes && (!inside || empty))) {
      return invalid("singleton",
                     fmt::format("singleton \"{}\": must have fields as {{name}}", pattern));
    }
    if (opens || closes) {
      inside = opens;
      empty = true;
      if (closes) sample += 'x';
    } else if (inside) {
      empty = false;
    } else {
      sample += c;
    }
  }
  if (inside) {
    return invalid("singleton", fmt::format("singleton \"{}\": a {{ is not closed", pattern));
  }
  return check_name("singleton", sample);
}

bool Singletons::begin(const std::string& name) {
  MutexLock lock(mutex_);
  if (names_.size() >= kMaxNames && !names_.contains(name)) {
    std::erase_if(names_, [](const auto& one) { return !one.second.waiting; });
  }
  Name& one = names_[name];
  if (waiting_ >= max_waiting_ || one.waiting) return false;
  ++waiting_;
  return one.waiting = true;
}

// How long to return the job for, if it did not get the lease.
Duration Singletons::end(const std::string& name, bool waited, bool held) {
  MutexLock lock(mutex_);
  Name& one = names_[name];
  if (waited) --waiting_, one.waiting = false;
  one.given_back = held ? 0 : one.given_back + 1;
  const Duration pause =
      std::min(kLeastPause * one.given_back, Duration(kLongestSingletonPause * 2 / 3));
  if (held && !one.waiting) names_.erase(name);
  if (held) return Duration(0);
  const auto jitter = random_.below(static_cast<std::uint64_t>(pause.count() / 2));
  return pause + Duration(static_cast<std::int64_t>(jitter));
}

Result<Singletons::Entry> Singletons::enter(const std::string& name, std::function<void()> on_lost,
                                            std::stop_token stop) {
  LeaseOptions options{.ttl = ttl_, .on_lost = std::move(on_lost), .stop = std::move(stop)};
  Result<AutoRenewLease> lease = acquire(jobs_, clock_, random_, name, options);
  bool waits = false;
  if (!lease && lease.error().code == ErrorCode::lease_held) {
    waits = begin(name);
    options.wait = kSingletonWait;
    if (waits) lease = acquire(jobs_, clock_, random_, name, options);
  }
  const Duration pause = end(name, waits, lease.has_value());
  if (lease) return Entry(std::move(*lease));
  if (lease.error().code == ErrorCode::lease_held) return Entry(pause);
  return lease.error();
}

}  // namespace mainspring
