// slot_report: the table of docs/guides/slots.md: 10,000 slots for each rule and distribution.
//
//   build/dev/slot_report [SLOTS] [SEED]
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "worker/slot_simulation.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

struct Row {
  const char* name;
  std::function<Duration(Random&)> took;
};

std::string share(double x) {
  return fmt::format("{:.2f} %", 100 * x);
}

void print(const Row& row, const char* rule, const SlotOptions& options, int slots,
           std::uint64_t seed) {
  SeededRandom random(seed);
  const SimulatedSlots out = simulate_slots(options, slots, [&] { return row.took(random); });
  const std::string worst =
      out.overruns > 0 ? fmt::format("{:.1f} s", double(out.worst.count()) / 1e6) : "-";
  fmt::print("| {} | {} | {} | {} | {} | {} | {:.1f} | {:.1f} s |\n", row.name, rule, out.overruns,
             share(double(out.overruns) / slots), worst, share(out.used), out.handled,
             out.worst_delay);
}

}  // namespace

int main(int argc, char** argv) {
  const int slots = argc > 1 ? std::atoi(argv[1]) : 10'000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const std::vector<Row> rows = {
      {"constant 1 s", [](Random&) { return Duration(1s); }},
      {"constant 0.25 s", [](Random&) { return Duration(250ms); }},
      {"exponential, mean 0.25 s", [](Random& r) { return exponential(r, 250ms); }},
      {"exponential, mean 2 s", [](Random& r) { return exponential(r, 2s); }},
      {"lognormal, median 0.2 s, sigma 1", [](Random& r) { return lognormal(r, -1.6, 1); }},
      {"Pareto 1.5 from 0.1 s, at most 30 s", [](Random& r) { return pareto(r, 1.5, 100ms, 30s); }},
  };
  fmt::print(
      "| Times of handlers | rule | overruns | of {} slots | worst | used in handlers | jobs "
      "per slot | longest gap |\n|---|---|---|---|---|---|---|---|\n",
      slots);
  for (const Row& row : rows) {
    print(row, "`--poll`", {.rule = SlotRule::poll}, slots, seed);
    print(row, "default", {}, slots, seed);
  }
  return 0;
}
