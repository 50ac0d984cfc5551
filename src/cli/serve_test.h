// serve --test: a server for tests, on a temporary store.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace mainspring::cli {

// What the watching process passes to the serving process.
struct TestMode {
  std::string directory;  // temporary: the store, and files that must survive a crash
  std::uint64_t seed = 0;
  int ready_fd = -1;  // receives the URL and a newline when the server is ready
};

// The access token of every test server.
inline constexpr std::string_view kTestToken = "mst_dGVzdC1zZXJ2ZXItdG9rZW4tZG8tbm90LXVzZS1pdCE";

// Serves until a signal. `test` = nullptr: not a test server.
Result<int> serve_node(const Invocation& invocation, Io& io, const TestMode* test);

// Creates the directory, and forks. The child serves. The parent restarts it after a crash. At a
// signal, when standard input was a pipe and is closed, or when its own parent has ended, it ends
// the child and removes the directory.
Result<int> run_test_server(const Invocation& invocation, Io& io);

}  // namespace mainspring::cli
