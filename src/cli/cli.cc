// Runs one command line: parse, layer the settings, call the handler, print errors, give exit
// codes.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <tuple>

#include "api/json.h"
#include "api/shapes.h"
#include "base/edit_distance.h"
#include "cli/command.h"
#include "cli/handlers.h"
#include "cli/server_settings.h"
#include "cli/support.h"
#include "cli/version.h"
#include "env/clock.h"
#include "env/processes.h"
#include "telemetry/log.h"

namespace mainspring::cli {
namespace {

constexpr std::size_t kMaxConfigBytes = 1 << 20;

bool exists(const std::string& file) {
  struct stat st {};
  return stat(file.c_str(), &st) == 0;
}

// The configuration file: "" = none. If --config names a file, it must exist.
std::string config_file(const Parsed& parsed, const Io& io) {
  if (parsed.config) return *parsed.config;
  if (const auto file = io.env("MAINSPRING_CONFIG"); file && !file->empty()) return *file;
  const auto xdg = io.env("XDG_CONFIG_HOME");
  const auto home = io.env("HOME");
  std::string user;
  if (xdg && !xdg->empty()) {
    user = *xdg + "/mainspring/config.toml";
  } else if (home && !home->empty()) {
    user = *home + "/.config/mainspring/config.toml";
  }
  if (!user.empty() && exists(user)) return user;
  // The machine's file contains secrets: users who may not read it work without it.
  const std::string machine = "/etc/mainspring/config.toml";
  return ::access(machine.c_str(), R_OK) == 0 ? machine : "";
}

// Errors of reading the file: without it.
Layers layers_of(const Parsed& parsed, const Io& io, std::optional<Error>& unread) {
  Layers layers;
  layers.flags = parsed.settings;
  const auto credentials = io.env("CREDENTIALS_DIRECTORY");
  for (const Setting& setting : settings()) {
    const auto value = io.env(environment_of(setting));
    if (value && !value->empty()) layers.environment[std::string(setting.name)] = *value;
    if (!names_file(setting) || !credentials || credentials->empty()) continue;
    const std::string file = fmt::format("{}/{}", *credentials, setting.name);
    if (exists(file)) layers.credentials[std::string(setting.name)] = file;
  }
  layers.file = config_file(parsed, io);
  if (!layers.file.empty()) {
    if (auto text = read_file(layers.file, kMaxConfigBytes)) {
      layers.file_text = std::move(*text);
    } else {
      unread = text.error();
    }
  }
  return layers;
}

Result<Layered> layered(const Parsed& parsed, const Io& io, std::vector<std::string>& mistakes) {
  std::optional<Error> unread;
  const Layers layers = layers_of(parsed, io, unread);
  if (parsed.invocation.command->any_settings) {
    if (unread) mistakes.push_back(unread->message);
    return layer_valid(layers, mistakes);
  }
  if (unread) return *unread;
  return layer(layers);
}

// The settings that can be read, for a command line or settings with an error.
Options readable_options(const Parsed& parsed, const Io& io) {
  std::optional<Error> unread;
  std::vector<std::string> mistakes;
  return layer_valid(layers_of(parsed, io, unread), mistakes).options;
}

// The command that the words begin with, also if the rest is invalid.
const Command& meant_command(const std::vector<std::string>& words) {
  const Command* command = &root();
  for (std::size_t i = 1; i < words.size(); ++i) {
    const Command* const child = child_named(*command, words[i]);
    if (child == nullptr) break;
    command = child;
  }
  return *command;
}

void decide_colours(const Options& options, Io& io) {
  const auto no_color = io.env("NO_COLOR");
  const bool wanted = io.out_is_terminal && !(no_color && !no_color->empty());
  io.colours = options.color == "always" || (options.color == "auto" && wanted);
}

// Text of jobs must not command the terminal, also if the reader of JSON prints it.
void guard_terminal(bool json, Io& io) {
  const auto guarded = [](std::function<void(std::string_view)> write) {
    return [write = std::move(write)](std::string_view text) { write(without_c1(text)); };
  };
  if (json || io.out_is_terminal) io.out = guarded(std::move(io.out));
  if (json || io.err_is_terminal) io.err = guarded(std::move(io.err));
}

// What the user can do about an error, in addition to the message. "" = nothing.
std::string advice(const Error& error, const Parsed* parsed) {
  const bool client = parsed != nullptr && parsed->invocation.command != nullptr &&
                      (parsed->invocation.command->scopes & kClientScope) != 0;
  const auto begins = [&](std::string_view words) { return error.message.starts_with(words); };
  if (client && error.code == ErrorCode::unavailable &&
      (begins("connecting to ") || begins("none of "))) {
    return "Start a server with `mainspring serve`, or name one with --server URL or "
           "MAINSPRING_SERVER.";
  }
  if (client && error.code == ErrorCode::unauthenticated && begins("the token is not valid")) {
    return "Check --token-file or MAINSPRING_ACCESS_TOKEN. On the server, `mainspring token list` "
           "shows the tokens, `mainspring token create` makes one.";
  }
  if (client && error.code == ErrorCode::unauthenticated) {
    return "Put the token into MAINSPRING_ACCESS_TOKEN, or name its file with --token-file.";
  }
  if (client && error.message.find("local issuer certificate") != std::string::npos) {
    return "Name the certificate of its authority with --ca-file or MAINSPRING_CA_FILE.";
  }
  if (error.code == ErrorCode::not_found &&
      error.message.find(" holds no store: ") != std::string::npos) {
    return "Name the data directory with --data; that of the Debian package is "
           "/var/lib/mainspring.";
  }
  if (begins("the store does not open: ") && error.code == ErrorCode::unavailable) {
    return "To wait for the database at the start: --wait-for-store 5m.";
  }
  return "";
}

// Errors of settings name the flag. Names the file or variable if the value came from there.
Error at_origin(Error error, const Origins& origins) {
  const auto origin = origins.find(error.field);
  const Setting* const setting = find_setting(error.field);
  if (origin == origins.end() || setting == nullptr) return error;
  const std::string flag = flag_of(*setting);
  if (!error.message.starts_with(flag + " ")) return error;
  constexpr std::string_view kFile = "file ";
  constexpr std::string_view kEnvironment = "environment ";
  std::string place;
  if (origin->second.starts_with(kFile))
    place = fmt::format("{}: {}", origin->second.substr(kFile.size()), setting->name);
  if (origin->second.starts_with(kEnvironment)) place = origin->second.substr(kEnvironment.size());
  if (!place.empty()) error.message.replace(0, flag.size(), place);
  return error;
}

void log_error(LogFormat format, const Error& error, const std::string& more, Io& io) {
  Log::Fields fields = {{"code", std::string(error.name())}};
  if (!more.empty()) fields.emplace_back("advice", more);
  const WallTime now = SystemClock().now().wall;
  std::string_view rest = error.message;
  for (std::size_t end = 0; end != rest.npos;) {
    end = rest.find('\n');
    io.err(log_line(format, LogLevel::error, now, rest.substr(0, end), fields) + "\n");
    if (end != rest.npos) rest.remove_prefix(end + 1);
  }
}

// A variable that is nearly a setting is probably one that is misspelt, which would change nothing.
void warn_of_misspelt(LogFormat format, LogLevel level, Io& io) {
  constexpr std::string_view kPrefix = "MAINSPRING_";
  constexpr std::size_t kFarthest = 2;
  constexpr std::size_t kMaxNameBytes = 64;
  if (level > LogLevel::warn) return;
  for (const std::string& entry : inherited_environment()) {
    const std::string name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix) || name.size() > kMaxNameBytes) continue;
    std::string meant;
    std::size_t nearest = kFarthest + 1;
    for (const Setting& setting : settings()) {
      const std::string known = environment_of(setting);
      const std::size_t distance = edit_distance(name, known);
      if (distance < nearest) std::tie(nearest, meant) = std::pair(distance, known);
    }
    if (nearest == 0 || nearest > kFarthest) continue;
    io.err(log_line(format, LogLevel::warn, SystemClock().now().wall,
                    "an unknown variable is ignored", {{"name", name}, {"did_you_mean", meant}}) +
           "\n");
  }
}

