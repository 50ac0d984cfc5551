// The thread that asks.
#include "engine/gate_watch.h"

#include "mainspring/why.h"

namespace mainspring {
namespace {

constexpr std::size_t kJobsAtOnce = 20;
constexpr Duration kLongestSleep = std::chrono::seconds(5);
constexpr Duration kBetweenQuestions = std::chrono::seconds(1);

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
      // Jobs that begin to wait later are asked about earlier.
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
    const Instant begun = clock_.now().instant;
    for (const JobId id : traces_.to_ask(begun, kJobsAtOnce)) {
      const auto why = questions_.why(id);
      if (why) traces_.note_gate(id, std::string(to_string(why->gate)));
    }
    MutexLock lock(mutex_);  // a bound on reads, however many jobs wait
    const Instant again = begun + kBetweenQuestions;
    while (!stopped_ && clock_.now().instant < again)
      changed_.wait_for(mutex_, again - clock_.now().instant);
  }
}

}  // namespace mainspring
