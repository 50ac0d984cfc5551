// verify, and the store commands: they work on a data directory.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "api/json.h"
#include "api/shapes.h"
#include "cli/handlers.h"
#include "cli/server_settings.h"
#include "cli/shared_store.h"
#include "cli/store_metrics.h"
#include "cli/support.h"
#include "disk_sqlite/inspect.h"
#include "disk_sqlite/sqlite_store.h"
#include "env/clock.h"
#include "store_postgres/inspect.h"

namespace mainspring::cli {
namespace {

// The options of a shared store, if the command's argument or the settings name one.
Result<std::optional<PostgresOptions>> shared_store(const Invocation& invocation) {
  Options options = invocation.options;
  const auto url = invocation.argument("URL");
  if (!url && !means_shared_store(invocation)) return std::nullopt;
  if (url) {
    options.store = *url;
    options.store_file = "none";
  }
  MS_TRY_ASSIGN(PostgresOptions postgres, postgres_options(options));
  return postgres;
}

// Opens an existing store: a mistyped directory must not create one.
Result<std::unique_ptr<Store>> open_existing(const Invocation& invocation, Log& log) {
  MS_TRY_ASSIGN(auto shared, shared_store(invocation));
  if (shared) {
    shared->migrate = false;
    shared->if_moved = IfMoved::open;
    MS_TRY_ASSIGN(auto opened, open_postgres_store(*shared, SystemClock().now(), log));
    return std::unique_ptr<Store>(std::move(opened));
  }
  const std::string& directory = invocation.options.data;
  MS_TRY(inspect_sqlite_store(directory));
  SqliteOptions options;
  options.directory = directory;
  options.reserve_bytes = static_cast<std::size_t>(invocation.options.store_reserve_bytes);
  options.cache_bytes = static_cast<std::size_t>(invocation.options.store_cache_bytes);
  options.if_moved = IfMoved::open;
  return open_sqlite_store(std::move(options), SystemClock().now(), log);
}

// A server that runs holds the store and can verify it.
Error with_server_hint(const Invocation& invocation, Error error) {
  if (is_flag(invocation, "data") && error.message.find("is open in process") != std::string::npos)
    error.message += ", or leave out --data to ask its server";
  return error;
}

// Shows on a terminal, once a second, how long `work` has been running; `more()` reports its
// progress.
template <class Work>
auto with_elapsed(Io& io, std::string_view what, Work work,
                  const std::function<std::string()>& more = nullptr) {
  ProgressLine line(io);
  const std::jthread ticker([&](std::stop_token stop) {
    const SystemClock clock;
    const Instant begin = clock.now().instant;
    for (pause(1s, stop); !stop.stop_requested(); pause(1s, stop))
      line.show(fmt::format("{}{}, {}", what, more ? more() : "",
                            format_age(clock.now().instant - begin)));
  });
  return work();
}

// The report of a store, with the checks that are done shown on a terminal.
Result<VerifyReport> verify_shown(Io& io, const Store& store) {
  std::atomic<int> done = 0, of = 0;
  return with_elapsed(
      io, "verifying",
      [&] {
        return store.verify_showing(
            [&](int now_done, int now_of) { done = now_done, of = now_of; });
      },
      [&] {
        return of == 0 ? std::string()
                       : fmt::format(": check {} of {}", std::min(done + 1, of.load()), of.load());
      });
}

int print_report(const Invocation& invocation, Io& io, const VerifyReport& report) {
  if (invocation.json) {
    std::string line;
    encode_verify(report, line);
    print_line(io, line);
  } else {
    for (const std::string& problem : report.problems) {
      io.out(coloured(io, printable(problem), Colour::red) + "\n");
    }
    const std::string verdict =
        report.problems.empty()
            ? coloured(io, "sound", Colour::green)
            : coloured(io, counted(static_cast<std::int64_t>(report.problems.size()), "problem"),
                       Colour::red);
    print_line(io, fmt::format("{} examined: {}", counted(report.jobs, "job"), verdict));
  }
  return report.problems.empty() ? kExitOk : kExitProblems;
}

std::string version_text(int server) {
  return fmt::format("{}.{}", server / 10'000, server % 10'000);
}

int print_shared_info(const Invocation& invocation, Io& io, const SharedStoreInfo& store) {
  const Durability& durability = store.durability;
  if (invocation.json) {
    std::string text;
    JsonWriter out(text);
    out.begin_object().key("kind").string("postgres");
    out.key("server").string(version_text(store.server_version));
    out.key("schema").number(store.schema).key("newest_schema").number(store.newest_schema);
    out.key("bytes").number(store.bytes).key("nodes").number(store.nodes);
    out.key("synchronous_commit").string(durability.synchronous_commit);
    out.key("standbys").number(durability.synchronous_standbys);
    out.key("read_only").boolean(durability.read_only).end_object();
    print_line(io, text);
    return kExitOk;
  }
  const auto line = [&](std::string_view name, const std::string& value) {
    io.out(fmt::format("{:<15} {}\n", name, value));
  };
  line("server", "PostgreSQL " + version_text(store.server_version) +
                     (durability.read_only ? ", accepts no writes" : ""));
  line("schema", store.schema == 0 ? "none"
                 : store.schema == store.newest_schema
                     ? fmt::to_string(store.schema)
                     : fmt::format("{}, this program's is {}", store.schema, store.newest_schema));
  line("size", format_count(store.bytes) + " bytes");
  line("servers", format_count(store.nodes) + " alive");
  line("durability",
       fmt::format("synchronous_commit {}, {} to wait for", durability.synchronous_commit,
                   counted(durability.synchronous_standbys, "standby")));
  return kExitOk;
}

int print_migrated(const Invocation& invocation, Io& io, std::int64_t from, std::int64_t to) {
  if (invocation.json) {
    print_line(io, fmt::format("{{\"from\":{},\"to\":{}}}", from, to));
  } else if (from == to) {
    print_line(io, fmt::format("schema {}, nothing to do", to));
  } else {
    print_line(io, fmt::format("schema {} brought up to {}", from, to));
  }
  return kExitOk;
}

}  // namespace

Result<int> run_verify(const Invocation& invocation, Io& io) {
  if (is_flag(invocation, "data") || is_flag(invocation, "store") ||
      is_flag(invocation, "store_file")) {
    if (is_flag(invocation, "server")) {
      return invalid("data", "--data, --store and --server: only one of them can be given");
    }
    StderrLog log(LogLevel::warn);
    const auto opened = open_existing(invocation, log);
    if (!opened) return with_server_hint(invocation, opened.error());
    const std::unique_ptr<Store>& store = *opened;
    MS_TRY_ASSIGN(const VerifyReport report, verify_shown(io, *store));
    return print_report(invocation, io, report);
  }
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(const std::string body, with_elapsed(io, "the server verifies", [&] {
                  return connection->client->request("GET", "/v1/verify", "");
                }));
  MS_TRY_ASSIGN(const VerifyReport report, decode_verify(body));
  return print_report(invocation, io, report);
}

Result<int> run_store_backup(const Invocation& invocation, Io& io) {
  const std::string to = *invocation.argument("TO");
  if (means_shared_store(invocation)) {
    StderrLog log(LogLevel::warn);
    MS_TRY_ASSIGN(const auto store, open_existing(invocation, log));
    MS_TRY(store->backup(to));  // for a database, the error explains how to make backups
    return kExitOk;
  }
  MS_TRY(backup_sqlite_store(invocation.options.data, to));
  stamp(invocation.options.data, kLastBackup);
  MS_TRY_ASSIGN(const StoreInfo copy, inspect_sqlite_store(to));
  if (invocation.json) {
    std::string line;
    JsonWriter(line)
        .begin_object()
        .key("directory")
        .string(to)
        .key("bytes")
        .number(copy.database_bytes);
    print_line(io, line + "}");
  } else {
    print_line(io, fmt::format("{} copied to {}, {} bytes", invocation.options.data, to,
                               format_count(copy.database_bytes)));
  }
  return kExitOk;
}

Result<int> run_store_info(const Invocation& invocation, Io& io) {
  if (invocation.has("of-server")) {
    const bool here = invocation.argument("URL") || is_flag(invocation, "data") ||
                      is_flag(invocation, "store") || is_flag(invocation, "store_file");
    if (here) {
      return invalid("of-server",
                     "--of-server: cannot be given with URL, --data, --store or --store-file");
    }
    return print_server_store(invocation, io);
  }
  MS_TRY_ASSIGN(const auto shared, shared_store(invocation));
  if (shared) {
    MS_TRY_ASSIGN(const SharedStoreInfo found, inspect_postgres_store(*shared));
    return print_shared_info(invocation, io, found);
  }
  MS_TRY_ASSIGN(const StoreInfo store, inspect_sqlite_store(invocation.options.data));
  if (invocation.json) {
    std::string line;
    JsonWriter out(line);
    out.begin_object().key("directory").string(invocation.options.data);
    out.key("owner_pid");
    if (store.owner_pid == 0) {
      out.null();
    } else {
      out.number(store.owner_pid);
    }
    out.key("schema").number(store.schema).key("newest_schema").number(store.newest_schema);
    out.key("database_bytes").number(store.database_bytes);
    out.key("log_bytes").number(store.log_bytes);
    out.key("reserve_bytes").number(store.reserve_bytes);
    out.key("jobs").number(store.jobs).key("queues").number(store.queues);
    out.key("schedules").number(store.schedules).key("leases").number(store.leases);
    out.key("sessions").number(store.sessions).end_object();
    print_line(io, line);
    return kExitOk;
  }
  const auto line = [&](std::string_view name, const std::string& value) {
    io.out(fmt::format("{:<15} {}\n", name, value));
  };
  line("directory", invocation.options.data);
  line("open in", store.owner_pid == 0 ? "no process" : fmt::format("process {}", store.owner_pid));
  line("schema", store.schema == store.newest_schema
                     ? fmt::to_string(store.schema)
                     : fmt::format("{}, this program's is {}", store.schema, store.newest_schema));
  line("database", format_count(store.database_bytes) + " bytes");
  line("log", format_count(store.log_bytes) + " bytes");
  line("reserve", format_count(store.reserve_bytes) + " bytes");
  line("jobs kept", format_count(store.jobs));
  line("queues", format_count(store.queues));
  line("schedules", format_count(store.schedules));
  line("leases", format_count(store.leases));
  line("sessions", format_count(store.sessions));
  return kExitOk;
}

Result<int> run_store_migrate(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const auto shared, shared_store(invocation));
  if (shared) {
    MS_TRY_ASSIGN(const SharedStoreInfo was, inspect_postgres_store(*shared));
    MS_TRY(migrate_postgres_store(*shared));
    MS_TRY_ASSIGN(const SharedStoreInfo is, inspect_postgres_store(*shared));
    return print_migrated(invocation, io, was.schema, is.schema);
  }
  MS_TRY_ASSIGN(const StoreInfo before, inspect_sqlite_store(invocation.options.data));
  StderrLog log(log_level_of(invocation.options), log_format_of(invocation.options));
  MS_TRY_ASSIGN(auto store, open_existing(invocation, log));
  store.reset();
  MS_TRY_ASSIGN(const StoreInfo after, inspect_sqlite_store(invocation.options.data));
  return print_migrated(invocation, io, before.schema, after.schema);
}

