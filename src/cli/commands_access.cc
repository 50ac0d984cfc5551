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
      "A token may do what its scopes say and nothing else. A scope is VERB or VERB=PATTERN; the "
      "pattern is a queue's name, or its beginning and *. Verbs:\n";
  for (int i = 0; i < kVerbs; ++i) {
    const auto verb = static_cast<Verb>(i);
    text += std::string("\n  ").append(to_string(verb));
    text.append(14 - to_string(verb).size(), ' ').append(meaning(verb));
  }
  return text;
}

Command token_command() {
  return {
      .name = "token",
      .summary = "who may use the server: create, list, revoke tokens",
      .description =
          "Tokens say who may use a server, and for what. Over the API by whoever has the scope "
          "admin; with --data in the directory of a server that does not run, or with --store in "
          "the "
          "database that servers share, for the first one. Servers that run know it within "
          "seconds.",
      .children = {
          {.name = "create",
           .summary = "a new token; prints it, once",
           .description =
               "Makes a token and prints its text, which is kept nowhere. " + scopes_text(),
           .arguments = {{"NAME", "what it is for: stands in the audit", Count::one}},
           .flags =
               {{.name = "scope",
                 .value = "SCOPE",
                 .help = "what it may do; several may be given",
                 .repeated = true},
                {.name = "expires", .value = "TIME", .help = "from then on it is refused [never]"},
                {.name = "rate", .value = "N", .help = "requests per second [rate_per_token]"}},
           .scopes = kTokens,
           .examples =
               {{"mainspring token create admin --scope admin --data data",
                 "the first one, before the server starts"},
                {"mainspring token create web --scope enqueue=mails --scope result=mails", ""},
                {"mainspring token create photo-worker --scope 'work=photo*' --expires 90d", ""}},
           .exits = {{65, "there is a token of that name"},
                     {77, "the caller may not, or lacks a scope that it wants to give"}},
           .run = run_token_create},
          {.name = "list",
           .summary = "tokens, their scopes and states",
           .description = "Lists tokens, also revoked and expired ones. Their texts are not known.",
           .scopes = kTokens,
           .examples = {{"mainspring token list", ""}},
           .run = run_token_list},
          {.name = "revoke",
           .summary = "refuse tokens from now on",
           .description = "Revokes tokens: their next requests are refused, and what waits for "
                          "them at the server is ended.",
           .arguments = {{"NAME", "tokens", Count::many}},
           .scopes = kTokens,
           .examples = {{"mainspring token revoke web", ""}},
           .exits = {{66, "there is no such token"}},
           .run = run_token_revoke}}};
}

Command audit_command() {
  return {
      .name = "audit",
      .summary = "who changed what: list, verify",
      .description =
          "Each accepted change has a record: who, when, from where, what was there before and "
          "after. Each record carries a hash of the one before it. Needs the scope admin.",
      .children = {
          {.name = "list",
           .summary = "records, newest first",
           .description = "Lists records.",
           .flags =
               {{.name = "who", .value = "NAME", .help = "only of this token; local = none"},
                {.name = "action", .value = "ACTION", .help = "only this, as pause_queue"},
                {.name = "object", .value = "OBJECT", .help = "only about it, as queue/photos"},
                {.name = "limit", .value = "N", .help = "at most so many [50]"},
                {.name = "all", .value = "", .help = "all of them"},
                {.name = "oldest-first",
                 .value = "",
                 .help = "from the beginning [the latest first]"}},
           .scopes = kClient,
           .examples = {{"mainspring audit list --limit 10", ""},
                        {"mainspring audit list --all --oldest-first --json > audit.jsonl",
                         "one record per line"}},
           .run = run_audit_list},
          {.name = "verify",
           .summary = "recount the chain of hashes",
           .description =
               "Reads all records and makes their hashes anew. Whoever can write to the store can "
               "make a whole new chain: keep a head elsewhere, and ask with --expect whether it "
               "is still part of the chain.",
           .flags = {{.name = "expect",
                      .value = "SEQ:HASH",
                      .help = "a head of earlier, which must be in the chain"}},
           .scopes = kClient,
           .examples = {{"mainspring audit verify", ""}},
           .exits = {{0, "sound"}, {1, "a record was altered, removed or added; it is named"}},
           .run = run_audit_verify},
          {.name = "head",
           .summary = "the newest record's number and hash",
           .description = "Prints SEQ:HASH of the newest record, to be kept elsewhere.",
           .scopes = kClient,
           .examples = {{"mainspring audit head >> /mnt/elsewhere/audit-heads", ""}},
           .run = run_audit_head}}};
}

Command callbacks_command() {
  return {
      .name = "callbacks",
      .summary = "signed requests to your servers: the key, verify",
      .description =
          "A job enqueued with a callback is followed by a signed request to its URL. Deliveries "
          "are jobs of the queue mainspring.callbacks: `mainspring jobs list --queue "
          "mainspring.callbacks` shows them, `mainspring dead redrive` makes failed ones again.",
      .children = {
          {.name = "key",
           .summary = "the key that receivers verify with",
           .description =
               "Prints the store's key, as whsec_ and base64; makes it if there is none yet. Read "
               "where it is kept, beside the store: the server may run, and needs no restart.",
           .scopes = kStoreScope | kEverywhere,
           .examples = {{"mainspring callbacks key --data data", ""}},
           .exits = {{66, "there is no store"}},
           .run = run_callbacks_key},
          {.name = "verify",
           .summary = "was this request made and signed by the store?",
           .description = "Reads the body of a request from standard input, and says whether the "
                          "signature is one of it, of its id and of its time.",
           .flags = {{.name = "id", .value = "ID", .help = "its header webhook-id"},
                     {.name = "timestamp", .value = "N", .help = "its header webhook-timestamp"},
                     {.name = "signature", .value = "TEXT", .help = "its header webhook-signature"},
                     {.name = "keys", .value = "FILE", .help = "with the key [the store's]"},
                     {.name = "any-time", .value = "", .help = "however old it is [5m]"}},
           .scopes = kStoreScope | kEverywhere,
           .examples = {{"mainspring callbacks verify --id msg_64a_7 --timestamp 1767225600 "
                         "--signature v1,… < body",
                         ""}},
           .exits = {{0, "verified"}, {1, "it is not"}},
           .run = run_callbacks_verify}}};
}

}  // namespace

std::vector<Command> access_commands() {
  return {token_command(), audit_command(), callbacks_command()};
}

}  // namespace mainspring::cli
