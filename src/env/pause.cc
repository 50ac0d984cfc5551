// An interruptible sleep.
#include "env/pause.h"

#include "base/mutex.h"

namespace mainspring {

void pause(const Clock& clock, Duration length, const std::stop_token& stop) {
  Mutex mutex;
  CondVar stopped;
  const std::stop_callback wake(stop, [&] {
    MutexLock lock(mutex);
    stopped.notify_all();
  });
  const Instant until = clock.now().instant + length;
  MutexLock lock(mutex);
  for (Instant now; !stop.stop_requested() && (now = clock.now().instant) < until;) {
    stopped.wait_for(mutex, until - now);
  }
}

}  // namespace mainspring
