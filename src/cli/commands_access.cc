// The table of commands: tokens, the audit.
#include "cli/commands.h"
#include "cli/handlers.h"
#include "model/access.h"

namespace mainspring::cli {
namespace {

using Count = Argument::Count;
constexpr unsigned kTokens = kClient | kStoreScope;

std::string scopes_text() {
  std::string text =
      "A token allows only what its scopes name. A scope is VERB or VERB=PATTERN; the pattern is a "
      "queue's name, or a prefix and *. `all` is every verb. Verbs:\n";
  for (int i = 0; i < kVerbs; ++i) {
    const auto verb = static_cast<Verb>(i);
    text += std::string("\n  ").append(to_string(verb));
    text.append(14 - to_string(verb).size(), ' ');
    constexpr std::size_t kRoom = 64;  // columns besides the names, of 80
    std::string_view rest = meaning(verb);
    while (rest.size() > kRoom) {
      const std::size_t cut = rest.rfind(' ', kRoom);
      text.append(rest.substr(0, cut)).append("\n                ");
      rest.remove_prefix(cut + 1);
    }
    text.append(rest);
  }
  return text;
}

Command token_command() {
  return {
      .name = "token",
      .summary = "create, list and revoke access tokens",
      .description =
          "Access tokens identify callers. Managing them over the API needs the scope admin. For "
          "the first token use --data on the directory of a stopped server, or --store on a shared "
          "database; running servers notice it within seconds.",
      .children = {
          {.name = "create",
           .summary = "create a token and print it once",
           .description =
               "Create a token and print its text, which is not stored. " + scopes_text(),
           .arguments = {{"NAME", "its name in the audit", Count::one}},
           .flags =
               {{.name = "scope", .value = "SCOPE", .help = "what it allows", .repeated = true},
                {.name = "expires", .value = "TIME", .help = "lifetime [unlimited]"},
                {.name = "rate", .value = "N", .help = "requests per second [rate_per_token]"}},
           .scopes = kTokens,
           .examples =
               {{"mainspring token create admin --scope all --data data",
                 "the first token, before the server starts"},
                {"mainspring token create web --scope enqueue=mails --scope result=mails", ""},
                {"mainspring token create photo-worker --scope 'work=photo*' --expires 90d", ""}},
           .exits = {{65, "a token with that name exists"},
                     {77, "the caller lacks the scope admin, or a scope of the new token"}},
           .run = run_token_create},
          {.name = "list",
           .summary = "list tokens with scopes and state",
           .description = "List tokens, including revoked and expired ones, without their texts.",
           .scopes = kTokens,
           .examples = {{"mainspring token list", ""}},
           .run = run_token_list},
          {.name = "revoke",
           .summary = "revoke tokens",
           .description = "Revoke tokens: their next requests are refused and their waiting "
                          "requests end.",
           .arguments = {{"NAME", "tokens", Count::many}},
           .scopes = kTokens,
           .examples = {{"mainspring token revoke web", ""}},
           .exits = {{66, "no such token"}},
           .run = run_token_revoke}}};
}

Command audit_command() {
  return {
      .name = "audit",
      .summary = "list and verify the audit",
      .description =
          "Each change has a record: who, when, from where, before and after. Records are chained "
          "by hashes. Needs the scope admin.",
      .children = {
          {.name = "list",
           .summary = "list audit records, newest first",
           .description = "List audit records.",
           .flags = {{.name = "who", .value = "NAME", .help = "only this token; local = no token"},
                     {.name = "action",
                      .value = "ACTION",
                      .help = "only this action, such as "
                              "pause_queue"},
                     {.name = "object",
                      .value = "OBJECT",
                      .help = "only this object, such as "
                              "queue/photos"},
                     {.name = "since",
                      .value = "TIME",
                      .help = "since this time: 2h, 2026-01-31T09:00 or an instant [all]"},
                     {.name = "limit", .value = "N", .help = "maximum [50]"},
                     {.name = "all", .value = "", .help = "all of them"},
                     {.name = "oldest-first", .value = "", .help = "oldest first"}},
           .scopes = kClient,
           .examples = {{"mainspring audit list --limit 10", ""},
                        {"mainspring audit list --since 2h --object queue/photos", ""},
                        {"mainspring audit list --all --oldest-first --json > audit.jsonl",
                         "one record per line"}},
           .run = run_audit_list},
          {.name = "verify",
           .summary = "verify the hash chain",
           .description = "Read all records and recompute their hashes. An attacker who can write "
                          "to the store could replace the whole chain: keep a head elsewhere, and "
                          "check with --expect that the chain still contains it.",
           .flags = {{.name = "expect",
                      .value = "SEQ:HASH",
                      .help = "an earlier head that must be in the chain"}},
           .scopes = kClient,
           .examples = {{"mainspring audit verify", ""}},
           .exits = {{0, "sound"}, {1, "a record was altered, removed or added; it is named"}},
           .run = run_audit_verify},
          {.name = "head",
           .summary = "print number and hash of the newest record",
           .description = "Print SEQ:HASH of the newest record. Store it elsewhere.",
           .scopes = kClient,
           .examples = {{"mainspring audit head >> /mnt/elsewhere/audit-heads", ""}},
           .run = run_audit_head}}};
}

Command callbacks_command() {
  return {
      .name = "callbacks",
      .summary = "print the signing key, verify callbacks",
      .description =
          "A job with a callback causes a signed request to its URL. Deliveries are jobs of queue "
          "mainspring.callbacks: list them with `mainspring jobs list --queue "
          "mainspring.callbacks`, repeat failed ones with `mainspring dead redrive`.",
      .children = {
          {.name = "key",
           .summary = "print the key for receivers",
           .description = "Print the store's signing key, whsec_ and base64; create it if needed. "
                          "The server may be running.",
           .scopes = kStoreScope | kEverywhere,
           .examples = {{"mainspring callbacks key --data data", ""}},
           .exits = {{66, "no store in that directory"}},
           .run = run_callbacks_key},
          {.name = "verify",
           .summary = "verify the signature of a request",
           .description = "Read the body of a request from standard input and verify its signature "
                          "over body, id and time.",
           .flags = {{.name = "id", .value = "ID", .help = "its header webhook-id"},
                     {.name = "timestamp", .value = "N", .help = "its header webhook-timestamp"},
                     {.name = "signature", .value = "TEXT", .help = "its header webhook-signature"},
                     {.name = "keys", .value = "FILE", .help = "file with the key [the store's]"},
                     {.name = "any-time", .value = "", .help = "maximum age [5m]"}},
           .scopes = kStoreScope | kEverywhere,
           .examples = {{"mainspring callbacks verify --id msg_64a_7 --timestamp 1767225600 "
                         "--signature v1,… < body",
                         ""}},
           .exits = {{0, "verified"}, {1, "not verified"}},
           .run = run_callbacks_verify}}};
}

}  // namespace

std::vector<Command> access_commands() {
  return {token_command(), audit_command(), callbacks_command()};
}

}  // namespace mainspring::cli
