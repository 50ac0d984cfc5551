// The key of a store in a directory: a file beside it, which only its owner can read.
#pragma once

#include <string>
#include <string_view>

#include "callbacks/signature.h"

namespace mainspring {

// The keys that an operator wrote into a file (see parse_signing_keys()). Errors: io_error,
// invalid_argument (also for a file that others can read), with field callback_key_file.
Result<SigningKeys> read_key_file(const std::string& path);

// The same of DIRECTORY/NAME, which is made, with one key, if it is not there: whole or not at all,
// and by one of several who want it at once. Errors: io_error, storage_full, and those of
// read_key_file().
Result<SigningKeys> key_of_directory(const std::string& directory, Random& random,
                                     std::string_view name = "callbacks.key");

}  // namespace mainspring
