// Resolver: the addresses of a host name, within a limit of time.
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
  // All addresses, at least one. Errors: unavailable (no such name, no server of names), timeout,
  // overloaded. Callable from every thread.
  virtual Result<std::vector<IpAddress>> resolve(const std::string& host, Duration limit) = 0;

  static constexpr std::size_t kMaxAddresses = 16;  // more are not looked at: the name is refused
};

// As the system resolves names: /etc/hosts, then its servers.
class SystemResolver final : public Resolver {
 public:
  SystemResolver();
  ~SystemResolver() override;  // waits for lookups that were given up, as long as the system does
  Result<std::vector<IpAddress>> resolve(const std::string& host, Duration limit) override;

  // Lookups that were given up at their limit go on in the system; beyond so many, overloaded.
  static constexpr std::size_t kMaxGivenUp = 16;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
