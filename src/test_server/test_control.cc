// Namespaces, waits, faults, and the state that survives a crash.
#include "test_server/test_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "api/json.h"

namespace mainspring {
namespace {

constexpr Duration kCrashPause = std::chrono::milliseconds(50);  // for the answer to be sent
constexpr Duration kLook = std::chrono::milliseconds(100);       // waits look at least so often
constexpr std::size_t kMaxNamespaceBytes = 64;

struct NamespaceFields {
  std::string name;
};
constexpr JsonField<NamespaceFields> kNamespaceFields[] = {
    {"name", [](JsonReader& in, NamespaceFields& n) { return in.null() || in.string(n.name); }},
};

std::string json_of_namespace(const std::string& name) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("namespace").string(name).key("prefix").string(name + ".").end_object();
  return out;
}

struct SavedState {
  std::int64_t ahead_us = 0, next_namespace = 1;
  std::vector<std::string> namespaces;
  FaultSettings faults;
};
constexpr JsonField<SavedState> kStateFields[] = {
    {"ahead_us", [](JsonReader& in,
                    SavedState& s) { return in.integer(s.ahead_us, std::int64_t{0}, INT64_MAX); }},
    {"next_namespace",
     [](JsonReader& in, SavedState& s) {
       return in.integer(s.next_namespace, std::int64_t{1}, INT64_MAX);
     }},
    {"namespaces",
     [](JsonReader& in, SavedState& s) {
       return in.array(TestControl::kMaxNamespaces,
                       [&](std::size_t) { return in.string(s.namespaces.emplace_back()); });
     }},
    {"faults",
     [](JsonReader& in, SavedState& s) {
       std::string text;
       if (!in.raw(text)) return false;
       auto request = decode_fault_request(text);
       if (!request) return false;
       s.faults = request->settings;
       s.faults.seed = request->seed.value_or(0);
       return true;
     }},
};

}  // namespace

TestControl::TestControl(Parts parts, TestOptions options)
    : parts_(parts), options_(std::move(options)) {
  {
    MutexLock lock(mutex_);
    faults_ = Faults(FaultSettings{.seed = options_.seed});
  }
  load_state();
  parts_.broker.on_applied([this](std::span<const Operation> batch, const BatchReport& report,
                                  Now now) { on_applied(batch, report, now); });
}

TestControl::~TestControl() {
  stop();
}

void TestControl::start() {
  if (runner_.joinable()) return;
  runner_ = std::jthread([this](std::stop_token stop) { run(stop); });
}

void TestControl::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    runner_.request_stop();
    changed_.notify_all();
  }
  if (runner_.joinable()) runner_.join();
}

// -- what the store applied

std::string_view TestControl::space_of(std::string_view name) const {
  for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
    if (namespaces_.contains(name.substr(0, dot))) return name.substr(0, dot);
  }
  return {};
}

void TestControl::on_applied(std::span<const Operation> batch, const BatchReport& report, Now now) {
  MutexLock lock(mutex_);
  ++batches_;
  if (collecting_) note_fired(batch, report);
  leases_.note(batch, report, now);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto* claimed = std::get_if<ClaimResult>(&report.results[i]);
    if (claimed == nullptr) continue;
    for (const ClaimedJob& job : claimed->jobs) {
      HeldLease* const lease = leases_.find(job.id, job.token);
      if (lease == nullptr) continue;
      const std::string_view space = space_of(job.queue);
      const auto own = faults_by_space_.find(space);
      Faults& faults = space.empty() || own == faults_by_space_.end() ? faults_ : own->second;
      const std::string_view queue = job.queue;
      lease->faults = faults.of(job, space.empty() ? queue : queue.substr(space.size() + 1));
      if (lease->faults.duplicate) losses_.push_back({lease->holder, job.id, job.token});
    }
  }
  changed_.notify_all();
}

void TestControl::run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::vector<Loss> losses;
    bool crash = false;
    {
      MutexLock lock(mutex_);
      while (losses_.empty() && !crash_ && !stop.stop_requested()) changed_.wait(mutex_);
      losses.swap(losses_);
      crash = std::exchange(crash_, false);
    }
    for (const Loss& loss : losses) lose(loss);
    if (crash) {
      const Instant at = now() + kCrashPause;
      MutexLock lock(mutex_);
      while (now() < at && !stop.stop_requested()) changed_.wait_for(mutex_, at - now());
      if (!stop.stop_requested()) options_.crash();
    }
  }
}

