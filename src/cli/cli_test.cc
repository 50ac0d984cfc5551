// Settings, command lines, help and lines of jobs.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/enqueue_lines.h"
#include "cli/schedule_files.h"
#include "cli/serve.h"
#include "cli/server_settings.h"
#include "cli/support.h"
#include "cli/table.h"

using namespace mainspring;
using namespace mainspring::cli;

namespace {

// Runs a command line without a terminal; keeps what it prints.
struct Ran {
  int code = 0;
  std::string out;
  std::string err;
};

Ran run(std::vector<std::string> words, std::map<std::string, std::string> environment = {}) {
  Ran ran;
  Io io;
  io.out = [&](std::string_view text) { ran.out += text; };
  io.err = [&](std::string_view text) { ran.err += text; };
  environment.emplace("XDG_CONFIG_HOME", "/nowhere");
  io.env = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = environment.find(std::string(name));
    if (found == environment.end()) return std::nullopt;
    return found->second;
  };
  words.insert(words.begin(), "mainspring");
  ran.code = run_cli(words, io);
  return ran;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

void each_command(const Command& command, std::vector<std::string> path,
                  const std::function<void(const Command&, const std::vector<std::string>&)>& see) {
  see(command, path);
  for (const Command& child : command.children) {
    std::vector<std::string> below = path;
    below.push_back(child.name);
    each_command(child, below, see);
  }
}

}  // namespace

TEST_CASE("a flag overrides the environment, the environment the file, the file the default") {
  Layers layers;
  layers.file = "m.toml";
  layers.file_text =
      "data = \"/file\"\nlisten = \"127.0.0.1:1\"\nlog_level = \"warn\"\n"
      "max_batch_jobs = 7\nstop_timeout = \"3s\"\n";
  layers.environment = {{"data", "/environment"}, {"listen", "127.0.0.1:2"}};
  layers.flags = {{"data", "/flag"}};
  const auto layered = layer(layers);
  REQUIRE(layered);
  CHECK(layered->options.data == "/flag");
  CHECK(layered->options.listen == "127.0.0.1:2");
  CHECK(layered->options.log_level == "warn");
  CHECK(layered->options.max_batch_jobs == 7);
  CHECK(layered->options.stop_timeout == Duration(3s));
  CHECK(layered->options.io_threads == 1);
  CHECK(layered->origins.at("data") == "flag --data");
  CHECK(layered->origins.at("listen") == "environment MAINSPRING_LISTEN");
  CHECK(layered->origins.at("log_level") == "file m.toml");
  CHECK(layered->origins.at("io_threads") == "default");
}

TEST_CASE("a credential overrides the file, and environment and flag override a credential") {
  Layers layers;
  layers.file = "m.toml";
  layers.file_text = "tls_key = \"/file\"\ntls_cert = \"/file\"\n";
  layers.credentials = {{"tls_key", "/run/credentials/tls_key"},
                        {"token_file", "/run/credentials/token_file"},
                        {"tls_client_ca", "/run/credentials/tls_client_ca"}};
  layers.environment = {{"token_file", "/environment"}};
  layers.flags = {{"tls_client_ca", "/flag"}};
  const auto layered = layer(layers);
  REQUIRE(layered);
  CHECK(layered->options.tls_cert == "/file");
  CHECK(layered->options.tls_key == "/run/credentials/tls_key");
  CHECK(layered->options.token_file == "/environment");
  CHECK(layered->options.tls_client_ca == "/flag");
  CHECK(layered->origins.at("tls_key") == "credential tls_key");
}

TEST_CASE("all invalid settings are reported together, each with its source, value and rule") {
  Layers layers;
  layers.environment = {{"max_batch_jobs", "0"}, {"log_level", "loud"}};
  layers.flags = {{"stop_timeout", "5"}};
  const auto layered = layer(layers);
  REQUIRE(!layered);
  const std::string& text = layered.error().message;
  CHECK(has(text, "MAINSPRING_MAX_BATCH_JOBS \"0\": must be a number from 1 to 1000000"));
  CHECK(has(text, "MAINSPRING_LOG_LEVEL \"loud\": must be debug, info, warn, error or off"));
  CHECK(has(text, "--stop-timeout \"5\": must be a time from 100ms to 1h"));
}

TEST_CASE("all mistakes in the file are reported together") {
  const auto mistakes = [](const std::string& text) {
    Layers layers;
    layers.file = "m.toml";
    layers.file_text = text;
    const auto layered = layer(layers);
    return layered ? "" : layered.error().message;
  };
  CHECK(mistakes("data = \"x\"\nlog-level = \"info\"\nio_threads = 1.5\nslots = 2000\n") ==
        "m.toml:3: io_threads must be a text or a whole number\n"
        "m.toml:2: there is no setting \"log-level\". Did you mean log_level? `mainspring config "
        "--explain` lists them\n"
        "m.toml: slots \"2000\": must be a number from 0 to 1024, or a range such as 2..16");
  for (const char* heading : {"[data]\n", "[server]\nlisten = \"x\"\n", "[other]\n"})
    CHECK(has(mistakes(heading), "settings are not in tables"));
  CHECK(has(mistakes("data = \n"), "m.toml:1: not TOML"));
  for (const char* open : {"data = \"x\nslots = 1\n", "data = 'x\nslots = 1\n"}) {
    CHECK(mistakes(open) == "m.toml:1: not TOML: a string is not closed on this line");
  }
  std::string many;
  for (std::size_t i = 0; i < kMostMistakes + 5; ++i) many += fmt::format("wrong{} = 1\n", i);
  CHECK(mistakes(many).ends_with("\n… and 5 more"));
}

