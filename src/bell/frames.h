// The words of the bell: a handshake that proves the key on both sides, then frames that cannot be
// forged, changed, replayed or moved to another connection.
//
//   acceptor ──▶ kGreeting, its nonce
//   dialer   ──▶ its node, its nonce, proof(dials)        proof = HMAC(key, role, what both said)
//   acceptor ──▶ proof(accepts)
//   dialer   ──▶ length, body, HMAC(session, "d", number, body)     number = 1, 2, 3, … unsaid
//   acceptor ──▶ number, HMAC(session, "a", number)                 the frame was heard
//
// A body is what is rung, or what is relayed (bell/relay.h): that one is encrypted, AES-256-GCM
// with HMAC(session, "r") and the frame's number.
//
// The proofs name the node that is meant, so that nobody can pass a handshake on to another one.
// What is rung is not secret: names of queues and leases, ids of jobs. Alternatives not taken: TLS,
// whose certificates nobody would make for a hint; UDP, which would need a memory of numbers seen,
// and does not know whether a peer can be reached.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bell/relay.h"
#include "env/digest.h"
#include "store/shared_store.h"

namespace mainspring::bell {

inline constexpr std::string_view kGreeting = "MSBELL1\n";
inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kMacBytes = 32;
inline constexpr std::size_t kHelloBytes = 8 + kNonceBytes;               // greeting, nonce
inline constexpr std::size_t kAnswerBytes = 8 + kNonceBytes + kMacBytes;  // node, nonce, proof
inline constexpr std::size_t kAckBytes = 8 + kMacBytes;
inline constexpr std::size_t kLengthBytes = 4;
inline constexpr std::size_t kMaxBody = 64 << 10;

// Numbers as they travel, most significant byte first.
void put_u32(std::string& out, std::uint32_t value);
void put_u64(std::string& out, std::uint64_t value);
std::uint32_t get_u32(std::string_view bytes);  // of the first 4 bytes
std::uint64_t get_u64(std::string_view bytes);  // of the first 8 bytes

// What was said so far; the same on both sides.
struct Talk {
  std::string acceptor_nonce;
  std::string dialer_nonce;
  std::int64_t acceptor = 0;  // node numbers
  std::int64_t dialer = 0;
};
enum class Role : char { dials = 'D', accepts = 'A', session = 'S' };
// HMAC over the talk, told apart by role. Of `session`: the key of the frames.
Digest proof(const Digest& key, Role role, const Talk& talk);

Digest frame_mac(const Digest& session, std::uint64_t number, std::string_view body);
Digest ack_mac(const Digest& session, std::uint64_t number);

// The length, the body and its MAC. What does not fit into kMaxBody is said as "everything". `ask`:
// the sender wants what the receiver relays.
std::string encode_frame(const Digest& session, std::uint64_t number, const Heard& what,
                         BellRelay::Ask ask = BellRelay::Ask::nothing);
std::string encode_ack(const Digest& session, std::uint64_t number);

// Bytes that are relayed, at most kMaxRelayed.
inline constexpr std::size_t kMaxRelayed = kMaxBody - 64;
std::string encode_relayed(const Digest& session, std::uint64_t number, std::string_view bytes);
bool is_relayed(std::string_view body);
// Errors: invalid_argument (not one that encode_relayed makes for this number).
Result<std::string> decode_relayed(const Digest& session, std::uint64_t number,
                                   std::string_view body);

// The body alone of what is rung. Errors: invalid_argument (not one that encode_body makes).
struct Rung {
  Heard what;
  BellRelay::Ask ask = BellRelay::Ask::nothing;
};
std::string encode_body(const Heard& what, BellRelay::Ask ask = BellRelay::Ask::nothing);
Result<Rung> decode_body(std::string_view body);

}  // namespace mainspring::bell
