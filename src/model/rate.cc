// Rates: token buckets, fixed windows and sliding windows.
#include "model/rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/mutant.h"
#include "mainspring/job.h"
#include "mainspring/result.h"
#include "model/job_query.h"
#include "model/session.h"

namespace mainspring {
namespace {

constexpr std::int64_t kSlices = 50;  // slices of a sliding window: its precision is one slice

// The cost of one start for a bucket, rounded up: never faster than the limit.
std::int64_t interval(const RateLimit& limit) {
  return (limit.per.count() + limit.count - 1) / limit.count;
}
std::int64_t depth(const RateLimit& limit) {
  const std::int64_t times = MS_MUTANT(bucket_too_deep) ? 2 : 1;
  return times * interval(limit) * most_at_once(limit);
}
std::int64_t slice(const RateLimit& limit) {
  return (limit.per.count() + kSlices - 1) / kSlices;
}
std::int64_t floor_to(std::int64_t at, std::int64_t step) {
  return at - ((at % step) + step) % step;
}
// A slice counts until it ends this time. The slice of `now` - per counts as a whole.
std::int64_t leaves_at(const RateLimit& limit, std::int64_t slice_begin) {
  const std::int64_t whole = MS_MUTANT(slice_ends_early) ? 0 : slice(limit);
  return slice_begin + whole + limit.per.count();
}

}  // namespace

RateMeter RateMeter::parse(std::string_view text) {
  RateMeter meter;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    Entry entry;
    const auto first = std::from_chars(at, end, entry.first);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':') return {};
    const auto second = std::from_chars(first.ptr + 1, end, entry.second);
    if (second.ec != std::errc()) return {};
    meter.entries_.push_back(entry);
    at = second.ptr == end ? end : second.ptr + 1;
  }
  return meter;
}

std::string RateMeter::text() const {
  std::string out;
  for (const auto& [at, n] : entries_) {
    if (!out.empty()) out += ',';
    fmt::format_to(std::back_inserter(out), "{}:{}", at, n);
  }
  return out;
}

// The entries that count now. An entry far in the future is ignored: the clock was set back.
std::vector<RateMeter::Entry> RateMeter::within(const RateLimit& limit, std::int64_t now) const {
  std::vector<Entry> out;
  for (const Entry& entry : entries_) {
    const std::int64_t at = entry.first;
    bool counts = true;
    switch (limit.kind) {
      case RateKind::bucket:
        counts = at > now && at - now <= 2 * depth(limit);
        break;
      case RateKind::fixed:
        counts = at + limit.per.count() > now && at - now <= limit.per.count();
        break;
      case RateKind::sliding:
        counts = leaves_at(limit, at) > now && at - now <= limit.per.count();
        break;
    }
    if (counts) out.push_back(entry);
  }
  return out;
}

int RateMeter::allowed(const RateLimit& limit, WallTime now) const {
  const std::vector<Entry> counted = within(limit, now.us());
  if (limit.kind == RateKind::bucket) {
    const std::int64_t filled = counted.empty() ? 0 : counted[0].first - now.us();
    return static_cast<int>(std::max<std::int64_t>(0, depth(limit) - filled) / interval(limit));
  }
  std::int64_t used = 0;
  for (const auto& [at, n] : counted) used += n;
  return static_cast<int>(std::max<std::int64_t>(0, limit.count - used));
}

void RateMeter::take(const RateLimit& limit, WallTime now, int n) {
  if (n <= 0) return;
  entries_ = within(limit, now.us());
  if (limit.kind == RateKind::bucket) {
    const std::int64_t full_at = entries_.empty() ? now.us() : entries_[0].first;
    entries_ = {{full_at + n * interval(limit), 0}};
    return;
  }
  const std::int64_t step = limit.kind == RateKind::fixed ? limit.per.count() : slice(limit);
  std::int64_t at = floor_to(now.us(), step);
  if (!entries_.empty()) at = std::max(at, entries_.back().first);
  if (entries_.empty() || entries_.back().first != at) entries_.emplace_back(at, 0);
  entries_.back().second += n;
}

WallTime RateMeter::opens_at(const RateLimit& limit, WallTime now, int begins) const {
  if (allowed(limit, now) >= begins) return now;
  const std::vector<Entry> counted = within(limit, now.us());
  if (limit.kind == RateKind::bucket)
    return WallTime::from_us(counted[0].first - depth(limit) + begins * interval(limit));
  if (limit.kind == RateKind::fixed) return WallTime::from_us(counted[0].first + limit.per.count());
  std::int64_t used = 0;
  for (const auto& [at, n] : counted) used += n;
  for (const auto& [at, n] : counted) {
    used -= n;
    if (used + begins <= limit.count) return WallTime::from_us(leaves_at(limit, at));
  }
  return now;
}