TEST_CASE("every default is valid and prints as it is read") {
  const Options defaults;
  for (const Setting& setting : settings()) {
    CAPTURE(setting.name);
    Options other;
    const std::string text = format_setting(setting, defaults);
    CHECK(set_setting(setting, text, "test", other));
    CHECK(format_setting(setting, other) == text);
    CHECK(rule_of(setting).starts_with("must "));
    CHECK(!setting.meaning.empty());
  }
}

TEST_CASE("sizes have units") {
  CHECK(*parse_bytes("4096") == 4096);
  CHECK(*parse_bytes("64KiB") == 65'536);
  CHECK(*parse_bytes("2GiB") == std::int64_t{2} << 30);
  CHECK(format_bytes(16 << 20) == "16MiB");
  CHECK(format_bytes(1000) == "1000");
  for (const char* bad :
       {"", "MiB", "-1", "1.5MiB", "1MB", "99999999999GiB", "100000000000000000"}) {
    CAPTURE(bad);
    CHECK(!parse_bytes(bad));
  }
}

TEST_CASE("a group of commands may be called in the singular or the plural") {
  const auto path = [](std::vector<std::string> words) {
    words.insert(words.begin(), "mainspring");
    const auto parsed = parse_command_line(words);
    return parsed ? fmt::format("{}", fmt::join(parsed->path, " ")) : parsed.error().message;
  };
  CHECK(path({"job", "list"}) == "jobs list");
  CHECK(path({"triggers", "show", "a"}) == "trigger show");
  CHECK(path({"workflows", "show", "1"}) == "workflow show");
  CHECK(path({"why", "1"}) == "why");
  CHECK(path({"works"}).starts_with("\"works\": there is no such command"));
  REQUIRE(find_command({"schedule", "set"}) != nullptr);
  CHECK(find_command({"schedule", "set"}) == find_command({"schedules", "set"}));
  CHECK(find_command({"lease", "run"}) != nullptr);  // these two are not a group
  CHECK(find_command({"leases", "list"}) != nullptr);
}

TEST_CASE("settings may be before a command and between its words") {
  const std::string url = "http://127.0.0.1:9";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"mainspring", "--server", url, "jobs", "list", "--queue", "q"},
        {"mainspring", "--server=" + url, "jobs", "list", "--queue", "q"},
        {"mainspring", "jobs", "--server", url, "list", "--queue", "q"},
        {"mainspring", "--color", "never", "--json", "--server", url, "job", "list", "--queue=q"},
        {"mainspring", "jobs", "list", "--server", url, "--queue", "q"}}) {
    const auto parsed = parse_command_line(words);
    REQUIRE_MESSAGE(parsed, parsed.error().message);
    CHECK(parsed->path == std::vector<std::string>{"jobs", "list"});
    CHECK(parsed->settings.at("server") == url);
    CHECK(parsed->invocation.flag("queue") == "q");
  }
  // Arguments after the command belong to the command.
  const auto value =
      parse_command_line({"mainspring", "enqueue", "jobs", "list", "--", "--server"});
  REQUIRE(value);
  CHECK(value->path == std::vector<std::string>{"enqueue"});
  CHECK(value->invocation.argument("ARGS") == "--server");
  const auto wrong = parse_command_line({"mainspring", "--max-batch-jobs", "5", "jobs", "list"});
  REQUIRE_FALSE(wrong);
  CHECK(has(wrong.error().message, "--max-batch-jobs: unknown flag of `mainspring jobs list`"));
}

TEST_CASE("the program's help names each first word of a command once") {
  std::vector<std::string> named = topic_words();
  std::vector<std::string> known;
  for (const Command& command : root().children) {
    if (!command.hidden) known.push_back(command.name);
  }
  std::ranges::sort(named);
  std::ranges::sort(known);
  CHECK(named == known);
  const Ran all = run({"help", "--all"});
  CHECK(all.code == 0);
  CHECK(has(all.out, "jobs clone"));
  const Ran connection = run({"help", "connection"});
  CHECK(has(connection.out, "--ca-file FILE"));
  CHECK(!has(run({"jobs", "list", "--help"}).out, "--ca-file"));
}

