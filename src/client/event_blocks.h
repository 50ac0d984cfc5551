// The text of a stream of events taken apart into its blocks.
//
// Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "mainspring/result.h"

namespace mainspring {

class EventBlocks {
 public:
  static constexpr std::size_t kMaxBlockBytes = 1 << 20;  // a server that sends more is none

  // `after`: the id to go on behind; "" = none yet.
  explicit EventBlocks(std::string after = {}) : last_id_(std::move(after)) {}

  // A connection begins: what was incomplete comes again.
  void begin() { text_.clear(); }
  // Calls `data` for each event that is complete, with the text of its data; last_id() is its own
  // by then. Errors: those of `data`, which end it; internal (an event without an end).
  Result<void> take(std::string_view piece,
                    const std::function<Result<void>(const std::string&)>& data);
  const std::string& last_id() const { return last_id_; }

 private:
  Result<void> take_block(std::string_view block,
                          const std::function<Result<void>(const std::string&)>& data);
  std::string text_, last_id_;
};

}  // namespace mainspring
