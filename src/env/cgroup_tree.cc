// Reading mountinfo and the files of control groups.
#include "env/cgroup_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "env/fd.h"

namespace mainspring::cgroup {
namespace {

constexpr std::size_t kMaxFileBytes = 4 << 20;  // of the list of a group's processes
constexpr int kMaxGroupDepth = 32;              // of groups in groups
constexpr std::array kControllers = {"memory", "pids", "cpu", "cpuacct", "freezer"};

bool is_ours(std::string_view controller) {
  return std::find(kControllers.begin(), kControllers.end(), controller) != kControllers.end();
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t end = text.find(at);
    if (end != 0 && !text.empty()) out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

// "\040" is a blank: how the kernel writes what would break a line of mountinfo.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int value = 0;
    const char* at = text.data() + i + 1;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(at, at + 3, value, 8).ptr == at + 3) {
      out += static_cast<char>(value);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

struct Mount {
  std::string type, root, point;
  std::vector<std::string_view> options;
};

// "31 23 0:28 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu"
std::optional<Mount> parse_mount(std::string_view line) {
  const std::vector<std::string_view> words = split(line, ' ');
  const auto dash = std::find(words.begin(), words.end(), "-");
  if (words.size() < 7 || words.end() - dash < 4) return std::nullopt;
  return Mount{std::string(dash[1]), unescaped(words[3]), unescaped(words[4]), split(dash[3], ',')};
}

// The path at which `group` of a hierarchy is visible through a mount of it; "" if it is not.
std::string seen_through(const Mount& mount, std::string_view group) {
  if (group.starts_with("/..")) return "";  // outside of this process's namespace
  if (mount.root != "/") {
    if (!group.starts_with(mount.root)) return "";
    group.remove_prefix(mount.root.size());
    if (!group.empty() && group[0] != '/') return "";
  }
  while (group.ends_with('/')) group.remove_suffix(1);
  return mount.point + std::string(group);
}

// This process's group by controller; that of v2 is "".
std::map<std::string, std::string, std::less<>> own_groups(std::string_view text) {
  std::map<std::string, std::string, std::less<>> out;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string path(line.substr(second + 1));
    const std::string_view names = line.substr(first + 1, second - first - 1);
    if (names.empty()) out[""] = path;
    for (const std::string_view name : split(names, ',')) out[std::string(name)] = path;
  }
  return out;
}

}  // namespace

std::vector<Hierarchy> find(const CgroupSources& sources) {
  std::vector<Hierarchy> out;
  const auto own = own_groups(sources.own);
  for (const std::string_view line : split(sources.mounts, '\n')) {
    const std::optional<Mount> mount = parse_mount(line);
    if (!mount || (mount->type != "cgroup" && mount->type != "cgroup2")) continue;
    Hierarchy here{.version = mount->type == "cgroup2" ? 2 : 1, .controllers = {}, .own = ""};
    std::string key;
    if (here.version == 1) {
      for (const std::string_view option : mount->options) {
        if (is_ours(option)) here.controllers.emplace_back(option);
      }
      if (here.controllers.empty()) continue;
      key = here.controllers[0];
    }
    const auto group = own.find(key);
    if (group != own.end()) here.own = seen_through(*mount, group->second);
    // Mounted twice: the first will do.
    const bool again = std::any_of(out.begin(), out.end(), [&](const Hierarchy& other) {
      return other.version == here.version &&
             (here.version == 2 || other.controllers == here.controllers);
    });
    if (!again) out.push_back(std::move(here));
  }
  return out;
}

std::vector<std::string> offered(const std::string& directory) {
  std::vector<std::string> out;
  const std::string names = read(directory + "/cgroup.controllers").value_or("");
  for (const std::string_view line : split(names, '\n')) {
    for (const std::string_view name : split(line, ' ')) {
      if (is_ours(name)) out.emplace_back(name);
    }
  }
  return out;
}

std::optional<std::string> read(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string out;
  std::array<char, 16384> buffer;
  while (out.size() < kMaxFileBytes) {
    const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    out.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return out;
}

std::optional<std::int64_t> read_number(const std::string& path) {
  const std::optional<std::string> text = read(path);
  std::int64_t value = 0;
  if (!text ||
      std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc()) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> read_entry(const std::string& path, std::string_view key) {
  const std::optional<std::string> text = read(path);
  if (!text) return std::nullopt;
  for (const std::string_view line : split(*text, '\n')) {
    if (!line.starts_with(key) || line.size() < key.size() + 2 || line[key.size()] != ' ') continue;
    std::int64_t value = 0;
    const char* const end = line.data() + line.size();
    if (std::from_chars(line.data() + key.size() + 1, end, value).ec == std::errc()) return value;
  }
  return std::nullopt;
}

int write(const std::string& path, std::string_view text) {
  const Fd file(open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!file) return errno;
  for (;;) {
    if (::write(file.get(), text.data(), text.size()) >= 0) return 0;
    if (errno != EINTR) return errno;
  }
}

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

std::vector<std::string> groups_in(const std::string& directory) {
  std::vector<std::string> out;
  DIR* dir = opendir(directory.c_str());
  if (dir == nullptr) return out;
  while (const dirent* entry = readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (entry->d_type != DT_DIR || name == "." || name == "..") continue;
    out.push_back(fmt::format("{}/{}", directory, name));
  }
  closedir(dir);
  return out;
}

std::vector<pid_t> processes_in(const std::string& directory) {
  std::vector<pid_t> out;
  const std::string text = read(directory + "/cgroup.procs").value_or("");
  for (const std::string_view line : split(text, '\n')) {
    pid_t pid = 0;
    std::from_chars(line.data(), line.data() + line.size(), pid);
    if (pid > 0) out.push_back(pid);  // 0: of another namespace
  }
  return out;
}

std::vector<pid_t> processes_below(const std::string& directory) {
  std::vector<pid_t> out;
  each_group(directory, [&out](const std::string& group) {
    const std::vector<pid_t> more = processes_in(group);
    out.insert(out.end(), more.begin(), more.end());
  });
  return out;
}

void each_group(const std::string& directory,
                const std::function<void(const std::string&)>& visit) {
  const std::function<void(const std::string&, int)> walk = [&](const std::string& at, int depth) {
    if (depth < kMaxGroupDepth) {
      for (const std::string& group : groups_in(at)) walk(group, depth + 1);
    }
    visit(at);
  };
  walk(directory, 0);
}

}  // namespace mainspring::cgroup