TEST_CASE("help fits a terminal of 80 columns") {
  const std::function<void(const Command&, std::vector<std::string>)> look =
      [&](const Command& command, std::vector<std::string> path) {
        path.emplace_back("--help");
        const Ran ran = run(path);
        path.pop_back();
        std::istringstream lines(ran.out);
        for (std::string line; std::getline(lines, line);)
          CHECK_MESSAGE(display_width(line) <= 80, line);
        for (const Command& child : command.children) {
          std::vector<std::string> below = path;
          below.push_back(child.name);
          look(child, below);
        }
      };
  look(root(), {});
}

TEST_CASE("text is wrapped at blanks and indented") {
  CHECK(wrapped("one two three", 2, 9) == "  one two\n  three\n");
  CHECK(wrapped("averylongword x", 0, 4) == "averylongword\nx\n");
}

TEST_CASE("an error of a setting names the file or variable that it came from") {
  const Ran variable = run({"serve"}, {{"MAINSPRING_LISTEN", "5"}});
  CHECK(has(variable.err, "MAINSPRING_LISTEN \"5\": must be HOST:PORT"));
}

TEST_CASE("log lines are written as text, as JSON and for the journal") {
  const WallTime at = *parse_wall_time("2026-01-31T09:00:00.123Z");
  const Log::Fields fields = {{"why", "no \"space\"\n"}, {"jobs", "12"}};
  CHECK(log_line(LogFormat::text, LogLevel::warn, at, "store is full", fields) ==
        R"(2026-01-31T09:00:00.123Z WARN store is full why="no \"space\"\x0a" jobs=12)");
  CHECK(log_line(LogFormat::json, LogLevel::warn, at, "store is \"full\"", fields) ==
        R"({"time":"2026-01-31T09:00:00.123Z","level":"warn","msg":"store is \"full\"",)"
        R"("why":"no \"space\"\u000a","jobs":"12"})");
  CHECK(log_line(LogFormat::journal, LogLevel::error, at, "a\nb", {}) == "<3>a b");
  CHECK(log_line(LogFormat::journal, LogLevel::info, at, "m", fields).starts_with("<6>m why="));
}

TEST_CASE("an empty, missing or abbreviated flag is refused") {
  const std::pair<std::vector<std::string>, std::string_view> cases[] = {
      {{"jobs", "list", "--queue", ""}, "--queue \"\": must not be empty"},
      {{"dead", "redrive", "--tag="}, "--tag \"\": must not be empty"},
      {{"dead", "redrive"}, "no filter: give --queue, --kind, --tag, --fingerprint, or --all"},
      {{"dead", "redrive", "--all", "--queue", "q"}, "cannot be given together with a filter"},
      {{"enqueue", "q", "k", "--session", ""}, "--session \"\": must not be empty"},
      {{"trigger", "set", "t", "--of-queue", ""}, "--of-queue \"\": must not be empty"},
      {{"schedules", "set", "s", "--every", "1h"}, "--kind: must be given"},
      {{"schedules", "set", "s", "--every", "0s"}, "--every 0s: must be more than 0"},
      {{"enqueue", "q", "k", "--prio", "5"}, "Did you mean --priority?"},
  };
  for (const auto& [words, says] : cases) {
    const Ran ran = run(words);
    CAPTURE(ran.err);
    CHECK(ran.code == 64);
    CHECK(has(ran.err, says));
  }
}

struct Case {
  std::vector<std::string> words;
  std::string_view says;
};
void check_refused(std::span<const Case> cases) {
  for (const Case& c : cases) {
    const Ran ran = run(c.words);
    CAPTURE(ran.err);
    CAPTURE(c.says);
    CHECK(ran.code == 64);
    CHECK(has(ran.err, c.says));
    CHECK(ran.out.empty());
  }
}

TEST_CASE("a mistyped command or flag gets a suggestion") {
  const Case cases[] = {
      {{"jbos", "list"}, "\"jbos\": there is no such command of `mainspring`. Did you mean jobs?"},
      {{"serv"}, "\"serv\": there is no such command of `mainspring`. Did you mean serve?"},
      {{"bogus"}, "no such command of `mainspring`. See mainspring --help"},
      {{"cancel", "5"}, "Did you mean jobs cancel or bulk cancel or workflow cancel?"},
      {{"backup", "b"}, "Did you mean store backup?"},
      {{"status"}, "Did you mean health?"},
      {{"serve", "--port", "80"}, "Did you mean --listen?"},
      {{"serve", "--host", "::"}, "Did you mean --listen?"},
      {{"jobs", "list", "--host", "a"}, "Did you mean --server?"},
      {{"jobs", "list", "--url", "a"}, "Did you mean --server?"},
      {{"jobs", "shw"}, "there is no such command of `mainspring jobs`. Did you mean show?"},
      {{"lease", "list"}, "no such command of `mainspring lease`. Did you mean leases list?"},
  };
  check_refused(cases);
}

