// Metrics in Prometheus' text format.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "telemetry/metrics.h"

namespace mainspring {
namespace {

std::string escape_label(std::string_view value) {
  std::string out;
  for (char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::to_string(value);
}

// OpenMetrics writes every bound as a float: 1.0.
std::string bound_text(double bound, MetricsFormat format) {
  std::string text = fmt::to_string(bound);
  const bool whole = text.find_first_of(".e") == std::string::npos;
  return format == MetricsFormat::openmetrics && whole ? text + ".0" : text;
}

// {a="1"} and le="0.5" make {a="1",le="0.5"}.
std::string with_le(const std::string& labels, const std::string& le) {
  if (labels.empty()) return "{le=\"" + le + "\"}";
  return labels.substr(0, labels.size() - 1) + ",le=\"" + le + "\"}";
}

}  // namespace

Histogram::Histogram(std::vector<double> upper_bounds)
    : bounds_(std::move(upper_bounds)), buckets_(bounds_.size() + 1) {}

std::size_t Histogram::bucket_of(double value) const {
  return static_cast<std::size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) -
                                  bounds_.begin());
}

void Histogram::observe(double value) {
  buckets_[bucket_of(value)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

void Histogram::observe(double value, std::string_view trace_id, WallTime at) {
  observe(value);
  if (trace_id.size() != kTraceIdDigits) return;
  MutexLock lock(exemplars_mutex_);
  Exemplar& kept = exemplars_[bucket_of(value)];
  std::copy(trace_id.begin(), trace_id.end(), kept.trace_id.begin());
  kept.value = value;
  kept.at = at;
}

std::vector<double> duration_buckets() {
  return {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
          0.1,    0.2,    0.5,    1,     2,     5,     10,   30,   60};
}

std::vector<double> job_duration_buckets() {
  return {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
          1,      2,     5,     10,    30,   60,   300,  900, 3600};
}

std::vector<double> size_buckets() {
  return {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000};
}

std::string Registry::label_text(const Labels& labels) {
  if (labels.empty()) return "";
  std::string out = "{";
  for (const auto& [name, value] : labels) {
    if (out.size() > 1) out += ',';
    out += name + "=\"" + escape_label(value) + "\"";
  }
  return out + "}";
}

Counter& Registry::counter(const std::string& name, const std::string& help, const Labels& labels) {
  MutexLock lock(mutex_);
  Family& family = families_[name];
  family.help = help;
  family.type = "counter";
  Labels used = labels;
  if (family.counters.size() >= kMaxSeries && !family.counters.contains(label_text(labels))) {
    for (auto& label : used) label.second = "other";
  }
  return family.counters[label_text(used)];
}

Histogram& Registry::histogram(const std::string& name, const std::string& help,
                               std::vector<double> bounds, const Labels& labels) {
  MutexLock lock(mutex_);
  Family& family = families_[name];
  family.help = help;
  family.type = "histogram";
  Labels used = labels;
  if (family.histograms.size() >= kMaxSeries && !family.histograms.contains(label_text(labels))) {
    for (auto& label : used) label.second = "other";
  }
  return family.histograms.try_emplace(label_text(used), std::move(bounds)).first->second;
}

void Registry::gauge(const std::string& name, const std::string& help, std::function<double()> read,
                     const Labels& labels) {
  MutexLock lock(mutex_);
  Family& family = families_[name];
  family.help = help;
  family.type = "gauge";
  family.gauges[label_text(labels)] = std::move(read);
}

void Registry::ask(const std::string& name, const std::string& help, std::string type,
                   std::function<Samples()> read) {
  MutexLock lock(mutex_);
  Family& family = families_[name];
  family.help = help;
  family.type = std::move(type);
  family.samples = std::move(read);
}

void Registry::gauges(const std::string& name, const std::string& help,
                      std::function<Samples()> read) {
  ask(name, help, "gauge", std::move(read));
}

void Registry::counters_of(const std::string& name, const std::string& help,
                           std::function<Samples()> read) {
  ask(name, help, "counter", std::move(read));
}

void Registry::counter_of(const std::string& name, const std::string& help,
                          std::function<double()> read) {
  ask(name, help, "counter", [read = std::move(read)] { return Samples{{Labels{}, read()}}; });
}

Registry::Read Registry::read_gauges() const {
  std::map<std::string, std::map<std::string, std::function<double()>>> gauges;
  std::map<std::string, std::function<Samples()>> samples;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, family] : families_) {
      if (!family.gauges.empty()) gauges[name] = family.gauges;
      if (family.samples) samples[name] = family.samples;
    }
  }
  Read read;
  for (const auto& [name, of] : gauges) {
    for (const auto& [labels, value] : of) read[name].emplace_back(labels, value());
  }
  for (const auto& [name, of] : samples) {
    const Samples all = of();
    for (std::size_t i = 0; i < std::min(all.size(), kMaxSeries); ++i)
      read[name].emplace_back(label_text(all[i].first), all[i].second);
  }
  return read;
}

std::string Registry::exemplar_text(const Histogram& histogram, std::size_t bucket) {
  MutexLock lock(histogram.exemplars_mutex_);
  const auto found = histogram.exemplars_.find(bucket);
  if (found == histogram.exemplars_.end()) return "";
  const Histogram::Exemplar& kept = found->second;
  const std::string_view trace_id(kept.trace_id.data(), kept.trace_id.size());
  return fmt::format(" # {{trace_id=\"{}\"}} {} {}.{:03}", escape_label(trace_id), kept.value,
                     kept.at.us() / 1'000'000, kept.at.us() / 1'000 % 1'000);
}

std::string Registry::render(MetricsFormat format) const {
  const Read gauges = read_gauges();
  const bool open = format == MetricsFormat::openmetrics;
  MutexLock lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    // OpenMetrics names a counter's family without the suffix that its samples have.
    std::string_view family_name = name;
    if (open && family.type == "counter" && name.ends_with("_total"))
      family_name.remove_suffix(std::string_view("_total").size());
    out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", family_name, family.help, family.type);
    for (const auto& [labels, counter] : family.counters)
      out += fmt::format("{}{} {}\n", name, labels, counter.value());
    if (const auto read = gauges.find(name); read != gauges.end()) {
      for (const auto& [labels, value] : read->second)
        out += fmt::format("{}{} {}\n", name, labels, number_text(value));
    }
    for (const auto& [labels, histogram] : family.histograms) {
      // Routes and queues without an observation would be most of the output.
      const auto observed = [](const auto& count) { return count.load() > 0; };
      if (!labels.empty() && std::ranges::none_of(histogram.buckets_, observed)) continue;
      std::int64_t total = 0;
      for (std::size_t i = 0; i < histogram.buckets_.size(); ++i) {
        total += histogram.buckets_[i].load(std::memory_order_relaxed);
        const std::string le =
            i < histogram.bounds_.size() ? bound_text(histogram.bounds_[i], format) : "+Inf";
        out += fmt::format("{}_bucket{} {}{}\n", name, with_le(labels, le), total,
                           open ? exemplar_text(histogram, i) : "");
      }
      out += fmt::format("{}_sum{} {}\n{}_count{} {}\n", name, labels, histogram.sum_.load(), name,
                         labels, total);
    }
  }
  if (open) out += "# EOF\n";
  return out;
}

}  // namespace mainspring
