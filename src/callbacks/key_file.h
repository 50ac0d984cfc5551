// The key of a store in a directory: a file next to it that only its owner can read.
#pragma once

#include <string>
#include <string_view>

#include "callbacks/signature.h"

namespace mainspring {

// The keys that an operator wrote into a file (see parse_signing_keys()). Errors: io_error,
// invalid_argument (also for a file that others can read), with field callback_key_file.
Result<SigningKeys> read_key_file(const std::string& path);

// Reads DIRECTORY/NAME; creates it with one key if it is missing. Creation is atomic, also if
// several processes do it at once. Errors: io_error, storage_full, and those of read_key_file().
Result<SigningKeys> key_of_directory(const std::string& directory, Random& random,
                                     std::string_view name = "callbacks.key");

}  // namespace mainspring