WallTime RateMeter::as_new_at(const RateLimit& limit) const {
  if (entries_.empty()) return WallTime();
  const std::int64_t at = entries_.back().first;
  if (limit.kind == RateKind::bucket) return WallTime::from_us(at);
  return WallTime::from_us(limit.kind == RateKind::fixed ? at + limit.per.count()
                                                         : leaves_at(limit, at));
}

Duration farthest_opening(const RateLimit& limit) {
  return Duration(
      2 * (limit.kind == RateKind::bucket ? depth(limit) : limit.per.count() + slice(limit)));
}

// A bucket is full again at most one full refill after the last start.
WallTime RateMeter::last_begin(const RateLimit& limit) const {
  if (entries_.empty()) return WallTime();
  const std::int64_t at = entries_.back().first;
  return WallTime::from_us(limit.kind == RateKind::bucket ? at - depth(limit) : at);
}

int most_at_once(const RateLimit& limit) {
  return limit.burst > 0 ? limit.burst : limit.count;
}

std::optional<WallTime> key_closed_until(const KeyLimits& limits, const RateMeter& meter,
                                         WallTime now) {
  if (!limits.rate || MS_MUTANT(key_rate_ignored) || meter.allowed(*limits.rate, now) > 0)
    return std::nullopt;
  return meter.opens_at(*limits.rate, now);
}

std::string_view to_string(RateKind kind) {
  switch (kind) {
    case RateKind::bucket:
      return "bucket";
    case RateKind::sliding:
      return "sliding";
    case RateKind::fixed:
      return "fixed";
  }
  return "?";
}

std::optional<RateKind> parse_rate_kind(std::string_view text) {
  for (const RateKind kind : {RateKind::bucket, RateKind::sliding, RateKind::fixed}) {
    if (to_string(kind) == text) return kind;
  }
  return std::nullopt;
}

int effective_priority(int priority, WallTime run_at, const std::optional<Duration>& ageing,
                       WallTime now) {
  if (!ageing || now <= run_at || MS_MUTANT(ageing_ignored)) return priority;
  const std::int64_t steps = (now - run_at) / *ageing;
  return static_cast<int>(std::max<std::int64_t>(0, priority - steps));
}

namespace {
// `name`: rate, or per_key.rate.
Result<void> validate_rate(const std::string& name, const RateLimit& rate) {
  const auto bad = [&](std::string_view field, const std::string& why) {
    const std::string full = fmt::format("{}.{}", name, field);
    return invalid(full, fmt::format("{} {}", full, why));
  };
  if (rate.count < 1 || rate.count > kMaxRateCount)
    return bad("count", fmt::format("{}: must be 1 to {}", rate.count, kMaxRateCount));
  if (rate.per < kMinRatePer || rate.per > kMaxRatePer) {
    return bad("per", fmt::format("{}: must be {} to {}", format_duration(rate.per),
                                  format_duration(kMinRatePer), format_duration(kMaxRatePer)));
  }
  if (rate.burst < 0 || rate.burst > kMaxRateCount) {
    return bad("burst", fmt::format("{}: must be 1 to {}, or 0 for {}.count", rate.burst,
                                    kMaxRateCount, name));
  }
  if (rate.burst != 0 && rate.kind != RateKind::bucket) {
    return bad("burst", fmt::format("{}: only a bucket has one, and this rate is {}", rate.burst,
                                    to_string(rate.kind)));
  }
  return {};
}

Result<void> validate_keys(const KeyLimits& limits) {
  if (limits.rate) MS_TRY(validate_rate("per_key.rate", *limits.rate));
  const auto& most = limits.concurrency;
  if (most && (*most < 1 || *most > kMaxConcurrency)) {
    return invalid("per_key.concurrency",
                   fmt::format("per_key.concurrency {}: must be 1 to {}, or null for no limit",
                               *most, kMaxConcurrency));
  }
  if (!limits.fair && !limits.weights.empty()) {
    return invalid("per_key.weights",
                   "per_key.weights are given, but only fair keys have weights: set per_key.fair");
  }
  if (std::ssize(limits.weights) > kMaxWeights) {
    return invalid(
        "per_key.weights",
        fmt::format("per_key.weights has {} keys: must be at most {}; other keys have weight {}",
                    limits.weights.size(), kMaxWeights, kDefaultWeight));
  }
  for (const auto& [key, weight] : limits.weights) {
    MS_TRY(check_session_key("per_key.weights", key));  // the same bytes
    if (!(weight >= kMinWeight && weight <= kMaxWeight)) {
      return invalid("per_key.weights",
                     fmt::format("per_key.weights: weight {} of \"{}\": must be {} to {}", weight,
                                 key, kMinWeight, kMaxWeight));
    }
  }
  return {};
}

Result<void> validate_costs(const QueueLimits& limits) {
  if (std::ssize(limits.costs) > kMaxCosts) {
    return invalid("costs",
                   fmt::format("costs has {} kinds: must be at most {}; other kinds cost 1",
                               limits.costs.size(), kMaxCosts));
  }
  for (const auto& [kind, cost] : limits.costs) {
    MS_TRY(check_name("costs", kind));
    if (cost < 1 || cost > kMaxCost) {
      return invalid(
          "costs", fmt::format("costs: cost {} of \"{}\": must be 1 to {}", cost, kind, kMaxCost));
    }
  }
  return {};
}
}  // namespace

