// Finds job folders and their scripts.
#include "host/job_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>

#include "base/edit_distance.h"
#include "host/files.h"

namespace mainspring {
namespace {

constexpr int kMaxNesting = 32;  // of folders that contain only a folder
constexpr std::size_t kMaxFolders = 10'000;
constexpr const char* kNotRunnable = "No runnable script file was found.";

struct Interpreter {
  const char* name;
  const char* extension;
  const char* program;
  std::vector<std::string> arguments;
  bool in_place;
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// "" if not found. Relative parts of PATH are skipped: they would depend on the directory.
std::string find_program(std::string_view path, std::string_view program) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find(':'), path.size());
    const std::string candidate = fmt::format("{}/{}", path.substr(0, end), program);
    path.remove_prefix(std::min(end + 1, path.size()));
    struct stat status {};
    if (candidate[0] == '/' && ::stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        ::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return "";
}

// The file does not exist, or is never readable: a retry would give the same answer.
bool is_final(int error_number) {
  return error_number == ENOENT || error_number == ENOTDIR || error_number == ELOOP ||
         error_number == ENAMETOOLONG || error_number == EACCES || error_number == EPERM;
}

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::size_t kMaxFirstLine = 256;  // as in the kernel

// The start of a file, without a byte order mark.
struct Beginning {
  std::string text;
  bool marked = false;
};
Result<Beginning> read_beginning(int file, const std::string& name) {
  Beginning out{std::string(kMaxFirstLine, '\0')};
  const ssize_t count = ::pread(file, out.text.data(), out.text.size(), 0);
  if (count < 0) return file_error("read", name, errno);
  out.text.resize(static_cast<std::size_t>(count));
  out.marked = out.text.starts_with(kByteOrderMark);
  if (out.marked) out.text.erase(0, kByteOrderMark.size());
  return out;
}

Result<bool> is_program(int directory, const std::string& name) {
  struct stat status {};
  if (::fstatat(directory, name.c_str(), &status, 0) != 0) {
    if (is_final(errno)) return false;
    return file_error("look at", name, errno);
  }
  if (!S_ISREG(status.st_mode) || (status.st_mode & 0111) == 0) return false;
  const Fd fd(::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && is_final(errno)) return false;
  if (!fd) return file_error("open", name, errno);
  MS_TRY_ASSIGN(const Beginning begins, read_beginning(fd.get(), name));
  return (!begins.marked && begins.text.starts_with("\x7f"
                                                    "ELF")) ||
         begins.text.starts_with("#!");
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != line.npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

// The kernel does not see the #! after a byte order mark, and passes all words after the first as
// one: "#!/usr/bin/env python3 -u" looks for a program "python3 -u". Shells take the mark for a
// part of the first command.
Result<void> adapt_command(JobFolder& job, int directory) {
  const Fd fd(::openat(directory, job.run_file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return {};  // an unreadable file is reported when it is copied
  MS_TRY_ASSIGN(const Beginning begins, read_beginning(fd.get(), job.run_file));
  std::vector<std::string>& command = job.host.command;
  std::string program = command.empty() ? "" : command[0];
  if (command.empty()) {
    if (!begins.text.starts_with("#!")) return {};
    std::vector<std::string> words =
        words_of(std::string_view(begins.text).substr(2, begins.text.find('\n') - 2));
    const bool by_env = words.size() > 1 && base_name(words[0]) == "env" && words[1][0] != '-';
    if (words.empty() || !(begins.marked || (by_env && words.size() > 2))) return {};
    program = words[by_env ? 1 : 0];
    command = std::move(words);
  }
  static constexpr std::string_view kShells[] = {"sh", "bash", "dash", "ksh", "zsh"};
  const bool shell =
      std::find(std::begin(kShells), std::end(kShells), base_name(program)) != std::end(kShells);
  if (!begins.marked || !shell) return {};
  command.insert(command.end(), {"-c", R"x(eval "$(tail -c +4 -- "$0")")x"});
  return {};
}

bool has_extension(const ScriptHost& host, const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot != std::string::npos &&
         std::count(host.extensions.begin(), host.extensions.end(), lower(name.substr(dot))) != 0;
}

// A file that another host runs by its extension is not an executable: bash runs a run.sh with or
// without x bit, so that it runs the same way wherever it was unpacked.
Result<bool> runs(const ScriptHost& host, int directory, const std::string& name,
                  std::span<const ScriptHost> hosts) {
  if (!host.extensions.empty()) return has_extension(host, name);
  if (std::any_of(hosts.begin(), hosts.end(),
                  [&](const ScriptHost& other) { return has_extension(other, name); })) {
    return false;
  }
  return is_program(directory, name);
}

// Files whose names differ only in case, as from a system without case: which one counts would be
// a matter of chance. `names` has the one that was chosen.
std::string one_of_case(std::span<const std::string> names, const std::string& chosen) {
  for (const std::string& name : names) {
    if (name != chosen && lower(name) == lower(chosen)) {
      return fmt::format("{} and {} differ only in case: keep one of them", std::min(name, chosen),
                         std::max(name, chosen));
    }
  }
  return "";
}

// The files that could be run, by name. Puts the names of settings files into `settings`.
Result<std::vector<std::string>> candidates(int directory, const std::string& path,
                                            std::vector<std::string>& settings) {
  MS_TRY_ASSIGN(const std::vector<Entry> entries, list_directory(directory, path));
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    const std::string folded = lower(entry.name);
    if (folded == kSettingsFile) settings.push_back(entry.name);
    if (entry.name[0] == '.' || folded == kSettingsFile || folded == "disable.job") continue;
    bool file = entry.type == DT_REG;
    if (entry.type == DT_LNK) {
      struct stat status {};
      const bool seen = ::fstatat(directory, entry.name.c_str(), &status, 0) == 0;
      // A link named run.* to a place that cannot be read now does not make this another job.
      if (!seen && (!is_final(errno) || (errno == EACCES && is_named_run(entry.name)))) {
        return file_error("look at", path + "/" + entry.name, errno);
      }
      file = seen && S_ISREG(status.st_mode);
    }
    if (file) names.push_back(entry.name);
  }
  return names;
}

Result<void> choose_run_file(JobFolder& job, const std::vector<ScriptHost>& hosts) {
  const Fd fd(::open(job.script_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd && (errno == ENOENT || errno == ENOTDIR)) {  // removed since it was found
    return Error{ErrorCode::not_found, fmt::format("{}: no such directory", job.script_dir)};
  }
  if (!fd) return file_error("open", job.script_dir, errno);
  std::vector<std::string> settings;
  MS_TRY_ASSIGN(const std::vector<std::string> names,
                candidates(fd.get(), job.script_dir, settings));
  if (!settings.empty()) {
    job.settings_file = settings.front();
    job.error = one_of_case(settings, job.settings_file);
  }
  for (const bool only_run : {true, false}) {
    for (const ScriptHost& host : hosts) {
      for (const std::string& name : names) {
        if (only_run && !is_named_run(name)) continue;
        MS_TRY_ASSIGN(const bool good, runs(host, fd.get(), name, hosts));
        if (!good) continue;
        job.run_file = name;
        job.host = host;
        if (job.error.empty()) job.error = one_of_case(names, name);
        return adapt_command(job, fd.get());
      }
    }
  }
  std::string why = kNotRunnable;
  for (const std::string& name : names) {
    const std::string folded = lower(name);
    if (!folded.ends_with(".cmd") && !folded.ends_with(".bat") && !folded.ends_with(".exe"))
      continue;
    why += fmt::format(" {} is a program for Windows: add run.sh, or another script.", name);
    break;
  }
  return Error{ErrorCode::not_found, why};
}

Result<std::string> find_script_dir(std::string directory) {
  for (int depth = 0; depth < kMaxNesting; ++depth) {
    MS_TRY_ASSIGN(const std::vector<Entry> entries, list_directory(directory));
    if (entries.size() != 1 || entries[0].type != DT_DIR) return directory;
    directory += "/" + entries[0].name;
  }
  return Error{ErrorCode::not_found, kNotRunnable};
}

// Errors: the file exists and cannot be read. Then the job must not run with defaults.
Result<void> read_settings(JobFolder& job) {
  job.settings_json = "{}";
  const std::string path = job.script_dir + "/" + job.settings_file;
  const auto text = read_whole_file(path, kMaxSettingsBytes);
  if (text && !text->has_value()) return {};
  Understood<JobSettings> understood;
  if (text) {
    understood = parse_job_settings(**text);
    auto json = settings_object(**text);
    job.readable = json.has_value();
    if (json) job.settings_json = std::move(*json);
  } else {
    struct stat status {};
    const bool other = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
    if (!other && text.error().code != ErrorCode::too_large) return text.error();
    job.readable = false;
    understood.error = fmt::format("settings.job: {}", text.error().message);
    understood.warnings.push_back(understood.error);
  }
  job.settings = std::move(understood.value);
  job.warnings = std::move(understood.warnings);
  if (!job.error.empty()) {  // ambiguous names
    job.warnings.insert(job.warnings.begin(), job.error);
    job.readable = false;
    return {};
  }
  job.error = std::move(understood.error);
  constexpr std::string_view kFile = "settings.job: ";
  if (!job.error.empty() && !job.error.starts_with(kFile)) job.error.insert(0, kFile);
  return {};
}

Result<bool> is_there(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return file_error("look at", path, errno);
}

}  // namespace

bool is_named_run(const std::string& name) {
  return lower(name.substr(0, name.rfind('.'))) == "run";
}

Result<void> check_job_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (!name.empty() && name.size() <= kMaxJobNameBytes && plain(name[0]) &&
      std::all_of(name.begin(), name.end(),
                  [&](char c) { return plain(c) || c == '.' || c == '_' || c == '-'; })) {
    return {};
  }
  return invalid("name", fmt::format("name \"{}\": must be 1 to {} letters, digits, '.', '_' or "
                                     "'-', beginning with a letter or digit",
                                     name.substr(0, kMaxJobNameBytes), kMaxJobNameBytes));
}

std::vector<ScriptHost> find_script_hosts(std::string_view path) {
  const Interpreter interpreters[] = {
      {"PowerShellScriptHost", ".ps1", "pwsh", {"-NoProfile", "-NonInteractive", "-File"}, false},
      {"BashScriptHost", ".sh", "bash", {}, false},
      {"PythonScriptHost", ".py", "python3", {"-u"}, false},  // its output comes line by line
      {"PhpScriptHost", ".php", "php", {}, false},
      {"NodeScriptHost", ".js", "node", {}, true},
      {"JavaScriptHost", ".jar", "java", {"-jar"}, false},
  };
  std::vector<ScriptHost> hosts;
  hosts.push_back({.name = "BinaryScriptHost"});
  for (const Interpreter& interpreter : interpreters) {
    const std::string program = find_program(path, interpreter.program);
    if (program.empty()) continue;
    ScriptHost host{interpreter.name, {interpreter.extension}, {program}, interpreter.in_place};
    host.command.insert(host.command.end(), interpreter.arguments.begin(),
                        interpreter.arguments.end());
    hosts.push_back(std::move(host));
  }
  return hosts;
}

Result<JobFolder> read_job_folder(JobType type, const std::string& directory,
                                  const std::vector<ScriptHost>& hosts) {
  JobFolder job;
  job.type = type;
  job.name = base_name(directory);
  MS_TRY(check_job_name(job.name));
  job.directory = directory;
  MS_TRY_ASSIGN(job.script_dir, find_script_dir(directory));
  MS_TRY(choose_run_file(job, hosts));
  MS_TRY(read_settings(job));
  MS_TRY_ASSIGN(job.disabled, is_there(job.script_dir + "/disable.job"));
  return job;
}

namespace {

// Adds the folder to `found`. Returns false if there is none of that name.
bool look_at(const std::string& directory, const HostKey& key, const std::vector<ScriptHost>& hosts,
             Found& found) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return false;
    found.left_out.push_back({key, file_error("look at", directory, errno).message, true});
    return true;
  }
  if (!S_ISDIR(status.st_mode)) return false;
  auto job = read_job_folder(key.first, directory, hosts);
  if (job) {
    found.jobs.push_back(std::move(*job));
    return true;
  }
  const ErrorCode code = job.error().code;
  // Removed since.
  if (code == ErrorCode::not_found && ::stat(directory.c_str(), &status) != 0 && errno == ENOENT) {
    return false;
  }
  const bool unknown = code != ErrorCode::not_found && code != ErrorCode::invalid_argument;
  found.left_out.push_back({key, fmt::format("{}: {}", directory, job.error().message), unknown});
  return true;
}

void add_misplaced(Found& found, std::string text) {
  if (found.misplaced.size() < kMaxMisplaced) found.misplaced.push_back(std::move(text));
}

constexpr JobType kJobTypes[] = {JobType::continuous, JobType::triggered, JobType::queue};

// Reports directories of a root whose names are almost those of the three.
void look_for_misspelt(const std::string& root, Found& found) {
  const auto entries = list_directory(root);
  if (!entries) return;
  for (const Entry& entry : *entries) {
    const bool other = entry.name[0] == '.' || entry.name.size() > 16;
    if (entry.type != DT_DIR || other) continue;
    for (const JobType type : kJobTypes) {
      const std::size_t distance = edit_distance(entry.name, folder_of(type));
      if (distance == 0 || distance > 2) continue;
      add_misplaced(found, fmt::format("{}/{}: jobs are not read from here; did you mean {}/{}?",
                                       root, entry.name, root, folder_of(type)));
    }
  }
}

// Reports a script beside the folders of jobs.
void look_at_file(const std::string& folder, const std::string& name,
                  const std::vector<ScriptHost>& hosts, Found& found) {
  const std::string extension = std::filesystem::path(name).extension();
  const bool script = std::any_of(hosts.begin(), hosts.end(), [&](const ScriptHost& host) {
    return std::count(host.extensions.begin(), host.extensions.end(), extension) > 0;
  });
  if (!script) return;
  const std::string stem = std::filesystem::path(name).stem();
  add_misplaced(found, fmt::format("{}/{}: a job is a folder; move it to {}/{}/run{}", folder, name,
                                   folder, stem, extension));
}

// Adds the folders of one root and type whose names are not in `names` yet, and adds the names.
void discover_in(const std::string& folder, JobType type, const std::vector<ScriptHost>& hosts,
                 std::set<std::string>& names, Found& found) {
  const auto entries = list_directory(folder);
  if (!entries) {
    if (entries.error().code != ErrorCode::not_found) {
      found.unlisted.push_back({type, folder, entries.error().message});
    }
    return;
  }
  for (const Entry& entry : *entries) {
    if (entry.name[0] == '.' || names.count(entry.name) != 0) continue;
    if (names.size() == kMaxFolders) {
      found.unlisted.push_back(
          {type, folder, fmt::format("{}: more than {} folders", folder, kMaxFolders)});
      return;
    }
    if (look_at(folder + "/" + entry.name, {type, entry.name}, hosts, found)) {
      names.insert(entry.name);
    } else if (entry.type == DT_REG) {
      look_at_file(folder, entry.name, hosts, found);
    }
  }
}

}  // namespace

Found discover(const std::vector<std::string>& roots, const std::vector<ScriptHost>& hosts) {
  Found found;
  for (const std::string& root : roots) look_for_misspelt(root, found);
  for (const JobType type : kJobTypes) {
    std::set<std::string> names;
    const auto first = static_cast<std::ptrdiff_t>(found.jobs.size());
    for (const std::string& root : roots) {
      discover_in(fmt::format("{}/{}", root, folder_of(type)), type, hosts, names, found);
    }
    std::sort(found.jobs.begin() + first, found.jobs.end(),
              [](const JobFolder& a, const JobFolder& b) { return a.name < b.name; });
  }
  return found;
}

Found discover_some(const std::vector<std::string>& roots, const std::vector<HostKey>& keys,
                    const std::vector<ScriptHost>& hosts) {
  Found found;
  for (const HostKey& key : keys) {
    for (const std::string& root : roots) {
      const std::string directory = fmt::format("{}/{}/{}", root, folder_of(key.first), key.second);
      if (look_at(directory, key, hosts, found)) break;
    }
  }
  return found;
}

const Found::LeftOut* Found::find_left_out(const HostKey& key) const {
  const auto it = std::find_if(left_out.begin(), left_out.end(),
                               [&](const LeftOut& one) { return one.key == key; });
  return it == left_out.end() ? nullptr : &*it;
}

const Found::Unlisted* Found::find_unlisted(JobType type) const {
  const auto it = std::find_if(unlisted.begin(), unlisted.end(),
                               [&](const Unlisted& one) { return one.type == type; });
  return it == unlisted.end() ? nullptr : &*it;
}

}  // namespace mainspring
