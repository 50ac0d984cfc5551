// Resolver: the addresses of a host name, with a time limit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"
#include "outgoing/address_rules.h"

namespace mainspring {

class Resolver {
 public:
  virtual ~Resolver() = default;
  // All addresses, at least one. Errors: unavailable (no such name, no DNS server), timeout,
  // overloaded. Thread-safe.
  virtual Result<std::vector<IpAddress>> resolve(const std::string& host, Duration limit) = 0;

  static constexpr std::size_t kMaxAddresses = 16;  // a name with more is refused
};

// As the system resolves names: /etc/hosts, then its servers.
class SystemResolver final : public Resolver {
 public:
  SystemResolver();
  ~SystemResolver() override;  // waits for timed-out lookups until the system ends them
  Result<std::vector<IpAddress>> resolve(const std::string& host, Duration limit) override;

  // Lookups past their limit continue in the system; beyond this number, overloaded.
  static constexpr std::size_t kMaxGivenUp = 16;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
