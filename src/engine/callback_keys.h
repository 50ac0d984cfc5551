// The keys that callbacks of a store are signed with: of a file that the operator gives, or one
// that the store's first callback makes: in the directory, or in the database for all its nodes.
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
  // The store's, one of them.
  std::string directory;
  std::optional<PostgresOptions> postgres;
};
// Reads the keys, and makes one where the store has none. Blocks. Errors: io_error,
// invalid_argument (callback_key_file), storage_full, and those of the database.
Result<SigningKeys> callback_keys(const CallbackKeyPlace& place, const Clock& clock,
                                  Random& random);

// What job tokens are signed with: a key of the store's own, in its directory or database. Blocks.
// Errors: as above.
Result<Secret> job_token_key(const CallbackKeyPlace& place, const Clock& clock, Random& random);

// The keys of callbacks, asked once: what was read stays. From every thread.
class CallbackKeys {
 public:
  // References outlive it.
  CallbackKeys(CallbackKeyPlace place, const Clock& clock, Random& random);
  ~CallbackKeys();
  Result<SigningKeys> get();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
