// The parts of the health report, and how often they are checked.
#include "http/health.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/json.h"
#include "broker/broker.h"
#include "env/host.h"
#include "host/control.h"

namespace mainspring {

std::string_view to_string(PartState state) {
  constexpr std::string_view kNames[] = {"ok", "warn", "fail"};
  return kNames[static_cast<std::size_t>(state)];
}

namespace http {
namespace {

constexpr Duration kProbeWait = std::chrono::seconds(1);
constexpr Duration kPingEvery = std::chrono::seconds(1);
constexpr Duration kClockJump = std::chrono::seconds(2);

std::string ago(Duration age) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(age);
  return format_duration(std::max<Duration>(seconds, Duration(0)));
}

HealthPart host_part(HostControl& host) {
  const HostView view = host.view();
  HealthPart part{.name = "job_host"};
  if (view.problems.empty() && view.missing == 0) return part;
  part.state = PartState::warn;
  part.message = view.problems.empty() ? fmt::format("{} job folders cannot be read", view.missing)
                                       : view.problems.front();
  return part;
}

std::string failure_of(const Health::Report& report) {
  for (const HealthPart& part : report.parts) {
    if (part.core && part.state == PartState::fail) return part.name + ": " + part.message;
  }
  return "";
}

std::string body_of(const Health::Report& report) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("status").string(to_string(report.state));
  if (report.state == PartState::fail) {
    w.key("error").begin_object().key("code").string("unavailable");
    w.key("message").string(failure_of(report)).end_object();
  }
  w.key("parts").begin_array();
  for (const HealthPart& part : report.parts) {
    w.begin_object().key("name").string(part.name).key("core").boolean(part.core);
    w.key("status").string(to_string(part.state));
    if (!part.message.empty()) w.key("message").string(part.message);
    if (part.age) w.key("age_ms").milliseconds(*part.age);
    w.end_object();
  }
  w.end_array().end_object();
  return out;
}

}  // namespace

// Outlives Health: pings and probes may be answered after it.
struct Health::Shared {
  Mutex mutex;
  CondVar answered;
  std::vector<std::shared_ptr<Loop>> loops MS_GUARDED_BY(mutex);
  bool probing MS_GUARDED_BY(mutex) = false;
  Instant probed_at MS_GUARDED_BY(mutex);             // when the probe was sent
  std::optional<Error> refused MS_GUARDED_BY(mutex);  // by the last probe
};

Health::Health(Broker& broker, const Store& store, const Clock& clock,
               std::vector<std::function<HealthPart()>> more)
    : broker_(broker),
      store_(store),
      clock_(clock),
      more_(std::move(more)),
      shared_(std::make_shared<Shared>()) {}

Health::~Health() = default;

void Health::watch(std::string loop, Ping ping) {
  MutexLock lock(shared_->mutex);
  auto one = std::make_shared<Loop>();
  one->name = std::move(loop);
  one->ping = std::move(ping);
  shared_->loops.push_back(std::move(one));
}

std::string Health::stuck() {
  const Instant now = clock_.now().instant;
  std::vector<std::shared_ptr<Loop>> due;
  std::string why;
  {
    MutexLock lock(shared_->mutex);
    for (const std::shared_ptr<Loop>& loop : shared_->loops) {
      if (loop->under_way) {
        if (now - loop->asked >= kStuckAfter && why.empty())
          why = fmt::format("{} has not responded for {}", loop->name, ago(now - loop->asked));
      } else if (now - loop->asked >= kPingEvery || loop->asked == Instant()) {
        loop->asked = now;
        loop->under_way = true;
        due.push_back(loop);
      }
    }
  }
  for (const std::shared_ptr<Loop>& loop : due) {
    loop->ping([shared = shared_, loop] {
      MutexLock lock(shared->mutex);
      loop->under_way = false;
    });
  }
  return why;
}

HealthPart Health::loops_part() {
  HealthPart part{.name = "loops", .core = true, .message = stuck()};
  if (!part.message.empty()) part.state = PartState::fail;
  return part;
}

