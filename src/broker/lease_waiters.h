// LeaseWaiters: acquires that wait while another holder has the lease, first come first served.
//
// A waiter is tried again only when its lease is released (in the same commit) or expires. So
// waiting costs no store transaction. A plain value that belongs to the broker, under its mutex.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/operations.h"

namespace mainspring {

struct LeaseWaiter {
  std::uint64_t id = 0;
  AcquireLease request;
  std::function<void(OperationResult)> answer;
  Instant deadline;
  Error held;  // the answer when its time is over
};

class LeaseWaiters {
 public:
  enum class Place : std::uint8_t {
    last,   // it is new
    first,  // it was tried, and another caller was faster
  };
  // `retry_at`: when the awaited lease expires.
  void park(LeaseWaiter waiter, Place place, Instant retry_at);
  std::optional<LeaseWaiter> take_first(const std::string& lease);
  std::optional<LeaseWaiter> take(std::uint64_t id);
  std::vector<LeaseWaiter> take_expired(Instant now);
  // Names with waiters whose retry time has come.
  std::vector<std::string> due(Instant now) const;
  // For a name with waiters; others are ignored.
  void retry_at(const std::string& lease, Instant at);
  // When the next retry or deadline is.
  Instant next() const;
  std::vector<std::uint64_t> ids() const;
  std::size_t size() const { return places_.size(); }
  // True if there is a waiter for a lease that is not one of the engine's own.
  bool has_callers() const;

 private:
  using Line = std::list<LeaseWaiter>;
  struct Name {
    Line line;
    Instant retry_at = Instant::never();
  };
  LeaseWaiter remove(std::map<std::string, Name>::iterator name, Line::iterator place);

  std::map<std::string, Name> names_;
  std::unordered_map<std::uint64_t, Line::iterator> places_;
  std::set<std::pair<Instant, std::uint64_t>> deadlines_;
  std::set<std::pair<Instant, std::string>> retries_;
};

}  // namespace mainspring