QueueLimits without_default_costs(QueueLimits limits) {
  std::erase_if(limits.costs, [](const auto& cost) { return cost.second == 1; });
  return limits;
}

namespace {

// A number in a path is an index of an array, and has one form.
bool is_path_name(std::string_view name) {
  const bool plain = std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '=' || c == 0x7f;
  });
  if (name.empty() || !plain) return false;
  const std::string_view digits = name.substr(name[0] == '-' || name[0] == '+' ? 1 : 0);
  const bool number = !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos;
  if (!number) return true;
  return digits == name && name.size() <= 9 && (name == "0" || name[0] != '0');
}

Result<void> validate_searchable(const std::vector<std::string>& paths) {
  if (paths.size() > kMaxSearchable)
    return invalid("searchable", fmt::format("searchable: {} paths: must be at most {}",
                                             paths.size(), kMaxSearchable));
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string& path = paths[i];
    const auto bad = [&](const std::string& rule) {
      return invalid("searchable", fmt::format("searchable \"{}\": {}", path.substr(0, 64), rule));
    };
    if (path.size() > kMaxSearchableBytes)
      return bad(fmt::format("must have at most {} bytes", kMaxSearchableBytes));
    std::size_t names = 0;
    for (std::string_view rest = path;;) {
      const std::size_t end = rest.find('.');
      if (!is_path_name(rest.substr(0, end)))
        return bad(
            "must be names with dots between them, as customer.id or items.0.sku, without "
            "blanks, quotes and =");
      ++names;
      if (end == rest.npos) break;
      rest.remove_prefix(end + 1);
    }
    if (names > kMaxQuerySegments)
      return bad(fmt::format("must have at most {} names", kMaxQuerySegments));
    if (std::find(paths.begin(), paths.begin() + static_cast<std::ptrdiff_t>(i), path) !=
        paths.begin() + static_cast<std::ptrdiff_t>(i))
      return bad("is given twice");
  }
  return {};
}

}  // namespace

Result<void> validate(const QueueLimits& limits) {
  if (limits.concurrency && (*limits.concurrency < 1 || *limits.concurrency > kMaxConcurrency)) {
    return invalid("concurrency", fmt::format("concurrency {}: must be 1 to {}, or null for "
                                              "no limit (pause the queue to stop it)",
                                              *limits.concurrency, kMaxConcurrency));
  }
  MS_TRY(validate_keys(limits.per_key));
  const int lost = limits.lost_before_quarantine();
  if (lost < 0 || lost > kMaxQuarantineAfter) {
    return invalid("quarantine_after",
                   fmt::format("quarantine_after {}: must be 0 (never) to {}, or null for {}", lost,
                               kMaxQuarantineAfter, kDefaultQuarantineAfter));
  }
  if (limits.ageing && (*limits.ageing < kMinAgeing || *limits.ageing > kMaxAgeing)) {
    return invalid("ageing", fmt::format("ageing {}: must be {} to {}, or null for none",
                                         format_duration(*limits.ageing),
                                         format_duration(kMinAgeing), format_duration(kMaxAgeing)));
  }
  if (!limits.breaker.empty()) MS_TRY(check_name("breaker", limits.breaker));
  MS_TRY(validate_costs(limits));
  MS_TRY(validate_searchable(limits.searchable));
  if (limits.rate) MS_TRY(validate_rate("rate", *limits.rate));
  return {};
}

}  // namespace mainspring
