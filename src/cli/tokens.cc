// token create, list, revoke: over the API, in the directory of a stopped server, or in a shared
// database, whether or not a server runs.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "api/access_shapes.h"
#include "api/json.h"
#include "cli/handlers.h"
#include "cli/shared_store.h"
#include "cli/sheet.h"
#include "cli/support.h"
#include "client/calls.h"
#include "disk_sqlite/inspect.h"
#include "disk_sqlite/sqlite_store.h"
#include "env/clock.h"
#include "model/token_text.h"
#include "store/ended_sessions.h"

namespace mainspring::cli {
namespace {

bool in_database(const Invocation& invocation) {
  return is_flag(invocation, "store") || is_flag(invocation, "store_file");
}

bool offline(const Invocation& invocation) {
  return is_flag(invocation, "data") || in_database(invocation);
}

// A directory without a running server, or a database. A first token may be created before there is
// a store.
struct Offline {
  StderrLog log{LogLevel::warn};
  SystemClock system_clock;
  DatabaseClock database_clock{system_clock};  // equals the system's while there is no database
  std::unique_ptr<Store> store;

  static Result<std::unique_ptr<Offline>> open(const Invocation& invocation, bool create) {
    if (is_flag(invocation, "server")) {
      return invalid("server", "--server and --data or --store: only one of them can be given");
    }
    if (is_flag(invocation, "data") && in_database(invocation)) {
      return invalid("data", "--data and --store: only one of them can be given");
    }
    auto out = std::make_unique<Offline>();
    if (in_database(invocation)) {
      MS_TRY_ASSIGN(PostgresOptions postgres, postgres_options(invocation.options));
      postgres.migrate = postgres.migrate && create;
      postgres.joins = false;  // not a node: leases of a stopped cluster stay as they are
      MS_TRY_ASSIGN(out->store, open_postgres_store(std::move(postgres), out->system_clock.now(),
                                                    out->log, &out->database_clock));
      return out;
    }
    SqliteOptions options;
    options.directory = invocation.options.data;
    options.reserve_bytes = static_cast<std::size_t>(invocation.options.store_reserve_bytes);
    options.cache_bytes = static_cast<std::size_t>(invocation.options.store_cache_bytes);
    if (!create) MS_TRY(inspect_sqlite_store(options.directory));
    auto opened = open_sqlite_store(std::move(options), SystemClock().now(), out->log);
    if (!opened && opened.error().code == ErrorCode::conflict) {
      Error error = opened.error();
      error.message += "; while a server runs, ask it: leave out --data";
      return error;
    }
    if (!opened) return opened.error();
    out->store = std::move(*opened);
    return out;
  }

