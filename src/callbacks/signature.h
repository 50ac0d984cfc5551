// Signatures of callbacks, as Standard Webhooks has them: who has the key can tell that a request
// came from this store, unchanged, and when.
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
inline constexpr std::size_t kMaxSigningKeys = 2;  // the present one, and one that goes or comes
inline constexpr Duration kSignatureTolerance = std::chrono::minutes(5);

// Bytes, one to kMaxSigningKeys of them; each signs.
using SigningKeys = std::vector<Secret>;

Secret make_signing_key(Random& random);
// "whsec_" and base64, and back. Errors: invalid_argument (no message shows the text).
Secret signing_key_text(const Secret& key);
Result<Secret> parse_signing_key(std::string_view text);
// One in each line; empty lines and those that begin with '#' are passed over. `name` is for
// messages. Errors: invalid_argument.
Result<SigningKeys> parse_signing_keys(std::string_view name, std::string_view text);

struct SignedParts {
  std::string_view id;
  std::string_view timestamp;  // seconds since 1970, in digits
  std::string_view body;
};
// "v1,…", one for each key, parted by blanks.
std::string sign(const SigningKeys& keys, const SignedParts& parts);
// Is one of the signatures of the header made with one of the keys, and the timestamp no further
// from `now` than kSignatureTolerance? Errors: unauthenticated, which says what is wrong.
Result<void> verify_signature(const SigningKeys& keys, const SignedParts& parts,
                              std::string_view header, WallTime now);

}  // namespace mainspring
