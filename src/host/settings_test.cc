// settings.job, host.json and the variables: valid values and warnings.
#include "host/settings.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

std::string warning_of(std::string_view json) {
  const auto understood = parse_job_settings(json);
  REQUIRE_MESSAGE(understood.warnings.size() == 1, json);
  CHECK(understood.error == understood.warnings[0]);
  return understood.warnings[0];
}

Understood<HostVariables> variables(const std::map<std::string, std::string>& set) {
  return read_host_variables([&](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
}

}  // namespace

TEST_CASE("settings.job in the format of WebJobs is read") {
  const auto read = parse_job_settings(
      R"({"is_singleton":true,"stopping_wait_time":60,"schedule":"0 */5 * * * *",)"
      R"("is_in_place":true,"run_mode":"x","shutdownGraceTimeLimit":{"a":[1]}})");
  CHECK(read.warnings.empty());
  CHECK(read.value.is_singleton);
  CHECK(read.value.stopping_wait_time == 60s);
  CHECK(read.value.schedule == "0 */5 * * * *");
  CHECK(read.value.is_in_place == true);
  const auto none = parse_job_settings("{}");
  CHECK(none.warnings.empty());
  CHECK_FALSE(none.value.stopping_wait_time);
  CHECK_FALSE(none.value.is_in_place);
  CHECK(none.value.schedule.empty());
}

TEST_CASE("our own keys are read") {
  const auto read = parse_job_settings(
      R"({"max_attempts":3,"timeout":"90s","restart_time":"0s","restart_back_off":false,)"
      R"("freeze":true,"time_zone":"Europe/Berlin","pool":"heavy",)"
      R"("environment_allow":["HOME","AWS_*"],"environment":{"A":"1","B_2":""},)"
      R"("limits":{"memory":"512MiB","pids":100,"cpu_percent":50,"nice":10,"open_files":256,)"
      R"("file_size":"1GiB","user":"nobody"},)"
      R"("persistent":true,"min":1,"max":4,"kinds":["thumb"]})");
  for (const std::string& warning : read.warnings) FAIL_CHECK(warning);
  const JobSettings& s = read.value;
  CHECK(s.max_attempts == 3);
  CHECK(s.timeout == 90s);
  CHECK(s.restart_time == 0s);
  CHECK((!s.restart_back_off && s.freeze && s.persistent));
  CHECK(s.time_zone == "Europe/Berlin");
  CHECK(s.pool == "heavy");
  CHECK(s.environment_allow == std::vector<std::string>{"HOME", "AWS_*"});
  CHECK(s.environment == std::map<std::string, std::string>{{"A", "1"}, {"B_2", ""}});
  CHECK(s.limits == ChildLimits{512 << 20, 100, 50, 10, 256, 1 << 30, "nobody"});
  CHECK((s.min_children == 1 && s.max_children == 4));
  CHECK(s.kinds == std::vector<std::string>{"thumb"});
}

namespace {

void check_no_setting(const JobSettings& s, const char* pair) {
  CHECK_MESSAGE((!s.is_singleton && !s.stopping_wait_time && s.schedule.empty()), pair);
  CHECK_MESSAGE((!s.is_in_place && s.max_attempts == 1 && !s.timeout && !s.restart_time), pair);
  CHECK_MESSAGE((s.restart_back_off && !s.freeze && s.time_zone.empty()), pair);
  CHECK_MESSAGE((s.pool.empty() && s.environment_allow.empty() && s.environment.empty()), pair);
  CHECK_MESSAGE((s.limits == ChildLimits{} && !s.persistent && s.min_children == 0), pair);
  CHECK_MESSAGE(s.kinds.empty(), pair);
}

}  // namespace

TEST_CASE("a key that looks misspelt is named and ignored; other unknown keys are not named") {
  const auto read = parse_job_settings(R"({"is_singelton":true,"owner":"sam","mix":1,"tags":[]})");
  REQUIRE(read.warnings.size() == 1);
  CHECK(
      read.warnings[0].ends_with("is_singelton: unknown and ignored; did you mean is_singleton?"));
  CHECK(read.error.empty());
  CHECK_FALSE(read.value.is_singleton);
}

TEST_CASE("an invalid value is an error of the file") {
  CHECK(warning_of(R"({"stopping_wait_time":"60"})") ==
        "stopping_wait_time \"60\": must be a whole number of seconds, 0 to 604800");
  for (const char* pair : {R"("is_singleton":"true")",
                           R"("is_singleton":1)",
                           R"("is_singleton":null)",
                           R"("stopping_wait_time":60.5)",
                           R"("stopping_wait_time":6e1)",
                           R"("stopping_wait_time":-1)",
                           R"("stopping_wait_time":99999999999999999999)",
                           R"("stopping_wait_time":"60s")",
                           R"("is_in_place":"no")",
                           R"("max_attempts":0)",
                           R"("max_attempts":1001)",
                           R"("timeout":90)",
                           R"("timeout":"0s")",
                           R"("timeout":"90")",
                           R"("restart_time":5)",
                           R"("restart_back_off":"on")",
                           R"("freeze":[])",
                           R"("time_zone":"Mars/Olympus")",
                           R"("time_zone":1)",
                           R"("pool":"a/b")",
                           R"("pool":"..")",
                           R"("environment_allow":"HOME")",
                           R"("environment_allow":["A B"])",
                           R"("environment_allow":["*"])",
                           R"("environment":["A=1"])",
                           R"("environment":{"A":1})",
                           R"("environment":{"A=B":"1"})",
                           R"("environment":{"1A":"1"})",
                           R"("environment":{"A":"x\u0000y"})",
                           R"("limits":5)",
                           R"("limits":{"memory":"1XiB"})",
                           R"("limits":{"memory":"4KiB"})",
                           R"("limits":{"memory":"99999999999GiB"})",
                           R"("limits":{"pids":0})",
                           R"("limits":{"pids":"5"})",
                           R"("limits":{"cpu_percent":0.5})",
                           R"("limits":{"nice":20})",
                           R"("limits":{"open_files":1})",
                           R"("limits":{"file_size":-1})",
                           R"("limits":{"user":"-x"})",
                           R"("limits":{"user":""})",
                           R"("limits":{"memroy":"1GiB"})",
                           R"("persistent":1)",
                           R"("min":-1)",
                           R"("max":1025)",
                           R"("min":5,"max":2)",
                           R"("kinds":"a")",
                           R"("kinds":[1])",
                           R"("kinds":[""])"}) {
    const auto read = parse_job_settings(fmt::format("{{{}}}", pair));
    CHECK_MESSAGE(read.warnings.size() == 1, pair);
    CHECK_MESSAGE(read.error == read.warnings.front(), pair);
    check_no_setting(read.value, pair);
  }
}

TEST_CASE("all errors of a file are named; the first one is its error") {
  const auto read =
      parse_job_settings(R"({"is_singleton":"yes","stopping_wait_time":7,)"
                         R"("limits":{"pids":-1,"nice":5},"environment":{"A":1,"B":"2"}})");
  CHECK(read.warnings.size() == 3);
  CHECK(read.error == read.warnings.front());
}

TEST_CASE("an invalid schedule is refused with its wrong part") {
  const auto refusal = [](std::string_view json) {
    return parse_job_settings(json).value.schedule_error;
  };
  CHECK(refusal(R"({"schedule":"0 99 * * * *"})").find("minute \"99\"") != std::string::npos);
  CHECK(refusal(R"({"schedule":"5 * * * *"})") ==
        "schedule \"5 * * * *\": must be a string of six fields: second minute hour day-of-month "
        "month day-of-week");
  CHECK(parse_job_settings(R"({"schedule":""})").warnings.empty());
  // It is not an error of the file: the job runs on demand.
  for (const char* pair :
       {R"("schedule":5)", R"("schedule":null)", R"("schedule":"*/5 * * * *")",
        R"("schedule":"0 0 0 0 * * *")", R"("schedule":"@daily")", R"("schedule":"0 0 0 31 2 *")",
        R"("schedule":"0 0 0 * * 8")", R"("schedule":"61 * * * * *")"}) {
    CAPTURE(pair);
    const auto read = parse_job_settings(fmt::format(R"({{"is_in_place":true,{}}})", pair));
    CHECK(read.error.empty());
    CHECK(read.value.schedule.empty());
    CHECK(read.warnings == std::vector<std::string>{read.value.schedule_error});
    CHECK(read.value.is_in_place == true);
  }
}

TEST_CASE("values of the environment are not shown in warnings") {
  CHECK(warning_of(R"({"environment":{"SECRET":12345}})").find("12345") == std::string::npos);
  CHECK(warning_of(R"({"environment":["SECRET=12345"]})").find("12345") == std::string::npos);
}

TEST_CASE("a file that is not a JSON object is refused") {
  for (const char* text : {"", "  ", "{", "[]", "5", "null", "{\"a\":1} x", "\xff\xfe", "{,}",
                           "{\"a\":1,,}", "{\"a\" 1}", "/* no end", "{'a':1", "{a}", "/", "{/}"}) {
    const auto read = parse_job_settings(text);
    CHECK_MESSAGE(read.warnings.size() == 1, text);
    CHECK_MESSAGE(read.error.find("settings.job: ") == 0, text);
    if (*text != '\xff') CHECK_MESSAGE((!settings_object(text) || !*text), text);
  }
  const auto cut = parse_job_settings(R"({"is_singleton":true,"x":)");
  CHECK(cut.warnings.size() == 1);
  CHECK_FALSE(cut.error.empty());
  const std::string deep(10'000, '[');
  CHECK_FALSE(parse_job_settings("{\"a\":" + deep).error.empty());
  const std::string large = "{\"a\":\"" + std::string(kMaxSettingsBytes, 'x') + "\"}";
  CHECK_FALSE(parse_job_settings(large).error.empty());
}

TEST_CASE("settings.job is read as Json.NET reads it") {
  for (const char* text :
       {"{\"Is_Singleton\": TRUE_}", "// first\n{\"is_singleton\": /* yes */ true, }",
        "{'is_singleton':true}", "{is_singleton : true}",
        "{\"other\":[1,2,],\"is_singleton\":true}", "{\"IS_SINGLETON\":true} // last",
        "{\"a\":\"/* no comment */ // nor this\",\"is_singleton\":true}",
        "{\"a\":'it\\'s \"quoted\"',\"is_singleton\":true}",
        "{\"a\":\"two\nlines\",\"is_singleton\":true,\"b\":1.5e3}"}) {
    std::string json = text;
    if (const auto at = json.find("TRUE_"); at != std::string::npos) json.replace(at, 5, "true");
    const auto read = parse_job_settings(json);
    CHECK_MESSAGE(read.error.empty(), json << ": " << read.error);
    CHECK_MESSAGE(read.value.is_singleton, json);
    const auto strict = settings_object(json);
    REQUIRE_MESSAGE(strict, json);
    CHECK_MESSAGE(parse_job_settings(*strict).value.is_singleton, *strict);
  }
  const auto mixed = parse_job_settings(R"({"Schedule":"0 0 3 * * *","LIMITS":{"Nice":5}})");
  CHECK(mixed.error.empty());
  CHECK(mixed.value.schedule == "0 0 3 * * *");
  CHECK(mixed.value.limits.nice == 5);
  CHECK(parse_job_settings(R"({"is_singleton":true,"Is_Singleton":false})").value.is_singleton ==
        false);
  CHECK(parse_job_settings(R"({"Is_Singleton":false,"is_singleton":true})").value.is_singleton);
  const auto names = parse_job_settings(R"({"environment":{"Path_A":"1","path_a":"2"}})");
  CHECK(names.value.environment.size() == 2);
}

TEST_CASE("byte order marks are respected") {
  const std::u16string text = u"{\"is_singleton\":true,\"a\":\"\u00e4\U0001F600\"}\r\n";
  const auto encode = [&](std::size_t width, bool little) {
    std::u32string units(1, U'\ufeff');
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool pair = width == 4 && text[i] >= 0xd800 && text[i] < 0xdc00;
      units += pair ? U'\U0001F600' : static_cast<char32_t>(text[i]);
      i += pair ? 1 : 0;
    }
    std::string out;
    for (const char32_t unit : units) {
      for (std::size_t i = 0; i < width; ++i) {
        out += static_cast<char>(unit >> 8 * (little ? i : width - 1 - i));
      }
    }
    return out;
  };
  for (const std::string& json :
       {encode(2, true), encode(2, false), encode(4, true), encode(4, false),
        std::string("\xef\xbb\xbf{\"is_singleton\":true}\r\n")}) {
    const auto read = parse_job_settings(json);
    CHECK_MESSAGE(read.error.empty(), read.error);
    CHECK(read.value.is_singleton);
  }
  CHECK(settings_object(encode(2, true))->find("\xc3\xa4\xf0\x9f\x98\x80") != std::string::npos);
  CHECK(parse_job_settings(encode(2, true).substr(0, 21)).error.find("not valid UTF-16") !=
        std::string::npos);
}

TEST_CASE("the last value of a repeated key counts") {
  const auto read = parse_job_settings(R"({"is_singleton":true,"is_singleton":false})");
  CHECK(read.warnings.empty());
  CHECK_FALSE(read.value.is_singleton);
}

TEST_CASE("a settings.job with many errors makes a limited number of warnings") {
  std::string json = "{\"environment\":{\"A\":1";
  for (int i = 0; i < 200; ++i) json += fmt::format(",\"A{}\":1", i);
  CHECK(parse_job_settings(json + "}}").warnings.size() == 100);
}

TEST_CASE("host.json: pools and the allow-list") {
  const auto read = parse_host_file(
      R"({"pools":{"heavy":{"concurrency":2,"limits":{"memory":"1GiB"}},"default":{}},)"
      R"("environment_allow":["HTTP_PROXY"]})");
  for (const std::string& warning : read.warnings) FAIL_CHECK(warning);
  CHECK(read.value.pools.size() == 2);
  CHECK(read.value.pools.at("heavy").concurrency == 2);
  CHECK(read.value.pools.at("heavy").limits.memory_bytes == 1 << 30);
  CHECK(read.value.pools.at("default").concurrency == 16);
  CHECK(read.value.environment_allow == std::vector<std::string>{"HTTP_PROXY"});
}

TEST_CASE("host.json: an invalid value is named with its place") {
  const auto read =
      parse_host_file(R"({"pools":{"a":{"concurrency":0,"limits":{"pids":"5"}},"b":5},"x":1})");
  CHECK(read.warnings ==
        std::vector<std::string>{"pools.a.concurrency 0: must be a whole number, 1 to 10000",
                                 "pools.a.limits.pids \"5\": must be a whole number, 1 to 4194304",
                                 "pools.b 5: must be an object",
                                 "x: no such key here; known are pools, environment_allow"});
  CHECK(read.error == read.warnings.front());
  const auto remark = parse_host_file(R"({"Pools":{},"x":1})");
  CHECK(remark.error.empty());
  CHECK(remark.warnings.size() == 1);
  CHECK_FALSE(parse_host_file("nonsense").error.empty());
}

TEST_CASE("the host's variables are read; invalid ones are logged as warnings") {
  CHECK(variables({}).value.restart_time == 60s);
  CHECK(variables({}).warnings.empty());
  const auto read = variables({{"WEBJOBS_RESTART_TIME", "5"},
                               {"WEBJOBS_IDLE_TIMEOUT", "7"},
                               {"WEBJOBS_HISTORY_SIZE", "3"},
                               {"WEBJOBS_STOPPED", "True"},
                               {"WEBJOBS_DISABLE_SCHEDULE", "1"},
                               {"WEBJOBS_LOG_TRIGGERED_JOBS_TO_APP_LOGS", "true"},
                               {"WEBJOBS_ROOT_PATH", "/srv/jobs"},
                               {"WEBSITE_TIME_ZONE", "Europe/Berlin"},
                               {"WEBSITE_INSTANCE_ID", "node-7"}});
  CHECK(read.warnings.empty());
  CHECK((read.value.restart_time == 5s && read.value.idle_timeout == 7s));
  CHECK((read.value.history_size == 3 && read.value.stopped && read.value.disable_schedule));
  CHECK((read.value.log_triggered_jobs && read.value.root_path == "/srv/jobs"));
  CHECK((read.value.time_zone == "Europe/Berlin" && read.value.instance_id == "node-7"));
  const auto bad = variables({{"WEBJOBS_RESTART_TIME", "5s"},
                              {"WEBJOBS_IDLE_TIMEOUT", "0"},
                              {"WEBJOBS_HISTORY_SIZE", "-1"},
                              {"WEBJOBS_STOPPED", "yes"},
                              {"WEBSITE_TIME_ZONE", "W. Europe Standard Time"},
                              {"WEBSITE_INSTANCE_ID", "../x"}});
  CHECK(bad.warnings.size() == 6);
  CHECK(bad.warnings[0] ==
        "WEBJOBS_RESTART_TIME \"5s\": must be a whole number of seconds, 0 to 604800");
  CHECK(bad.value.restart_time == 60s);
  CHECK((bad.value.history_size == 50 && !bad.value.stopped && bad.value.instance_id.empty()));
}
