// The database's time between its answers: the one with the shortest way counts, until it is old.
#include "base/mutex.h"
#include "store_postgres/postgres_store.h"

namespace mainspring {

namespace {
constexpr Duration kOld = std::chrono::seconds(10);
}

struct DatabaseClock::State {
  explicit State(const Clock& base_) : base(base_) {}
  const Clock& base;
  mutable Mutex mutex;
  bool known MS_GUARDED_BY(mutex) = false;
  std::int64_t offset MS_GUARDED_BY(mutex) = 0;  // wall minus instant, in microseconds
  Duration way MS_GUARDED_BY(mutex){0};          // of the answer that it is from
  Instant at MS_GUARDED_BY(mutex);
};

DatabaseClock::DatabaseClock(const Clock& base) : state_(std::make_unique<State>(base)) {}
DatabaseClock::~DatabaseClock() = default;

Now DatabaseClock::now() const {
  Now now = state_->base.now();
  MutexLock lock(state_->mutex);
  if (state_->known) now.wall = WallTime::from_us(now.instant.us() + state_->offset);
  return now;
}

void DatabaseClock::note(WallTime database, Now sent, Now received) {
  const Duration way = received.instant - sent.instant;
  MutexLock lock(state_->mutex);
  if (state_->known && way > state_->way && received.instant < state_->at + kOld) return;
  state_->known = true;
  state_->way = way;
  state_->at = received.instant;
  state_->offset = database.us() - (sent.instant + way / 2).us();
}

}  // namespace mainspring
