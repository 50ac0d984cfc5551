// For tests: a directory with an authority in it, and two ends of TLS in one process.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "env/clock.h"
#include "tls/tls.h"

namespace mainspring::testing {

inline constexpr Duration kDay = std::chrono::hours(24);

// Files of a private authority, created on request.
class Certificates {
 public:
  explicit Certificates(WallTime now = SystemClock().now().wall) : now_(now) {
    std::string name = std::filesystem::temp_directory_path() / "mainspring-tls-XXXXXX";
    directory_ = ::mkdtemp(name.data());
    const auto made = Authority::create(directory_, "test authority", 3650 * kDay, now_);
    REQUIRE_MESSAGE(made.has_value(), made.error().message);
  }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;
  ~Certificates() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  void issue(const std::string& name, const std::vector<std::string>& hosts,
             Duration valid = 30 * kDay) const {
    const bool client = hosts.empty();
    const auto made = Authority::issue(directory_, name, hosts, client, valid, now_);
    REQUIRE_MESSAGE(made.has_value(), made.error().message);
  }
  std::string path(const std::string& file) const { return directory_ + "/" + file; }
  const std::string& directory() const { return directory_; }

  TlsServerOptions server(const std::string& name = "server") const {
    return {.certificate_file = path(name + ".pem"), .key_file = path(name + ".key")};
  }
  TlsClientOptions client(const std::string& name = "") const {
    if (name.empty()) return {.ca_file = path("ca.pem")};
    return {path("ca.pem"), path(name + ".pem"), path(name + ".key")};
  }

 private:
  const WallTime now_;
  std::string directory_;
};

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

inline void write_text(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

struct Ran {
  int status = -1;
  std::string output;
};
inline Ran run(const std::string& command) {
  Ran ran;
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char part[512];
  while (const std::size_t size = std::fread(part, 1, sizeof part, pipe)) {
    ran.output.append(part, size);
  }
  ran.status = ::pclose(pipe);
  return ran;
}

}  // namespace mainspring::testing
