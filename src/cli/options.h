// Options: every setting of Mainspring in one struct, and the table that names them.
//
// A setting has one name everywhere: `log_level` in the file, MAINSPRING_LOG_LEVEL in the
// environment, --log-level as a flag. Each layer overrides the previous one: default, TOML file,
// credential, environment, flag. --help, `mainspring config --explain` and docs/reference/config.md
// are generated from the table.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring::cli {

using namespace std::chrono_literals;

struct Options {
  // every command
  std::string server = "http://127.0.0.1:8080";
  std::string color = "auto";
  bool utc = false;
  std::string log_level = "info";
  std::string log_format = "auto";
  std::string token_file = "none";
  std::string ca_file = "system";
  std::string cert_file = "none";
  std::string key_file = "none";

  // serve
  std::string data = "data";
  std::string listen = "127.0.0.1:8080";
  Duration wait_for_store = Duration(0);
  Duration shutdown_delay = Duration(0);
  Duration stop_timeout = 25s;
  Duration restart_allowance = 2min;
  std::string tls_cert = "none";
  std::string tls_key = "none";
  std::string tls_client_ca = "none";
  std::string tls_clients = "required";
  std::string first_token_file = "none";

  // the store
  Duration retention_completed = 24h;
  Duration retention_dead = 24h * 30;
  Duration retention_replies = 24h;
  std::int64_t max_finished_jobs = 10'000'000;
  std::int64_t max_live_jobs = 20'000'000;
  std::int64_t store_reserve_bytes = 16 << 20;
  std::int64_t store_cache_bytes = 48 << 20;

  // a store that several servers share
  std::string store = "none";
  std::string store_file = "none";
  std::string store_schema = "mainspring";
  std::string store_migrate = "on";
  std::string store_prepared = "on";
  std::int64_t store_readers = 4;
  Duration store_connect_timeout = 2s;
  Duration store_poll = 5s;
  std::string peer_listen = "127.0.0.1:0";
  std::string peer_advertise = "auto";
  std::string wake = "auto";
  std::string listen_url = "none";
  bool require_rpo0 = false;

  // the broker
  std::int64_t max_waiting_jobs = 200'000;
  std::int64_t max_waiting_bytes = 256 << 20;
  std::int64_t max_parked_claims = 100'000;
  std::int64_t max_waiting_urgent = 100'000;
  std::int64_t max_batch_jobs = 4'000;
  std::int64_t max_batch_bytes = 32 << 20;
  Duration worker_memory = 5min;
  std::int64_t event_buffer = 10'000;

  // the scheduler
  std::int64_t scheduler_batch = 1'000;
  Duration scheduler_max_sleep = 60s;
  Duration prune_interval = 10s;
  Duration forget_queues = 24h * 7;
  std::string scale_pools = "none";

  // the HTTP server
  std::int64_t io_threads = 1;
  std::int64_t reader_threads = 2;
  std::int64_t max_waiting_reads = 4'096;
  std::int64_t max_connections = 20'000;
  std::int64_t max_event_streams = 1'000;
  std::int64_t max_header_bytes = 16 << 10;
  std::int64_t max_body_bytes = 1 << 20;
  std::int64_t max_batch_body_bytes = 16 << 20;
  std::int64_t max_buffered_bytes = 512 << 20;
  Duration header_timeout = 10s;
  Duration idle_timeout = 60s;
  std::string allowed_hosts = "none";

  // access
  bool require_token = false;
  bool allow_core = false;
  std::int64_t rate_per_token = 0;
  std::int64_t max_connections_per_address = 1000;
  std::string audit = "changes";
  Duration audit_retention = 24h * 365;
  Duration history_minutes = 48h;
  Duration history_hours = 24h * 90;

  // callbacks
  std::int64_t callback_slots = 8;
  Duration callback_timeout = 15s;
  std::string callback_key_file = "none";

  // triggers
  std::string watch_root = "none";

  // the job host
  std::string jobs = "none";
  std::string host_data = "auto";
  std::string jobs_user = "none";
  bool webjobs_api = false;
  bool strict_webjobs = false;
  Duration folder_quiet = 5s;
  Duration folder_retention = 24h * 30;
  std::string outgoing_allow = "none";
  std::int64_t job_log_roll_bytes = 1 << 20;
  std::int64_t job_log_generations = 10;
  std::int64_t job_log_cap_bytes = std::int64_t{2} << 30;
  std::int64_t max_upload_bytes = 256 << 20;