  // The change and its audit record, in one commit.
  Result<void> change(Operation operation, std::string_view action, const std::string& name) {
    const std::vector<Operation> batch{std::move(operation),
                                       Audit{.who = std::string(kLocalCaller),
                                             .from = fmt::format("offline uid={}", getuid()),
                                             .action = std::string(action),
                                             .object = "token/" + name}};
    MS_TRY_ASSIGN(const BatchReport report, store->apply(batch, database_clock.now()));
    if (const auto* error = std::get_if<Error>(&report.results.front())) return *error;
    return {};
  }
};

std::string joined_words(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

Result<TokenRecord> record_of(const Invocation& invocation, WallTime now) {
  TokenRecord token;
  token.name = *invocation.argument("NAME");
  const auto& scopes = invocation.all_flags("scope");
  if (scopes.empty()) {
    return invalid("scope",
                   "--scope: must be given, for example --scope enqueue=photos; see `mainspring "
                   "help token create`");
  }
  MS_TRY_ASSIGN(token.scopes, Scopes::parse(joined_words(scopes)));
  MS_TRY_ASSIGN(const auto expires, invocation.duration("expires"));
  if (expires) token.expires_at = now + *expires;
  MS_TRY_ASSIGN(const auto rate, invocation.number("rate", 1, kMaxTokenRate));
  token.rate = static_cast<int>(rate.value_or(0));
  MS_TRY(validate(token));
  return token;
}

// A token can create others only with what it has.
std::string cannot_grant(const Scopes& scopes) {
  if (!scopes.allows_all(Verb::admin))
    return "It cannot create tokens: that needs the scope admin.\n";
  std::vector<std::string_view> missing;
  const Scopes all = Scopes::all();
  for (const auto& scope : all.list()) {
    if (!scopes.allows_all(scope.verb)) missing.push_back(to_string(scope.verb));
  }
  if (missing.empty()) return "";
  return fmt::format("It cannot create tokens with: {}.\n", fmt::join(missing, ", "));
}

void print_created(const Invocation& invocation, Io& io, const TokenRecord& token,
                   const Secret& text, WallTime now) {
  if (invocation.json) {
    std::string line;
    encode_created_token(token, text, now, line);
    return print_line(io, line);
  }
  print_line(io, text.reveal());
  if (io.err_is_terminal) {
    io.err(
        "This is the token. It is not shown again: put it into a file that only its user can "
        "read, for --token-file, or into MAINSPRING_ACCESS_TOKEN.\n" +
        fmt::format("It allows: {}.\n", token.scopes.text()) + cannot_grant(token.scopes));
  }
}

Cell state_cell(const TokenRecord& token, WallTime now) {
  if (token.revoked_at) return {"revoked", Colour::red};
  if (now >= token.expires_at) return {"expired", Colour::yellow};
  return {"good", Colour::green};
}

}  // namespace

Result<int> run_token_create(const Invocation& invocation, Io& io) {
  const WallTime now = SystemClock().now().wall;
  MS_TRY_ASSIGN(TokenRecord token, record_of(invocation, now));
  if (offline(invocation)) {
    SystemRandom random;
    const Secret text = make_token_text(random);
    token.digest = *digest_of_token(text.reveal());
    token.created_by = std::string(kLocalCaller);
    MS_TRY_ASSIGN(const auto directory, Offline::open(invocation, true));
    MS_TRY(directory->change(CreateToken{token}, "create_token", token.name));
    token.created_at = now;
    print_created(invocation, io, token, text, now);
    return kExitOk;
  }
  std::string body;
  encode_create_token(token, body);
  MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
  MS_TRY_ASSIGN(std::string answer, connection->client->request("POST", "/v1/tokens", body));
  if (invocation.json) {
    print_line(io, answer);
    return kExitOk;
  }
  MS_TRY_ASSIGN(const Secret text, decode_created_token(answer));
  print_created(invocation, io, token, text, now);
  return kExitOk;
}

Result<int> run_token_list(const Invocation& invocation, Io& io) {
  const WallTime now = SystemClock().now().wall;
  std::vector<TokenRecord> tokens;
  if (offline(invocation)) {
    MS_TRY_ASSIGN(const auto directory, Offline::open(invocation, false));
    for (const auto& [name, token] : *directory->store->tokens()) {
      if (!is_ended_session(name)) tokens.push_back(token);
    }
  } else {
    MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
    MS_TRY_ASSIGN(const std::string body, connection->client->request("GET", "/v1/tokens", ""));
    MS_TRY_ASSIGN(tokens, decode_token_list(body));
  }
  Table table({{.title = "TOKEN", .keep = true},
               {.title = "STATE", .whole = true},
               {.title = "EXPIRES", .whole = true},
               {.title = "RATE", .align = Align::right, .drop = 2},
               {.title = "MADE BY", .drop = 1},
               {.title = "SCOPES", .least = 24, .below = true}});
  for (const TokenRecord& token : tokens) {
    if (invocation.json) {
      std::string line;
      encode_token(token, now, line);
      print_line(io, line);
      continue;
    }
    const bool for_ever = token.expires_at == WallTime::never();
    table.add({{token.name},
               state_cell(token, now),
               {for_ever ? "never" : relative_to(token.expires_at, now),
                for_ever ? Colour::dim : Colour::none},
               {token.rate == 0 ? "-" : fmt::format("{}/s", token.rate)},
               {token.created_by},
               {token.scopes.text()}});
  }
  if (!invocation.json) io.out(table.empty() ? "no tokens\n" : table.render(io));
  return kExitOk;
}

Result<int> run_token_revoke(const Invocation& invocation, Io& io) {
  return for_each_of(
      io, invocation.all_arguments("NAME"), [&](const std::string& name) -> Result<void> {
        MS_TRY(check_name("NAME", name));
        if (offline(invocation)) {
          MS_TRY_ASSIGN(const auto directory, Offline::open(invocation, false));
          MS_TRY(directory->change(RevokeToken{name}, "revoke_token", name));
        } else {
          MS_TRY_ASSIGN(const auto connection, connect(invocation, Duration{0}));
          MS_TRY(connection->client->request("DELETE", "/v1/tokens/" + percent_encode(name), ""));
        }
        if (invocation.json) {
          std::string line;
          encode_token_revoked(name, line);
          print_line(io, line);
        } else {
          print_line(io, fmt::format("{} revoked", name));
        }
        return {};
      });
}

}  // namespace mainspring::cli