TEST_CASE("a bad command line names what is wrong and exits with 64") {
  const Case cases[] = {
      {{"jobs", "list", "--qeue", "a"},
       "--qeue: unknown flag of `mainspring jobs list`. Did you mean --queue?"},
      {{"jobs", "list", "--queue"}, "--queue: needs a value"},
      {{"jobs", "list", "--queue", "a", "--queue", "b"},
       "--queue: given 2 times: must be given once"},
      {{"jobs", "list", "--state", "done"}, "--state \"done\": must be waiting, scheduled"},
      {{"jobs", "list", "--limit", "0"}, "--limit \"0\": must be a number from 1 to"},
      {{"jobs", "list", "--limit", "5", "--all"}, "--limit and --all: only one of them"},
      {{"jobs", "show"}, "ID is missing. Usage: mainspring jobs show ID"},
      {{"jobs", "show", "x1"}, "ID \"x1\": must be a job's number"},
      {{"jobs", "show", "1", "2"}, "\"2\": `mainspring jobs show` takes no further argument"},
      {{"serve", "--listen", "0.0.0.0:8080"},
       "--listen \"0.0.0.0:8080\": remote access requires TLS and a token"},
      {{"serve", "--listen", "8080"}, "--listen \"8080\": must be HOST:PORT"},
      {{"serve", "--listen", "127.0.0.1:99999"}, "the port must be a number from 0 to 65535"},
      {{"serve", "--io-threads", "none"}, "--io-threads \"none\": must be a number from 1 to 64"},
      {{"--sever", "x"}, "--sever: unknown flag of `mainspring`. Did you mean --server?"},
      {{"health", "--timeout", "0s"}, "--timeout 0s: must be more than 0s"},
      {{"enqueue", "q"}, "KIND is missing"},
      {{"enqueue", "-q", "k"}, "-q: unknown flag of `mainspring enqueue`"},
      {{"enqueue", "q", "k", "{nope"}, "ARGS must be JSON"},
      {{"enqueue", "q", "k", "--priority", "12"},
       "--priority \"12\": must be a number from 0 to 9"},
      {{"enqueue", "q", "k", "--delay", "5"}, "--delay \"5\": must be a time such as"},
      {{"enqueue", "q", "k", "--run-at", "tomorrow"}, "--run-at \"tomorrow\": must be an instant"},
      {{"enqueue", "q", "k", "--unique-for", "1h"}, "--unique-for: needs --unique KEY"},
      {{"enqueue", "q", "k", "--then", "mail"}, "--then \"mail\": must be QUEUE/KIND"},
      {{"enqueue", "q", "k", "--then", "a/b@done"},
       "--then \"a/b@done\": after @ must be completed, cancelled, dead, message or progress"},
      {{"enqueue", "q", "k", "--callback", "https://a.b/", "--callback-on", "end"},
       "--callback-on \"end\": must be completed, cancelled, dead, message or progress, or "
       "several"},
      {{"enqueue", "q", "k", "--reply-progress"}, "--reply-progress: needs --reply-to QUEUE"},
      {{"enqueue", "q", "k", "--header", "a"}, "--header \"a\": must be NAME=VALUE"},
      {{"enqueue", "q!", "k"}, "queue \"q!\": must be 1 to 128"},
      {{"enqueue", "q", "k", "--wait=soon"}, "--wait \"soon\": must be a time"},
      {{"enqueue", "q", "k", "--many", "-", "--wait"}, "--many: cannot be given together"},
      {{"work", "--queue", "q"}, "--exec: must be given"},
      {{"work", "--exec", "cat"}, "--queue: must be given"},
      {{"work", "--queue", "q", "--exec", "cat 'x"}, "--exec \"cat 'x\": "},
      {{"work", "--queue", "q", "--exec", "cat", "--once", "--drain"}, "--once and --drain"},
      {{"work", "--queue", "q", "--exec", "no-such-program x"},
       "--exec \"no-such-program x\": no executable program no-such-program"},
      {{"queues", "set", "q"}, "nothing to set"},
      {{"completion", "tcsh"}, "SHELL \"tcsh\": must be bash, zsh or fish"},
      {{"bench", "--only", "luck"}, "--only \"luck\": must be one of those that --list shows"},
      {{"help", "nope"}, "\"nope\": there is no such command"},
      {{"jobs", "list", "--server", "nonsense"}, "--server: "},
  };
  check_refused(cases);
}

TEST_CASE("an unreachable server: exit 69, and what to do") {
  const Ran ran = run({"jobs", "list", "--server", "http://127.0.0.1:1"});
  CHECK(ran.code == 69);
  CHECK(has(ran.err, "Start a server with `mainspring serve`"));
  const Ran two = run({"jobs", "list", "--server", "http://127.0.0.1:1,http://127.0.0.1:2"});
  CHECK(two.code == 69);
  CHECK(has(two.err,
            "none of 2 servers answers: connecting to 127.0.0.1:1: Connection refused; connecting "
            "to 127.0.0.1:2: Connection refused\nStart a server"));
  const Ran json = run({"jobs", "list", "--json"}, {{"MAINSPRING_SERVER", "http://127.0.0.1:1"}});
  CHECK(json.code == 69);
  CHECK(has(json.err, R"({"error":{"code":"unavailable")"));
}