// The job is available to others at once, and an attempt is used up, as when a lease expired.
void TestControl::lose(const Loss& loss) {
  Finish finish{.worker = loss.worker};
  finish.results.push_back({.id = loss.job,
                            .token = loss.token,
                            .outcome = Retry{.error = "lost its lease: a fault of the test server",
                                             .after = Duration(0)}});
  parts_.broker.submit(std::move(finish), [](const OperationResult&) {});
}

TestControl::FinishFault TestControl::meet(const Finish& finish) {
  FinishFault fault;
  std::vector<Loss> losses;
  {
    MutexLock lock(mutex_);
    for (const JobOutcome& outcome : finish.results) {
      HeldLease* const lease = leases_.find(outcome.id, outcome.token);
      if (lease == nullptr) continue;
      const auto meets = std::exchange(lease->finish_met, true) ? JobFaults::Finish::arrives
                                                                : lease->faults.finish;
      fault.lose_answer |= meets == JobFaults::Finish::answer_lost;
      fault.lose_request |= meets == JobFaults::Finish::lost;
      if (lease->faults.lost_lease || meets == JobFaults::Finish::lost)
        losses.push_back({finish.worker, outcome.id, outcome.token});
    }
  }
  for (const Loss& loss : losses) lose(loss);
  return fault;
}

void TestControl::meet(const Renew& renew) {
  std::vector<Loss> losses;
  {
    MutexLock lock(mutex_);
    for (const Renewal& renewal : renew.leases) {
      HeldLease* const lease = leases_.find(renewal.id, renewal.token);
      if (lease != nullptr && std::exchange(lease->faults.lost_lease, false))
        losses.push_back({renew.worker, renewal.id, renewal.token});
    }
  }
  for (const Loss& loss : losses) lose(loss);
}

Duration TestControl::delay_of(std::string_view route) {
  MutexLock lock(mutex_);
  return faults_.delay_of(route);
}

// -- namespaces

Result<std::string> TestControl::add_namespace(std::string_view body) {
  NamespaceFields fields;
  JsonReader in(body.empty() ? std::string_view("{}") : body, JsonReader::Unknown::refuse);
  if (!in.object(kNamespaceFields, fields) || !in.end()) return in.error();
  MutexLock lock(mutex_);
  if (namespaces_.size() >= kMaxNamespaces) {
    return Error{.code = ErrorCode::overloaded,
                 .message = fmt::format("{} namespaces: must be at most {}; reset the server",
                                        namespaces_.size(), kMaxNamespaces)};
  }
  if (fields.name.empty()) {
    do {
      fields.name = fmt::format("t{}", next_namespace_++);
    } while (namespaces_.contains(fields.name));
  } else {
    MS_TRY(check_name("name", fields.name));
    if (fields.name.size() > kMaxNamespaceBytes) {
      return invalid("name",
                     fmt::format("name \"{}\": must have at most {} bytes",
                                 cut_text(fields.name, kMaxNamespaceBytes), kMaxNamespaceBytes));
    }
    if (namespaces_.contains(fields.name)) {
      return Error{.code = ErrorCode::conflict,
                   .message = fmt::format("namespace \"{}\": exists already", fields.name),
                   .field = "name"};
    }
  }
  namespaces_.insert(fields.name);
  save_state();
  return json_of_namespace(fields.name);
}

// -- faults

Result<std::string> TestControl::set_faults(std::string_view body) {
  MS_TRY_ASSIGN(FaultRequest request, decode_fault_request(body));
  if (request.crash && !options_.crash) {
    return Error{.code = ErrorCode::conflict,
                 .message = "crash: this server does not start again by itself",
                 .field = "crash"};
  }
  std::string out;
  MutexLock lock(mutex_);
  if (!request.space.empty() && namespaces_.contains(request.space))
    faults_by_space_.try_emplace(request.space, FaultSettings{.seed = options_.seed});
  MS_TRY_ASSIGN(Faults* const faults, faults_of(request.space));
  request.settings.seed = request.seed.value_or(faults->settings().seed);
  *faults = Faults(request.settings);
  if (request.space.empty()) options_.full->store(request.settings.store_full);
  save_state();
  crash_ = request.crash;
  changed_.notify_all();
  append_faults(out, faults->settings());
  parts_.log.warn("faults", {{"seed", fmt::to_string(faults->settings().seed)}});
  return out;
}

