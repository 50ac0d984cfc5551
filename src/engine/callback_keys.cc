// Finds the keys of callbacks.
#include "engine/callback_keys.h"

#include "base/mutex.h"
#include "callbacks/key_file.h"
#include "store_postgres/node_channel.h"

namespace mainspring {

namespace {

NodeChannelOptions channel_of(const PostgresOptions& postgres) {
  NodeChannelOptions channel;
  channel.url = postgres.url;
  channel.schema = postgres.schema;
  channel.prepared = postgres.prepared;
  channel.connect_timeout = postgres.connect_timeout;
  return channel;
}

}  // namespace

Result<Secret> job_token_key(const CallbackKeyPlace& place, const Clock& clock, Random& random) {
  if (place.postgres) {
    return shared_secret(channel_of(*place.postgres), "job_tokens", clock, random);
  }
  MS_TRY_ASSIGN(SigningKeys keys, key_of_directory(place.directory, random, "job_tokens.key"));
  return std::move(keys.front());
}

Result<SigningKeys> callback_keys(const CallbackKeyPlace& place, const Clock& clock,
                                  Random& random) {
  if (!place.file.empty()) return read_key_file(place.file);
  if (!place.postgres) return key_of_directory(place.directory, random);
  MS_TRY_ASSIGN(Secret key, shared_secret(channel_of(*place.postgres), "callbacks", clock, random));
  SigningKeys keys;
  keys.push_back(std::move(key));
  return keys;
}

struct CallbackKeys::Impl {
  CallbackKeyPlace place;
  const Clock& clock;
  Random& random;
  Mutex mutex;
  SigningKeys keys MS_GUARDED_BY(mutex);  // empty = not read yet
};

CallbackKeys::CallbackKeys(CallbackKeyPlace place, const Clock& clock, Random& random)
    : impl_(new Impl{
          .place = std::move(place), .clock = clock, .random = random, .mutex = {}, .keys = {}}) {}
CallbackKeys::~CallbackKeys() = default;

// Several threads may read at once, which is harmless: no lock is held while reading.
Result<SigningKeys> CallbackKeys::get() {
  {
    MutexLock lock(impl_->mutex);
    if (!impl_->keys.empty()) return impl_->keys;
  }
  MS_TRY_ASSIGN(SigningKeys keys, callback_keys(impl_->place, impl_->clock, impl_->random));
  MutexLock lock(impl_->mutex);
  impl_->keys = std::move(keys);
  return impl_->keys;
}

}  // namespace mainspring