TEST_CASE("flags may be written with = or a blank, and an optional value only with =") {
  const auto parsed = parse_command_line({"mainspring", "enqueue", "--wait", "q", "k", "[1,2]",
                                          "--tag=a", "--tag", "b", "--delay=5s"});
  REQUIRE(parsed);
  const Invocation& in = parsed->invocation;
  CHECK(in.argument("QUEUE") == "q");
  CHECK(in.argument("KIND") == "k");
  CHECK(in.argument("ARGS") == "[1,2]");
  CHECK(in.flag("wait") == "");
  CHECK(in.all_flags("tag") == std::vector<std::string>{"a", "b"});
  CHECK(in.flag("delay") == "5s");
  const auto valued = parse_command_line({"mainspring", "enqueue", "q", "k", "-", "--wait=3s"});
  REQUIRE(valued);
  CHECK(valued->invocation.flag("wait") == "3s");
  CHECK(valued->invocation.argument("ARGS") == "-");
  const auto dashed = parse_command_line({"mainspring", "work", "--exec", "--odd", "--queue=q"});
  REQUIRE(dashed);
  CHECK(dashed->invocation.flag("exec") == "--odd");
  const auto early = parse_command_line({"mainspring", "--json", "jobs", "list"});
  REQUIRE(early);
  CHECK(early->invocation.json);
}

TEST_CASE("every command has help with an example, and its flags have one meaning each") {
  each_command(root(), {}, [](const Command& command, const std::vector<std::string>& path) {
    CAPTURE(fmt::format("{}", fmt::join(path, " ")));
    std::vector<std::string> words = path;
    words.emplace_back("--help");
    const Ran ran = run(words);
    CHECK(ran.code == 0);
    CHECK(has(ran.out, usage_line(command, path)));
    if (command.run != nullptr && !command.hidden) CHECK(!command.examples.empty());
    std::vector<std::string> names;
    for (const Flag& flag : command.flags) names.push_back("--" + flag.name);
    for (const Flag& flag : common_flags()) names.push_back("--" + flag.name);
    for (const Setting* setting : settings_of(command)) names.push_back(flag_of(*setting));
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
    for (const Example& example : command.examples) {
      CAPTURE(example.line);
      CHECK(has(example.line, "mainspring"));
    }
  });
}

// The man page's form of a hyphen that is not a dash.
std::string as_roff(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '-' ? std::string("\\-") : std::string(1, c);
  return out;
}

TEST_CASE("the man page and the completions contain every command") {
  const std::string man = man_page();
  const std::string bash = completion_bash();
  const std::string zsh = completion_zsh();
  const std::string fish = completion_fish();
  each_command(root(), {}, [&](const Command& command, const std::vector<std::string>& path) {
    if (path.empty() || command.hidden) return;
    const std::string name = fmt::format("{}", fmt::join(path, " "));
    CAPTURE(name);
    if (command.run != nullptr) CHECK(has(man, ".SS mainspring " + as_roff(name)));
    for (const std::string* script : {&bash, &zsh, &fish}) CHECK(has(*script, "'" + name + "'"));
  });
}

TEST_CASE("completions offer the values that a flag has in each command") {
  const std::string bash = completion_bash();
  const std::string zsh = completion_zsh();
  const std::string fish = completion_fish();
  const std::string states =
      "waiting scheduled available running completed retryable cancelled dead";
  const std::string queue = "$(mainspring complete queues 2>/dev/null)";
  // The line of a script that has `where`.
  const auto line = [](const std::string& script, const std::string& where) {
    const std::size_t at = script.find(where);
    REQUIRE(at != std::string::npos);
    const std::size_t begin = script.rfind('\n', at) + 1;
    return script.substr(begin, script.find('\n', at) - begin);
  };
  for (const std::string* script : {&bash, &zsh}) {
    CHECK(has(line(*script, "'jobs list --state'"), states));
    CHECK(has(line(*script, "'workflow list --state'"), "running undoing parked"));
    CHECK(has(line(*script, "*' --queue'"), "mainspring complete queues"));
    CHECK(has(line(*script, "'lease run --wait'"), ":"));
    CHECK(!has(*script, "enqueue --wait'"));
    CHECK(has(*script, "'jobs'|'job') at=jobs"));
  }
  CHECK(has(line(fish, "'jobs list'\" -l state"), states));
  CHECK(has(line(fish, "'workflow list'\" -l state"), "'running undoing parked"));
  CHECK(has(line(fish, "'jobs list'\" -l queue"), "(mainspring complete queues"));
  CHECK(has(line(fish, "'quarantine list'\" -l queue"), "(mainspring complete queues"));
  CHECK(has(line(fish, "'completion'\" -a"), "'bash zsh fish'"));
  CHECK(!has(line(fish, "'dead redrive'\" -l canary"), "-x"));
}

