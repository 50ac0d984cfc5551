// Splits the text of an event stream into its blocks.
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
  static constexpr std::size_t kMaxBlockBytes = 1 << 20;  // a larger block is an error

  // `after`: the id after which to continue; "" = none yet.
  explicit EventBlocks(std::string after = {}) : last_id_(std::move(after)) {}

  // A new connection starts: an incomplete block is sent again.
  void begin() { text_.clear(); }
  // Calls `data` with the data of each complete event; last_id() is already the event's id. Errors:
  // those of `data`, which end it; internal (an event that is too long).
  Result<void> take(std::string_view piece,
                    const std::function<Result<void>(const std::string&)>& data);
  const std::string& last_id() const { return last_id_; }

 private:
  Result<void> take_block(std::string_view block,
                          const std::function<Result<void>(const std::string&)>& data);
  std::string text_, last_id_;
};

}  // namespace mainspring
