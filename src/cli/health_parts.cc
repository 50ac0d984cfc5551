// Health parts: disk space, certificate expiry, database latency.
#include "cli/health_parts.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/mutex.h"
#include "store/shared_store.h"
#include "tls/tls.h"

namespace mainspring::cli {
namespace {

constexpr std::uintmax_t kLittleSpace = 512ULL << 20;
constexpr double kLittleShare = 0.05;
constexpr Duration kCertificateSoon = std::chrono::hours(24 * 14);
constexpr Duration kMuchLag = std::chrono::seconds(10);
constexpr Duration kLongSnapshot = std::chrono::minutes(10);
// The database is queried at most this often.
constexpr Duration kDatabaseKept = std::chrono::seconds(5);

std::string mebibytes(std::uintmax_t bytes) {
  return fmt::format("{} MiB", bytes >> 20);
}

HealthPart disk_part(const std::string& directory) {
  HealthPart part{.name = "disk"};
  std::error_code problem;
  const std::filesystem::space_info space = std::filesystem::space(directory, problem);
  if (problem) {
    part.state = PartState::warn;
    part.message =
        fmt::format("the free space of {} is not known: {}", directory, problem.message());
    return part;
  }
  part.message =
      fmt::format("{} of {} are free", mebibytes(space.available), mebibytes(space.capacity));
  const bool little =
      space.available < kLittleSpace ||
      static_cast<double>(space.available) < static_cast<double>(space.capacity) * kLittleShare;
  if (little) part.state = PartState::warn;
  return part;
}

HealthPart certificate_part(const TlsServer& tls, WallTime now) {
  HealthPart part{.name = "certificate"};
  const WallTime end = tls.expires_at();
  part.message = "valid until " + format_wall_time(end);
  if (end <= now) {
    part.message = "expired at " + format_wall_time(end);
    part.state = PartState::warn;
  } else if (end - now < kCertificateSoon) {
    part.state = PartState::warn;
  }
  if (const std::string problem = tls.reload_problem(); !problem.empty()) {
    part.state = PartState::warn;
    part.message += "; the files cannot be loaded, an older certificate is in use: " + problem;
  }
  return part;
}

class DatabasePart {
 public:
  DatabasePart(const SharedStore& store, const Clock& clock) : store_(store), clock_(clock) {}
  HealthPart look() MS_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (asked_ && clock_.now().instant - *asked_ < kDatabaseKept) return last_;
    }
    HealthPart part = ask();
    MutexLock lock(mutex_);
    asked_ = clock_.now().instant;
    return last_ = std::move(part);
  }

 private:
  HealthPart ask() const {
    HealthPart part{.name = "postgres", .core = true};
    if (store_.away()) {
      part.state = PartState::fail;
      part.message = "the database is not reachable";
      return part;
    }
    const Instant asked = clock_.now().instant;
    const auto health = store_.health();
    if (!health) {
      part.state = PartState::fail;
      part.message = health.error().message;
      return part;
    }
    const auto took =
        std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now().instant - asked);
    part.message = fmt::format("answers in {}", format_duration(took));
    if (health->standby_lag)
      part.message +=
          fmt::format(", the slowest standby lags {}", format_duration(*health->standby_lag));
    if (health->oldest_snapshot >= kLongSnapshot) {
      part.state = PartState::warn;
      part.message +=
          fmt::format(", a transaction is open for {}", format_duration(health->oldest_snapshot));
    }
    if (health->standby_lag && *health->standby_lag >= kMuchLag) part.state = PartState::warn;
    return part;
  }

  const SharedStore& store_;
  const Clock& clock_;
  Mutex mutex_;
  std::optional<Instant> asked_ MS_GUARDED_BY(mutex_);
  HealthPart last_ MS_GUARDED_BY(mutex_);
};

}  // namespace

std::vector<std::function<HealthPart()>> health_parts(const HealthSources& sources) {
  std::vector<std::function<HealthPart()>> parts;
  if (!sources.directory.empty())
    parts.emplace_back([directory = sources.directory] { return disk_part(directory); });
  if (sources.tls != nullptr) {
    parts.emplace_back([tls = sources.tls, clock = sources.clock] {
      return certificate_part(*tls, clock->now().wall);
    });
  }
  if (const auto* shared = dynamic_cast<const SharedStore*>(sources.store)) {
    parts.emplace_back(
        [part = std::make_shared<DatabasePart>(*shared, *sources.clock)] { return part->look(); });
  }
  return parts;
}

}  // namespace mainspring::cli
