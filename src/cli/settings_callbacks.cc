// The settings of callbacks and of triggers.
#include "cli/options.h"

namespace mainspring::cli {

std::vector<Setting> callback_settings() {
  return {
      {.name = "callback_slots",
       .value = "N",
       .member = &Options::callback_slots,
       .scopes = kServeScope,
       .meaning = "callbacks that this server posts at once; 0 = it leaves them to others of the "
                  "same store",
       .raise_if = "receivers are slow and many; each is a thread",
       .min = 0,
       .max = 1024},
      {.name = "callback_timeout",
       .value = "TIME",
       .member = &Options::callback_timeout,
       .scopes = kServeScope,
       .meaning = "how long a receiver of a callback may take to answer",
       .raise_if = "receivers do their work before they answer",
       .min = 1'000'000,
       .max = 300'000'000},
      {.name = "callback_key_file",
       .value = "FILE",
       .member = &Options::callback_key_file,
       .scopes = kServeScope,
       .meaning = "the key that callbacks are signed with, as whsec_ and base64, readable by its "
                  "owner only; a second line is an older or a newer one, which signs too; none = "
                  "the store makes one",
       .raise_if = "several stores share a key, or it is kept by a manager of secrets"},
      {.name = "watch_root",
       .value = "DIRS",
       .member = &Options::watch_root,
       .scopes = kServeScope,
       .meaning = "directories below which triggers may watch folders, separated by commas; none = "
                  "triggers with a folder are refused"},
  };
}

}  // namespace mainspring::cli
