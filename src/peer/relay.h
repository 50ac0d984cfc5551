// PeerRelay: opaque bytes that a notifier carries, besides its hints, to the nodes that ask for
// them.
//
//   node 1 asks() ──"ask"──▶ node 2 asked() … take() ──bytes──▶ node 1 heard()
//
// A node asks again every few seconds. Bytes go only to nodes that asked. They are encrypted.
//
// Threads: asks() to gone() are called on the notifier's thread and must not block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace mainspring {

class PeerRelay {
 public:
  enum class Ask : std::uint8_t {
    nothing,
    along,  // subscribers exist only at other nodes
    here,   // subscribers exist at this node
  };
  // Interval between two asks. An ask of another node expires later.
  static constexpr int kAskSeconds = 5;
  static constexpr int kAskedForSeconds = 20;

  virtual ~PeerRelay() = default;

  // What this node asks of all other nodes.
  virtual Ask asks() = 0;
  // Another node asked.
  virtual void asked(std::int64_t node, Ask what) = 0;
  // Whether the node receives all data, sooner or later.
  virtual bool serves(std::int64_t node) = 0;
  virtual bool has(std::int64_t node) = 0;
  // The next bytes for a node, at most `room`; "" = none, or the next do not fit.
  virtual std::string take(std::int64_t node, std::size_t room) = 0;
  // The bytes taken last did not arrive: return them again.
  virtual void lost(std::int64_t node) = 0;
  virtual void heard(std::int64_t node, std::string_view bytes) = 0;
  virtual void gone(std::int64_t node) = 0;
  // The notifier stops: the next take() is the last.
  virtual void closing() = 0;

  // Called from any thread: asks() has increased, or has() became true. Set before the notifier
  // starts.
  std::function<void()> changed;
};

}  // namespace mainspring
