// tls init, issue, show: a private certificate authority and its certificates.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/json.h"
#include "cli/commands.h"
#include "cli/handlers.h"
#include "cli/support.h"
#include "env/clock.h"
#include "tls/tls.h"

namespace mainspring::cli {
namespace {

constexpr Duration kDay = 24h;
constexpr std::int64_t kDefaultDays = 365;
constexpr std::int64_t kAuthorityDays = 3650;
constexpr std::int64_t kMaxDays = 36'500;

std::string directory_of(const Invocation& invocation) {
  return invocation.flag("dir").value_or("tls");
}

Result<Duration> days_of(const Invocation& invocation) {
  MS_TRY_ASSIGN(const auto days, invocation.number("days", 1, kMaxDays));
  return days.value_or(kDefaultDays) * kDay;
}

void print_made(const Invocation& invocation, Io& io, const std::vector<std::string>& files,
                std::string_view then) {
  if (!invocation.json) {
    for (const std::string& file : files) print_line(io, file);
    if (!then.empty()) io.out(fmt::format("\n{}\n", then));
    return;
  }
  std::string line;
  JsonWriter out(line);
  out.begin_object().key("files").begin_array();
  for (const std::string& file : files) out.string(file);
  out.end_array().end_object();
  print_line(io, line);
}

}  // namespace

Result<int> run_tls_init(const Invocation& invocation, Io& io) {
  const std::string directory = directory_of(invocation);
  MS_TRY_ASSIGN(const Duration valid, days_of(invocation));
  std::vector<std::string> hosts = invocation.all_flags("host");
  for (const char* here : {"localhost", "127.0.0.1", "::1"}) {
    if (std::find(hosts.begin(), hosts.end(), here) == hosts.end()) hosts.emplace_back(here);
  }
  const WallTime now = SystemClock().now().wall;
  const Duration of_authority = std::max(valid, kAuthorityDays * kDay);
  MS_TRY(Authority::create(directory, "Mainspring authority", of_authority, now));
  MS_TRY(Authority::issue(directory, "server", hosts, false, valid, now));
  const std::string then = fmt::format(
      "Serve:    {0} serve --tls-cert {1}/server.pem --tls-key {1}/server.key\n"
      "Clients:  {0} queues list --server https://localhost:8080 --ca-file {1}/ca.pem\n"
      "Keep {1}/ca.key away from the server: its owner can impersonate every server and client.",
      "mainspring", directory);
  print_made(invocation, io,
             {directory + "/ca.pem", directory + "/ca.key", directory + "/server.pem",
              directory + "/server.key"},
             then);
  return kExitOk;
}

Result<int> run_tls_issue(const Invocation& invocation, Io& io) {
  const std::string directory = directory_of(invocation);
  const std::string name = *invocation.argument("NAME");
  MS_TRY_ASSIGN(const Duration valid, days_of(invocation));
  const std::vector<std::string>& hosts = invocation.all_flags("host");
  if (!invocation.has("client") && hosts.empty()) {
    return invalid(
        "host",
        "--host: must be given for a server certificate; for a client certificate use --client");
  }
  MS_TRY(Authority::issue(directory, name, hosts, invocation.has("client"), valid,
                          SystemClock().now().wall));
  print_made(invocation, io, {directory + "/" + name + ".pem", directory + "/" + name + ".key"},
             "");
  return kExitOk;
}

Result<int> run_tls_show(const Invocation& invocation, Io& io) {
  MS_TRY_ASSIGN(const CertificateInfo info, read_certificate(*invocation.argument("FILE")));
  const Duration left = info.not_after - SystemClock().now().wall;
  if (invocation.json) {
    std::string line;
    JsonWriter out(line);
    out.begin_object().key("subject").string(info.subject).key("issuer").string(info.issuer);
    out.key("hosts").begin_array();
    for (const std::string& host : info.hosts) out.string(host);
    out.end_array().key("not_before").string(format_wall_time(info.not_before));
    out.key("not_after").string(format_wall_time(info.not_after)).end_object();
    print_line(io, line);
    return kExitOk;
  }
  std::string hosts = fmt::format("{}", fmt::join(info.hosts, ", "));
  if (hosts.empty()) hosts = "none (certificate of a client or an authority)";
  print_line(io, "subject  " + printable(info.subject));
  print_line(io, "issuer   " + printable(info.issuer));
  print_line(io, "hosts    " + printable(hosts));
  print_line(io, "from     " + shown_time(io, info.not_before));
  print_line(io, fmt::format("to       {} ({})", shown_time(io, info.not_after),
                             left <= Duration(0) ? "expired" : "in " + format_left(left)));
  return kExitOk;
}

Command tls_command() {
  const Flag dir = {.name = "dir", .value = "DIR", .help = "directory of the authority [tls]"};
  const Flag days = {.name = "days", .value = "N", .help = "days until it expires [365]"};
  return {
      .name = "tls",
      .summary = "create and show certificates",
      .description =
          "Run a private certificate authority for your own servers and clients. You can also use "
          "certificates of another authority, in PEM.",
      .children = {
          {.name = "init",
           .summary = "create an authority and a server certificate",
           .description =
               "Create a directory, readable by its owner only, with a certificate authority "
               "(ca.pem, ca.key, valid for ten years) and a server certificate (server.pem, "
               "server.key). All keys are on curve P-256. The certificate is valid for localhost "
               "and each --host. Give ca.pem to the clients; do not keep ca.key on the server.",
           .flags = {dir,
                     {.name = "host",
                      .value = "NAME",
                      .help = "host name or address of the server",
                      .repeated = true},
                     days},
           .examples = {{"mainspring tls init", ""},
                        {"mainspring tls init --host jobs.example.org --host 192.0.2.10", ""},
                        {"mainspring serve --tls-cert tls/server.pem --tls-key tls/server.key",
                         "then"}},
           .exits = {{65, "an authority exists"}},
           .run = run_tls_init},
          {.name = "issue",
           .summary = "issue a certificate",
           .description = "Create NAME.pem and NAME.key in the authority's directory, for a server "
                          "or, with --client, for a client. Existing files are replaced; a running "
                          "server reloads them by itself.",
           .arguments = {{"NAME", "name of the certificate: letters, digits, '-', '_', '.'"}},
           .flags = {dir,
                     {.name = "client", .value = "", .help = "for a client"},
                     {.name = "host",
                      .value = "NAME",
                      .help = "host name or address of a server",
                      .repeated = true},
                     days},
           .examples = {{"mainspring tls issue server --host jobs.example.org", "renew it"},
                        {"mainspring tls issue photo-worker --client --days 90", ""}},
           .exits = {{66, "no authority in that directory"}},
           .run = run_tls_issue},
          {.name = "show",
           .summary = "show a certificate",
           .description = "Show the first certificate of a file in PEM.",
           .arguments = {{"FILE", "for example tls/server.pem"}},
           .examples = {{"mainspring tls show tls/server.pem", ""}},
           .run = run_tls_show}}};
}

}  // namespace mainspring::cli
