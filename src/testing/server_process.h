// The process of a test server that a program started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "env/fd.h"
#include "mainspring/testing.h"

namespace mainspring::testing {

// Runs `mainspring serve --test`. The server ends, and removes its data, when its standard input
// closes: at the latest with this process, however that ends.
class ServerProcess {
 public:
  // Throws Failure.
  explicit ServerProcess(const ServerOptions& options);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // The line with which it said that it is ready: {"url","token","seed"}.
  const std::string& line() const { return line_; }

 private:
  pid_t pid_ = -1;
  Fd input_;
  std::string line_;
};

}  // namespace mainspring::testing
