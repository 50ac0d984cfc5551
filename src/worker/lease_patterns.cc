// do_once and do_every: two patterns that use a lease and its value.
//
// Source: DoOnce and DoEvery of AutoRenewLease (Azure samples), without their polling.
#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "base/mutant.h"
#include "base/mutex.h"
#include "worker/auto_renew_lease.h"

namespace mainspring {
namespace {

constexpr Duration kPatternTryAgain = std::chrono::milliseconds(200);
// The longest sleep, so that a changed wall clock is noticed.
constexpr Duration kLongestSleep = std::chrono::seconds(60);

struct LeaseMark {
  std::string state;
  std::optional<WallTime> last;
};
constexpr JsonField<LeaseMark> kMark[] = {
    {"state", [](JsonReader& in, LeaseMark& mark) { return in.string(mark.state); }},
    {"last", [](JsonReader& in, LeaseMark& mark) { return in.wall_time(mark.last.emplace()); }},
};

Result<LeaseMark> mark_of(const std::string& name, const std::string& value) {
  LeaseMark mark;
  if (value.empty()) return mark;
  JsonReader in(value, JsonReader::Unknown::refuse);
  if (in.object(kMark, mark) && in.end()) return mark;
  return Error{.code = ErrorCode::conflict,
               .message = fmt::format("lease {}: its value was not written by do_once or do_every: "
                                      "the name is used for something else ({})",
                                      name, in.error().message)};
}

// Sleeps for a time, or until stop is requested.
class Nap {
 public:
  void sleep(Duration limit, const std::stop_token& stop, const std::stop_token& lost) {
    const auto wake = [this] {
      const MutexLock lock(mutex_);
      wake_.notify_all();
    };
    const std::stop_callback on_stop(stop, wake);
    const std::stop_callback on_lost(lost, wake);
    const MutexLock lock(mutex_);
    if (!stop.stop_requested() && !lost.stop_requested()) wake_.wait_for(mutex_, limit);
  }

 private:
  Mutex mutex_;
  CondVar wake_;
};

// Records that the action is done, else it would run again.
Result<void> record(AutoRenewLease& lease, const std::string& value, const std::stop_token& stop) {
  for (;;) {
    const Result<void> kept = lease.set_value(value);
    if (kept || info(kept.error().code).retryable == Retryable::no) return kept;
    if (stop.stop_requested()) return kept;
    Nap().sleep(kPatternTryAgain, stop, lease.stop_token());
  }
}

// Runs the action every interval while the lease is held. Success = stopped, or lost the lease.
Result<void> run_holding(AutoRenewLease& lease, const Clock& clock, Duration interval,
                         const LeaseAction& action, const std::stop_token& stop) {
  MS_TRY_ASSIGN(LeaseMark mark, mark_of(lease.name(), lease.value()));
  while (!stop.stop_requested() && !lease.lost()) {
    const WallTime now = clock.now().wall;
    if (mark.last && *mark.last > now) mark.last = now;  // the clock was set back
    if (mark.last && now < *mark.last + interval) {
      Nap().sleep(std::min(*mark.last + interval - now, kLongestSleep), stop, lease.stop_token());
      continue;
    }
    MS_TRY(action(lease));
    mark.last = now;
    const Result<void> kept =
        record(lease, fmt::format("{{\"last\":\"{}\"}}", format_wall_time(now)), stop);
    if (!kept && kept.error().code != ErrorCode::lease_lost) return kept;
  }
  return {};
}

}  // namespace

Result<Once> do_once(Jobs& jobs, const Clock& clock, Random& random, std::string name,
                     const LeaseAction& action, LeaseOptions options) {
  const std::stop_token stop = options.stop;
  MS_TRY_ASSIGN(AutoRenewLease lease, acquire(jobs, clock, random, name, std::move(options)));
  MS_TRY_ASSIGN(const LeaseMark mark, mark_of(name, lease.value()));
  if (mark.state == "done" && !MS_MUTANT(once_done_again)) return Once::done_before;
  MS_TRY(action(lease));
  MS_TRY(record(lease, R"({"state":"done"})", stop));
  return Once::ran;
}

Result<void> do_every(Jobs& jobs, const Clock& clock, Random& random, std::string name,
                      Duration interval, const LeaseAction& action, LeaseOptions options) {
  if (interval <= Duration(0)) {
    return invalid("interval", fmt::format("interval {}: must be more than 0", interval.count()));
  }
  while (!options.stop.stop_requested()) {
    Result<AutoRenewLease> lease = acquire(jobs, clock, random, name, options);
    if (!lease) {
      if (options.stop.stop_requested()) break;
      return lease.error();
    }
    MS_TRY(run_holding(*lease, clock, interval, action, options.stop));
  }
  return {};
}

}  // namespace mainspring
