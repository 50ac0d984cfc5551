// A node for a measurement, and in-process load on it.
#include <fmt/format.h>

#include "broker/broker.h"
#include "broker/workflow_calls.h"
#include "cli/bench_local.h"
#include "cli/support.h"
#include "store_postgres/inspect.h"

namespace mainspring::cli::bench {

void pass(Duration time) {
  Mutex mutex;
  CondVar never;
  const SystemClock clock;
  const Instant end = clock.now().instant + time;
  const MutexLock lock(mutex);
  while (clock.now().instant < end) never.wait_for(mutex, end - clock.now().instant);
}

Result<std::unique_ptr<LocalNode>> LocalNode::open(const Plan& plan, const std::string& name) {
  std::unique_ptr<LocalNode> out(new LocalNode());
  out->directory_ = plan.directory + "/" + name;
  remove_directory(out->directory_);
  NodeOptions options;
  if (plan.postgres) {
    options.postgres = plan.postgres;
    options.postgres->schema = fmt::format("{}_{}", kScratchSchema, name);
    MS_TRY(drop_postgres_store(*options.postgres));
    out->dropped_ = options.postgres;
  } else {
    options.sqlite.directory = out->directory_;
  }
  MS_TRY_ASSIGN(out->node_, Node::open(std::move(options), out->clock_, out->log_, out->registry_));
  out->node_->start();
  return out;
}

LocalNode::~LocalNode() {
  close();
  if (dropped_) (void)drop_postgres_store(*dropped_);
  if (!keep_files_) remove_directory(directory_);
}

void LocalNode::close() {
  if (node_ == nullptr) return;
  node_->stop();
  node_.reset();
}

namespace {

void into_session(NewJob& job, const LoadOptions& options, std::size_t turn) {
  if (options.sessions == 0) return;
  job.session = fmt::format("customer-{}", turn % static_cast<std::size_t>(options.sessions));
}

}  // namespace

LocalLoad::LocalLoad(Broker& broker, const LoadOptions& options)
    : broker_(broker), options_(options), payload_(payload_of(options.payload)) {
  clients_.resize(static_cast<std::size_t>(options.clients));
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    clients_[i].worker = fmt::format("bench-{}", i);
    clients_[i].queue = i * 7919;
    clients_[i].session = i * 7919;
  }
}

LocalLoad::~LocalLoad() {
  (void)stop();
}

void LocalLoad::start() {
  {
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; i < clients_.size(); ++i) ready_.push_back(i);
  }
  thread_ = std::thread([this] { run(); });
}

Result<void> LocalLoad::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  const MutexLock lock(mutex_);
  if (failed_) return *failed_;
  return {};
}

void LocalLoad::run() {
  std::deque<std::size_t> mine;
  while (true) {
    {
      const MutexLock lock(mutex_);
      while (ready_.empty() && !(stopping_ && under_way_ == 0)) wake_.wait(mutex_);
      if (stopping_) ready_.clear();
      if (stopping_ && under_way_ == 0) return;
      mine.swap(ready_);
      under_way_ += static_cast<int>(mine.size());
    }
    for (const std::size_t index : mine) submit(index);
    mine.clear();
  }
}

Enqueue LocalLoad::make_enqueue(Client& client) {
  Enqueue request;
  request.jobs.resize(static_cast<std::size_t>(options_.batch));
  for (NewJob& job : request.jobs) {
    job.queue = options_.queues[client.queue++ % options_.queues.size()];
    job.kind = "bench";
    job.args = payload_;
    into_session(job, options_, client.session++);
  }
  return request;
}

WorkflowSpec chain_of(int steps, const std::string& queue, const std::string& args) {
  WorkflowSpec spec{.name = "bench"};
  for (int i = 0; i < steps; ++i) {
    StepSpec step{.name = fmt::format("step-{}", i)};
    if (i > 0) step.after = {fmt::format("step-{}", i - 1)};
    step.job = NewJob{.queue = queue, .kind = "bench", .args = args};
    spec.steps.push_back(std::move(step));
  }
  return spec;
}

void LocalLoad::start_workflows(std::size_t index) {
  Client& client = clients_[index];
  {
    const MutexLock lock(mutex_);
    client.starting = options_.batch;
  }
  client.rounds = 0;
  for (int i = 0; i < options_.batch; ++i) {
    const std::string& queue = options_.queues[client.queue++ % options_.queues.size()];
    broker_.submit(*check_workflow(chain_of(options_.steps, queue, payload_)),
                   [this, index](OperationResult result) {
                     const bool failed = std::holds_alternative<Error>(result);
                     {
                       const MutexLock lock(mutex_);
                       if (failed && !failed_) failed_ = std::get<Error>(result);
                       if (--clients_[index].starting > 0) return;
                     }
                     answered(index, std::move(result));
                   });
  }
}

