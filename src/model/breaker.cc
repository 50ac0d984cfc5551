// The states of a breaker, its rules and its text form.
#include "model/breaker.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/mutant.h"

namespace mainspring {
namespace {

constexpr int kUnlimited = std::numeric_limits<int>::max();

// Numbers in sequence, each with the separator that follows it.
class Numbers {
 public:
  explicit Numbers(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}
  bool done() const { return at_ == end_; }
  bool next(std::int64_t& number) {
    const auto read = std::from_chars(at_, end_, number);
    if (read.ec != std::errc() || read.ptr == end_) return false;
    at_ = read.ptr + 1;
    return true;
  }

 private:
  const char* at_;
  const char* const end_;
};

}  // namespace

// state,since,open_until,length,room,succeeded,opened, the number of failures and of probes; then
// the failures and the probes.
std::string BreakerMeter::text() const {
  if (*this == BreakerMeter()) return {};
  std::string out = fmt::format("{},{},{},{},{},{},{},{},{};", static_cast<int>(state_),
                                since_.us(), open_until_.us(), length_.count(), room_, succeeded_,
                                opened_, failures_.size(), probes_.size());
  for (const WallTime at : failures_) fmt::format_to(std::back_inserter(out), "{},", at.us());
  for (const Probe& probe : probes_)
    fmt::format_to(std::back_inserter(out), "{}:{},", probe.id, probe.token);
  return out;
}

BreakerMeter BreakerMeter::parse(std::string_view text) {
  BreakerMeter meter;
  Numbers in(text);
  std::int64_t state = 0, since = 0, until = 0, length = 0, room = 0, ok = 0, failures = 0,
               probes = 0;
  for (std::int64_t* number :
       {&state, &since, &until, &length, &room, &ok, &meter.opened_, &failures, &probes}) {
    if (!in.next(*number)) return {};
  }
  if (state < 0 || state > static_cast<int>(BreakerState::half_open)) return {};
  meter.state_ = static_cast<BreakerState>(state);
  meter.since_ = WallTime::from_us(since), meter.open_until_ = WallTime::from_us(until);
  meter.length_ = Duration(length);
  meter.room_ = static_cast<int>(room), meter.succeeded_ = static_cast<int>(ok);
  for (std::int64_t at = 0; failures > 0; --failures) {
    if (!in.next(at)) return {};
    meter.failures_.push_back(WallTime::from_us(at));
  }
  for (Probe probe; probes > 0; --probes) {
    if (!in.next(probe.id) || !in.next(probe.token)) return {};
    meter.probes_.push_back(probe);
  }
  return in.done() ? meter : BreakerMeter();
}

// A failure in the future is ignored: the clock was set back since then.
std::vector<WallTime> BreakerMeter::failures_within(const BreakerSettings& settings,
                                                    WallTime now) const {
  std::vector<WallTime> out;
  for (const WallTime at : failures_) {
    if (at + settings.within > now && at <= now) out.push_back(at);
  }
  return out;
}

void BreakerMeter::describe(const BreakerSettings& settings, WallTime now,
                            BreakerInfo& info) const {
  info.state = state_;
  info.open_until.reset();
  info.failures = info.room = info.probes = 0;
  if (state_ == BreakerState::open) info.open_until = open_until_;
  if (state_ == BreakerState::closed)
    info.failures = static_cast<int>(failures_within(settings, now).size());
  if (state_ == BreakerState::half_open)
    info.room = room_, info.probes = static_cast<int>(probes_.size());
  info.opened = opened_;
}

void BreakerMeter::step(const BreakerSettings& settings, WallTime now) {
  if (state_ != BreakerState::open || open_until_ > now) return;
  if (MS_MUTANT(breaker_stays_open)) return;
  state_ = BreakerState::half_open;
  since_ = now;
  room_ = settings.probes;
  succeeded_ = 0;
  probes_.clear();
}

int BreakerMeter::room() const {
  if (state_ == BreakerState::closed || MS_MUTANT(breaker_ignored)) return kUnlimited;
  if (state_ == BreakerState::open) return 0;
  if (MS_MUTANT(half_open_gives_all)) return kUnlimited;
  return std::max(0, room_ - static_cast<int>(probes_.size()));
}

void BreakerMeter::begin(Probe attempt) {
  if (state_ == BreakerState::half_open) probes_.push_back(attempt);
}

void BreakerMeter::end(const BreakerSettings& settings, Probe attempt, WallTime began, End how,
                       WallTime now) {
  if (state_ == BreakerState::half_open) {
    if (std::erase(probes_, attempt) == 0) return;
    if (how == End::failed && !MS_MUTANT(failed_probe_ignored)) {
      length_ = std::min(2 * std::max(length_, kMinBreakerTime), settings.max_open_for);
      return open(now + length_);
    }
    if (how != End::succeeded || MS_MUTANT(success_never_closes)) return;
    if (++succeeded_ < room_) return;
    room_ *= 2;
    succeeded_ = 0;
    if (room_ < kBreakerFullRoom) return;
    const WallTime since = since_;
    set_closed(now);
    since_ = since;
    return;
  }
  if (state_ == BreakerState::open || how != End::failed || began < since_) return;
  failures_ = failures_within(settings, now);
  failures_.push_back(now);
  if (std::ssize(failures_) < settings.failures) return;
  length_ = settings.open_for;
  open(now + length_);
}

void BreakerMeter::open(WallTime until) {
  if (state_ != BreakerState::open) ++opened_;
  state_ = BreakerState::open;
  open_until_ = until;
  room_ = succeeded_ = 0;
  failures_.clear();
  probes_.clear();
}

void BreakerMeter::open_for(const BreakerSettings& settings, Duration time, WallTime now) {
  if (MS_MUTANT(open_breaker_for_ignored)) return;
  const WallTime until =
      now + (MS_MUTANT(open_breaker_unbounded) ? time : std::min(time, settings.max_open_for));
  if (state_ == BreakerState::open && open_until_ >= until) return;
  if (state_ == BreakerState::closed) length_ = settings.open_for;
  open(until);
}

void BreakerMeter::set_open(const BreakerSettings& settings, Duration time, WallTime now) {
  if (state_ == BreakerState::closed) length_ = settings.open_for;
  open(now + time);
}

void BreakerMeter::set_closed(WallTime now) {
  const std::int64_t opened = opened_;
  *this = {};
  opened_ = opened;
  since_ = now;
}

BreakerMeter::End end_for_breaker(const Outcome& outcome) {
  if (std::holds_alternative<Retry>(outcome)) return BreakerMeter::End::failed;
  if (std::holds_alternative<Complete>(outcome)) return BreakerMeter::End::succeeded;
  return BreakerMeter::End::neither;
}

std::optional<Duration> open_breaker_for(const Outcome& outcome) {
  if (const auto* retry = std::get_if<Retry>(&outcome)) return retry->open_breaker_for;
  if (const auto* snooze = std::get_if<Snooze>(&outcome)) return snooze->open_breaker_for;
  return std::nullopt;
}

// -- errors of stores -----------------------------------------------------------------------------

Error no_breaker(std::string_view name) {
  return {ErrorCode::not_found, fmt::format("breaker {}: there is no such breaker", name)};
}

Error unknown_breaker(std::string_view name) {
  return Error{
      .code = ErrorCode::invalid_argument,
      .message = fmt::format(
          "breaker \"{0}\": does not exist; create it with `mainspring breaker set {0}`", name),
      .field = "breaker"};
}

Error too_many_breakers() {
  return Error{.code = ErrorCode::overloaded,
               .message = fmt::format("there are {} breakers: remove some", kMaxBreakers)};
}

Error breaker_in_use(std::string_view name, const std::vector<std::string>& queues) {
  return {
      ErrorCode::conflict,
      fmt::format(
          "breaker {} is used by {} {}: detach it with `mainspring queues limit {} --breaker none`",
          name, queues.size() == 1 ? "queue" : "queues", fmt::join(queues, ", "), queues.front())};
}

// -- the settings ---------------------------------------------------------------------------------

std::string_view to_string(BreakerState state) {
  switch (state) {
    case BreakerState::closed:
      return "closed";
    case BreakerState::open:
      return "open";
    case BreakerState::half_open:
      return "half_open";
  }
  return "?";
}

std::optional<BreakerState> parse_breaker_state(std::string_view text) {
  for (const BreakerState state :
       {BreakerState::closed, BreakerState::open, BreakerState::half_open}) {
    if (to_string(state) == text) return state;
  }
  return std::nullopt;
}

namespace {
Result<void> check_count(std::string_view field, int count, int most) {
  if (count >= 1 && count <= most) return {};
  return invalid(std::string(field), fmt::format("{} {}: must be 1 to {}", field, count, most));
}
}  // namespace

Result<void> check_open_for(std::string_view field, Duration open_for) {
  if (open_for >= kMinBreakerTime && open_for <= kMaxBreakerTime) return {};
  return invalid(std::string(field),
                 fmt::format("{} {}: must be {} to {}", field, format_duration(open_for),
                             format_duration(kMinBreakerTime), format_duration(kMaxBreakerTime)));
}

Result<void> validate(const BreakerSettings& settings) {
  MS_TRY(check_count("failures", settings.failures, kMaxBreakerFailures));
  MS_TRY(check_open_for("within", settings.within));
  MS_TRY(check_open_for("open_for", settings.open_for));
  MS_TRY(check_open_for("max_open_for", settings.max_open_for));
  if (settings.max_open_for < settings.open_for) {
    return invalid(
        "max_open_for",
        fmt::format("max_open_for {}: must not be less than open_for, {}",
                    format_duration(settings.max_open_for), format_duration(settings.open_for)));
  }
  return check_count("probes", settings.probes, kMaxBreakerProbes);
}

}  // namespace mainspring
