// What a bell carries beside what it rings: bytes that one node tells those that ask for them, and
// that the bell does not understand.
//
//   node 1 asks() ──"ask"──▶ node 2 asked() … take() ──bytes──▶ node 1 heard()
//
// A node asks again every few seconds. Bytes go only to nodes that asked. They are encrypted.
//
// Threads: asks() to gone() are called on the bell's one and must not block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace mainspring {

class BellRelay {
 public:
  enum class Ask : std::uint8_t {
    nothing,
    along,  // because somebody is at another node
    here,   // because somebody is here
  };
  // Before it is asked again, and before it is forgotten that it did.
  static constexpr int kAskSeconds = 5;
  static constexpr int kAskedForSeconds = 20;

  virtual ~BellRelay() = default;

  // Of all other nodes.
  virtual Ask asks() = 0;
  // Another node does.
  virtual void asked(std::int64_t node, Ask what) = 0;
  // Does it get all that there is, sooner or later?
  virtual bool serves(std::int64_t node) = 0;
  virtual bool has(std::int64_t node) = 0;
  // The next bytes for a node, at most `room`; "" = none, or none that fit.
  virtual std::string take(std::int64_t node, std::size_t room) = 0;
  // What was taken last did not arrive: it is to be taken again.
  virtual void lost(std::int64_t node) = 0;
  virtual void heard(std::int64_t node, std::string_view bytes) = 0;
  virtual void gone(std::int64_t node) = 0;
  // The bell stops: what is taken now is the last.
  virtual void closing() = 0;

  // From any thread: asks() has become more, or has() true. Set before the bell starts.
  std::function<void()> changed;
};

}  // namespace mainspring