void LocalLoad::submit(std::size_t index) {
  Client& client = clients_[index];
  const auto answer = [this, index](OperationResult result) { answered(index, std::move(result)); };
  switch (client.next) {
    case Client::Next::enqueue:
      if (options_.steps > 0) return start_workflows(index);
      return broker_.submit(make_enqueue(client), answer);
    case Client::Next::claim:
      (void)broker_.submit_claim(Claim{.worker = client.worker,
                                       .queues = options_.queues,
                                       .kinds = {},
                                       .max = options_.batch},
                                 Duration{0}, answer);
      return;
    case Client::Next::finish: {
      Finish request{.worker = client.worker, .results = {}};
      request.results.reserve(client.claimed.size());
      for (const ClaimedJob& job : client.claimed) {
        request.results.push_back({.id = job.id, .token = job.token, .outcome = Complete{}});
      }
      client.claimed.clear();
      return broker_.submit(std::move(request), answer);
    }
  }
}

// Called on the broker's thread: only records the next step.
void LocalLoad::answered(std::size_t index, OperationResult result) {
  Client& client = clients_[index];
  const Error* error = std::get_if<Error>(&result);
  if (error == nullptr) {
    switch (client.next) {
      case Client::Next::enqueue:
        client.next = options_.lifecycle ? Client::Next::claim : Client::Next::enqueue;
        if (!options_.lifecycle) done_.fetch_add(options_.batch, std::memory_order_relaxed);
        break;
      case Client::Next::claim:
        client.claimed = std::move(std::get<ClaimResult>(result).jobs);
        client.next = Client::Next::finish;
        break;
      case Client::Next::finish:
        done_.fetch_add(static_cast<std::int64_t>(std::get<FinishResult>(result).results.size()),
                        std::memory_order_relaxed);
        client.next =
            ++client.rounds < options_.steps ? Client::Next::claim : Client::Next::enqueue;
        break;
    }
  }
  const MutexLock lock(mutex_);
  if (error != nullptr && !failed_) failed_ = *error;
  if (failed_) stopping_ = true;
  --under_way_;
  ready_.push_back(index);
  wake_.notify_one();
}

Rate rate_of(const Plan& plan, const Store& store, const std::function<std::int64_t()>& done) {
  const SystemClock clock;
  Mutex mutex;
  CondVar never;
  const auto pass = [&](Duration time) {
    const Instant end = clock.now().instant + time;
    const MutexLock lock(mutex);
    while (clock.now().instant < end) never.wait_for(mutex, end - clock.now().instant);
  };
  pass(plan.warm_up);
  Rate rate;
  std::vector<double> rates;
  const std::int64_t commits = store.commits();
  const std::int64_t bytes = bytes_written();
  for (int i = 0; i < plan.repeats; ++i) {
    const std::int64_t before = done();
    const Instant begin = clock.now().instant;
    pass(plan.run_for);
    const double seconds = microseconds(clock.now().instant - begin) / 1e6;
    rates.push_back(static_cast<double>(done() - before) / seconds);
    rate.seconds += seconds;
  }
  rate.commits = store.commits() - commits;
  rate.bytes = bytes_written() - bytes;
  rate.jobs_per_second = median(std::move(rates));
  return rate;
}

Result<Figure> rate_figure(Disk& disk, std::string name, std::string setup, const Rate& rate) {
  Figure figure{.name = std::move(name),
                .setup = std::move(setup),
                .value = rate.jobs_per_second,
                .unit = "jobs/s"};
  MS_TRY_ASSIGN(figure.disk, disk.ratio(rate.seconds, rate.commits, rate.bytes));
  if (rate.commits > 0) {
    const auto commits = static_cast<double>(rate.commits);
    figure.more["commits_per_s"] = commits / rate.seconds;
    figure.more["bytes_per_commit"] = static_cast<double>(rate.bytes) / commits;
  }
  return figure;
}

void set_target(Figure& figure, double at_least) {
  figure.target = fmt::format("at least {}", format_count(static_cast<std::int64_t>(at_least)));
  figure.met = figure.value >= at_least;
}

bool too_heavy(int clients, int batch, int payload) {
  const std::int64_t jobs = std::int64_t{clients} * batch;
  return jobs > kMaxJobsUnderWay || jobs * payload > kMaxBytesUnderWay;
}

Result<void> preload(Broker& broker, const LoadOptions& options, std::int64_t count,
                     Report& report) {
  const std::string args = payload_of(options.payload);
  const std::vector<std::string>& queues = options.queues;
  constexpr std::int64_t kChunk = 5'000;
  for (std::int64_t made = 0; made < count;) {
    Enqueue request;
    const std::int64_t now = std::min(kChunk, count - made);
    request.jobs.resize(static_cast<std::size_t>(now));
    for (std::size_t i = 0; i < request.jobs.size(); ++i) {
      NewJob& job = request.jobs[i];
      job.queue = queues[(static_cast<std::size_t>(made) + i) % queues.size()];
      job.kind = "bench";
      job.args = args;
      into_session(job, options, static_cast<std::size_t>(made) + i);
    }
    MS_TRY(broker.enqueue(std::move(request)));
    made += now;
    report.doing(fmt::format("queueing: {} of {}", format_count(made), format_count(count)));
  }
  return {};
}

}  // namespace mainspring::cli::bench