TEST_CASE("config shows each value and where it came from") {
  const Ran ran = run({"config", "--explain"}, {{"MAINSPRING_DATA", "/srv/jobs"}});
  CHECK(ran.code == 0);
  CHECK(has(ran.out, "/srv/jobs"));
  CHECK(has(ran.out, "environment MAINSPRING_DATA"));
  const Ran json = run({"config", "--json", "--data", "/x"});
  CHECK(has(json.out, R"({"name":"data","value":"/x","from":"flag --data")"));
  CHECK(run({"config", "--config", "/nowhere/m.toml"}).code == 66);
}

TEST_CASE("JSON and errors have no character that a terminal obeys") {
  const std::string escape =
      "\xc2\x9b"
      "2J";
  const Ran json = run({"config", "--json"}, {{"MAINSPRING_DATA", escape}});
  CHECK(has(json.out, R"("value":"\u009b2J")"));
  CHECK_FALSE(has(json.out, escape));
  CHECK_FALSE(has(run({"config", "--no-such", "--json", escape}).err, escape));
  const Ran plain = run({"jobs", "list", "\x1b[2J" + escape});
  CHECK(plain.code != 0);
  CHECK_FALSE(has(plain.err, "\x1b"));
  CHECK_FALSE(has(plain.err, escape));
}

TEST_CASE("a file with an invalid line still gives the settings of its other lines") {
  Layers layers;
  layers.file = "m.toml";
  layers.file_text =
      "data = \"/there\"\nno_setting = 1\nlog_level = \"loud\"\nlisten = \"127.0.0.1:1\n";
  layers.environment = {{"io_threads", "0"}};
  std::vector<std::string> mistakes;
  const Layered layered = layer_valid(layers, mistakes);
  CHECK(layered.options.data == "/there");
  CHECK(layered.origins.at("data") == "file m.toml");
  CHECK(layered.options.log_level == "info");
  CHECK(layered.options.listen == "127.0.0.1:8080");
  CHECK(layered.options.io_threads == 1);
  REQUIRE(mistakes.size() == 3);
  CHECK(has(mistakes[0], "m.toml"));
  CHECK_FALSE(layer(layers));
}

