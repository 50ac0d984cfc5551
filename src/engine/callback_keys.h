// The keys that sign a store's callbacks. They come from a file of the operator, or the store's
// first callback creates a key: in the store's directory, or in the database for all nodes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "callbacks/signature.h"
#include "env/clock.h"
#include "env/random.h"
#include "store_postgres/postgres_store.h"

namespace mainspring {

struct CallbackKeyPlace {
  std::string file;  // the operator's; "" = none
  // Location of the store; one of the two is set.
  std::string directory;
  std::optional<PostgresOptions> postgres;
};
// Reads the keys, and creates one if the store has none. Blocks. Errors: io_error, invalid_argument
// (callback_key_file), storage_full, and those of the database.
Result<SigningKeys> callback_keys(const CallbackKeyPlace& place, const Clock& clock,
                                  Random& random);

// The key that signs job tokens: created by the store in its directory or database. Blocks. Errors:
// as above.
Result<Secret> job_token_key(const CallbackKeyPlace& place, const Clock& clock, Random& random);

// Caches the keys of callbacks after the first read. Any thread.
class CallbackKeys {
 public:
  // References must outlive this object.
  CallbackKeys(CallbackKeyPlace place, const Clock& clock, Random& random);
  ~CallbackKeys();
  Result<SigningKeys> get();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
