// The database's time between its answers. An estimate becomes less certain with age. An answer
// replaces it if the answer is more certain, or contradicts it.
#include <algorithm>
#include <cstdlib>

#include "base/mutex.h"
#include "store_postgres/postgres_store.h"

namespace mainspring {

namespace {
// Steady clocks of two machines drift by less than a millisecond per second.
constexpr int kDriftShare = 1000;
}  // namespace

struct DatabaseClock::State {
  explicit State(const Clock& base_) : base(base_) {}
  const Clock& base;
  mutable Mutex mutex;
  bool known MS_GUARDED_BY(mutex) = false;
  std::int64_t offset MS_GUARDED_BY(mutex) = 0;  // wall minus instant, in microseconds
  Duration way MS_GUARDED_BY(mutex){0};          // round trip of the answer that it comes from
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

// A slow answer is imprecise: the database may have read its clock at any moment of the round trip.
// If slow answers were accepted for lack of others, this node would rescue leases that have not
// ended.
void DatabaseClock::note(WallTime database, Now sent, Now received) {
  const Duration way = received.instant - sent.instant;
  const std::int64_t offset = database.us() - (sent.instant + way / 2).us();
  MutexLock lock(state_->mutex);
  if (state_->known) {
    const Duration age = std::max(received.instant - state_->at, Duration(0));
    const Duration doubt = state_->way / 2 + age / kDriftShare;
    const Duration apart(std::abs(offset - state_->offset));
    if (way / 2 > doubt && apart <= doubt + way / 2) return;
  }
  state_->known = true;
  state_->way = way;
  state_->at = received.instant;
  state_->offset = offset;
}

}  // namespace mainspring
