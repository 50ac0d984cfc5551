// The byte format of the notifier: numbers, bodies and authentication codes.
#include "peer/frames.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/assert.h"

namespace mainspring::notifier {
namespace {

constexpr unsigned char kCatalog = 1;
constexpr unsigned char kEverything = 2;
constexpr unsigned char kRelayed = 4;    // the body is relayed bytes
constexpr unsigned char kEndedReported = 8;  // ended jobs are notified separately
constexpr unsigned char kAsksAlong = 16;
constexpr unsigned char kAsksHere = 32;
constexpr unsigned char kAllFlags =
    kCatalog | kEverything | kEndedReported | kAsksAlong | kAsksHere;
constexpr std::size_t kTagBytes = 16;
constexpr std::size_t kMaxName = 512;

void put_u16(std::string& out, std::size_t value) {
  out += static_cast<char>(value >> 8 & 0xff);
  out += static_cast<char>(value & 0xff);
}

void put_name(std::string& out, const std::string& name) {
  put_u16(out, name.size());
  out += name;
}

void put_names(std::string& out, const std::vector<std::string>& names) {
  put_u16(out, names.size());
  for (const std::string& name : names) put_name(out, name);
}

const unsigned char* as_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char flag_of(PeerRelay::Ask ask) {
  if (ask == PeerRelay::Ask::nothing) return 0;
  return ask == PeerRelay::Ask::here ? kAsksHere : kAsksAlong;
}

bool fits(const std::vector<std::string>& names) {
  return names.size() <= 0xffff &&
         std::all_of(names.begin(), names.end(), [](const std::string& name) {
           return !name.empty() && name.size() <= kMaxName;
         });
}

bool fits(const std::vector<CancelNotice>& cancels) {
  return cancels.size() <= 0xffff &&
         std::all_of(cancels.begin(), cancels.end(), [](const CancelNotice& cancel) {
           return !cancel.worker.empty() && cancel.worker.size() <= kMaxName;
         });
}

bool fits(const std::vector<CommandNotice>& commands) {
  return commands.size() <= 0xffff &&
         std::all_of(commands.begin(), commands.end(), [](const CommandNotice& one) {
           return !one.worker.empty() && one.worker.size() <= kMaxName;
         });
}

// Reads from the front. After a failure every read returns zero.
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
    for (std::uint64_t i = 0; i < count && !failed_; ++i) out.push_back(name());
  }
  std::string name() {
    const std::uint64_t size = number(2);
    failed_ = failed_ || size == 0 || size > kMaxName;
    return std::string(take(failed_ ? 0 : size));
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

std::string encode_frame(const Digest& session, std::uint64_t number, const ChangeHints& what,
                         PeerRelay::Ask ask) {
  const std::string body = encode_body(what, ask);
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

namespace {

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

// The cipher of one frame. The frame number is the nonce: it never repeats under a session's key.
Cipher begin_cipher(const Digest& session, std::uint64_t number, bool encrypt) {
  const Digest key = hmac_sha256(bytes_of(session), "r");
  std::string nonce(4, '\0');
  put_u64(nonce, number);
  Cipher cipher(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  MS_ASSERT(cipher != nullptr && EVP_CipherInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr,
                                                   key.data(), as_bytes(nonce), encrypt) == 1,
            "OpenSSL has AES-256-GCM");
  return cipher;
}

}  // namespace

std::string encode_relayed(const Digest& session, std::uint64_t number, std::string_view bytes) {
  MS_ASSERT(bytes.size() <= kMaxRelayed, "fits into a frame");
  const Cipher cipher = begin_cipher(session, number, true);
  std::string body(1 + bytes.size() + kTagBytes, static_cast<char>(kRelayed));
  auto* const out = reinterpret_cast<unsigned char*>(body.data()) + 1;
  int size = 0;
  int rest = 0;
  const bool ok =
      EVP_CipherUpdate(cipher.get(), out, &size, as_bytes(bytes), static_cast<int>(bytes.size())) ==
          1 &&
      EVP_CipherFinal_ex(cipher.get(), out + size, &rest) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, out + bytes.size()) == 1;
  MS_ASSERT(ok, "memory is encrypted");
  std::string frame;
  put_u32(frame, static_cast<std::uint32_t>(body.size()));
  frame += body;
  return frame += bytes_of(frame_mac(session, number, body));
}

bool is_relayed(std::string_view body) {
  return !body.empty() && static_cast<unsigned char>(body.front()) == kRelayed;
}

Result<std::string> decode_relayed(const Digest& session, std::uint64_t number,
                                   std::string_view body) {
  const auto wrong = [&] {
    return invalid("body",
                   fmt::format("body of {} bytes: must be one that a node relays", body.size()));
  };
  if (!is_relayed(body) || body.size() < 1 + kTagBytes || body.size() > kMaxBody) return wrong();
  const Cipher cipher = begin_cipher(session, number, false);
  std::string tag(body.substr(body.size() - kTagBytes));
  body = body.substr(1, body.size() - 1 - kTagBytes);
  std::string out(body.size(), '\0');
  auto* const to = reinterpret_cast<unsigned char*>(out.data());
  int size = 0;
  int rest = 0;
  const bool ok =
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1 &&
      EVP_CipherUpdate(cipher.get(), to, &size, as_bytes(body), static_cast<int>(body.size())) ==
          1 &&
      EVP_CipherFinal_ex(cipher.get(), to + size, &rest) == 1;
  if (!ok) return wrong();
  return out;
}

std::string encode_body(const ChangeHints& what, PeerRelay::Ask ask) {
  std::string out;
  const std::vector<JobId>& over = what.ended_reported.empty() ? what.ended : what.ended_reported;
  out += static_cast<char>((what.catalog ? kCatalog : 0) | (what.everything ? kEverything : 0) |
                           (what.ended_reported.empty() ? 0 : kEndedReported) | flag_of(ask));
  put_u64(out, static_cast<std::uint64_t>(what.next_due.us()));
  put_names(out, what.queues);
  put_names(out, what.released);
  const std::size_t ended = std::min<std::size_t>(over.size(), 1000);
  put_u16(out, ended);
  for (std::size_t i = 0; i < ended; ++i) put_u64(out, static_cast<std::uint64_t>(over[i]));
  put_u16(out, what.cancels.size());
  for (const CancelNotice& cancel : what.cancels) {
    put_u64(out, static_cast<std::uint64_t>(cancel.job));
    put_name(out, cancel.worker);
  }
  put_u16(out, what.commands.size());
  for (const CommandNotice& one : what.commands) {
    out += static_cast<char>(one.command);
    put_name(out, one.worker);
  }
  if (out.size() <= kMaxBody && fits(what.queues) && fits(what.released) && fits(what.cancels) &&
      fits(what.commands))
    return out;
  return encode_body({.next_due = what.next_due, .catalog = true, .everything = true}, ask);
}

Result<Unsent> decode_body(std::string_view body) {
  const auto wrong = [&](std::string_view rule) {
    return invalid("body", fmt::format("body of {} bytes: must {}", body.size(), rule));
  };
  if (body.size() > kMaxBody) return wrong(fmt::format("be at most {} bytes", kMaxBody));
  Reader in(body);
  Unsent notified;
  ChangeHints& what = notified.what;
  const std::uint64_t flags = in.number(1);
  for (const auto ask : {PeerRelay::Ask::along, PeerRelay::Ask::here})
    if ((flags & flag_of(ask)) != 0) notified.ask = ask;
  what.catalog = (flags & kCatalog) != 0;
  what.everything = (flags & kEverything) != 0;
  what.next_due = WallTime::from_us(static_cast<std::int64_t>(in.number(8)));
  in.names(what.queues);
  in.names(what.released);
  const std::uint64_t ended = in.number(2);
  std::vector<JobId>& over = (flags & kEndedReported) != 0 ? what.ended_reported : what.ended;
  for (std::uint64_t i = 0; i < ended && !in.failed(); ++i)
    over.push_back(static_cast<JobId>(in.number(8)));
  const std::uint64_t cancels = in.number(2);
  for (std::uint64_t i = 0; i < cancels && !in.failed(); ++i) {
    const auto job = static_cast<JobId>(in.number(8));
    what.cancels.push_back({job, in.name()});
  }
  const std::uint64_t commands = in.number(2);
  for (std::uint64_t i = 0; i < commands && !in.failed(); ++i) {
    const std::uint64_t command = in.number(1);
    if (command > static_cast<std::uint64_t>(WorkerCommand::stop))
      return wrong("be one that a node makes");
    what.commands.push_back({in.name(), static_cast<WorkerCommand>(command)});
  }
  if (!in.at_end() || (flags & ~std::uint64_t{kAllFlags}) != 0)
    return wrong("be one that a node makes");
  return notified;
}

}  // namespace mainspring::notifier
