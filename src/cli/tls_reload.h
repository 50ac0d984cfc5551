// TlsReload: loads new certificates when their files change or on request, and warns before they
// expire.
#pragma once

#include <array>
#include <functional>
#include <thread>

#include "base/mutex.h"
#include "env/clock.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "tls/tls.h"

namespace mainspring::cli {

// Files are polled, not watched: their content may change through links far above them, as with
// Kubernetes and certbot.
inline constexpr Duration kLookAtCertificates = std::chrono::seconds(1);
inline constexpr Duration kExpiresSoon = std::chrono::hours(24 * 14);
inline constexpr Duration kWarnAgain = std::chrono::hours(24);

class TlsReload {
 public:
  // All outlive it. Registers mainspring_tls_certificate_expiry_seconds and
  // mainspring_tls_last_reload_successful.
  TlsReload(TlsServer& tls, const Clock& clock, Log& log, Registry& registry);
  ~TlsReload();  // stops
  TlsReload(const TlsReload&) = delete;
  TlsReload& operator=(const TlsReload&) = delete;

  void start();
  void stop();
  // Reads the files again, changed or not. Thread-safe.
  void reload_soon();
  // Called with the result of each reading that reload_soon() requested, on the reading thread. Set
  // before start().
  void on_reloaded(std::function<void(const Result<void>&)> reloaded) {
    reloaded_ = std::move(reloaded);
  }

  // One check, by the thread of start() or by a test. Reads changed files once they are the same in
  // two checks: a certificate and its key are written one after the other.
  void step(Now now);

 private:
  // Identifies a file and its version. `changed_ns` also changes with the mode: a key that other
  // users could read is refused until its mode is fixed.
  struct Stamp {
    std::uint64_t device = 0, inode = 0;
    std::int64_t changed_ns = 0, size = -1;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  using Stamps = std::array<Stamp, 3>;
  Stamps look() const;
  Result<void> reload();
  void warn_of_end(Now now);
  void run();

  TlsServer& tls_;
  const Clock& clock_;
  Log& log_;
  Stamps taken_, seen_;
  Instant warn_at_;
  std::function<void(const Result<void>&)> reloaded_;
  Mutex mutex_;
  CondVar changed_;
  bool asked_ MS_GUARDED_BY(mutex_) = false;
  bool stopping_ MS_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mainspring::cli
