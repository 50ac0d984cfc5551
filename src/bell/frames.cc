// Bytes of the bell: numbers, bodies and their authentication codes.
#include "bell/frames.h"

#include <fmt/format.h>

#include <algorithm>

namespace mainspring::bell {
namespace {

constexpr unsigned char kCatalog = 1;
constexpr unsigned char kEverything = 2;
constexpr std::size_t kMaxName = 512;

void put_u16(std::string& out, std::size_t value) {
  out += static_cast<char>(value >> 8 & 0xff);
  out += static_cast<char>(value & 0xff);
}

void put_names(std::string& out, const std::vector<std::string>& names) {
  put_u16(out, names.size());
  for (const std::string& name : names) {
    put_u16(out, name.size());
    out += name;
  }
}

bool fits(const std::vector<std::string>& names) {
  return names.size() <= 0xffff &&
         std::all_of(names.begin(), names.end(), [](const std::string& name) {
           return !name.empty() && name.size() <= kMaxName;
         });
}

// Reads from the front; after a failure everything reads as zero.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  std::string_view take(std::size_t n) {
    if (n > bytes_.size()) {
      failed_ = true;
      bytes_ = {};
      return {};
    }
    const std::string_view out = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return out;
  }
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    for (const char c : take(bytes)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  void names(std::vector<std::string>& out) {
    const std::uint64_t count = number(2);
    for (std::uint64_t i = 0; i < count && !failed_; ++i) {
      const std::uint64_t size = number(2);
      failed_ = failed_ || size == 0 || size > kMaxName;
      out.emplace_back(take(failed_ ? 0 : size));
    }
  }
  bool at_end() const { return !failed_ && bytes_.empty(); }
  bool failed() const { return failed_; }

 private:
  std::string_view bytes_;
  bool failed_ = false;
};

}  // namespace

void put_u32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
}

void put_u64(std::string& out, std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
}

std::uint32_t get_u32(std::string_view bytes) {
  return static_cast<std::uint32_t>(Reader(bytes).number(4));
}

std::uint64_t get_u64(std::string_view bytes) {
  return Reader(bytes).number(8);
}

Digest proof(const Digest& key, Role role, const Talk& talk) {
  std::string said(kGreeting);
  said += static_cast<char>(role);
  said += talk.acceptor_nonce;
  said += talk.dialer_nonce;
  put_u64(said, static_cast<std::uint64_t>(talk.acceptor));
  put_u64(said, static_cast<std::uint64_t>(talk.dialer));
  return hmac_sha256(bytes_of(key), said);
}

Digest frame_mac(const Digest& session, std::uint64_t number, std::string_view body) {
  std::string said = "d";
  put_u64(said, number);
  said += body;
  return hmac_sha256(bytes_of(session), said);
}

Digest ack_mac(const Digest& session, std::uint64_t number) {
  std::string said = "a";
  put_u64(said, number);
  return hmac_sha256(bytes_of(session), said);
}

std::string encode_frame(const Digest& session, std::uint64_t number, const Heard& what) {
  const std::string body = encode_body(what);
  std::string out;
  out.reserve(kLengthBytes + body.size() + kMacBytes);
  put_u32(out, static_cast<std::uint32_t>(body.size()));
  out += body;
  return out += bytes_of(frame_mac(session, number, body));
}

std::string encode_ack(const Digest& session, std::uint64_t number) {
  std::string out;
  put_u64(out, number);
  return out += bytes_of(ack_mac(session, number));
}

std::string encode_body(const Heard& what) {
  std::string out;
  out += static_cast<char>((what.catalog ? kCatalog : 0) | (what.everything ? kEverything : 0));
  put_u64(out, static_cast<std::uint64_t>(what.next_due.us()));
  put_names(out, what.queues);
  put_names(out, what.released);
  const std::size_t ended = std::min<std::size_t>(what.ended.size(), 1000);
  put_u16(out, ended);
  for (std::size_t i = 0; i < ended; ++i) put_u64(out, static_cast<std::uint64_t>(what.ended[i]));
  if (out.size() <= kMaxBody && fits(what.queues) && fits(what.released)) return out;
  return encode_body({.next_due = what.next_due, .catalog = true, .everything = true});
}

Result<Heard> decode_body(std::string_view body) {
  const auto wrong = [&](std::string_view rule) {
    return invalid("body", fmt::format("body of {} bytes: must {}", body.size(), rule));
  };
  if (body.size() > kMaxBody) return wrong(fmt::format("be at most {} bytes", kMaxBody));
  Reader in(body);
  Heard what;
  const std::uint64_t flags = in.number(1);
  what.catalog = (flags & kCatalog) != 0;
  what.everything = (flags & kEverything) != 0;
  what.next_due = WallTime::from_us(static_cast<std::int64_t>(in.number(8)));
  in.names(what.queues);
  in.names(what.released);
  const std::uint64_t ended = in.number(2);
  for (std::uint64_t i = 0; i < ended && !in.failed(); ++i)
    what.ended.push_back(static_cast<JobId>(in.number(8)));
  if (!in.at_end() || flags > (kCatalog | kEverything)) return wrong("be one that a node makes");
  return what;
}

}  // namespace mainspring::bell
