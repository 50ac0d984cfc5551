// The scaling rule: see rule.h.
#include "scale/rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/mutant.h"

namespace mainspring {
namespace {

constexpr Duration kLongestOption = std::chrono::hours(24);
constexpr double kLeastFlow = 0.02;  // slots: less is no demand
constexpr int kMostPatience = 2;
constexpr int kForgetUndone = 6;  // holds
constexpr double kRounding = 1e-9;

}  // namespace

Result<void> ScaleOptions::validate() const {
  const auto check = [](const char* name, bool ok, const std::string& value,
                        const std::string& rule) -> Result<void> {
    if (ok) return {};
    return invalid(name, fmt::format("{} {}: must be {}", name, value, rule));
  };
  const auto time = [&](const char* name, Duration value, Duration least) {
    return check(name, value >= least && value <= kLongestOption, format_duration(value),
                 fmt::format("{} to 24h", format_duration(least)));
  };
  MS_TRY(time("target", target, std::chrono::seconds(1)));
  MS_TRY(time("lead", lead, Duration(0)));
  MS_TRY(time("hold", hold, Duration(0)));
  const auto count = [&](const char* name, int value, int least, int most) {
    return check(name, value >= least && value <= most, fmt::to_string(value),
                 fmt::format("{} to {}", least, most));
  };
  MS_TRY(count("slots", slots, 1, 1024));
  MS_TRY(count("max", max, 1, kMaxScaleWorkers));
  return count("min", min, 0, max);
}

SlotsNeeded slots_needed(std::span<const ScaleLoad> queues, const ScaleOptions& options) {
  const double target = as_seconds(options.target);
  SlotsNeeded out;
  double capped = 0;  // of queues with a cap: these do not share
  SlotsNeeded free;
  const auto most = [](const SlotsNeeded& s) {
    return std::max({s.flow / kScaleUse, s.flow + s.backlog, s.due});
  };
  for (const ScaleLoad& queue : queues) {
    const double work = queue.mean_s * queue.cost;
    const SlotsNeeded one{.flow = queue.arrivals_per_s * work,
                          .backlog = queue.ready * work / target,
                          .due = queue.due * work / target};
    SlotsNeeded& into = queue.cap ? out : free;
    into.flow += one.flow;
    into.backlog += one.backlog;
    into.due += one.due;
    if (queue.cap)
      capped += MS_MUTANT(scale_ignores_limits) ? most(one) : std::min(most(one), *queue.cap);
  }
  out.flow += free.flow;
  out.backlog += free.backlog;
  out.due += free.due;
  out.total = most(free) + capped;
  return out;
}

int raw_workers(std::span<const ScaleLoad> queues, const SlotsNeeded& needed,
                const ScaleOptions& options) {
  const bool any = std::any_of(queues.begin(), queues.end(), [](const ScaleLoad& queue) {
    return queue.running > 0 || (queue.ready > 0 && queue.cap != 0) || queue.due > 0;
  });
  if (!any && needed.total <= kLeastFlow) return 0;
  const double workers = std::ceil(needed.total / options.slots - kRounding);
  return static_cast<int>(std::clamp<double>(workers, 1, kMaxScaleWorkers));
}

void ScalePool::remember(Instant at, int raw) {
  while (!last_.empty() && last_.back().second <= raw) last_.pop_back();
  last_.emplace_back(at, raw);
  value_ = last_.front().second;
}

int ScalePool::desired(Instant now, int raw, int floor, const ScaleOptions& options) {
  const int before = value_;
  raw = std::min(raw, options.max);
  remember(now, raw);
  if (now - undone_ > options.hold * kForgetUndone) patience_ = 1;
  Duration hold = options.hold * patience_;
  while (now - last_.front().first > hold) last_.pop_front();
  // Patience is for small waves: a peak is held for one `hold`.
  const auto recent = std::find_if(
      last_.begin(), last_.end(), [&](const auto& one) { return now - one.first <= options.hold; });
  if (recent->second * 2 < last_.front().second) {
    last_.erase(last_.begin(), recent);
    hold = options.hold;
  }
  const int top = std::max(last_.front().second, std::min(floor, before));
  value_ = before;
  if (raw > value_) {
    if (value_ > 0 && fell_ && now - *fell_ <= options.hold) {
      patience_ = std::min(patience_ * 2, kMostPatience);
      undone_ = now;
    }
    value_ = raw;
  } else if (top < value_ && (!fell_ || now - *fell_ >= kScaleDownEvery)) {
    value_ = std::max(top, value_ - std::max(1, value_ / 4));
    fell_ = now;
  }
  value_ = std::max(value_, top);
  falls_at_.reset();
  if (top < value_) {
    falls_at_ = fell_ ? *fell_ + kScaleDownEvery : now;
  } else if (last_.size() > 1) {
    falls_at_ = last_.front().first + hold;
  }
  return std::clamp(value_, options.min, options.max);
}

std::vector<int> share_slots(int slots, std::span<const SlotShare> pools) {
  std::vector<int> out;
  int left = slots;
  for (const SlotShare& pool : pools) {
    out.push_back(std::min(pool.min, std::max(left, 0)));
    left -= out.back();
  }
  // One slot at a time, to the pool that has the least of what it needs.
  while (left > 0) {
    std::size_t best = pools.size();
    double least = 1;
    for (std::size_t i = 0; i < pools.size(); ++i) {
      if (out[i] >= pools[i].max || out[i] >= pools[i].needed) continue;
      const double has = out[i] / pools[i].needed;
      if (best != pools.size() && has >= least) continue;
      best = i;
      least = has;
    }
    if (best == pools.size()) return out;
    ++out[best];
    --left;
  }
  return out;
}

}  // namespace mainspring
