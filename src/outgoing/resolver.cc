// The system's resolver with getaddrinfo_a(3), as getaddrinfo(3) has no time limit.
#include "outgoing/resolver.h"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <list>

#include "base/mutex.h"

namespace mainspring {
namespace {

// Memory that the system writes to until it is done; may outlive the call.
struct Lookup {
  std::string host;
  addrinfo hints{};
  gaicb request{};
  ~Lookup() {
    if (request.ar_result != nullptr) ::freeaddrinfo(request.ar_result);
  }
};

timespec to_timespec(Duration limit) {
  const auto us = std::max<std::int64_t>(limit.count(), 1000);
  return {static_cast<time_t>(us / 1'000'000), static_cast<long>(us % 1'000'000 * 1000)};
}

bool is_done(Lookup& lookup) {
  return ::gai_error(&lookup.request) != EAI_INPROGRESS;
}

// nullptr: no limit.
void wait_for(Lookup& lookup, const timespec* limit) {
  const gaicb* const list[] = {&lookup.request};
  // A signal ends the wait early and restarts the limit; signals are rare.
  while (!is_done(lookup) && ::gai_suspend(list, 1, limit) == EAI_INTR) {
  }
}

Result<std::vector<IpAddress>> addresses_of(const Lookup& lookup) {
  std::vector<IpAddress> out;
  for (const addrinfo* at = lookup.request.ar_result; at != nullptr; at = at->ai_next) {
    const auto address = address_of(*at->ai_addr);
    if (!address || std::find(out.begin(), out.end(), *address) != out.end()) continue;
    out.push_back(*address);
  }
  if (!out.empty()) return out;
  return Error{ErrorCode::unavailable, fmt::format("{} has no address", lookup.host)};
}

}  // namespace

struct SystemResolver::Impl {
  Mutex mutex;
  std::list<std::unique_ptr<Lookup>> given_up MS_GUARDED_BY(mutex);
};

SystemResolver::SystemResolver() : impl_(std::make_unique<Impl>()) {}

SystemResolver::~SystemResolver() {
  MutexLock lock(impl_->mutex);
  for (const auto& lookup : impl_->given_up) {
    while (!is_done(*lookup)) wait_for(*lookup, nullptr);
  }
}

Result<std::vector<IpAddress>> SystemResolver::resolve(const std::string& host, Duration limit) {
  {
    MutexLock lock(impl_->mutex);
    impl_->given_up.remove_if([](const auto& lookup) { return is_done(*lookup); });
    if (impl_->given_up.size() >= kMaxGivenUp) {
      return Error{ErrorCode::overloaded, "too many DNS lookups are pending"};
    }
  }
  auto lookup = std::make_unique<Lookup>();
  lookup->host = host;
  lookup->hints.ai_socktype = SOCK_STREAM;
  lookup->request.ar_name = lookup->host.c_str();
  lookup->request.ar_request = &lookup->hints;
  gaicb* list[] = {&lookup->request};
  if (const int problem = ::getaddrinfo_a(GAI_NOWAIT, list, 1, nullptr); problem != 0) {
    return Error{ErrorCode::unavailable,
                 fmt::format("cannot look up {}: {}", host, ::gai_strerror(problem))};
  }
  const timespec until = to_timespec(limit);
  wait_for(*lookup, &until);
  if (!is_done(*lookup) && ::gai_cancel(&lookup->request) == EAI_NOTCANCELED) {
    MutexLock lock(impl_->mutex);
    impl_->given_up.push_back(std::move(lookup));
    return Error{ErrorCode::timeout, fmt::format("looking up {} timed out", host)};
  }
  switch (const int problem = ::gai_error(&lookup->request)) {
    case 0:
      return addresses_of(*lookup);
    case EAI_CANCELED:
      return Error{ErrorCode::timeout, fmt::format("looking up {} timed out", host)};
    default:
      return Error{ErrorCode::unavailable,
                   fmt::format("cannot look up {}: {}", host, ::gai_strerror(problem))};
  }
}

}  // namespace mainspring
