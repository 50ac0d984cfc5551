// Metrics: counters, gauges and histograms with names that Prometheus reads.
//
// A node creates a Registry and passes it on; there is no global. Metrics are registered once and
// updated without a lock; render() writes the text formats. Sources:
// https://prometheus.io/docs/instrumenting/exposition_formats/
// https://prometheus.io/docs/specs/om/open_metrics_spec/
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "mainspring/time.h"

namespace mainspring {

class Counter {
 public:
  void add(std::int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

// Counts observations (seconds, items, …) in fixed buckets.
class Histogram {
 public:
  explicit Histogram(std::vector<double> upper_bounds);
  void observe(double value);
  // The same of a traced operation. OpenMetrics shows the latest trace of each bucket. `trace_id`:
  // kTraceIdDigits hex digits; others are counted, and not shown.
  void observe(double value, std::string_view trace_id, WallTime at) MS_EXCLUDES(exemplars_mutex_);

  static constexpr std::size_t kTraceIdDigits = 32;

 private:
  friend class Registry;
  struct Exemplar {
    std::array<char, kTraceIdDigits> trace_id;
    double value;
    WallTime at;
  };
  std::size_t bucket_of(double value) const;
  std::vector<double> bounds_;
  std::deque<std::atomic<std::int64_t>> buckets_;  // one more than bounds_: the last is +Inf
  std::atomic<double> sum_{0};
  mutable Mutex exemplars_mutex_;
  std::map<std::size_t, Exemplar> exemplars_ MS_GUARDED_BY(exemplars_mutex_);  // by bucket
};

// Buckets for durations of 100 us to 60 s, in seconds.
std::vector<double> duration_buckets();
// Buckets for the waits and runs of jobs: 500 us to an hour, in seconds. Each queue has a histogram
// per outcome: a bucket more costs up to 1,750 series.
std::vector<double> job_duration_buckets();
// Buckets 1, 2, 5, 10, … 10,000.
std::vector<double> size_buckets();

enum class MetricsFormat : std::uint8_t {
  prometheus,   // text format 0.0.4
  openmetrics,  // OpenMetrics 1.0.0
};

using Labels = std::vector<std::pair<std::string, std::string>>;

class Registry {
 public:
  // Returns the metric with this name and these labels; creates it at first use. References stay
  // valid as long as the registry. At most kMaxSeries per name: beyond that, all share one series
  // with the label value "other".
  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {})
      MS_EXCLUDES(mutex_);
  Histogram& histogram(const std::string& name, const std::string& help, std::vector<double> bounds,
                       const Labels& labels = {}) MS_EXCLUDES(mutex_);
  // A gauge is a function that is called at render time; it must be thread-safe, and may wait for
  // locks under which metrics are created.
  void gauge(const std::string& name, const std::string& help, std::function<double()> read,
             const Labels& labels = {}) MS_EXCLUDES(mutex_);
  // Gauges of one name whose labels are known only at render time: queues, for example.
  using Samples = std::vector<std::pair<Labels, double>>;
  void gauges(const std::string& name, const std::string& help, std::function<Samples()> read)
      MS_EXCLUDES(mutex_);
  // The same for values that only grow, and are counted elsewhere.
  void counter_of(const std::string& name, const std::string& help, std::function<double()> read)
      MS_EXCLUDES(mutex_);
  void counters_of(const std::string& name, const std::string& help, std::function<Samples()> read)
      MS_EXCLUDES(mutex_);
  std::string render(MetricsFormat format = MetricsFormat::prometheus) const MS_EXCLUDES(mutex_);

  static constexpr std::size_t kMaxSeries = 2000;

 private:
  struct Family {
    std::string help, type;
    std::map<std::string, Counter> counters;
    std::map<std::string, Histogram> histograms;
    std::map<std::string, std::function<double()>> gauges;
    std::function<Samples()> samples;
  };
  // By name: label texts and values.
  void ask(const std::string& name, const std::string& help, std::string type,
           std::function<Samples()> read) MS_EXCLUDES(mutex_);
  using Read = std::map<std::string, std::vector<std::pair<std::string, double>>>;
  Read read_gauges() const MS_EXCLUDES(mutex_);
  static std::string label_text(const Labels& labels);
  // " # {trace_id="…"} 0.43 1520879607.789" for OpenMetrics; "" = the bucket has none.
  static std::string exemplar_text(const Histogram& histogram, std::size_t bucket);
  mutable Mutex mutex_;
  std::map<std::string, Family> families_ MS_GUARDED_BY(mutex_);
};

}  // namespace mainspring
