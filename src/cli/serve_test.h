// serve --test: a server for tests, on a temporary store.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace mainspring::cli {

// What the process that serves gets from the one that watches it.
struct TestMode {
  std::string directory;  // temporary: the store, and what outlives a crash
  std::uint64_t seed = 0;
  int ready_fd = -1;  // gets the URL and a newline when the server takes requests
};

// The access token of every test server.
inline constexpr std::string_view kTestToken = "mst_dGVzdC1zZXJ2ZXItdG9rZW4tZG8tbm90LXVzZS1pdCE";

// Serves until a signal. `test` = nullptr: no test server.
Result<int> serve_node(const Invocation& invocation, Io& io, const TestMode* test);

// Makes the directory, and forks. The child serves. The parent watches it, starts it again after a
// crash, and ends it and removes the directory when a signal comes, when standard input was a pipe
// and is closed, or when the process that started it has ended.
Result<int> run_test_server(const Invocation& invocation, Io& io);

}  // namespace mainspring::cli