  // work
  std::string slots = "0";  // N or N..N
  Duration lease = 30s;
  Duration graceful_stop = 25s;
  Duration slot_estimate = 2s;
  std::string slot_tolerance = "5";
  Duration slot_idle = 5s;
};

// The commands that take a setting as a flag.
enum Scope : unsigned {
  kNoScope = 0,
  kEverywhere = 1u << 0,
  kClientScope = 1u << 1,  // commands that talk to a server
  kServeScope = 1u << 2,
  kStoreScope = 1u << 3,  // commands that open a data directory
  kWorkScope = 1u << 4,
  kHostScope = 1u << 5,  // commands that run job folders
};

enum class Unit { none, bytes };

struct Setting {
  using Member = std::variant<std::string Options::*, std::int64_t Options::*, Duration Options::*,
                              bool Options::*>;
  std::string_view name;   // "log_level"
  std::string_view value;  // placeholder of its value in help: "LEVEL"; "" for a switch
  Member member;
  unsigned scopes;
  std::string_view meaning;
  std::string_view raise_if = "";  // when to change it, or what it costs; "" = no advice
  // The rule, by the member's type. Switches: true or false; the flag alone means true. Texts:
  // allowed words separated by |, "" = any non-empty text, or, with a max, N or N..N. Numbers and
  // durations (in us): min to max; the duration kForever is allowed only if `max` is kForever.
  std::string_view choices = "";
  std::int64_t min = 0;
  std::int64_t max = 0;
  Unit unit = Unit::none;
};

// "4" as 4, 4; "2..16" as 2, 16, of which the first is at least 1. nullopt: neither, or not within
// `min` and `max`.
struct NumberRange {
  std::int64_t first = 0, last = 0;
};
std::optional<NumberRange> parse_range(std::string_view text, std::int64_t min, std::int64_t max);
// The slots of a worker: the fewest, and the most.
NumberRange worker_slots(const Options& options);

const std::vector<Setting>& settings();
std::vector<Setting> shared_store_settings();  // parts of the table
std::vector<Setting> cluster_settings();
std::vector<Setting> callback_settings();
const Setting* find_setting(std::string_view name);

std::string flag_of(const Setting& setting);         // "--log-level"
std::string environment_of(const Setting& setting);  // "MAINSPRING_LOG_LEVEL"
bool is_switch(const Setting& setting);
bool names_file(const Setting& setting);      // its value is the path of a file
std::string rule_of(const Setting& setting);  // "must be debug, info, …"
std::string format_setting(const Setting& setting, const Options& options);

// Parses and validates. `where` names the place in messages: --log-level, MAINSPRING_LOG_LEVEL,
// "… log_level in FILE". Errors: invalid_argument.
Result<void> set_setting(const Setting& setting, std::string_view text, std::string_view where,
                         Options& options);

// The origin of a value: "default", "file /etc/mainspring/config.toml", "credential tls_key",
// "environment MAINSPRING_DATA", "flag --data".
using Origins = std::map<std::string_view, std::string>;

struct Layers {
  // Values of flags by setting name; the same for the environment.
  std::map<std::string, std::string> flags;
  std::map<std::string, std::string> environment;
  // For settings that name a file: the path where systemd put it (LoadCredential=).
  std::map<std::string, std::string> credentials = {};
  std::string file;       // the file's name, for messages
  std::string file_text;  // TOML; "" = no file
};
struct Layered {
  Options options;
  Origins origins;
};
// Errors: invalid_argument, with up to kMostMistakes mistakes in the message, one per line.
inline constexpr std::size_t kMostMistakes = 20;
Result<Layered> layer(const Layers& layers);
// Leaves invalid values out. `mistakes` gets a message for each.
Layered layer_valid(const Layers& layers, std::vector<std::string>& mistakes);

struct ConfigFile {
  std::map<std::string, std::string> values;  // by setting name, as texts
  std::vector<Error> mistakes;                // unknown names and values of a wrong type
};
// Parses TOML text. Errors: invalid_argument (bad TOML). All messages have `file` and the line.
Result<ConfigFile> parse_config(std::string_view file, std::string_view text);

// "64", "16KiB", "48MiB", "2GiB". Errors: invalid_argument.
Result<std::int64_t> parse_bytes(std::string_view text);
std::string format_bytes(std::int64_t bytes);  // the shortest text that parse_bytes converts back
// Digits, with _ allowed between them. Errors: invalid_argument.
Result<std::int64_t> parse_count(std::string_view text);

// "a,b" -> a and b; "none" -> nothing.
std::vector<std::string> split_names(std::string_view text);

// docs/reference/config.md.
std::string config_reference();

}  // namespace mainspring::cli
