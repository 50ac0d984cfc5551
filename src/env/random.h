// Random: the only source of randomness. Simulated runs pass a seed and repeat exactly.
#pragma once

#include <cstdint>
#include <string>

namespace mainspring {

class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t next() = 0;
  // Uniform in [0, bound). bound > 0.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  // 128 random bits as 32 hex digits: an incarnation id.
  std::string hex128();
};

// getrandom(2). Callable from every thread.
class SystemRandom final : public Random {
 public:
  std::uint64_t next() override;
};

// splitmix64. Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() override;

 private:
  std::uint64_t state_;
};

}  // namespace mainspring
