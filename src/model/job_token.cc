// The payload is "ISSUER EXPIRES FOLDER\nQUEUE": the queue comes last because it may hold any byte.
#include "model/job_token.h"

#include <fmt/format.h>

#include <charconv>

#include "env/digest.h"

namespace mainspring {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";
// Prevents a signature of another text under the same key from being accepted as a job token.
constexpr std::string_view kPurpose = "mainspring job token 1\n";

std::string hex_of(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out += kHexDigits[static_cast<unsigned char>(c) >> 4];
    out += kHexDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

std::optional<std::string> bytes_of_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string out;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const std::size_t high = kHexDigits.find(hex[i]), low = kHexDigits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    out += static_cast<char>(high << 4 | low);
  }
  return out;
}

Digest signature_of(std::string_view text, const Secret& key) {
  return hmac_sha256(key.reveal(), fmt::format("{}{}", kPurpose, text));
}

template <class T>
bool take(std::string_view& text, char end, int base, T& out) {
  const std::size_t at = text.find(end);
  if (at == std::string_view::npos) return false;
  const char* const last = text.data() + at;
  const auto [stopped, problem] = std::from_chars(text.data(), last, out, base);
  text.remove_prefix(at + 1);
  return problem == std::errc() && stopped == last;
}

}  // namespace

Scopes JobToken::scopes() const {
  std::vector<Scope> scopes = {{Verb::result, queue}, {Verb::read, queue}};
  if (folder.empty()) {
    scopes.push_back({Verb::enqueue, queue});
  } else {
    const std::string name = std::string(kFolderPrefix) + folder;
    scopes.push_back({Verb::enqueue, name});
    scopes.push_back({Verb::read, name});
  }
  return Scopes(std::move(scopes));
}

Result<Secret> sign_job_token(const JobToken& token, const Secret& key) {
  for (const std::string& name : {token.queue, token.folder}) {
    if (!name.ends_with('*')) continue;
    return invalid("queue", fmt::format("\"{}\": a name that ends in * gets no job token", name));
  }
  const auto seconds =
      std::chrono::floor<std::chrono::seconds>(token.expires_at - WallTime::from_us(0)).count();
  std::string text(kJobTokenPrefix);
  text += hex_of(fmt::format("{:x} {} {}\n{}", token.issuer, seconds, token.folder, token.queue));
  const Digest signature = signature_of(text, key);
  return Secret(fmt::format("{}.{}", text, to_hex(signature)));
}

std::optional<JobToken> read_job_token(std::string_view text, const Secret& key) {
  if (text.size() > kMaxJobTokenBytes || !text.starts_with(kJobTokenPrefix)) return std::nullopt;
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto given = digest_from_hex(text.substr(dot + 1));
  const std::string_view is_signed = text.substr(0, dot);
  if (!given || !equal_in_constant_time(*given, signature_of(is_signed, key))) return std::nullopt;
  const auto payload = bytes_of_hex(is_signed.substr(kJobTokenPrefix.size()));
  if (!payload) return std::nullopt;
  std::string_view rest = *payload;
  JobToken token;
  std::int64_t seconds = 0;
  if (!take(rest, ' ', 16, token.issuer) || !take(rest, ' ', 10, seconds)) return std::nullopt;
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  token.folder = rest.substr(0, end);
  token.queue = rest.substr(end + 1);
  token.expires_at = WallTime::from_us(0) + std::chrono::seconds(seconds);
  return token;
}

}  // namespace mainspring
