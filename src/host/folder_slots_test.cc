// The slots of queue folders: by demand, shared in a pool, within what the machine allows.
#include "host/folder_slots.h"

#include <doctest/doctest.h>

#include "telemetry/keeping_log.h"

namespace mainspring {
namespace {

using namespace std::chrono_literals;

struct SlotsRig {
  std::vector<QueueStats> queues;
  int reads = 0;
  int pool_slots = 0;
  MachinePressure pressure;
  KeepingLog log;
  std::map<std::string, int> slots, running;
  Instant now = Instant() + 1h;
  FolderSlots folders{[this]() -> Result<std::vector<QueueStats>> {
                        ++reads;
                        return queues;
                      },
                      [this](const std::string&) { return pool_slots; }, log,
                      [this] { return pressure; }};

  void waiting(const std::string& name, std::int64_t jobs, Duration service = 1s) {
    std::erase_if(queues, [&](const QueueStats& queue) { return queue.name == name; });
    QueueStats queue{.name = name};
    queue.backlog = QueueBacklog{.jobs = jobs, .service = service};
    queues.push_back(queue);
  }
  std::shared_ptr<void> add(const std::string& queue, int min, int max) {
    return folders.add({.queue = queue,
                        .pool = "default",
                        .options = {.target = 30s, .min = min, .max = max, .lead = 1s, .hold = 60s},
                        .running = [this, queue] { return running[queue]; },
                        .set = [this, queue](int n) { slots[queue] = n; }});
  }
  void step(Duration later = 1s) {
    now = now + later;
    folders.step({now, WallTime::from_us(1)});
  }
};

}  // namespace

TEST_CASE(
    "a queue folder starts with one slot and gets those that its work needs, not its maximum") {
  SlotsRig rig;
  const auto mail = rig.add("mail", 0, 8);
  CHECK(rig.slots["mail"] == 1);
  rig.waiting("mail", 90);
  rig.running["mail"] = 1;
  rig.step();
  CHECK(rig.slots["mail"] == 3);  // 90 s of work in 30 s
  rig.waiting("mail", 9000);
  rig.step();
  CHECK(rig.slots["mail"] == 8);
  rig.waiting("mail", 0);
  rig.running["mail"] = 0;
  rig.step();
  CHECK(rig.slots["mail"] == 8);  // held
  for (int i = 0; i < 12; ++i) rig.step(30s);
  CHECK(rig.slots["mail"] == 1);
}

TEST_CASE("idle queue folders read no queue") {
  SlotsRig rig;
  const auto mail = rig.add("mail", 0, 8);
  for (int i = 0; i < 100; ++i) rig.step();
  CHECK(rig.reads == 0);
}

TEST_CASE("queue folders of a pool share its slots by need, each with its minimum") {
  SlotsRig rig;
  rig.pool_slots = 8;
  const auto mail = rig.add("mail", 1, 8), video = rig.add("video", 1, 8);
  rig.waiting("mail", 300);    // 10 slots
  rig.waiting("video", 3000);  // 100 slots, at most 8
  rig.running = {{"mail", 1}, {"video", 1}};
  rig.step();
  CHECK(rig.slots["mail"] + rig.slots["video"] == 8);
  CHECK(rig.slots["mail"] == 4);
  rig.waiting("video", 0);
  rig.running["video"] = 0;
  for (int i = 0; i < 12; ++i) rig.step(30s);
  CHECK(rig.slots["video"] == 1);
  CHECK(rig.slots["mail"] == 7);
}

TEST_CASE("a stalled machine, or one without memory for another child, adds no slot") {
  SlotsRig rig;
  const auto mail = rig.add("mail", 0, 8);
  rig.waiting("mail", 9000);
  rig.running["mail"] = 1;
  rig.pressure.stalled = 50;
  rig.step();
  CHECK(rig.slots["mail"] == 1);
  rig.pressure = {.stalled = 0, .free_memory_bytes = 250};
  rig.folders.note_memory("mail", 100);
  rig.step();
  CHECK(rig.slots["mail"] == 3);
}

TEST_CASE("a folder that has ended is not called, and leaves its slots to others") {
  SlotsRig rig;
  rig.pool_slots = 4;
  auto mail = rig.add("mail", 3, 4);
  const auto video = rig.add("video", 0, 4);
  mail.reset();
  rig.slots["mail"] = -1;
  rig.waiting("video", 9000);
  rig.running["video"] = 1;
  rig.step();
  CHECK(rig.slots["mail"] == -1);
  CHECK(rig.slots["video"] == 4);
}

}  // namespace mainspring
