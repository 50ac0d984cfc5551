// A server of this process, for tests with real sockets.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>

#include "engine/node.h"
#include "http/server.h"

namespace mainspring::test {

// A server in a directory of its own, which can be stopped and started again on the same port.
struct Server {
  SystemClock clock;
  NullLog log;
  std::filesystem::path directory;
  std::unique_ptr<Registry> registry;
  std::unique_ptr<Node> node;
  std::unique_ptr<HttpServer> http;
  std::uint16_t port = 0;

  Server() {
    std::string name = (std::filesystem::temp_directory_path() / "remote-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    directory = name;
    start();
  }
  ~Server() {
    stop();
    std::filesystem::remove_all(directory);
  }
  void start() {
    registry = std::make_unique<Registry>();
    NodeOptions options;
    options.sqlite.directory = (directory / "data").string();
    auto opened = Node::open(std::move(options), clock, log, *registry);
    REQUIRE(opened.has_value());
    node = std::move(*opened);
    node->start();
    HttpOptions http_options;
    http_options.port = port;
    http = std::make_unique<HttpServer>(http_options, node->broker(), node->store(), clock, log,
                                        *registry);
    REQUIRE(http->start().has_value());
    port = http->port();
  }
  void stop() {
    if (http) http->stop(std::chrono::seconds(5));
    if (node) node->stop();
    http.reset();
    node.reset();
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port); }
};

}  // namespace mainspring::test
