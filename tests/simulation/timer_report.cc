// timer_report: how long no run processes when one run of a continuous timer hands over to the
// next.
//
//   build/dev/timer_report [HANDOVERS] [standby|self]     on an engine in a new directory
//
// Short timeouts: a run of 400 ms, its standby woken 150 ms before the end; `self`: no standby, the
// timer wakes itself at the end.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "env/clock.h"
#include "mainspring/engine.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

struct Seen {
  SystemClock clock;
  Mutex mutex;
  CondVar changed;
  Token token MS_GUARDED_BY(mutex) = 0;
  Instant last_end MS_GUARDED_BY(mutex);
  int processing MS_GUARDED_BY(mutex) = 0;
  int most MS_GUARDED_BY(mutex) = 0;
  int backwards MS_GUARDED_BY(mutex) = 0;  // a token that was smaller than one before
  std::int64_t batches MS_GUARDED_BY(mutex) = 0;
  std::vector<Duration> gaps MS_GUARDED_BY(mutex);

  int batch(TimerContext& context) {
    {
      MutexLock lock(mutex);
      most = std::max(most, ++processing);
      if (context.token() < token) ++backwards;
      if (token != 0 && context.token() != token) {
        gaps.push_back(clock.now().instant - last_end);
        changed.notify_all();
      }
      token = context.token();
    }
    MutexLock lock(mutex);
    changed.wait_for(mutex, 2ms);  // the work of a batch
    ++batches;
    --processing;
    last_end = clock.now().instant;
    return 1;
  }
};

int fail(const Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  return 1;
}

int run(const std::string& directory, std::size_t handovers, bool standby) {
  Seen seen;
  auto engine = Engine::open(directory);
  if (!engine) return fail(engine.error());
  engine->on_timer("t",
                   [&](TimerContext& context, int) -> Result<int> { return seen.batch(context); });
  if (auto started = engine->start(); !started) return fail(started.error());
  Schedule schedule;
  schedule.name = "report";
  schedule.every = 5min;
  schedule.job.kind = "t";
  schedule.job.timeout = kForever;
  schedule.job.max_attempts = kTimerAttempts;
  schedule.continuous = Continuous{
      .timeout = 500ms, .margin = 100ms, .handoff = standby ? Duration(150ms) : Duration(0)};
  if (auto put = engine->schedules().put(schedule); !put) return fail(put.error());
  if (auto first = engine->schedules().trigger("report"); !first) return fail(first.error());
  std::vector<Duration> gaps;
  int most = 0, backwards = 0;
  std::int64_t batches = 0;
  {
    MutexLock lock(seen.mutex);
    while (seen.gaps.size() < handovers) seen.changed.wait(seen.mutex);
    gaps = seen.gaps;
  }
  engine->stop();
  {
    MutexLock lock(seen.mutex);
    most = seen.most, backwards = seen.backwards, batches = seen.batches;
  }
  std::sort(gaps.begin(), gaps.end());
  const auto ms = [&](double part) {
    const auto at = static_cast<std::size_t>(part * double(gaps.size() - 1));
    return fmt::format("{:.1f} ms", double(gaps[at].count()) / 1e3);
  };
  fmt::print("| {} | {} | {} | {} | {} | {} | {} |\n", standby ? "standby" : "self-wake",
             gaps.size(), ms(0.5), ms(0.99), ms(1), batches, most);
  return most == 1 && backwards == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t handovers = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200;
  const bool standby = argc <= 2 || std::string_view(argv[2]) == "standby";
  std::string name = (std::filesystem::temp_directory_path() / "timer-report-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) return 1;
  const int code = run(name + "/jobs", std::max<std::size_t>(handovers, 1), standby);
  std::filesystem::remove_all(name);
  return code;
}
