// Triggers: jobs that are made by events, and the ledger that says what each made.
//
//   event ──▶ its id ──▶ fired before? ──▶ a job, and a row of the ledger, in one transaction
//             (of a request, a file's version, the end of a job)
//
// What fires once fires once over restarts and changes of the leader: the row is the memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/job.h"

namespace mainspring {

// How whoever calls /hooks/NAME shows that they may.
enum class HookAuth : std::uint8_t {
  token,      // Authorization: Bearer SECRET
  signature,  // of id, time and body, as Standard Webhooks has it
};
std::string_view to_string(HookAuth auth);
std::optional<HookAuth> parse_hook_auth(std::string_view text);

// POST /hooks/NAME.
struct HookSource {
  HookAuth auth = HookAuth::token;
  // Where the request has its id, a reference: "headers.x-github-delivery", "body.id". One that has
  // fired makes nothing again; a request without one fires. "" = "headers.webhook-id".
  std::string event_id;
  int rate = 100;  // requests per second that each node takes, 1 to kMaxHookRate
  friend bool operator==(const HookSource&, const HookSource&) = default;
};

// Files that are closed after writing, or moved, in a folder. Each version of one fires once: its
// path, size, time of change and inode are the event's id.
struct FolderSource {
  std::string path;                           // absolute, below a watch root of the node
  std::string pattern = "*";                  // of file names: * and ?
  Duration stable = std::chrono::seconds(2);  // unchanged for so long before it fires
  std::string node;  // the host name of the node that watches; "" = the one that leads
  friend bool operator==(const FolderSource&, const FolderSource&) = default;
};

// Jobs that end. Each end fires in the transaction that ends the job, whoever ends it; once for a
// job and its outcome, which are the event's id: "42/dead".
//
// What a trigger makes may end and fire in its turn. Such a chain ends: a job knows how many of
// these triggers fired one behind the other up to it (NewJob::trigger_depth, which what follows a
// job and what its completion posts have from it), and the end of one with kMaxTriggerDepth makes
// no job, but a row of the ledger with the reason.
struct EndedSource {
  std::string queue;                      // "" = of every queue, but for the engine's own
  std::string kind;                       // "" = every one
  std::uint8_t on = FollowUp::kEveryEnd;  // of FollowUp::kCompleted, kCancelled, kDead; not 0
  friend bool operator==(const EndedSource&, const EndedSource&) = default;
};
// Does the end of such a job fire it?
bool fires(const EndedSource& source, std::string_view queue, std::string_view kind, JobState end);

// What a user defines. To define the same again changes nothing; another definition of the name is
// its next version.
struct Trigger {
  std::string name;                // as check_name
  std::optional<HookSource> http;  // exactly one of the three
  std::optional<FolderSource> folder;
  std::optional<EndedSource> ended;
  // Of what it makes. In its args {"$ref": …} stands for what the event has: "body", "headers",
  // "query" of a request; "file.path", "file.name", "file.size", "file.modified_at" of a file;
  // "job.id", "job.queue", "job.kind", "job.outcome", "job.attempt", "job.result", "job.error",
  // "job.reason", "job.description" of a job that ended; "trigger.name", "trigger.event". Args of
  // "{}" are the whole body, "file" or "job".
  NewJob job;
  friend bool operator==(const Trigger&, const Trigger&) = default;
};

// A trigger as the store keeps it.
struct TriggerInfo {
  Trigger trigger;
  // Of one with http: the digest of the token in hex, or the key of signatures as text. Never
  // shown. "" = it has none.
  std::string secret;
  std::int64_t version = 1;
  bool paused = false;
  std::string paused_reason;
  std::int64_t fired = 0;    // jobs made, ever
  std::int64_t refused = 0;  // ends of jobs that made none; the ledger says why
  std::optional<WallTime> last_fired;
  JobId last_job = 0;
  std::string last_event;
  // What is older than this, and not in the ledger any more, may have fired: see FireTrigger.
  WallTime forgotten = WallTime::from_us(0);
  WallTime created_at, updated_at;
};

// One row of the ledger: an event that fired.
struct TriggerEvent {
  std::int64_t seq = 0;  // grows; newest rows have the largest
  std::string event;     // its id; "" = it had none
  WallTime fired_at;
  std::optional<WallTime> made_at;  // when the event came to be, where that is known
  JobId job = 0;                    // 0 = none
  std::string reason{};             // why there is none; "" = there is one
};
struct TriggerEventPage {
  std::vector<TriggerEvent> rows;    // newest first
  std::optional<std::int64_t> next;  // pass as `before`; nullopt = no more
};

inline constexpr int kMaxTriggers = 1000;
inline constexpr std::int64_t kTriggerRows = 10'000;  // of the ledger of one trigger; older ones go
inline constexpr std::size_t kMaxEventBytes = 512;    // of an event's id
inline constexpr int kMaxHookRate = 10'000;
inline constexpr std::size_t kMaxHookBodyBytes = 1 << 20;
inline constexpr std::size_t kMaxPatternBytes = 255;
inline constexpr std::size_t kMaxFolderPathBytes = 1024;
inline constexpr int kMaxTriggerDepth = 16;  // triggers one behind the other
inline constexpr Duration kMaxStable = std::chrono::hours(1);

// Every rule of a definition that needs no store. Errors: invalid_argument with `field`.
Result<void> validate(const Trigger& trigger);

}  // namespace mainspring