// `format`: of the command's log, if the error is one of its lines.
int report(const Error& error, const Parsed* parsed, bool json, LogFormat format, Io& io) {
  if (format != LogFormat::text && !json) {
    log_error(format, error, advice(error, parsed), io);
  } else if (json) {
    std::string line;
    encode_error(error, line);
    io.err(line + "\n");
  } else {
    io.err(fmt::format("mainspring: {}\n", printable_lines(error.message)));
    const std::string more = advice(error, parsed);
    if (!more.empty()) io.err(more + "\n");
  }
  return info(error.code).exit_code;
}

}  // namespace

int run_cli(const std::vector<std::string>& words, Io& io) {
  bool json = false;
  for (const std::string& word : words) json = json || word == "--json";
  guard_terminal(json, io);
  std::vector<std::string> meant = words;
  if (meant.size() > 1 && (meant[1] == "--version" || meant[1] == "-V")) meant[1] = "version";
  auto parsed = parse_command_line(meant);
  if (!parsed) {
    const bool service = meant_command(meant).service;
    const LogFormat format =
        service ? log_format_of(readable_options(Parsed(), io)) : LogFormat::text;
    return report(parsed.error(), nullptr, json, format, io);
  }
  const Command& command = *parsed->invocation.command;
  if (parsed->help) {
    decide_colours(Options{}, io);
    io.out(help_text(command, parsed->path, io));
    return kExitOk;
  }
  if (command.run == nullptr) {
    io.err(help_text(command, parsed->path, io));
    return info(ErrorCode::invalid_argument).exit_code;
  }
  auto settings_now = layered(*parsed, io, parsed->invocation.mistakes);
  const LogFormat format =
      !command.service
          ? LogFormat::text
          : log_format_of(settings_now ? settings_now->options : readable_options(*parsed, io));
  if (!settings_now) return report(settings_now.error(), &*parsed, json, format, io);
  parsed->invocation.options = settings_now->options;
  parsed->invocation.origins = settings_now->origins;
  if (command.service) warn_of_misspelt(format, log_level_of(settings_now->options), io);
  // In a program that runs for a job: the token of that job.
  auto token = io.env("MAINSPRING_ACCESS_TOKEN");
  if (!token || token->empty()) token = io.env("MAINSPRING_JOB_TOKEN");
  parsed->invocation.token = Secret(token.value_or(""));
  decide_colours(settings_now->options, io);
  if (settings_now->options.utc) io.offset_s = nullptr;
  const Result<int> done = [&]() -> Result<int> {
    try {
      return command.run(parsed->invocation, io);
    } catch (const std::filesystem::filesystem_error& error) {
      return Error{
          .code = ErrorCode::io_error,
          .message = fmt::format("{}: {}", error.path1().string(), error.code().message())};
    }
  }();
  if (!done)
    return report(at_origin(done.error(), parsed->invocation.origins), &*parsed, json, format, io);
  return *done;
}