// A recent commit proves that the store works. Otherwise a probe writes. If it takes longer than
// kProbeWait, the next report has its outcome.
HealthPart Health::store_part() {
  HealthPart part{.name = "store", .core = true};
  const Instant now = clock_.now().instant;
  const Duration since = now - broker_.last_commit();
  const bool lately = broker_.last_commit() != Instant() && since < kWriteProbeEvery;
  bool send = false;
  {
    MutexLock lock(shared_->mutex);
    send = !lately && !shared_->probing && now - shared_->probed_at >= kHealthKept;
    if (send) shared_->probing = true, shared_->probed_at = now;
  }
  if (send) {
    broker_.submit(WriteProbe{}, [shared = shared_](const OperationResult& result) {
      MutexLock lock(shared->mutex);
      shared->probing = false;
      const auto* error = std::get_if<Error>(&result);
      shared->refused = error == nullptr ? std::optional<Error>() : *error;
      shared->answered.notify_all();
    });
  }
  MutexLock lock(shared_->mutex);
  if (send && shared_->probing) shared_->answered.wait_for(shared_->mutex, kProbeWait);
  const Duration waits = clock_.now().instant - shared_->probed_at;
  if (shared_->refused && !lately) {
    part.state = PartState::fail;
    part.message = "the last write was refused: " + shared_->refused->message;
  } else if (shared_->probing && waits >= kStuckAfter) {
    part.state = PartState::fail;
    part.message = fmt::format("a write has waited for {}", ago(waits));
  } else if (shared_->probing) {
    part.state = PartState::warn;
    part.message = fmt::format("a write has waited for {}", ago(waits));
  }
  part.age = shared_->probing || broker_.last_commit() == Instant()
                 ? waits
                 : clock_.now().instant - broker_.last_commit();
  if (part.state == PartState::ok) {
    if (const std::string shortage = store_.shortage(); !shortage.empty()) {
      part.state = PartState::warn;
      part.message = "new jobs are refused: " + shortage;
    } else if (std::string failing = housekeeping(); !failing.empty()) {
      part.state = PartState::warn;
      part.message = std::move(failing);
    }
  }
  return part;
}

// Compares the wall clock with the steady clock.
HealthPart Health::clock_part() {
  HealthPart part{.name = "clock"};
  const Now now = clock_.now();
  MutexLock lock(mutex_);
  if (clock_seen_) {
    const Duration by = (now.wall - clock_seen_->wall) - (now.instant - clock_seen_->instant);
    if (by >= kClockJump || by <= -kClockJump) {
      clock_set_at_ = now.instant;
      clock_set_by_ = by;
    }
  }
  clock_seen_ = now;
  if (clock_set_at_ && now.instant - *clock_set_at_ < kClockSetShown) {
    part.state = PartState::warn;
    part.age = now.instant - *clock_set_at_;
    part.message = fmt::format("the wall clock was set {} by {}",
                               clock_set_by_ > Duration(0) ? "forward" : "back",
                               ago(clock_set_by_ > Duration(0) ? clock_set_by_ : -clock_set_by_));
  } else if (clock_synchronised() == std::optional(false)) {
    part.state = PartState::warn;
    part.message = "the kernel's clock is not synchronised with a time server";
  }
  return part;
}

HealthPart Health::leader_part() const {
  HealthPart part{.name = "leader"};
  const auto lease = store_.lease(std::string(kLeadershipLease), clock_.now().instant);
  if (!lease && lease.error().code != ErrorCode::not_found) {
    part.state = PartState::warn;
    part.message = lease.error().message;
  } else if (!lease || lease->holder.empty() || lease->expires_in <= Duration(0)) {
    part.state = PartState::warn;
    part.message = "no node leads: schedules, retries and lost leases wait";
  }
  return part;
}

std::shared_ptr<const Health::Report> Health::report(HostControl* host) {
  {
    MutexLock lock(mutex_);
    const bool fresh = clock_.now().instant - reported_at_ < kHealthKept;
    if (last_ != nullptr && (fresh || reporting_)) return last_;
    reporting_ = true;
  }
  auto report = std::make_shared<Report>();
  report->parts = {loops_part(), store_part(), clock_part(), leader_part()};
  for (const auto& part : more_) report->parts.push_back(part());
  if (host != nullptr) report->parts.push_back(host_part(*host));
  for (const HealthPart& part : report->parts) {
    const PartState counts =
        part.core || part.state == PartState::ok ? part.state : PartState::warn;
    report->state = std::max(report->state, counts);
  }
  report->body = body_of(*report);
  MutexLock lock(mutex_);
  last_ = report;
  reported_at_ = clock_.now().instant;
  reporting_ = false;
  return report;
}

std::string Health::housekeeping() const {
  return broker_.housekeeping().failing();
}

std::string Health::failure() const {
  MutexLock lock(mutex_);
  return last_ == nullptr ? "" : failure_of(*last_);
}

}  // namespace http
}  // namespace mainspring
