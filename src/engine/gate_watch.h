// GateWatch asks why traced jobs wait, so that their wait spans name the gates that delayed them.
//
// It asks only about jobs of sampled traces, first after one second of waiting, then less and less
// often. While no such job waits, the thread sleeps.
#pragma once

#include <thread>

#include "base/mutex.h"
#include "broker/questions.h"
#include "env/clock.h"
#include "tracing/job_traces.h"

namespace mainspring {

class GateWatch {
 public:
  // All references must outlive this object.
  GateWatch(JobTraces& traces, Questions& questions, const Clock& clock);
  ~GateWatch();  // stops

  void start();
  // Waits for the thread. Can be called twice, and before start().
  void stop();

 private:
  void run() MS_EXCLUDES(mutex_);

  JobTraces& traces_;
  Questions& questions_;
  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ MS_GUARDED_BY(mutex_) = false;
  bool fresh_ MS_GUARDED_BY(mutex_) = false;  // a job started to wait
  std::jthread thread_;
};

}  // namespace mainspring
