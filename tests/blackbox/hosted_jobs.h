// A server with a directory of jobs, for one test case.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "testing.h"

namespace blackbox {

struct HostedJobs {
  std::string jobs;
  Served served;
  HttpClient client;

  explicit HostedJobs(std::vector<std::string> options = {})
      : jobs(), served(std::move(options)), client(served.port()) {
    jobs = served.scratch() + "/jobs";
    std::filesystem::create_directories(jobs);
    set_options({});
  }
  // Existing files stay.
  void set_options(std::vector<std::string> more) {
    std::vector<std::string> all = {"--jobs", jobs, "--folder-quiet", "200ms"};
    all.insert(all.end(), more.begin(), more.end());
    served.set_options(std::move(all));
  }
  void file(const std::string& path, const std::string& text) {
    // Renamed into place: the host must not find half a file.
    const std::string fresh = jobs + "/.fresh";
    write_file(fresh, text);
    chmod(fresh.c_str(), 0755);
    std::filesystem::create_directories(std::filesystem::path(jobs + "/" + path).parent_path());
    std::filesystem::rename(fresh, jobs + "/" + path);
  }
  Finished cli(std::vector<std::string> words,
               const std::vector<std::pair<std::string, std::string>>& environment = {}) {
    words.insert(words.begin(), server_binary());
    words.push_back("--server");
    words.push_back(served.url());
    return run(words, 60'000, environment);
  }
  // The job as the API shows it; empty if there is none.
  rapidjson::Document job(const std::string& path) {
    return parse(client.get("/v1/host/jobs/" + path).body);
  }
  std::string text(const std::string& path, const char* member) {
    const auto found = job(path);
    if (!found.IsObject() || !found.HasMember(member) || !found[member].IsString()) return "";
    return found[member].GetString();
  }
  bool flag(const std::string& path, const char* member) {
    const auto found = job(path);
    return found.IsObject() && found.HasMember(member) && found[member].IsTrue();
  }
  bool await(const std::string& path, const char* member, const std::string& part) {
    return eventually([&] { return has(text(path, member), part); });
  }
  std::string log_of(const std::string& path) {
    const auto piece = parse(client.get("/v1/host/jobs/" + path + "/log?max=1000000").body);
    return piece.IsObject() && piece.HasMember("text") ? piece["text"].GetString() : "";
  }
  std::string ledger(const std::string& name) {
    return client.get("/v1/schedules/" + name + "/ledger").body;
  }
};

}  // namespace blackbox