Result<Faults*> TestControl::faults_of(const std::string& space) {
  if (space.empty()) return &faults_;
  if (!namespaces_.contains(space)) {
    return Error{.code = ErrorCode::not_found,
                 .message = fmt::format("namespace \"{}\": does not exist", cut_text(space, 64)),
                 .field = "namespace"};
  }
  const auto own = faults_by_space_.find(space);
  return own == faults_by_space_.end() ? &faults_ : &own->second;
}

Result<std::string> TestControl::faults(const std::string& space) {
  std::string out;
  MutexLock lock(mutex_);
  MS_TRY_ASSIGN(const Faults* const faults, faults_of(space));
  append_faults(out, faults->settings());
  return out;
}

Result<std::string> TestControl::clear_faults(const std::string& space) {
  std::string out;
  MutexLock lock(mutex_);
  MS_TRY_ASSIGN(const Faults* const faults, faults_of(space));
  append_faults(out, {.seed = faults->settings().seed});
  if (space.empty()) {
    options_.full->store(false);
    faults_ = Faults(FaultSettings{.seed = faults_.settings().seed});
  } else {
    faults_by_space_.erase(space);
  }
  save_state();
  return out;
}

// -- waits

std::int64_t TestControl::batches() {
  MutexLock lock(mutex_);
  return batches_;
}

std::int64_t TestControl::wait_for_batch(std::int64_t seen, Duration limit) {
  const Instant until = now() + limit;
  MutexLock lock(mutex_);
  while (batches_ == seen && !stopping_) {
    const Instant at = now();
    if (at >= until) break;
    changed_.wait_for(mutex_, until - at);
  }
  return stopping_ ? seen : batches_;
}

Result<Job> TestControl::await(JobId job, JobState state, Duration timeout) {
  const Instant until = now() + timeout;
  for (;;) {
    const std::int64_t seen = batches();
    MS_TRY_ASSIGN(Job found, parts_.broker.get_watched(job));
    // A job that ran and has ended had the state, if only for a moment.
    const bool ran = state == JobState::running && found.attempt > 0;
    if (found.state == state || ran) return found;
    if (is_terminal(found.state)) {
      return Error{.code = ErrorCode::conflict,
                   .message = fmt::format("job {} is {}{}{}, and will not be {}", job,
                                          to_string(found.state), found.reason.empty() ? "" : ": ",
                                          found.reason, to_string(state))};
    }
    const Instant at = now();
    if (at >= until || stopped()) {
      return Error{
          .code = ErrorCode::request_timeout,
          .message = fmt::format("job {} is {} after {}, not {}", job, to_string(found.state),
                                 format_duration(timeout), to_string(state))};
    }
    wait_for_batch(seen, std::min(kLook, until - at));
  }
}

bool TestControl::stopped() {
  MutexLock lock(mutex_);
  return stopping_;
}

// -- what outlives a crash

void TestControl::save_state() {
  if (options_.state_file.empty()) return;
  std::string text;
  JsonWriter w(text);
  w.begin_object().key("ahead_us").number(parts_.clock.ahead().count());
  w.key("next_namespace").number(next_namespace_).key("namespaces").begin_array();
  for (const std::string& name : namespaces_) w.string(name);
  std::string faults;
  append_faults(faults, faults_.settings());
  w.end_array().key("faults").raw(faults).end_object();
  const std::string fresh = options_.state_file + ".new";
  std::ofstream(fresh) << text;
  if (std::rename(fresh.c_str(), options_.state_file.c_str()) != 0) {
    parts_.log.warn("cannot write what outlives a crash", {{"file", options_.state_file}});
  }
}

void TestControl::load_state() {
  if (options_.state_file.empty()) return;
  std::ifstream file(options_.state_file);
  if (!file) return;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  SavedState saved;
  JsonReader in(text, JsonReader::Unknown::refuse);
  if (!in.object(kStateFields, saved) || !in.end()) {
    parts_.log.warn("what a crash left cannot be read", {{"why", in.error().message}});
    return;
  }
  parts_.clock.set_ahead(Duration(saved.ahead_us));
  MutexLock lock(mutex_);
  next_namespace_ = saved.next_namespace;
  namespaces_.insert(saved.namespaces.begin(), saved.namespaces.end());
  faults_ = Faults(saved.faults);
  options_.full->store(saved.faults.store_full);
}

}  // namespace mainspring
