// The commands that must fail for a mutant: programs of the build with the cases to run.
#pragma once

#include <fmt/format.h>

#include <regex>
#include <string>

namespace mutants {

inline const std::string kPrograms = MAINSPRING_BINARY_DIR;
inline const std::string kScenarios = MAINSPRING_SOURCE_DIR "/tests/scenarios/";

inline std::string workflows() {
  return kPrograms + "/sqlite_conformance_test --abort-after=1 --test-suite=*workflows*";
}
inline std::string triggers() {
  return kPrograms + "/sqlite_conformance_test --abort-after=1 --test-suite=*triggers*";
}
inline std::string limits() {
  return kPrograms + "/sqlite_conformance_test --abort-after=1 --test-suite=*limits*";
}
inline std::string order() {
  return kPrograms + "/sqlite_conformance_test --abort-after=1 --test-suite='store: order'";
}
inline std::string breakers() {
  return kPrograms + "/sqlite_conformance_test --abort-after=1 --test-suite=*breakers*";
}
inline std::string quarantine() {
  return kPrograms + "/sqlite_conformance_test --abort-after=1 --test-suite=*quarantine*";
}
// Some of these wait for an event that a mutant prevents: a timeout is a failure too.
inline std::string unit(const std::string& program, const std::string& test_case) {
  return fmt::format("timeout 15 {}/{} --abort-after=1 -tc='{}'", kPrograms, program, test_case);
}
inline std::string memos() {
  return kPrograms + "/sqlite_conformance_test --abort-after=1 --test-suite=*memo*";
}
inline std::string conformance(const std::string& test_case) {
  return fmt::format("{}/sqlite_conformance_test --abort-after=1 -tc='{}'", kPrograms, test_case);
}
inline std::string worker(const std::string& test_case) {
  return unit("worker_test", test_case);
}
inline std::string broker(const std::string& test_case) {
  return unit("broker_test", test_case);
}
inline std::string scheduler(const std::string& test_case) {
  return unit("scheduler_test", test_case);
}
inline std::string host(const std::string& test_case) {
  return unit("host_folders_test", test_case);
}
inline std::string sqlite(const std::string& test_case) {
  return unit("disk_sqlite_test", test_case);
}
inline std::string io_sweep(const std::string& test_case) {
  return fmt::format("{}/io_sweep_test --abort-after=1 -tc='{}'", kPrograms, test_case);
}
inline std::string scenario(const std::string& name) {
  return kPrograms + "/scenario " + kScenarios + name + ".test";
}
// Only the first world of each seed: most of these mutants show there or nowhere.
inline std::string seeds(int first, int n) {
  return fmt::format("{}/sim --no-vacuity-check --world first --first {} --seeds {}", kPrograms,
                     first, n);
}
inline std::string lines(int first, int n) {
  return fmt::format("{}/sim --no-vacuity-check --world lines --first {} --seeds {}", kPrograms,
                     first, n);
}

inline std::string slots(int first, int n) {
  return fmt::format("{}/sim --no-vacuity-check --world slots --first {} --seeds {}", kPrograms,
                     first, n);
}

// With the invariants alone: the model would catch most of these mutants too.
inline std::string once(int first, int n) {
  return fmt::format(
      "{}/sim --no-vacuity-check --invariants-only --world once --first {} --seeds {}", kPrograms,
      first, n);
}
inline std::string by_invariants(std::string sim) {
  return std::regex_replace(sim, std::regex(" --world"), " --invariants-only --world");
}
inline std::string with_model(std::string sim) {
  return std::regex_replace(sim, std::regex(" --invariants-only"), "");
}

}  // namespace mutants
