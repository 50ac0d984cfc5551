// HMAC-SHA256 over id, timestamp and body, in base64.
#include "callbacks/signature.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/mutant.h"
#include "env/digest.h"

namespace mainspring {
namespace {

constexpr std::string_view kPrefix = "whsec_";
constexpr std::string_view kVersion = "v1,";

std::string to_base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

// Whole groups of four, padded with '='.
std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::size_t digits = text.size();
  while (digits > 0 && text.size() - digits < 2 && text[digits - 1] == '=') --digits;
  if (text.size() % 4 != 0 ||
      text.substr(0, digits).find_first_not_of(kDigits) != std::string_view::npos) {
    return std::nullopt;
  }
  std::string out(text.size() / 4 * 3 + 1, '\0');
  const int size = ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
  if (size < 0) return std::nullopt;
  out.resize(static_cast<std::size_t>(size) - (text.size() - digits));
  return out;
}

Digest digest_of(const Secret& key, const SignedParts& parts) {
  std::string all;
  all.reserve(parts.id.size() + parts.timestamp.size() + parts.body.size() + 2);
  if (!MS_MUTANT(callback_id_not_signed)) all.append(parts.id);
  all.append(".").append(parts.timestamp).append(".").append(parts.body);
  return hmac_sha256(key.reveal(), all);
}

Error wrong(std::string message) {
  return Error{.code = ErrorCode::unauthenticated, .message = std::move(message)};
}

bool has_signature(const Digest& wanted, std::string_view header) {
  while (!header.empty()) {
    const std::string_view one = header.substr(0, header.find(' '));
    header.remove_prefix(std::min(one.size() + 1, header.size()));
    if (!one.starts_with(kVersion)) continue;
    const auto bytes = from_base64(one.substr(kVersion.size()));
    Digest given{};
    if (!bytes || bytes->size() != given.size()) continue;
    std::transform(bytes->begin(), bytes->end(), given.begin(),
                   [](char c) { return static_cast<std::uint8_t>(c); });
    if (equal_in_constant_time(wanted, given)) return true;
  }
  return false;
}

}  // namespace

Secret make_signing_key(Random& random) {
  std::string bytes;
  while (bytes.size() < kMadeKeyBytes) {
    const std::uint64_t part = random.next();
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(part >> (8 * i) & 0xff);
  }
  return Secret(std::move(bytes));
}

Secret signing_key_text(const Secret& key) {
  return Secret(std::string(kPrefix) + to_base64(key.reveal()));
}

Result<Secret> parse_signing_key(std::string_view text) {
  std::optional<std::string> bytes;
  if (text.starts_with(kPrefix)) bytes = from_base64(text.substr(kPrefix.size()));
  if (!bytes || bytes->size() < kMinKeyBytes || bytes->size() > kMaxSigningKeyBytes) {
    return invalid("key", fmt::format("key: must be {} and {} to {} bytes in base64", kPrefix,
                                      kMinKeyBytes, kMaxSigningKeyBytes));
  }
  return Secret(std::move(*bytes));
}

Result<SigningKeys> parse_signing_keys(std::string_view name, std::string_view text) {
  SigningKeys keys;
  int number = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    ++number;
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    auto key = parse_signing_key(line);
    if (!key) {
      return invalid("callback_key_file",
                     fmt::format("{}, line {}: {}", name, number, key.error().message));
    }
    keys.push_back(std::move(*key));
  }
  if (keys.empty() || keys.size() > kMaxSigningKeys) {
    return invalid("callback_key_file", fmt::format("{}: has {} keys: must be 1 to {}, one a line",
                                                    name, keys.size(), kMaxSigningKeys));
  }
  return keys;
}

std::string sign(const SigningKeys& keys, const SignedParts& parts) {
  std::string out;
  for (const Secret& key : keys) {
    if (!out.empty()) out += ' ';
    out.append(kVersion).append(to_base64(bytes_of(digest_of(key, parts))));
  }
  return out;
}

Result<void> verify_signature(const SigningKeys& keys, const SignedParts& parts,
                              std::string_view header, WallTime now) {
  std::int64_t seconds = 0;
  const char* const end = parts.timestamp.data() + parts.timestamp.size();
  const auto [last, problem] = std::from_chars(parts.timestamp.data(), end, seconds);
  // Whole seconds of a valid year: larger values would overflow.
  if (problem != std::errc() || last != end || seconds < 0 || seconds > 99'999'999'999) {
    return wrong("the timestamp must be seconds since 1970");
  }
  const bool signed_by_one = std::any_of(keys.begin(), keys.end(), [&](const Secret& key) {
    return has_signature(digest_of(key, parts), header);
  });
  if (!signed_by_one) return wrong("no signature matches this key and request");
  const Duration apart = now - WallTime::from_us(seconds * 1'000'000);
  if (apart > kSignatureTolerance || apart < -kSignatureTolerance) {
    return wrong(fmt::format("the timestamp is more than {} away from now",
                             format_duration(kSignatureTolerance)));
  }
  return {};
}

}  // namespace mainspring
