// A real server over a shared store, for tests that kill it.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "blackbox/served.h"

namespace mainspring::pg_testing {

class SharedServer {
 public:
  // The store's URL is passed in a file, as operators do.
  explicit SharedServer(const std::string& url, std::vector<std::string> options = {})
      : options_(std::move(options)), port_(blackbox::free_port()) {
    char path[] = "/tmp/mainspring-shared-XXXXXX";
    scratch_ = mkdtemp(path) == nullptr ? "" : path;
    std::ofstream(scratch_ + "/url") << url << "\n";
  }
  ~SharedServer() {
    process_.kill();
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }

  // True once it is ready.
  bool start() {
    blackbox::Command command{
        .args = {blackbox::server_binary(), "serve", "--store-file", scratch_ + "/url", "--data",
                 scratch_ + "/data", "--listen", "127.0.0.1:" + std::to_string(port_)},
        .output = scratch_ + "/log"};
    command.args.insert(command.args.end(), options_.begin(), options_.end());
    if (!process_.start(command)) return false;
    blackbox::HttpClient probe(port_);
    for (int i = 0; i < kTries && !process_.wait(10); ++i) {
      if (probe.get("/readyz", 1000).status == 200) return true;
    }
    return false;
  }
  // SIGKILL; CLOCK_MONOTONIC in microseconds when it was sent.
  std::int64_t kill() {
    const std::int64_t at = blackbox::now_us();
    process_.kill();
    return at;
  }
  std::uint16_t port() const { return port_; }
  std::string log() const { return blackbox::read_file(scratch_ + "/log"); }

 private:
  static constexpr int kTries = 2000;  // of 10 ms
  std::vector<std::string> options_;
  std::uint16_t port_;
  std::string scratch_;
  blackbox::Process process_;
};

}  // namespace mainspring::pg_testing
