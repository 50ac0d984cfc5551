// The format is "s" NONCE CIPHERTEXT TAG, in hex: HMAC-SHA-256 as a stream cipher, then a MAC.
#include "http/sealed_id.h"

#include <fmt/format.h>

#include <algorithm>

#include "env/digest.h"

namespace mainspring::http {
namespace {

constexpr std::size_t kNonceDigits = 16, kTagDigits = 32;
constexpr std::size_t kBlock = 32;  // of the cipher; texts are padded to it
constexpr char kPadding = '\n';

std::string mac_of(std::string_view sealed, const Secret& key) {
  const Digest mac =
      hmac_sha256(key.reveal(), fmt::format("mainspring event id tag 1\n{}", sealed));
  return to_hex(mac).substr(0, kTagDigits);
}

// Encrypts and decrypts whole blocks.
void apply_key_stream(std::string& bytes, std::string_view nonce, const Secret& key) {
  for (std::size_t at = 0; at < bytes.size(); at += kBlock) {
    const Digest stream =
        hmac_sha256(key.reveal(), fmt::format("mainspring event id 1\n{} {}", nonce, at));
    for (std::size_t i = 0; i < kBlock; ++i)
      bytes[at + i] = static_cast<char>(bytes[at + i] ^ stream[i]);
  }
}

}  // namespace

std::string seal_id(std::string_view text, const Secret& key, Random& random) {
  const std::string nonce = fmt::format("{:016x}", random.next());
  std::string bytes(text);
  bytes.resize((text.size() + kBlock - 1) / kBlock * kBlock, kPadding);
  apply_key_stream(bytes, nonce, key);
  std::string out = "s" + nonce;
  for (const char c : bytes) fmt::format_to(std::back_inserter(out), "{:02x}", c & 0xff);
  return out + mac_of(out, key);
}

std::optional<std::string> open_id(std::string_view sealed, const Secret& key) {
  if (!sealed.starts_with('s') || sealed.size() < 1 + kNonceDigits + kTagDigits)
    return std::nullopt;
  const std::string_view body = sealed.substr(0, sealed.size() - kTagDigits);
  const std::string_view hex = body.substr(1 + kNonceDigits);
  if (mac_of(body, key) != sealed.substr(body.size()) || hex.size() % (2 * kBlock) != 0)
    return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  apply_key_stream(bytes, body.substr(1, kNonceDigits), key);
  bytes.erase(bytes.find_last_not_of(kPadding) + 1);
  return bytes;
}

}  // namespace mainspring::http
