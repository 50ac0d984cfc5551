// Counts the buffered bytes of each account.
#include "http/room.h"

#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"

namespace mainspring::http {
namespace {

// Vital and other bytes of an account are counted apart.
std::string key_of(const Room::Payer& payer, const std::pair<Room::Account, std::string>& account) {
  return std::string(1, "ca~n"[static_cast<int>(account.first)]) + (payer.vital ? "+" : "-") +
         account.second;
}

}  // namespace

// `left` bytes stay free for other accounts.
std::size_t Room::share(Account account, bool vital, std::size_t left) const {
  if (account == Account::anonymous) return most_ / 4;
  if (account == Account::anonymous_address) return most_ / 8;
  return left * (vital ? 4 : 2);
}

bool Room::has(const Payer& payer, std::size_t held, std::size_t more) const {
  // Charges without room must not use up what is reserved.
  const std::size_t general_used = std::min(general_used_, general());
  std::size_t free = most_ - std::min(most_, general_used + vital_used_);
  if (!payer.vital && !MS_MUTANT(no_reserved_room)) free = std::min(free, general() - general_used);
  if (more > free && general_used_ + vital_used_ != held) return false;
  if (MS_MUTANT(caller_takes_all_room)) return true;
  const std::size_t left = free - std::min(free, more);
  return std::all_of(payer.accounts.begin(), payer.accounts.end(), [&](const auto& account) {
    const auto found = used_.find(key_of(payer, account));
    const std::size_t used = found == used_.end() ? 0 : found->second;
    return used == held || used + more <= share(account.first, payer.vital, left);
  });
}

void Room::add(const Payer& payer, std::size_t bytes) {
  (payer.vital ? vital_used_ : general_used_) += bytes;
  if (bytes == 0) return;
  for (const auto& account : payer.accounts) used_[key_of(payer, account)] += bytes;
}

bool Room::fits(const Payer& payer, std::size_t held, std::size_t more) const {
  MutexLock lock(mutex_);
  return has(payer, held, more);
}

bool Room::take(const Payer& payer, std::size_t held, std::size_t more) {
  MutexLock lock(mutex_);
  if (!has(payer, held, more)) return false;
  add(payer, more);
  return true;
}

void Room::charge(const Payer& payer, std::size_t bytes) {
  MutexLock lock(mutex_);
  add(payer, bytes);
}

void Room::give(const Payer& payer, std::size_t bytes) {
  if (bytes == 0) return;
  MutexLock lock(mutex_);
  (payer.vital ? vital_used_ : general_used_) -= bytes;
  for (const auto& account : payer.accounts) {
    const auto found = used_.find(key_of(payer, account));
    MS_ASSERT(found != used_.end() && found->second >= bytes, "only held bytes are returned");
    if ((found->second -= bytes) == 0) used_.erase(found);
  }
}

std::size_t Room::used() const {
  MutexLock lock(mutex_);
  return general_used_ + vital_used_;
}

bool HeldRoom::grow_to(std::size_t bytes) {
  if (bytes <= bytes_) return true;
  if (!room_->take(payer_, bytes_, bytes - bytes_)) return false;
  bytes_ = bytes;
  return true;
}

void HeldRoom::charge(std::size_t bytes) {
  room_->charge(payer_, bytes);
  bytes_ += bytes;
}

}  // namespace mainspring::http
