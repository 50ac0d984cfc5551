// Fingerprints of errors: jobs that died of the same thing have the same one, whatever numbers and
// names their messages carry.
#pragma once

#include <string>
#include <string_view>

#include "mainspring/job.h"

namespace mainspring {

inline constexpr std::size_t kMaxMaskedBytes = 1024;  // of a message; what is behind does not count
inline constexpr std::size_t kFingerprintBytes = 16;  // hex digits

// The message with numbers, hex (0x…, and 8 digits or more with a decimal one among them), UUIDs
// and quoted texts as *, blanks folded: "disk 7 of '/a': 0x1f" is "disk * of *: *".
std::string mask_error(std::string_view message);
// The line of an error that says most: the first one, but of a Python traceback the exception,
// after what is before the traceback: "exit code 1: ValueError: no such page".
std::string telling_line(std::string_view error);
// Of a dead job: its kind, reason and description.
std::string fingerprint_of(const Job& dead);
// 16 lower-case hex digits. Errors: invalid_argument, of `field`.
Result<void> check_fingerprint(std::string_view field, std::string_view text);

}  // namespace mainspring
