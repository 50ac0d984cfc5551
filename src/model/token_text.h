// The text of tokens: made once, shown once, kept nowhere.
#pragma once

#include <optional>
#include <string_view>

#include "base/secret.h"
#include "env/digest.h"
#include "env/random.h"

namespace mainspring {

// So that people and secret scanners know one when they see it.
inline constexpr std::string_view kTokenPrefix = "mst_";
inline constexpr std::size_t kTokenBytes = 47;  // "mst_" and 256 random bits in base64url

// `random` must be the system's: everything hangs on nobody guessing it.
Secret make_token_text(Random& random);
// What is kept of a token. nullopt: this is the text of no token, whatever is kept.
std::optional<Digest> digest_of_token(std::string_view text);

}  // namespace mainspring
