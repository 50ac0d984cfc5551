// A queue folder's worker: a process per job, or children that take one job after another.
#include "host/queue_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace mainspring {
namespace {

using namespace std::chrono_literals;

int max_children(const JobFolder& folder) {
  if (folder.settings.max_children > 0) return folder.settings.max_children;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

QueueFolder::QueueFolder(HostParts& host, std::string name)
    : JobRunner(host), name_(std::move(name)) {}

QueueFolder::~QueueFolder() {
  end(Why::shutdown);
}

JobView QueueFolder::view() const {
  JobView view;
  MutexLock lock(mutex_);
  if (runtime_ != nullptr) {
    view.children = runtime_->stats().running;
    view.error = runtime_->start_trouble();
    if (!view.error.empty()) view.error = "cannot be started: " + view.error;
  }
  if (pool_ != nullptr) view.children = pool_->children();
  return view;
}

Result<void> QueueFolder::prepare(const JobFolder& folder, ProcessSpec& spec,
                                  const std::shared_ptr<JobLog>& log) {
  std::string directory = folder.script_dir;
  if (!folder.in_place()) {
    MutexLock lock(mutex_);  // one copy at a time; those in use stay
    MS_TRY_ASSIGN(directory, update_working_copy(
                                 folder.script_dir,
                                 working_copies_path(host_.options, folder.type, name_), copies_));
    copies_.push_back(directory);
  }
  ProcessSpec script = script_spec(host_, folder, directory, {});
  spec.argv = std::move(script.argv);
  spec.directory = std::move(script.directory);
  // Job tokens come from the worker; of the server's environment only variables on the allow-list
  // are passed on.
  std::erase_if(spec.environment,
                [](const std::string& entry) { return !entry.starts_with("MAINSPRING_"); });
  spec.environment.insert(spec.environment.end(), script.environment.begin(),
                          script.environment.end());
  MS_TRY_ASSIGN(std::shared_ptr<Cgroup> group, host_.isolation.fence(folder, spec));
  if (group) {
    spec.kill_rest = [group] { (void)group->kill_all(); };
    spec.ended = [group](ProcessEnd& end) { add_of_group(end, *group); };
  }
  spec.ended = [this, more = std::move(spec.ended)](ProcessEnd& end) {
    if (more) more(end);
    if (end.peak_memory) host_.slots.note_memory(name_, *end.peak_memory);
  };
  const std::shared_ptr<void> held(nullptr, [this, group, directory](void*) {
    MutexLock lock(mutex_);
    const auto used = std::find(copies_.begin(), copies_.end(), directory);
    if (used != copies_.end()) copies_.erase(used);
  });
  spec.output = [log, held](OutputStream stream, std::string_view bytes) {
    (void)log->output(stream == OutputStream::out ? LogSource::out : LogSource::err, bytes);
  };
  return {};
}

Handler QueueFolder::exec(const JobFolder& folder, std::shared_ptr<JobLog> log) {
  ExecOptions options;
  options.argv = {folder.run_file};
  options.kill_grace = stopping_wait_time(folder);
  options.access = host_.options.access;
  options.prepare = [this, folder, log](ProcessSpec& spec) { return prepare(folder, spec, log); };
  return exec_handler(host_.processes, std::move(options));
}

PersistentOptions QueueFolder::persistent(const JobFolder& folder, std::shared_ptr<JobLog> log) {
  PersistentOptions options;
  options.spec = [this, folder, log]() -> Result<ProcessSpec> {
    ProcessSpec spec;
    ProgramAccess access = host_.options.access;
    access.token = nullptr;  // a child lives longer than a token: each job brings its own
    MS_TRY(access.add(spec.environment, name_, "", kForever));
    MS_TRY(prepare(folder, spec, log));
    return spec;
  };
  options.job_token = host_.options.access.token;
  options.min_children = folder.settings.min_children;
  options.max_children = max_children(folder);
  options.stopping_wait_time = stopping_wait_time(folder);
  return options;
}

std::shared_ptr<void> QueueFolder::by_demand(const JobFolder& folder, WorkerRuntime& runtime) {
  const std::string pool = folder.settings.pool.empty() ? "default" : folder.settings.pool;
  if (!folder.settings.target && host_.isolation.pool(pool).slots == 0) return nullptr;
  ScaleOptions options{
      .slots = 1, .min = folder.settings.min_children, .max = max_children(folder)};
  options.target = std::max<Duration>(folder.settings.target.value_or(options.target), 1s);
  options.lead = 1s;
  options.hold = 60s;
  using Held = std::pair<std::shared_ptr<void>, Ticker::Handle>;
  auto slots = host_.slots.add({.queue = name_,
                                .pool = pool,
                                .options = options,
                                .running = [&runtime] { return runtime.stats().running; },
                                .set = [&runtime](int n) { runtime.set_slots(n); }});
  // The ticks end first.
  return std::make_shared<Held>(
      std::move(slots), host_.ticker.add([this](Now now) { return host_.slots.step(now); }));
}

void QueueFolder::serve(const JobFolder& folder, std::stop_token stop) {
  const std::shared_ptr<JobLog> log = open_log(folder, stop);
  if (log == nullptr) return;
  log->begin_run();
  (void)log->write(LogSource::system_info,
                   fmt::format("Run script '{}' with script host - '{}' for jobs of queue '{}'",
                               folder.run_command(), folder.host.name, name_));
  WorkerOptions options{
      .queues = {name_}, .slots = max_children(folder), .lease = host_.options.lease};
  options.graceful_stop = stopping_wait_time(folder) + 10s;
  options.language = kProgramLanguage;
  options.stops_on_command = false;
  std::unique_ptr<PersistentPool> pool;
  Handler handler;
  if (folder.settings.persistent) {
    pool = std::make_unique<PersistentPool>(host_.processes, host_.clock, host_.log,
                                            persistent(folder, log));
    pool->start();
    handler = [&pool](const ClaimedJob& job, Context& context) {
      return pool->handle(job, context);
    };
  } else {
    handler = exec(folder, log);
  }
  WorkerRuntime runtime(host_.jobs, host_.clock, host_.random, host_.log, options);
  KindOptions kind;
  if (folder.settings.timeout) kind.timeout = *folder.settings.timeout;
  for (const std::string& name : folder.settings.kinds) runtime.on(name, handler, kind);
  if (folder.settings.kinds.empty()) runtime.on_any(handler, kind);
  std::shared_ptr<void> slots = by_demand(folder, runtime);
  {
    MutexLock lock(mutex_);
    runtime_ = &runtime;
    pool_ = pool.get();
  }
  if (auto started = runtime.start(); !started) {
    host_.log.error("a queue folder cannot run jobs",
                    {{"queue", name_}, {"why", started.error().message}});
  }
  wait_for_stop(stop, kForever);
  slots.reset();
  runtime.stop();
  {
    MutexLock lock(mutex_);
    runtime_ = nullptr;
    pool_ = nullptr;
  }
  pool.reset();
  (void)log->flush();
}

}  // namespace mainspring
