// Triggers: jobs created by events, and a ledger of the events that fired.
//
//   event ──▶ its id ──▶ fired before? ──▶ a job, and a row of the ledger, in one transaction
//             (of a request, a file's version, the end of a job)
//
// An event fires once, also over restarts and leader changes: the row in the ledger prevents more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/job.h"

namespace mainspring {

// How a caller of /hooks/NAME authenticates.
enum class HookAuth : std::uint8_t {
  token,      // Authorization: Bearer SECRET
  signature,  // of id, time and body, as in Standard Webhooks
};
std::string_view to_string(HookAuth auth);
std::optional<HookAuth> parse_hook_auth(std::string_view text);

// POST /hooks/NAME.
struct HookSource {
  HookAuth auth = HookAuth::token;
  // Where the request has its id, a reference: "headers.x-github-delivery", "body.id". An id that
  // has fired does not fire again; a request without an id always fires. "" = "headers.webhook-id".
  std::string event_id;
  int rate = 100;  // requests per second that each node accepts, 1 to kMaxHookRate
  friend bool operator==(const HookSource&, const HookSource&) = default;
};

// Files that are closed after writing, or moved, in a folder. Each version of a file fires once:
// its path, size, modification time and inode are the event's id.
struct FolderSource {
  std::string path;                           // absolute, below a watch root of the node
  std::string pattern = "*";                  // of file names: * and ?
  Duration stable = std::chrono::seconds(2);  // fires when unchanged for this long
  std::string node;  // the host name of the node that watches; "" = the leader
  friend bool operator==(const FolderSource&, const FolderSource&) = default;
};

// Jobs that end. Each end fires once, in the transaction that ends the job, whatever ends it. The
// job and its outcome are the event's id: "42/dead".
//
// The created job may end and fire again. Such a chain is bounded: a job counts the triggers of
// this kind that led to it (NewJob::trigger_depth; its follow-ups and the jobs of its completion
// inherit the count). The end of a job with kMaxTriggerDepth creates no job, only a row of the
// ledger with the reason.
struct EndedSource {
  std::string queue;                      // "" = of every queue except the engine's own
  std::string kind;                       // "" = every one
  std::uint8_t on = FollowUp::kEveryEnd;  // of FollowUp::kCompleted, kCancelled, kDead; not 0
  friend bool operator==(const EndedSource&, const EndedSource&) = default;
};
// Returns whether the end of such a job fires the trigger.
bool fires(const EndedSource& source, std::string_view queue, std::string_view kind, JobState end);

// A user's definition. Defining the same again changes nothing; a different definition of the name
// becomes its next version.
struct Trigger {
  std::string name;                // see check_name
  std::optional<HookSource> http;  // exactly one of the three
  std::optional<FolderSource> folder;
  std::optional<EndedSource> ended;
  // The template of the created job. In its args, {"$ref": …} is replaced by a value of the event:
  // "body", "headers", "query" of a request; "file.path", "file.name", "file.size",
  // "file.modified_at" of a file; "job.id", "job.queue", "job.kind", "job.outcome", "job.attempt",
  // "job.result", "job.error", "job.reason", "job.description" of a job that ended; "trigger.name",
  // "trigger.event". Args of "{}" become the whole body, "file" or "job".
  NewJob job;
  friend bool operator==(const Trigger&, const Trigger&) = default;
};

// A trigger as the store keeps it.
struct TriggerInfo {
  Trigger trigger;
  // For http: the digest of the token in hex, or the signature key as text. Never shown. "" = none.
  std::string secret;
  std::int64_t version = 1;
  bool paused = false;
  std::string paused_reason;
  std::int64_t fired = 0;    // jobs created so far
  std::int64_t refused = 0;  // ends of jobs that created none; the ledger has the reasons
  std::optional<WallTime> last_fired;
  JobId last_job = 0;
  std::string last_event;
  // Events older than this that are not in the ledger may have fired: see FireTrigger.
  WallTime forgotten = WallTime::from_us(0);
  WallTime created_at, updated_at;
};

// One row of the ledger: an event that fired.
struct TriggerEvent {
  std::int64_t seq = 0;  // grows; newest rows have the largest
  std::string event;     // its id; "" = it had none
  WallTime fired_at;
  std::optional<WallTime> made_at;  // when the event happened, if known
  JobId job = 0;                    // 0 = none
  std::string reason{};             // why there is no job; "" = there is one
};
struct TriggerEventPage {
  std::vector<TriggerEvent> rows;    // newest first
  std::optional<std::int64_t> next;  // pass as `before`; nullopt = no more
};

inline constexpr int kMaxTriggers = 1000;
inline constexpr std::int64_t kTriggerRows = 10'000;  // ledger rows per trigger; older are removed
inline constexpr std::size_t kMaxEventBytes = 512;    // of an event's id
inline constexpr int kMaxHookRate = 10'000;
inline constexpr std::size_t kMaxHookBodyBytes = 1 << 20;
inline constexpr std::size_t kMaxPatternBytes = 255;
inline constexpr std::size_t kMaxFolderPathBytes = 1024;
inline constexpr int kMaxTriggerDepth = 16;  // chained triggers on job ends
inline constexpr Duration kMaxStable = std::chrono::hours(1);

// Checks every rule of a definition that needs no store. Errors: invalid_argument with `field`.
Result<void> validate(const Trigger& trigger);

}  // namespace mainspring
