// Room: the bytes of bodies and answers that a server buffers, in total and by caller.
//
//   |<----- general routes ----->|<-- reserved -->|
//   |<---------------- vital routes ------------->|
//
// A hold counts the bytes that have arrived, not those that were announced. Each account has a
// share, so that one caller cannot take all room: twice what is then still free on general routes,
// four times on vital ones. Accounts without a token have fixed shares. The only hold of an account
// needs no share. The only hold of the server always has room, else a body over the limit of a
// small configuration could never pass.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"

namespace mainspring::http {

class Room {
 public:
  // Whom the bytes are charged to.
  enum class Account { caller, address, anonymous, anonymous_address };
  struct Payer {
    std::vector<std::pair<Account, std::string>> accounts;  // empty = no share: full access
    bool vital = false;  // a claim, a finish, a renewal or a health check
  };

  explicit Room(std::size_t most) : most_(most) {}

  bool fits(const Payer& payer, std::size_t held, std::size_t more) const MS_EXCLUDES(mutex_);
  // fits() and charge() in one step.
  bool take(const Payer& payer, std::size_t held, std::size_t more) MS_EXCLUDES(mutex_);
  void charge(const Payer& payer, std::size_t bytes) MS_EXCLUDES(mutex_);
  void give(const Payer& payer, std::size_t bytes) MS_EXCLUDES(mutex_);
  std::size_t used() const MS_EXCLUDES(mutex_);

 private:
  bool has(const Payer& payer, std::size_t held, std::size_t more) const MS_REQUIRES(mutex_);
  void add(const Payer& payer, std::size_t bytes) MS_REQUIRES(mutex_);
  std::size_t share(Account account, bool vital, std::size_t left) const;
  std::size_t general() const { return most_ - most_ / 4; }

  const std::size_t most_;
  mutable Mutex mutex_;
  std::size_t general_used_ MS_GUARDED_BY(mutex_) = 0;
  std::size_t vital_used_ MS_GUARDED_BY(mutex_) = 0;
  // Has entries only for accounts that hold bytes.
  std::unordered_map<std::string, std::size_t> used_ MS_GUARDED_BY(mutex_);
};

// The room of one body or answer, until it is destroyed. Not thread-safe.
class HeldRoom {
 public:
  HeldRoom(std::shared_ptr<Room> room, Room::Payer payer)
      : room_(std::move(room)), payer_(std::move(payer)) {}
  HeldRoom(const HeldRoom&) = delete;
  HeldRoom& operator=(const HeldRoom&) = delete;
  ~HeldRoom() { room_->give(payer_, bytes_); }

  // Returns false if there is no room; then nothing is charged.
  [[nodiscard]] bool grow_to(std::size_t bytes);
  void charge(std::size_t bytes);  // also without room
  bool fits(std::size_t bytes) const { return room_->fits(payer_, bytes_, bytes - bytes_); }

 private:
  const std::shared_ptr<Room> room_;
  const Room::Payer payer_;
  std::size_t bytes_ = 0;
};

}  // namespace mainspring::http
