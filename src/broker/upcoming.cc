// Ticks and due jobs of the next hours; and pausing or resuming many schedules.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <queue>
#include <tuple>

#include "broker/sync_call.h"
#include "model/schedule.h"

namespace mainspring {
namespace {

// The schedules that fire first; if there are more, the answer is marked as truncated.
constexpr int kMaxUpcomingSchedules = 10'000;
constexpr int kTicksAtOnce = 16;
constexpr std::size_t kPausesAtOnce = 100;

// The ticks of one schedule after a nominal time, read a few at once.
class TicksToCome {
 public:
  TicksToCome(Schedule schedule, std::optional<std::int64_t> runs, WallTime after)
      : schedule_(std::move(schedule)), left_(kMaxTicksOfOne), runs_(runs), after_(after) {
    read(1);
  }
  const std::string& name() const { return schedule_.name; }
  // The next tick; nullptr = none.
  const PreviewTick* first() const { return next_ < read_.size() ? &read_[next_] : nullptr; }
  // Moves past the first tick. Returns false if more ticks fire before `to` that are not read.
  bool step(WallTime to) {
    after_ = read_[next_++].nominal;
    --left_;
    if (runs_) --*runs_;
    if (next_ < read_.size()) return true;
    if (left_ > 0) {
      read(kTicksAtOnce);
      return true;
    }
    const bool over = runs_ && *runs_ == 0;
    const auto more = preview(schedule_, after_, over ? 0 : 1);
    return more.empty() || more.front().fires_at >= to;
  }

 private:
  void read(int count) {
    if (runs_) count = static_cast<int>(std::min<std::int64_t>(count, *runs_));
    read_ = preview(schedule_, after_, std::min(count, left_));
    next_ = 0;
  }

  Schedule schedule_;
  int left_;
  std::optional<std::int64_t> runs_;  // remaining; nullopt = no limit
  WallTime after_;
  std::vector<PreviewTick> read_;
  std::size_t next_ = 0;
};

// The ticks after this nominal time are those to come: the first undecided one, unless its time to
// fire has passed. With jitter its nominal time may have passed. Ticks of a pause are skipped.
WallTime before_first(const ScheduleInfo& info, WallTime now) {
  constexpr Duration kTickle(1);
  return std::max(
      {info.next - kTickle, info.skip_before - kTickle, now - jitter_of(info.schedule)});
}

void merge_ticks(std::vector<TicksToCome>& all, int limit, Upcoming& out) {
  using Place = std::tuple<WallTime, std::string_view, std::size_t>;
  std::priority_queue<Place, std::vector<Place>, std::greater<>> order;
  const auto enter = [&](std::size_t i) {
    const PreviewTick* tick = all[i].first();
    if (tick != nullptr && tick->fires_at < out.to) order.emplace(tick->nominal, all[i].name(), i);
  };
  for (std::size_t i = 0; i < all.size(); ++i) enter(i);
  while (!order.empty()) {
    if (std::ssize(out.ticks) == limit) {
      out.truncated = true;
      break;
    }
    const std::size_t i = std::get<std::size_t>(order.top());
    order.pop();
    const PreviewTick& tick = *all[i].first();
    out.ticks.push_back({all[i].name(), tick.nominal, tick.note});
    if (!all[i].step(out.to)) out.cut.push_back(all[i].name());
    enter(i);
  }
  std::sort(out.cut.begin(), out.cut.end());
  out.truncated = out.truncated || !out.cut.empty();
}

Result<void> check_schedule_set(const ScheduleSet& which) {
  if (which.prefix.has_value() != which.names.empty()) {
    return invalid("names", "names: give either names or a prefix");
  }
  if (which.names.size() > kMaxPausedAtOnce) {
    return invalid("names", fmt::format("names has {}: must have at most {}", which.names.size(),
                                        kMaxPausedAtOnce));
  }
  for (std::size_t i = 0; i < which.names.size(); ++i) {
    MS_TRY(check_name(fmt::format("names[{}]", i), which.names[i]));
  }
  return {};
}

// Each existing schedule of the set, and whether it is paused; the others are missing.
Result<std::map<std::string, bool>> paused_by_name(const Store& store,
                                                   const PauseSchedules& request,
                                                   std::vector<std::string>& missing) {
  std::map<std::string, bool> paused;
  const auto take = [&](const ScheduleInfo& info) {
    if (!request.within.has(info.schedule.job.queue)) return false;
    paused[info.schedule.name] = info.paused;
    return true;
  };
  std::vector<std::string> names = request.which.names;
  if (request.which.prefix) names = {*request.which.prefix};
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& name : names) {
    if (name.empty()) continue;
    const auto info = store.schedule(name);
    if (!info && info.error().code != ErrorCode::not_found) return info.error();
    if ((!info || !take(*info)) && !request.which.prefix) missing.push_back(name);
  }
  if (!request.which.prefix) return paused;
  constexpr int kPage = 64;
  for (std::string after = *request.which.prefix;;) {
    MS_TRY_ASSIGN(const std::vector<ScheduleInfo> page, store.schedules(after, kPage));
    for (const ScheduleInfo& info : page) {
      if (!info.schedule.name.starts_with(*request.which.prefix)) return paused;
      take(info);
    }
    if (page.empty()) return paused;
    after = page.back().schedule.name;
  }
}

}  // namespace

