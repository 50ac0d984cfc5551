// LeaseWaiters: acquires that wait while somebody else has the lease, first come first served.
//
// A waiter is tried again when its lease is released (in the very commit of the release), when the
// lease expires, and never for any other reason: waiting costs no store transaction. A plain value
// of the broker's, under its mutex.
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
  Error held;  // what it is told when its time is over
};

class LeaseWaiters {
 public:
  enum class Place : std::uint8_t {
    last,   // it has just come
    first,  // it was tried, and somebody else was faster
  };
  // `retry_at`: when the lease that it waits for expires.
  void park(LeaseWaiter waiter, Place place, Instant retry_at);
  std::optional<LeaseWaiter> take_first(const std::string& lease);
  std::optional<LeaseWaiter> take(std::uint64_t id);
  std::vector<LeaseWaiter> take_expired(Instant now);
  // Names with waiters whose retry time has come.
  std::vector<std::string> due(Instant now) const;
  // For a name with waiters; others are ignored.
  void retry_at(const std::string& lease, Instant at);
  // When there is something to do, at the latest.
  Instant next() const;
  std::vector<std::uint64_t> ids() const;
  std::size_t size() const { return places_.size(); }
  // For a lease that is not one of the engine's own.
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
