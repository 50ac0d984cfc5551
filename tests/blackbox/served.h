// A real server over a fresh directory, for one test case.
#pragma once

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "http_client.h"
#include "process.h"

namespace blackbox {

// The binary under test: $MAINSPRING_SERVER, else the one of this build.
inline std::string server_binary() {
  const char* path = std::getenv("MAINSPRING_SERVER");
  return path != nullptr ? path : MAINSPRING_BINARY_DIR "/mainspring";
}

class Served {
 public:
  explicit Served(std::vector<std::string> options = {}, std::string directory = "")
      : options_(std::move(options)), port_(free_port()) {
    char path[] = "/tmp/mainspring-blackbox-XXXXXX";
    scratch_ = mkdtemp(path) == nullptr ? "" : path;
    store_ = directory.empty() ? scratch_ + "/store" : std::move(directory);
  }
  ~Served() {
    process_.kill();
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }

  // Starts the server and returns at once. False if there was no process to start.
  bool launch() {
    Command command{.args = wrapper,
                    .environment = environment,
                    .output = log_path(),
                    .uid = uid};
    for (const std::string& word :
         {server_binary(), std::string("serve"), std::string("--data"), store_,
          std::string("--listen"), "127.0.0.1:" + std::to_string(port_)}) {
      command.args.push_back(word);
    }
    command.args.insert(command.args.end(), options_.begin(), options_.end());
    return process_.start(command);
  }
  // True once the server is ready.
  bool start() {
    if (!launch()) return false;
    HttpClient probe(port_);
    for (int i = 0; i < kTries && !process_.wait(5); ++i) {
      if (probe.get("/readyz", 1000).status == 200) return true;
    }
    return false;
  }
  void kill() { process_.kill(); }
  // SIGTERM; the exit code, or -1 if it did not end in time.
  int stop(int milliseconds = 60'000) {
    process_.signal(SIGTERM);
    return process_.wait(milliseconds) ? process_.exit_code() : -1;
  }

  // For the next start: options, environment, the user, and a program that runs the server.
  void set_options(std::vector<std::string> options) { options_ = std::move(options); }
  std::vector<std::pair<std::string, std::string>> environment;
  unsigned uid = 0;
  std::vector<std::string> wrapper;

  Process& process() { return process_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // A directory of this test case, removed at its end. It holds the store and the log.
  const std::string& scratch() const { return scratch_; }
  std::uint16_t port() const { return port_; }
  const std::string& store() const { return store_; }
  std::string log() const { return read_file(log_path()); }
  std::string log_path() const { return scratch_ + "/server.log"; }

 private:
  static constexpr int kTries = 12'000;  // of 5 ms
  std::vector<std::string> options_;
  std::uint16_t port_;
  std::string scratch_, store_;
  Process process_;
};

}  // namespace blackbox
