// The settings of callbacks and of triggers.
#include "cli/options.h"

namespace mainspring::cli {

std::vector<Setting> callback_settings() {
  return {
      {.name = "callback_slots",
       .value = "N",
       .member = &Options::callback_slots,
       .scopes = kServeScope,
       .meaning = "callbacks that this server sends at once; 0 = leave them to other servers",
       .raise_if = "receivers are slow and many; each slot is a thread",
       .min = 0,
       .max = 1024},
      {.name = "callback_timeout",
       .value = "TIME",
       .member = &Options::callback_timeout,
       .scopes = kServeScope,
       .meaning = "time limit for the answer to a callback",
       .raise_if = "receivers work before they answer",
       .min = 1'000'000,
       .max = 300'000'000},
      {.name = "callback_key_file",
       .value = "FILE",
       .member = &Options::callback_key_file,
       .scopes = kServeScope,
       .meaning = "file with the signing key of callbacks, whsec_ and base64, readable by its "
                  "owner only; a second line is another key that signs too; none = the store "
                  "creates one",
       .raise_if = "several stores share a key, or a secret manager keeps it"},
      {.name = "watch_root",
       .value = "DIRS",
       .member = &Options::watch_root,
       .scopes = kServeScope,
       .meaning = "directories below which triggers may watch folders, separated by commas; none = "
                  "folder triggers are refused"},
  };
}

}  // namespace mainspring::cli
