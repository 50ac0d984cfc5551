// Checks the files of a certificate, and loads changed ones.
#include "cli/tls_reload.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace mainspring::cli {

TlsReload::TlsReload(TlsServer& tls, const Clock& clock, Log& log, Registry& registry)
    : tls_(tls), clock_(clock), log_(log), taken_(look()), seen_(taken_) {
  registry.gauge("mainspring_tls_certificate_expiry_seconds",
                 "Time until the server's certificate expires.", [&tls, &clock] {
                   const Duration left = tls.expires_at() - clock.now().wall;
                   return static_cast<double>(left.count()) / 1e6;
                 });
  registry.gauge("mainspring_tls_last_reload_successful",
                 "0 while the files of the certificate cannot be loaded and an older one is in "
                 "use, else 1.",
                 [&tls] { return tls.reload_problem().empty() ? 1.0 : 0.0; });
}

TlsReload::~TlsReload() {
  stop();
}

void TlsReload::start() {
  thread_ = std::thread([this] { run(); });
}

void TlsReload::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void TlsReload::reload_soon() {
  MutexLock lock(mutex_);
  asked_ = true;
  changed_.notify_all();
}

void TlsReload::run() {
  for (;;) {
    step(clock_.now());
    MutexLock lock(mutex_);
    if (!asked_ && !stopping_) changed_.wait_for(mutex_, kLookAtCertificates);
    if (stopping_) return;
  }
}

void TlsReload::step(Now now) {
  bool asked = false;
  {
    MutexLock lock(mutex_);
    asked = std::exchange(asked_, false);
  }
  const Stamps present = look();
  if (asked || (present != taken_ && present == seen_)) {
    taken_ = present;
    const auto done = reload();
    warn_at_ = now.instant;
    if (asked && reloaded_) reloaded_(done);
  }
  seen_ = present;
  if (now.instant >= warn_at_) warn_of_end(now);
}

TlsReload::Stamps TlsReload::look() const {
  const TlsServerOptions& options = tls_.options();
  Stamps out;
  std::size_t at = 0;
  for (const std::string* file :
       {&options.certificate_file, &options.key_file, &options.client_ca_file}) {
    Stamp& stamp = out[at++];
    struct stat status {};
    if (file->empty() || ::stat(file->c_str(), &status) != 0) continue;
    stamp = {status.st_dev, status.st_ino,
             status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec, status.st_size};
  }
  return out;
}

Result<void> TlsReload::reload() {
  auto done = tls_.reload();
  if (!done) {
    log_.error("the new certificate is invalid; the old one stays in use",
               {{"why", done.error().message}});
    return done;
  }
  log_.info("certificate loaded", {{"file", tls_.options().certificate_file},
                                   {"expires_at", format_wall_time(tls_.expires_at())}});
  return done;
}

void TlsReload::warn_of_end(Now now) {
  warn_at_ = now.instant + kWarnAgain;
  const WallTime end = tls_.expires_at();
  if (end - now.wall >= kExpiresSoon) return;
  log_.warn(end <= now.wall ? "the server's certificate has expired"
                            : "the server's certificate expires soon",
            {{"file", tls_.options().certificate_file}, {"expires_at", format_wall_time(end)}});
}

}  // namespace mainspring::cli
