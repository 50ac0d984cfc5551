// A seeded source of chance for the workload and the nemesis.
#pragma once

#include <cstdint>

namespace blackbox {

// splitmix64. Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool percent(int p) { return between(1, 100) <= p; }

 private:
  std::uint64_t state_;
};

}  // namespace blackbox