Result<Upcoming> Broker::upcoming(Duration within, int limit, const Within& visible) {
  if (within <= Duration(0) || within > kMaxUpcoming) {
    return invalid("within", fmt::format("within {}: must be more than 0s and at most {}",
                                         format_duration(within), format_duration(kMaxUpcoming)));
  }
  if (limit < 1 || limit > kMaxUpcomingTicks) {
    return invalid("limit", fmt::format("limit {}: must be 1 to {}", limit, kMaxUpcomingTicks));
  }
  const WallTime now = clock_.now().wall;
  Upcoming out{.from = now, .to = now + within};
  MS_TRY_ASSIGN(std::vector<ScheduleInfo> schedules,
                store_.due_schedules(out.to, kMaxUpcomingSchedules));
  out.truncated = std::ssize(schedules) == kMaxUpcomingSchedules;
  std::vector<TicksToCome> ticks;
  for (ScheduleInfo& info : schedules) {
    if (!visible.has(info.schedule.job.queue)) continue;
    info.schedule.job.args.clear();
    info.schedule.job.headers.clear();
    const WallTime after = before_first(info, now);
    ticks.emplace_back(std::move(info.schedule), info.remaining, after);
  }
  merge_ticks(ticks, limit, out);
  MS_TRY_ASSIGN(DueHours due, store_.due_by_hour(out.from, out.to, visible));
  out.due = std::move(due.hours);
  out.truncated = out.truncated || due.truncated;
  return out;
}

Result<ScheduleChanges> Broker::pause_schedules(
    PauseSchedules request, const std::function<Audit(const std::string&)>& audit) {
  MS_TRY(check_schedule_set(request.which));
  ScheduleChanges out;
  MS_TRY_ASSIGN(const auto all, paused_by_name(store_, request, out.missing));
  std::vector<std::string> names;
  for (const auto& [name, paused] : all) {
    (paused == request.paused ? out.unchanged : names).push_back(name);
  }
  for (std::size_t begin = 0; begin < names.size(); begin += kPausesAtOnce) {
    const std::size_t end = std::min(begin + kPausesAtOnce, names.size());
    std::deque<SyncCall> calls;
    for (std::size_t i = begin; i < end; ++i) {
      const PauseSchedule one{names[i], request.paused, request.reason, request.within};
      submit(one, calls.emplace_back().answer(),
             audit ? std::optional(audit(names[i])) : std::nullopt);
    }
    std::optional<Error> failed;
    for (std::size_t i = begin; i < end; ++i) {
      SyncCall& call = calls[i - begin];
      wait_for(call);
      const auto done = call.take<Done>();
      if (done) {
        out.changed.push_back(names[i]);
      } else if (done.error().code == ErrorCode::not_found) {
        out.missing.push_back(names[i]);
      } else {
        failed = done.error();
      }
    }
    if (failed) return *failed;
  }
  std::sort(out.missing.begin(), out.missing.end());
  return out;
}

}  // namespace mainspring
