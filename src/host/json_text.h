// Converts hand-written JSON to strict JSON.
//
// Kudu reads settings.job with Json.NET, which accepts more than RFC 8259: byte order marks (UTF-8,
// UTF-16, UTF-32), comments, trailing commas, names without quotes and strings in single quotes.
#pragma once

#include <string>
#include <string_view>

#include "mainspring/result.h"

namespace mainspring {

// Returns the same values as strict JSON in UTF-8. Comments become blanks, so that positions in the
// parser's error messages stay right. Other errors are passed on for the parser to refuse. Errors:
// invalid_argument (damaged UTF-16 or UTF-32, a comment without an end).
Result<std::string> strict_json(std::string_view bytes);

}  // namespace mainspring
