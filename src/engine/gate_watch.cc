// The thread of GateWatch.
#include "engine/gate_watch.h"

#include "mainspring/why.h"

namespace mainspring {
namespace {

constexpr std::size_t kJobsAtOnce = 20;
constexpr Duration kLongestSleep = std::chrono::seconds(5);
constexpr Duration kBetweenQuestions = std::chrono::seconds(1);
constexpr Duration kMostTime = std::chrono::milliseconds(5);  // of each second, for reads

}  // namespace

GateWatch::GateWatch(JobTraces& traces, Questions& questions, const Clock& clock)
    : traces_(traces), questions_(questions), clock_(clock) {
  traces_.on_waiting([this] {
    MutexLock lock(mutex_);
    fresh_ = true;
    changed_.notify_one();
  });
}

GateWatch::~GateWatch() {
  stop();
}

void GateWatch::start() {
  thread_ = std::jthread([this] { run(); });
}

void GateWatch::stop() {
  traces_.on_waiting(nullptr);
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void GateWatch::run() {
  for (;;) {
    const Instant next = traces_.next_question();
    {
      MutexLock lock(mutex_);
      // A job that starts to wait later may still be due earlier.
      const Instant now = clock_.now().instant;
      const bool none = next == Instant::never();
      if (!stopped_ && none) {
        while (!stopped_ && !fresh_) changed_.wait_for(mutex_, kForever);
      } else if (!stopped_ && next > now) {
        changed_.wait_for(mutex_, std::min(next - now, kLongestSleep));
      }
      fresh_ = false;
      if (stopped_) return;
    }
    const Instant started = clock_.now().instant;
    for (const JobId id : traces_.to_ask(started, kJobsAtOnce)) {
      const auto why = questions_.why(id);
      if (why) traces_.note_gate(id, std::string(to_string(why->gate)));
      if (clock_.now().instant >= started + kMostTime) break;  // the others are asked next time
    }
    MutexLock lock(mutex_);  // limits the reads, however many jobs wait
    const Instant again = started + kBetweenQuestions;
    while (!stopped_ && clock_.now().instant < again)
      changed_.wait_for(mutex_, again - clock_.now().instant);
  }
}

}  // namespace mainspring
