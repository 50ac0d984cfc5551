// Finds the URL of a shared store, and its options.
#include "cli/shared_store.h"

#include <fmt/format.h>

#include "cli/support.h"

namespace mainspring::cli {
namespace {

constexpr std::size_t kMaxUrlBytes = 8 << 10;

Result<Secret> url_of(const Options& options) {
  if (options.store != "none" && options.store_file != "none") {
    return invalid("store", "--store and --store-file: only one of them can be given");
  }
  std::string text = options.store;
  if (options.store_file != "none") {
    MS_TRY_ASSIGN(text, read_file(options.store_file, kMaxUrlBytes));
    text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  }
  if (!is_postgres_url(text)) {
    return invalid("store", fmt::format("{}: must begin with postgres://",
                                        options.store_file == "none"
                                            ? fmt::format("--store \"{}\"", shown_url(text))
                                            : "--store-file " + options.store_file));
  }
  return Secret(std::move(text));
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// libpq decodes the names of parameters: pass%77ord is password.
bool names_secret(std::string_view name) {
  std::string plain;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool coded = name[i] == '%' && i + 2 < name.size() && hex_value(name[i + 1]) >= 0 &&
                       hex_value(name[i + 2]) >= 0;
    plain += lower(coded ? static_cast<char>(hex_value(name[i + 1]) << 4 | hex_value(name[i + 2]))
                         : name[i]);
    if (coded) i += 2;
  }
  return plain.ends_with("password") || plain.ends_with("secret");
}

}  // namespace

bool is_postgres_url(std::string_view text) {
  return text.starts_with("postgres://") || text.starts_with("postgresql://");
}

std::string shown_url(std::string_view url) {
  std::string safe = without_password(url);
  constexpr std::string_view kName = "password=";  // also in a text that is no URL
  for (std::size_t at = 0; (at = safe.find(kName, at)) != std::string::npos;) {
    at += kName.size();
    safe.replace(at, std::min(safe.find('&', at), safe.size()) - at, "***");
  }
  const std::size_t query = std::min(safe.find('?'), safe.size());
  std::string shown = safe.substr(0, query);
  for (std::size_t at = query; at < safe.size();) {
    const std::size_t end = std::min(safe.find('&', at + 1), safe.size());
    const std::string_view part = std::string_view(safe).substr(at, end - at);  // with its ? or &
    const std::size_t equals = part.find('=');
    const bool secret = equals != part.npos && names_secret(part.substr(1, equals - 1));
    shown += secret ? std::string(part.substr(0, equals + 1)) + "***" : std::string(part);
    at = end;
  }
  return shown;
}

bool has_shared_store(const Options& options) {
  return options.store != "none" || options.store_file != "none";
}

bool means_shared_store(const Invocation& invocation) {
  if (!has_shared_store(invocation.options)) return false;
  return is_flag(invocation, "store") || is_flag(invocation, "store_file") ||
         !is_flag(invocation, "data");
}

Result<PostgresOptions> postgres_options(const Options& options) {
  PostgresOptions postgres;
  MS_TRY_ASSIGN(postgres.url, url_of(options));
  postgres.schema = options.store_schema;
  postgres.migrate = options.store_migrate == "on";
  postgres.prepared = options.store_prepared == "on";
  postgres.readers = static_cast<int>(options.store_readers);
  postgres.connect_timeout = options.store_connect_timeout;
  postgres.store.retention_completed = options.retention_completed;
  postgres.store.retention_dead = options.retention_dead;
  postgres.store.retention_replies = options.retention_replies;
  postgres.store.max_finished_jobs = options.max_finished_jobs;
  postgres.store.max_live_jobs = options.max_live_jobs;
  postgres.store.audit_retention = options.audit_retention;
  postgres.store.history = {options.history_minutes, options.history_hours};
  return postgres;
}

Result<ClusterPeersOptions> cluster_options(const Options& options) {
  ClusterPeersOptions peers;
  peers.peer_listen = options.peer_listen;
  if (options.peer_advertise != "auto") peers.peer_advertise = options.peer_advertise;
  peers.wake = options.wake == "notify" ? Wake::notify
               : options.wake == "poll" ? Wake::poll
                                        : Wake::automatic;
  if (options.listen_url != "none") {
    if (!is_postgres_url(options.listen_url)) {
      return invalid("listen_url", fmt::format("--listen-url \"{}\": must begin with postgres://",
                                               shown_url(options.listen_url)));
    }
    peers.listen_url = Secret(options.listen_url);
  }
  peers.require_rpo0 = options.require_rpo0;
  return peers;
}

std::string shown_store(const Options& options) {
  if (options.store_file != "none") return "the database of " + options.store_file;
  return options.store == "none" ? options.data : shown_url(options.store);
}

}  // namespace mainspring::cli
