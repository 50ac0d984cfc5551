// ClaimLoop: how a simulated worker comes by its jobs, over and over; it dies over some, and is
// late with some.
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
    std::uint64_t max = 4;          // a claim asks for up to so many,
    Duration wait{0};               // and parks for up to so long
    Duration lease{0};              // that is not renewed
    Duration work{0};               // a job takes up to so long,
    std::uint64_t late_one_in = 0;  // or three leases, one in so many; 0 = none does
    Duration rest = std::chrono::milliseconds(500);  // between two claims
    std::uint64_t dies_with_one_in = 12;             // of whose end nothing is heard
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