Result<int> run_store_compact(const Invocation& invocation, Io& io) {
  if (means_shared_store(invocation))
    return invalid("store", "store compact: needs --data; PostgreSQL frees space itself");
  const std::string& directory = invocation.options.data;
  std::atomic<std::int64_t> whole = 0;
  MS_TRY_ASSIGN(
      const Compaction done,
      with_elapsed(
          io, "compacting",
          [&] {
            return compact_sqlite_store(directory, [&](std::int64_t bytes) { whole = bytes; });
          },
          [&] {
            return fmt::format(": {} of {} MiB", compacted_bytes(directory) >> 20, whole >> 20);
          }));
  if (invocation.json) {
    std::string line;
    JsonWriter out(line);
    out.begin_object().key("directory").string(directory);
    out.key("before_bytes").number(done.before).key("after_bytes").number(done.after).end_object();
    print_line(io, line);
  } else {
    print_line(io, fmt::format("{}: {} bytes, {} before", directory, format_count(done.after),
                               format_count(done.before)));
  }
  return kExitOk;
}

Result<int> run_store_check(const Invocation& invocation, Io& io) {
  StderrLog log(LogLevel::warn);
  MS_TRY_ASSIGN(const auto store, open_existing(invocation, log));
  MS_TRY_ASSIGN(const auto shared, shared_store(invocation));
  std::vector<std::string> pages;  // a database server checks its own
  if (!shared) {
    MS_TRY_ASSIGN(pages, check_sqlite_pages(invocation.options.data));
  }
  MS_TRY_ASSIGN(VerifyReport report, verify_shown(io, *store));
  report.problems.insert(report.problems.begin(), pages.begin(), pages.end());
  return print_report(invocation, io, report);
}

}  // namespace mainspring::cli