TEST_CASE("a service that does not start writes why in the format of its log") {
  const auto json = run({"serve", "--log-format", "json", "--listen", "nowhere"});
  CHECK(json.code == 64);
  CHECK(json.err.starts_with(R"({"time":")"));
  CHECK(has(json.err, R"("level":"error","msg":"--listen)"));
  CHECK(has(json.err, R"("code":"invalid_argument")"));
  const auto journal = run({"serve", "--log-format", "journal", "--io-threads", "0"});
  CHECK(journal.code == 64);
  CHECK(journal.err.starts_with("<3>--io-threads"));
  const auto unknown = run({"work", "--no-such"}, {{"MAINSPRING_LOG_FORMAT", "journal"}});
  CHECK(unknown.code == 64);
  CHECK(unknown.err.starts_with("<3>"));
  const auto missing =
      run({"serve", "--config", "/nowhere/m.toml"}, {{"MAINSPRING_LOG_FORMAT", "json"}});
  CHECK(missing.code == 66);
  CHECK(missing.err.starts_with(R"({"time":")"));
  // Other commands have no log.
  const auto other = run({"jobs", "list", "--no-such"}, {{"MAINSPRING_LOG_FORMAT", "json"}});
  CHECK(other.err.starts_with("mainspring: "));
  CHECK(run({"serve", "--listen", "nowhere"}).err.starts_with("mainspring: "));
}

TEST_CASE("a server shows its settings with their origins, and no passwords") {
  Layers layers;
  layers.file = "m.toml";
  layers.file_text = "log_level = \"warn\"\n";
  layers.environment = {
      {"store", "postgres://jobs:canary@db/x?sslpassword=canary&pass%77ord=canary?1&x=%zz"}};
  layers.credentials = {{"tls_key", "/run/credentials/tls_key"}};
  layers.flags = {{"data", "/flag"}};
  auto layered = layer(layers);
  REQUIRE(layered);
  layered->options.max_connections = 500;  // fewer than the default
  std::map<std::string, ShownSetting> shown;
  for (const ShownSetting& one : shown_settings(layered->options, layered->origins)) {
    CHECK(shown.emplace(one.name, one).second);
    CHECK(!has(one.value, "canary"));
  }
  const auto is = [&](const std::string& name, const std::string& value,
                      const std::string& default_value, const std::string& source,
                      const std::string& where) {
    const ShownSetting& one = shown.at(name);
    CHECK(one.value == value);
    CHECK(one.default_value == default_value);
    CHECK(one.source == source);
    CHECK(one.where == where);
    CHECK(one.secret == (name == "store"));
  };
  is("store", "postgres://jobs:***@db/x?sslpassword=***&pass%77ord=***&x=%zz", "none",
     "environment", "environment MAINSPRING_STORE");
  is("log_level", "warn", "info", "file", "file m.toml");
  is("tls_key", "/run/credentials/tls_key", "none", "credential", "credential tls_key");
  is("data", "/flag", "data", "flag", "flag --data");
  is("io_threads", "1", "1", "default", "");
  is("max_connections", "500", "20000", "default", "the limit of open files");
  CHECK(!shown.contains("server"));  // a client's
  CHECK(!shown.contains("slots"));   // a worker's
}

TEST_CASE("numbers and ages are formatted for people") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1'234'567) == "1,234,567");
  CHECK(format_count(-1'000) == "-1,000");
  CHECK(format_age(900ms) == "now");
  CHECK(format_age(-900ms) == "now");
  CHECK(format_age(-2h) == "in 2h");  // a clock that was ahead
  CHECK(format_age(61s) == "1m");
  CHECK(format_age(49h) == "2d");
  // Remaining time is rounded to the nearest unit.
  CHECK(format_left(600s - 1ms) == "10m");
  CHECK(format_left(90 * 24h - 1s) == "90d");
  CHECK(format_left(2h - 1s) == "2h");
  CHECK(format_left(60s - 1ms) == "1m");
  CHECK(format_left(61s) == "1m");
  CHECK(format_left(29s) == "29s");
  CHECK(format_left(1h - 31s) == "59m");
  CHECK(format_left(0s) == "now");
  CHECK(counted(1, "job") == "1 job");
  CHECK(counted(2, "job") == "2 jobs");
}

TEST_CASE("lines of jobs get missing defaults and are otherwise kept byte for byte") {
  const auto requests = requests_of_lines("f.jsonl",
                                          "{\"args\":{\"a\": 1}}\n\n"
                                          "{}\n"
                                          " {\"queue\":\"other\",\"priority\":1}\n",
                                          {.queue = "q", .kind = "k"});
  REQUIRE(requests);
  REQUIRE(requests->size() == 1);
  const std::vector<NewJob>& jobs = requests->front().jobs;
  REQUIRE(jobs.size() == 3);
  CHECK(jobs[0].queue == "q");
  CHECK(jobs[0].kind == "k");
  CHECK(jobs[0].args == "{\"a\": 1}");
  CHECK(jobs[1].queue == "q");
  CHECK(jobs[2].queue == "other");
  CHECK(jobs[2].kind == "k");
  CHECK(jobs[2].priority == 1);
}

TEST_CASE("a bad line is named by its number, before anything is sent") {
  const auto bad = requests_of_lines("f.jsonl", "{}\n{\"priority\":12}\n", {"q", "k"});
  REQUIRE(!bad);
  CHECK(has(bad.error().message, "f.jsonl:2: "));
  CHECK(has(bad.error().message, "priority"));
  CHECK(!requests_of_lines("f", "{\"jobs\":[]}", {"q", "k"}));
  CHECK(!requests_of_lines("f", "[]", {"q", "k"}));
  CHECK(!requests_of_lines("f", "{}", {"q", ""}));
}

TEST_CASE("many lines become several requests, each within its limits") {
  std::string text;
  for (int i = 0; i < 25'000; ++i) text += "{\"args\":[1,2,3]}\n";
  const auto requests = requests_of_lines("f", text, {"q", "k"});
  REQUIRE(requests);
  std::size_t jobs = 0;
  for (const Enqueue& request : *requests) {
    CHECK(request.jobs.size() <= kMaxEnqueueJobs);
    jobs += request.jobs.size();
  }
  CHECK(jobs == 25'000);
  CHECK(requests->size() == 3);
}

TEST_CASE("a file of schedules is one definition over many lines, or one per line") {
  const std::string one = "{\n  \"every\": \"5m\",\n  \"job\": {\"kind\": \"k\"}\n}\n";
  auto single = schedules_of_file("one.json", one, "a");
  REQUIRE_MESSAGE(single, single.error().message);
  REQUIRE(single->size() == 1);
  CHECK((*single)[0].schedule.name == "a");
  CHECK(schedules_of_file("one.json", one, "").error().field == "name");

  const std::string line = R"({"every":"5m","job":{"kind":"k"},"name":")";
  auto many = schedules_of_file("m", line + "a\"}\n\n" + line + "b\",\"paused\":true}\n", "");
  REQUIRE_MESSAGE(many, many.error().message);
  REQUIRE(many->size() == 2);
  CHECK((*many)[1].schedule.name == "b");
  CHECK((*many)[1].paused == true);
  const auto refused = [](const std::string& text, const std::string& name) {
    auto got = schedules_of_file("m", text, name);
    REQUIRE_FALSE(got);
    return got.error().message;
  };
  CHECK(
      has(refused(line + "a\"}\n" + line + "a\"}\n", ""), "m:2: name \"a\": is in the file twice"));
  CHECK(has(refused(line + "a\"}\n{\"every\":\"5m\"}\n", ""), "m:2: name: must be given"));
  CHECK(has(refused(line + "a\"}\n" + line + "b\"}\n", "c"), "leave out c"));
  CHECK(has(refused(line + "a\"}\n{\"name\":\"b\",\"every\":5}\n", ""), "m:2: every"));
  CHECK(has(refused(line + "a\"}", "b"), "must be the NAME of the command, b"));
  CHECK(has(refused("nonsense", "a"), "m: "));
}

TEST_CASE("invalid schedules, timers and leases are refused before a request is sent") {
  const auto says = [](std::vector<std::string> words, std::string_view part) {
    words.emplace_back("--server");
    words.emplace_back("http://127.0.0.1:1");  // no server there: exit code 69
    const Ran ran = run(words);
    CAPTURE(ran.err);
    CHECK(ran.code == 64);
    CHECK(has(ran.err, part));
  };
  says({"schedules", "set"}, "NAME is missing");
  says({"schedules", "set", "a b", "--every", "5m", "--kind", "k"}, "name \"a b\"");
  says({"schedules", "set", "a", "--every", "soon", "--kind", "k"}, "--every \"soon\"");
  says({"schedules", "set", "a", "--every", "5m"}, "--kind");
  says({"schedules", "set", "a", "--every", "5m", "--kind", "k", "--args", "{"}, "--args must be");
  says({"schedules", "set", "a", "--every", "5m", "--kind", "k", "--misfire", "x"},
       "--misfire \"x\": must be one of skip, once, all");
  says({"schedules", "set", "a", "--every", "5m", "--kind", "k", "--priority", "12"},
       "--priority \"12\"");
  says({"schedules", "set", "--file", "x", "--every", "5m"}, "--every: cannot be given together");
  says({"schedules", "preview"}, "give the NAME");
  says({"schedules", "preview", "a", "--every", "5m"}, "only one of them");
  says({"schedules", "preview", "a", "--from", "today"}, "--from \"today\"");
  says({"schedules", "backfill", "a", "--from", "2026-01-01T00:00:00Z"}, "--to: must be given");
  says({"schedules", "pause"}, "give names, --prefix or --all");
  says({"timers", "set", "a", "--kind", "k", "--margin", "x"}, "--margin \"x\"");
  says({"timers", "timeout", "a", "0s"}, "must be a time such as 5m, or own");
  says({"enqueue", "q", "k", "--fence", "a"}, "must be LEASE:TOKEN");
  says({"enqueue", "q", "k", "--fence", "a:0"}, "must be LEASE:TOKEN");
  CHECK(run({"leases", "list", "--server", "http://127.0.0.1:1"}).code == 69);
}

TEST_CASE("invalid options of lease run, --slot and --timer are refused before the start") {
  const auto says = [](std::vector<std::string> words, std::string_view part) {
    if (words[0] == "work") {
      for (const char* word : {"--queue", "q", "--exec", "cat"}) words.emplace_back(word);
    }
    const Ran ran = run(words);
    CAPTURE(ran.err);
    CHECK(ran.code == 64);
    CHECK(has(ran.err, part));
  };
  says({"lease", "run", "a"}, "COMMAND is missing");
  says({"lease", "run", "a b", "--", "cat"}, "NAME \"a b\"");
  says({"lease", "run", "a", "--ttl", "10ms", "--", "cat"}, "--ttl 10ms: must be 1s to 12h");
  says({"lease", "run", "a", "--wait", "25h", "--", "cat"}, "--wait 25h: must be at most 24h");
  for (const char* flag : {"--poll", "--standby"}) {
    says({"work", flag}, fmt::format("{}: can be given with --slot only", flag));
  }
  for (const char* flag : {"--name", "--estimate", "--tolerance", "--idle"}) {
    says({"work", flag, "5"}, fmt::format("{}: can be given with --slot only", flag));
  }
  says({"work", "--slot", "60s", "--idle", "5s"}, "--idle: needs --poll");
  says({"work", "--slot", "10ms"}, "--slot 10ms: must be 1s to 24h");
  says({"work", "--slot", "60s", "--name", "a b"}, "--name \"a b\"");
  says({"work", "--slot", "60s", "--tolerance", "x"}, "--tolerance \"x\": must be a number");
  says({"work", "--slot", "60s", "--tolerance", "-1"}, "--tolerance -1: must be 0 to 1000");
  says({"work", "--slot", "60s", "--once"}, "--slot: cannot be given with --once");
  for (const char* flag : {"--batch", "--timer-slots"}) {
    says({"work", flag, "5"}, fmt::format("{}: can be given with --timer only", flag));
  }
  says({"work", "--batch-idle", "5s"}, "--batch-idle: can be given with --timer only");
  says({"work", "--timer", "--batch", "0"}, "--batch");
  says({"work", "--timer", "--batch-idle", "0s"}, "--batch-idle");
  says({"work", "--timer", "--slot", "60s"}, "--slot: cannot be given with --timer");
  says({"work", "--timer", "--drain"}, "--drain: cannot be given with --timer");
}
