// The settings of a server as it shows them over HTTP, and how the command line prints them.
#pragma once

#include <vector>

#include "cli/command.h"
#include "http/shown_setting.h"

namespace mainspring::cli {

// The settings that a server uses. `options` are in effect, `origins` say where each was given.
std::vector<ShownSetting> shown_settings(const Options& options, const Origins& origins);

// config --of-server, store info --of-server.
Result<int> print_server_settings(const Invocation& invocation, Io& io);
Result<int> print_server_store(const Invocation& invocation, Io& io);

}  // namespace mainspring::cli
