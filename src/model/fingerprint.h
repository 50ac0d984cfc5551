// Fingerprints of errors: jobs with the same cause of death have the same fingerprint, regardless
// of the numbers and names in their messages.
#pragma once

#include <string>
#include <string_view>

#include "mainspring/job.h"

namespace mainspring {

inline constexpr std::size_t kMaxMaskedBytes = 1024;  // the rest of a message is ignored
inline constexpr std::size_t kFingerprintBytes = 16;  // hex digits

// The message with numbers, hex (0x…, or 8 digits or more that include a decimal one), UUIDs and
// quoted texts replaced by *, and blanks folded: "disk 7 of '/a': 0x1f" is "disk * of *: *".
std::string mask_error(std::string_view message);
// The most informative line of an error: the first line. For a Python traceback: the text before
// the traceback, then the exception: "exit code 1: ValueError: no such page".
std::string telling_line(std::string_view error);
// Computed from a dead job's kind, reason and description.
std::string fingerprint_of(const Job& dead);
// A fingerprint as a number, and back.
std::int64_t fingerprint_number(std::string_view fingerprint);
std::string fingerprint_text(std::int64_t number);
// 16 lower-case hex digits. Errors: invalid_argument with `field`.
Result<void> check_fingerprint(std::string_view field, std::string_view text);

}  // namespace mainspring
