// Data of jobs whose folders are missing, and when it is deleted.
#include <fmt/format.h>

#include "host/files.h"
#include "host/job_host_impl.h"

namespace mainspring {
namespace {

// How long a caller that removes a job waits for the end of its run; then the run ends unobserved.
constexpr Duration kRemovalWait = std::chrono::seconds(10);

}  // namespace

// Data of an earlier host without a record counts as seen now.
void JobHost::Impl::read_book() {
  const Now now = clock.now();
  MutexLock lock(mutex);
  book_is_read = true;
  if (auto good = book.read(now); !good) {
    log_.warn("the list of job folders cannot be read; the retention of missing folders starts now",
              {{"why", good.error().message}});
  }
  for (const JobType type : {JobType::continuous, JobType::triggered, JobType::queue}) {
    for (const std::string_view kept : {"data/jobs", "users"}) {
      const auto entries_of_type =
          list_directory(fmt::format("{}/{}/{}", options.data, kept, folder_of(type)));
      if (!entries_of_type) continue;
      for (const Entry& entry : *entries_of_type) {
        if (entry.name.starts_with(kBeingRemoved)) {
          (void)remove_tree(
              fmt::format("{}/{}/{}/{}", options.data, kept, folder_of(type), entry.name));
        }
        const HostKey key{type, entry.name};
        if (check_job_name(entry.name) && !book.contains(key)) book.seen(key, now);
      }
    }
  }
  for (const std::string& name : triggered.scheduled()) {
    const HostKey key{JobType::triggered, name};
    if (!book.contains(key)) book.seen(key, now);
  }
}

void JobHost::Impl::save_book(bool always) {
  const Now now = clock.now();
  MutexLock lock(mutex);
  const auto saved = book.save(now, always);
  if (!saved && !book_complained) {
    log_.warn("the list of job folders cannot be written", {{"why", saved.error().message}});
  }
  book_complained = !saved;
}

void JobHost::Impl::delete_due() {
  MutexLock one(refresh_mutex);
  std::vector<HostKey> keys;
  {
    MutexLock lock(mutex);
    for (const HostKey& key : book.due(clock.now())) {
      if (!entries.contains(key) && !leaving.contains(key)) keys.push_back(key);
    }
  }
  for (const HostKey& key : keys) {
    if (key.first == JobType::triggered && triggered.is_running(key.second)) continue;
    // Only if the folder certainly does not exist.
    const Found found = discover_some(options.roots, {key}, script_hosts);
    if (!found.jobs.empty() || !found.left_out.empty()) continue;
    log_.info("the data of a job whose folder is missing was deleted",
              {{"job", key.second}, {"type", std::string(to_string(key.first))}});
    if (key.first == JobType::triggered) triggered.forget(key.second);
    remove_job_data(options, key.first, key.second);
    MutexLock lock(mutex);
    book.forget(key);
    changed();
  }
}

Result<void> JobHost::remove(JobType type, const std::string& name) {
  MS_TRY(check_name("name", name));
  if (name.find('/') != std::string::npos) {
    return invalid("name", fmt::format("name \"{}\": must not have a /", name));
  }
  MS_TRY(remove_folder(impl_->directory_of(type, name)));
  const HostKey key{type, name};
  impl_->scan_one(key);
  impl_->changed();
  {
    MutexLock lock(impl_->mutex);
    if (impl_->entries.contains(key)) return {};  // there is a new job of that name
    impl_->book.removed(key, impl_->clock.now());
  }
  impl_->save_book(false);
  if (type == JobType::triggered) impl_->triggered.forget(name);
  if (type != JobType::triggered || !impl_->triggered.forget_at_end(name)) {
    impl_->remove_data_of(key);
  }
  return {};
}

// Now, or when its current run has ended.
void JobHost::Impl::remove_data_of(const HostKey& key) {
  const Instant until = clock.now().instant + kRemovalWait;
  {
    MutexLock lock(mutex);
    if (const auto job = leaving.find(key); job != leaving.end()) {
      job->second.with_data = true;
      while (leaving.contains(key) && !stopping && clock.now().instant < until) {
        wake.wait_for(mutex, until - clock.now().instant);
      }
      return;
    }
  }
  MutexLock one(refresh_mutex);
  {
    MutexLock lock(mutex);
    if (entries.contains(key)) return;  // it was created again meanwhile
  }
  remove_job_data(options, key.first, key.second);
  MutexLock lock(mutex);
  book.forget(key);
}

}  // namespace mainspring
