// The report of a run as Markdown: docs/reference/performance.md between its markers.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "cli/bench.h"
#include "cli/support.h"
#include "cli/version.h"

namespace mainspring::cli::bench {
namespace {

constexpr std::string_view kBegin = "<!-- measured -->\n";
constexpr std::string_view kEnd = "<!-- end -->\n";
constexpr std::size_t kMaxDocumentBytes = 4 << 20;

std::string machine_section(const Context& context) {
  std::string out = "### The machine\n| | |\n|---|---|\n";
  for (const auto& [name, value] : context.machine) {
    out += fmt::format("| {} | {} |\n", name, value);
  }
  out += fmt::format("| version | {} |\n", kVersion);
  out +=
      "\nThe bare disk, a write in place and `fdatasync`, median:\n\n| Bytes | us |\n|---:|---:|\n";
  for (const auto& [bytes, us] : context.disk.measured()) {
    out += fmt::format("| {} | {:.0f} |\n", format_count(bytes), us);
  }
  return out;
}

std::string targets_section(const std::vector<Figure>& figures) {
  std::string out =
      "\n### Targets\n| Measurement | Setup | Measured | of the disk | Target | |\n"
      "|---|---|---:|---:|---|---|\n";
  for (const Figure& figure : figures) {
    if (!figure.met) continue;
    out += fmt::format("| {} | {} | {} {} | {} | {} | {} |\n", figure.name, figure.setup,
                       format_value(figure), figure.unit,
                       figure.disk > 0 ? fmt::format("{:.2f}x", figure.disk) : "", figure.target,
                       *figure.met ? "met" : "**missed**");
  }
  return out;
}

// Rows are clients and payloads, columns are batch sizes.
std::string grid_section(const std::vector<Figure>& figures, const std::string& name,
                         std::string_view title) {
  std::set<int> batches;
  std::map<std::pair<int, int>, std::map<int, const Figure*>> rows;
  for (const Figure& figure : figures) {
    if (figure.name != name || figure.clients == 0) continue;
    batches.insert(figure.batch);
    rows[{figure.payload, figure.clients}][figure.batch] = &figure;
  }
  if (rows.empty()) return "";
  std::string out =
      fmt::format("\n### {}\nJobs per second; in brackets times the bare disk.\n\n", title);
  out += "| Payload | Clients |";
  std::string rule = "|---:|---:|";
  for (const int batch : batches) {
    out += fmt::format(" batch {} |", batch);
    rule += "---:|";
  }
  out += "\n" + rule + "\n";
  for (const auto& [key, cells] : rows) {
    out += fmt::format("| {} B | {} |", key.first, key.second);
    for (const int batch : batches) {
      const auto cell = cells.find(batch);
      out += cell == cells.end()
                 ? std::string(" |")
                 : fmt::format(" {} ({:.2f}x) |", format_value(*cell->second), cell->second->disk);
    }
    out += "\n";
  }
  return out;
}

// Figures without a target; the others are in the section of targets.
std::string others_section(const std::vector<Figure>& figures) {
  std::string out =
      "\n### Other figures\n| Measurement | Setup | Measured | of the disk | |\n"
      "|---|---|---:|---:|---|\n";
  for (const Figure& figure : figures) {
    if (figure.clients != 0 || figure.met) continue;
    out += fmt::format("| {} | {} | {} {} | {} | {} |\n", figure.name, figure.setup,
                       format_value(figure), figure.unit,
                       figure.disk > 0 ? fmt::format("{:.2f}x", figure.disk) : "", figure.note);
  }
  return out;
}

}  // namespace

std::string format_value(const Figure& figure) {
  if (figure.value >= 1000) {
    return format_count(static_cast<std::int64_t>(figure.value + 0.5));
  }
  if (figure.value >= 100) return fmt::format("{:.0f}", figure.value);
  if (figure.value >= 10) return fmt::format("{:.1f}", figure.value);
  return fmt::format("{:.2f}", figure.value);
}

Result<void> write_file(const std::string& file, const std::string& text) {
  std::FILE* const out = std::fopen(file.c_str(), "wb");
  const bool written =
      out != nullptr && std::fwrite(text.data(), 1, text.size(), out) == text.size();
  const bool closed = out != nullptr && std::fclose(out) == 0;
  if (written && closed) return {};
  return Error{.code = ErrorCode::io_error, .message = fmt::format("writing {} failed", file)};
}

Result<void> write_report(const std::string& file, const Context& context) {
  auto document = read_file(file, kMaxDocumentBytes);
  if (!document && document.error().code != ErrorCode::not_found) return document.error();
  std::string text =
      document ? *document : "# Performance\n\n" + std::string(kBegin) + std::string(kEnd);
  const std::size_t begin = text.find(kBegin);
  const std::size_t end = begin == std::string::npos ? begin : text.find(kEnd, begin);
  if (end == std::string::npos) {
    return invalid("report", fmt::format("--report \"{}\": must have the lines {} and {}", file,
                                         kBegin.substr(0, kBegin.size() - 1),
                                         kEnd.substr(0, kEnd.size() - 1)));
  }
  const std::vector<Figure>& figures = context.report.figures();
  const std::string fresh =
      machine_section(context) + targets_section(figures) +
      grid_section(figures, "enqueue", "Enqueue, in process") +
      grid_section(figures, "lifecycle", "Lifecycle (enqueue, claim, complete), in process") +
      grid_section(figures, "http-enqueue", "Enqueue, over HTTP") +
      grid_section(figures, "http-lifecycle", "Lifecycle, over HTTP") + others_section(figures);
  text.replace(begin + kBegin.size(), end - begin - kBegin.size(), fresh);
  return write_file(file, text);
}

}  // namespace mainspring::cli::bench
