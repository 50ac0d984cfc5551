// The keys, caller lines and frames of links.
#include "cluster/link.h"

#include <fmt/format.h>

#include <charconv>

#include "env/digest.h"
#include "tls/key_context.h"

namespace mainspring {

Result<std::unique_ptr<LinkKeys>> LinkKeys::open(const Secret& key) {
  const auto bytes = digest_from_hex(key.reveal());
  if (!bytes) return invalid("cluster_key", "the key of the cluster: must be 64 hex digits");
  // Not the key itself: the peer notifier uses it for other proofs.
  const Digest own = hmac_sha256(bytes_of(*bytes), "mainspring link 1");
  std::unique_ptr<LinkKeys> keys(new LinkKeys);
  MS_TRY_ASSIGN(keys->accepting_, make_key_context(own, KeySide::accepts));
  MS_TRY_ASSIGN(keys->dialing_, make_key_context(own, KeySide::dials));
  return keys;
}

std::string encode_caller(const CallerLine& line) {
  return fmt::format("{}\t{}{}{}\t{}\t{}\n", line.term, line.ping ? "p" : "", line.local ? "l" : "",
                     line.secure ? "s" : "", line.peer, line.certificate);
}

std::optional<CallerLine> decode_caller(std::string_view text) {
  std::string_view parts[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t end = text.find('\t');
    if ((end == std::string_view::npos) != (i == 3)) return std::nullopt;
    parts[i] = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  CallerLine line{.peer = std::string(parts[2]), .certificate = std::string(parts[3])};
  const char* const end = parts[0].data() + parts[0].size();
  const auto [at, problem] = std::from_chars(parts[0].data(), end, line.term);
  if (problem != std::errc() || at != end) return std::nullopt;
  for (const char flag : parts[1]) {
    if (flag == 'p')
      line.ping = true;
    else if (flag == 'l')
      line.local = true;
    else if (flag == 's')
      line.secure = true;
    else
      return std::nullopt;
  }
  return line;
}

std::string encode_frame(const Frame& frame) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(frame.bytes >> shift & 255);
  out += static_cast<char>((frame.ends ? 1 : 0) | (frame.closes_client ? 2 : 0) |
                           (frame.closes_link ? 4 : 0) | (frame.refused ? 8 : 0));
  return out;
}

Frame decode_frame(std::string_view bytes) {
  Frame frame;
  for (std::size_t i = 0; i < 4; ++i)
    frame.bytes = frame.bytes << 8 | static_cast<unsigned char>(bytes[i]);
  const auto flags = static_cast<unsigned char>(bytes[4]);
  frame.ends = (flags & 1) != 0;
  frame.closes_client = (flags & 2) != 0;
  frame.closes_link = (flags & 4) != 0;
  frame.refused = (flags & 8) != 0;
  return frame;
}

}  // namespace mainspring
