// Signatures of callbacks, as in Standard Webhooks. A receiver with the key can verify that a
// request came from this store, unchanged, and when.
//
//   webhook-signature: v1,base64(HMAC-SHA256(key, "ID.TIMESTAMP.BODY"))
//
// Source:
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"
#include "env/random.h"
#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

inline constexpr std::size_t kMinKeyBytes = 24, kMaxSigningKeyBytes = 64;
inline constexpr std::size_t kMadeKeyBytes = 32;
inline constexpr std::size_t kMaxSigningKeys = 2;  // for a change of keys: the old and the new one
inline constexpr Duration kSignatureTolerance = std::chrono::minutes(5);

// One to kMaxSigningKeys keys as bytes; each one signs.
using SigningKeys = std::vector<Secret>;

Secret make_signing_key(Random& random);
// "whsec_" and base64, and back. Errors: invalid_argument (no message shows the text).
Secret signing_key_text(const Secret& key);
Result<Secret> parse_signing_key(std::string_view text);
// One key per line; ignores empty lines and lines that begin with '#'. `name` is for messages.
// Errors: invalid_argument.
Result<SigningKeys> parse_signing_keys(std::string_view name, std::string_view text);

struct SignedParts {
  std::string_view id;
  std::string_view timestamp;  // seconds since 1970, in digits
  std::string_view body;
};
// "v1,…" for each key, separated by blanks.
std::string sign(const SigningKeys& keys, const SignedParts& parts);
// Checks that one of the signatures was made with one of the keys, and that the timestamp is within
// kSignatureTolerance of `now`. Errors: unauthenticated, with the reason.
Result<void> verify_signature(const SigningKeys& keys, const SignedParts& parts,
                              std::string_view header, WallTime now);

}  // namespace mainspring
