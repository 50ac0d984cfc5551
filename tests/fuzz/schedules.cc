// Fuzz target: cron expressions and whole schedules, and the ticks that come of them.
#include "api/schedule_shapes.h"
#include "model/cron.h"
#include "model/schedule.h"
#include "targets.h"

namespace mainspring::fuzz {
namespace {

constexpr WallTime kScheduleNow = WallTime::from_ms(1'767'225'600'000);

void follow(const Cron& cron) {
  LocalSeconds t = 1'767'225'600;
  for (int i = 0; i < 5; ++i) {
    const auto next = cron.next_after(t);
    if (!next) return;
    FUZZ_CHECK(*next > t);
    const auto last = cron.last_until(*next);
    FUZZ_CHECK(last && *last == *next);
    t = *next;
  }
}

void follow(const Schedule& schedule) {
  if (!validate(schedule)) return;
  WallTime t = kScheduleNow;
  for (int i = 0; i < 5; ++i) {
    const NextTick next = next_tick(schedule, t);
    if (next.nominal == WallTime::never()) break;
    FUZZ_CHECK(next.nominal > t);
    t = next.nominal;
  }
  FUZZ_CHECK(preview(schedule, kScheduleNow, 10).size() <= 10);
  FUZZ_CHECK(ticks_between(schedule, kScheduleNow, kScheduleNow + std::chrono::hours(24 * 40), 100)
                 .ticks.size() <= 100);
  (void)first_tick(schedule, kScheduleNow);
  (void)jitter_of(schedule);
}

}  // namespace

void schedules(std::string_view bytes) {
  if (bytes.starts_with('{')) {
    if (const auto put = decode_put_schedule_request("s", bytes)) follow(put->schedule);
    return;
  }
  if (const auto cron = Cron::parse(bytes)) follow(*cron);
  Schedule schedule;
  schedule.name = "s";
  schedule.cron = bytes;
  follow(schedule);
}

}  // namespace mainspring::fuzz