// -- the commands that only print -----------------------------------------------------------------

namespace {

// One block per setting: a table of rules and meanings does not fit a terminal.
std::string explained(const Setting& setting, const std::string& value, const std::string& origin,
                      const Io& io) {
  constexpr std::size_t kIndent = 4, kColumns = 80;
  const std::size_t width = io.width > 0 ? static_cast<std::size_t>(io.width) : kColumns;
  const Colour colour = origin == "default" ? Colour::dim : Colour::bold;
  return fmt::format(
      "{} = {}  ({})\n{}", setting.name, coloured(io, printable(value), colour), printable(origin),
      wrapped(fmt::format("{}; {}", setting.meaning, rule_of(setting)), kIndent, width));
}

}  // namespace

Result<int> run_config(const Invocation& invocation, Io& io) {
  if (invocation.has("reference")) {
    io.out(config_reference());
    return kExitOk;
  }
  if (invocation.has("of-server")) return print_server_settings(invocation, io);
  Table table({{.title = "NAME", .whole = true}, {"VALUE"}, {.title = "FROM", .keep = true}});
  std::string blocks;
  for (const Setting& setting : settings()) {
    const std::string value = format_setting(setting, invocation.options);
    const std::string& origin = invocation.origins.at(setting.name);
    if (invocation.json) {
      std::string line;
      JsonWriter out(line);
      out.begin_object().key("name").string(setting.name).key("value").string(value);
      out.key("from").string(origin).key("rule").string(rule_of(setting));
      out.key("meaning").string(setting.meaning).end_object();
      print_line(io, line);
      continue;
    }
    blocks += explained(setting, value, origin, io);
    const Colour colour = origin == "default" ? Colour::dim : Colour::bold;
    table.add({{std::string(setting.name)}, {value, colour}, {origin, colour}});
  }
  if (!invocation.json) io.out(invocation.has("explain") ? blocks : table.render(io));
  return kExitOk;
}

Result<int> run_version(const Invocation& invocation, Io& io) {
  if (invocation.json) {
    print_line(io, fmt::format("{{\"version\":\"{}\"}}", kVersion));
  } else {
    print_line(io, fmt::format("mainspring {}", kVersion));
  }
  return kExitOk;
}

Result<int> run_completion(const Invocation& invocation, Io& io) {
  const std::string shell = *invocation.argument("SHELL");
  if (shell == "bash") {
    io.out(completion_bash());
  } else if (shell == "zsh") {
    io.out(completion_zsh());
  } else if (shell == "fish") {
    io.out(completion_fish());
  } else {
    return invalid("SHELL", fmt::format("SHELL \"{}\": must be bash, zsh or fish", shell));
  }
  return kExitOk;
}

Result<int> run_man(const Invocation&, Io& io) {
  io.out(man_page());
  return kExitOk;
}

Result<int> run_help(const Invocation& invocation, Io& io) {
  if (invocation.has("all")) {
    io.out(help_all(io));
    return kExitOk;
  }
  if (invocation.argument("COMMAND") == "connection") {
    io.out(help_connection(io));
    return kExitOk;
  }
  std::vector<std::string> path;
  for (const char* name : {"COMMAND", "SUBCOMMAND"}) {
    if (const auto word = invocation.argument(name)) path.push_back(*word);
  }
  const Command* const command = find_command(path);
  if (command == nullptr) {
    return invalid("COMMAND", fmt::format("\"{}\": there is no such command; `mainspring --help` "
                                          "lists them",
                                          fmt::join(path, " ")));
  }
  io.out(help_text(*command, path, io));
  return kExitOk;
}

}  // namespace mainspring::cli
