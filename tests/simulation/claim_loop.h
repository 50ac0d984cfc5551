// ClaimLoop: a simulated worker claims jobs in a loop. It dies during some and is late with some.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "simulation/world.h"

namespace mainspring::simulation {

class ClaimLoop {
 public:
  struct Habits {
    std::string worker;
    std::vector<std::string> queues;
    std::uint64_t max = 4;          // jobs per claim
    Duration wait{0};               // how long a claim parks at most
    Duration lease{0};              // that is not renewed
    Duration work{0};               // how long a job takes at most
    std::uint64_t late_one_in = 0;  // one in N jobs lasts for up to three leases; 0 = none
    Duration rest = std::chrono::milliseconds(500);  // between two claims
    std::uint64_t dies_with_one_in = 12;             // one in N jobs is never finished
    bool renews_first = false;  // a job that is never finished has started: its loss counts
    std::vector<std::string> kinds{};                // empty = every kind
  };
  // `finish` is called when a job's work is over.
  ClaimLoop(World& world, Habits habits, std::function<void(const ClaimedJob&)> finish)
      : world_(world), habits_(std::move(habits)), finish_(std::move(finish)) {}
  void start();
  const std::string& worker() const { return habits_.worker; }

 private:
  void claim();
  void run(const ClaimedJob& job);

  World& world_;
  const Habits habits_;
  const std::function<void(const ClaimedJob&)> finish_;
};

}  // namespace mainspring::simulation
