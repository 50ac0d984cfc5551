// The protocol of the notifier: a handshake that proves the key on both sides, then frames that
// cannot be forged, changed, replayed or moved to another connection.
//
//   acceptor ──▶ kGreeting, its nonce
//   dialer   ──▶ its node, its nonce, proof(dials)        proof = HMAC(key, role, handshake)
//   acceptor ──▶ proof(accepts)
//   dialer   ──▶ length, body, HMAC(session, "d", number, body)     number = 1, 2, 3, … not sent
//   acceptor ──▶ number, HMAC(session, "a", number)                 the frame was received
//
// A body is a notification, or relayed bytes (peer/relay.h). Relayed bytes are encrypted:
// AES-256-GCM with HMAC(session, "r") and the frame's number.
//
// The proofs name the intended node, so that a handshake cannot be forwarded to another node.
// Notifications are not secret: names of queues and leases, ids of jobs. Alternatives: TLS needs
// certificates, too much setup for hints. UDP would need a record of numbers seen, and does not
// show whether a peer is reachable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "env/digest.h"
#include "peer/relay.h"
#include "store/shared_store.h"

namespace mainspring::notifier {

inline constexpr std::string_view kGreeting = "MSBELL1\n";
inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kMacBytes = 32;
inline constexpr std::size_t kHelloBytes = 8 + kNonceBytes;               // greeting, nonce
inline constexpr std::size_t kAnswerBytes = 8 + kNonceBytes + kMacBytes;  // node, nonce, proof
inline constexpr std::size_t kAckBytes = 8 + kMacBytes;
inline constexpr std::size_t kLengthBytes = 4;
inline constexpr std::size_t kMaxBody = 64 << 10;

// Integers on the wire, most significant byte first.
void put_u32(std::string& out, std::uint32_t value);
void put_u64(std::string& out, std::uint64_t value);
std::uint32_t get_u32(std::string_view bytes);  // of the first 4 bytes
std::uint64_t get_u64(std::string_view bytes);  // of the first 8 bytes

// The handshake so far; the same on both sides.
struct Talk {
  std::string acceptor_nonce;
  std::string dialer_nonce;
  std::int64_t acceptor = 0;  // node numbers
  std::int64_t dialer = 0;
};
enum class Role : char { dials = 'D', accepts = 'A', session = 'S' };
// HMAC over the handshake; the role distinguishes the two sides. For `session`: the key of the
// frames.
Digest proof(const Digest& key, Role role, const Talk& talk);

Digest frame_mac(const Digest& session, std::uint64_t number, std::string_view body);
Digest ack_mac(const Digest& session, std::uint64_t number);

// Length, body and MAC. Notifications that do not fit into kMaxBody become "everything". `ask`: the
// sender wants the receiver's relayed bytes.
std::string encode_frame(const Digest& session, std::uint64_t number, const ChangeHints& what,
                         PeerRelay::Ask ask = PeerRelay::Ask::nothing);
std::string encode_ack(const Digest& session, std::uint64_t number);

// The maximum of relayed bytes per frame.
inline constexpr std::size_t kMaxRelayed = kMaxBody - 64;
std::string encode_relayed(const Digest& session, std::uint64_t number, std::string_view bytes);
bool is_relayed(std::string_view body);
// Errors: invalid_argument (not the output of encode_relayed for this number).
Result<std::string> decode_relayed(const Digest& session, std::uint64_t number,
                                   std::string_view body);

// The body of a notification. Errors: invalid_argument (not the output of encode_body).
struct Unsent {
  ChangeHints what;
  PeerRelay::Ask ask = PeerRelay::Ask::nothing;
};
std::string encode_body(const ChangeHints& what, PeerRelay::Ask ask = PeerRelay::Ask::nothing);
Result<Unsent> decode_body(std::string_view body);

}  // namespace mainspring::notifier
