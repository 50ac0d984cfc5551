// The text of access tokens. It is generated once, shown once and not stored.
#pragma once

#include <optional>
#include <string_view>

#include "base/secret.h"
#include "env/digest.h"
#include "env/random.h"

namespace mainspring {

// Lets people and secret scanners recognize a token.
inline constexpr std::string_view kTokenPrefix = "mst_";
inline constexpr std::size_t kTokenBytes = 47;  // "mst_" and 256 random bits in base64url

// `random` must be the system's random source: security depends on unpredictable tokens.
Secret make_token_text(Random& random);
// The stored form of a token. nullopt: `text` cannot be the text of any token.
std::optional<Digest> digest_of_token(std::string_view text);

}  // namespace mainspring
