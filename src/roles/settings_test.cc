// Flags, the file, and their precedence.
#include "roles/settings.h"

#include <doctest/doctest.h>

using namespace mainspring;
using namespace mainspring::roles;

TEST_CASE("flags are parsed, repeated ones where allowed") {
  auto flags = parse_flags({"--engine", "data", "--listen=127.0.0.1:0", "--set", "a=1", "--set",
                            "b=x=y", "--set", "c=", "--freeze", "mailer", "--freeze", "other",
                            "--config", "f.toml", "--log-level", "warn"});
  REQUIRE_MESSAGE(flags, flags.error().message);
  CHECK(flags->engine == "data");
  CHECK(flags->listen == "127.0.0.1:0");
  CHECK(flags->config == "f.toml");
  CHECK(flags->log_level == "warn");
  CHECK(flags->set == std::map<std::string, std::string>{{"a", "1"}, {"b", "x=y"}, {"c", ""}});
  CHECK(flags->freeze == std::set<std::string>{"mailer", "other"});
  CHECK(parse_flags({})->log_level == "info");
  CHECK(parse_flags({"-h"})->help);
  CHECK(help_text("mail", "Sends mail.").find("Usage: mail [flags]\nSends mail.\n") == 0);
}

TEST_CASE("invalid flags are refused with the flag, the value and the rule") {
  const auto message = [](std::vector<std::string> words) {
    auto flags = parse_flags(words);
    REQUIRE_FALSE(flags);
    CHECK(flags.error().code == ErrorCode::invalid_argument);
    return flags.error().message;
  };
  CHECK(message({"--engin", "x"}) == "\"--engin\": there is no such flag; --help lists them");
  CHECK(message({"data"}) == "\"data\": there is no such flag; --help lists them");
  CHECK(message({"--engine", "a", "--engine", "b"}) ==
        "--engine: given 2 times: must be given once");
  CHECK(message({"--engine="}) == "--engine: needs a value");
  CHECK(message({"--engine", ""}) == "--engine \"\": must not be empty");
  CHECK(message({"--set", "x"}) == "--set \"x\": must be NAME=VALUE");
  CHECK(message({"--set", "=x"}) == "--set \"=x\": must be NAME=VALUE");
  CHECK(message({"--log-level", "loud"}) ==
        "--log-level \"loud\": must be debug, info, warn, error or off");
  CHECK(message({"--listen"}) == "--listen: needs a value");
}

TEST_CASE("the file has frozen roles and values of any plain type") {
  auto config = parse_config_file("f.toml",
                                  "freeze = [\"mailer\", \"b\"]\n"
                                  "[role]\nhost = \"h\"\nport = 25\ntls = true\nrate = 1.5\n");
  REQUIRE_MESSAGE(config, config.error().message);
  CHECK(config->freeze == std::set<std::string>{"mailer", "b"});
  CHECK(config->role == std::map<std::string, std::string>{
                            {"host", "h"}, {"port", "25"}, {"tls", "true"}, {"rate", "1.5"}});
  const auto message = [](std::string_view text) {
    auto bad = parse_config_file("f.toml", text);
    REQUIRE_FALSE(bad);
    return bad.error().message;
  };
  CHECK(message("freeze = \"mailer\"") ==
        "f.toml:1: freeze must be a list of names, as [\"mailer\"]");
  CHECK(message("\nfreeze = [1]") == "f.toml:2: freeze must be a list of names, as [\"mailer\"]");
  CHECK(message("role = 1") == "f.toml:1: role must be a table, as [role]");
  CHECK(message("[role]\nx = [1]") == "f.toml:2: role.x must be a text, a number, true or false");
  CHECK(message("freez = []") ==
        "f.toml:1: there is no setting \"freez\": must be freeze or [role]");
  CHECK(message("a = = b").find("f.toml:1: not TOML: ") == 0);
  CHECK(read_config_file("/nowhere/f.toml").error().code == ErrorCode::not_found);
}

TEST_CASE("a flag overrides the environment, the environment overrides the file") {
  Settings settings;
  settings.flags = {{"smtp.host", "flag"}};
  settings.environment = [](const std::string& name) -> const char* {
    if (name == "MAINSPRING_ROLE_SMTP_HOST") return "environment";
    if (name == "MAINSPRING_ROLE_SMTP_PORT") return "26";
    return nullptr;
  };
  settings.file.role = {{"smtp.host", "file"}, {"smtp-port", "25"}, {"user", "me"}};
  CHECK(settings.value("smtp.host") == "flag");
  CHECK(settings.value("smtp-port") == "26");
  CHECK(settings.value("user") == "me");
  CHECK_FALSE(settings.value("password"));
  settings.freeze_flags = {"a"};
  settings.file.freeze = {"b"};
  CHECK(settings.frozen("a"));
  CHECK(settings.frozen("b"));
  CHECK_FALSE(settings.frozen("c"));
}
