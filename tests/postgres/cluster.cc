// PgCluster: directories, initdb with its cache, the server's life, its processes.
#include "postgres/cluster.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "env/accounts.h"
#include "env/fd.h"

namespace mainspring::pg_testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr const char* kReady = "database system is ready to accept connections";
constexpr const char* kPrefix = "mainspring-pg.";
constexpr int kFirstPort = 32'000;  // below those that the kernel gives to outgoing connections
constexpr int kPorts = 700;
constexpr const char* kMemory = "/dev/shm";
constexpr std::uintmax_t kMemoryRoom = std::uintmax_t{4} << 30;

Error os_error(const std::string& what) {
  return Error{ErrorCode::internal,
               fmt::format("{}: {}", what, std::system_category().message(errno))};
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();  // if the process ends meanwhile: empty, and no exception
  return text.str();
}

Result<void> give_to_server(const fs::path& path) {
  if (server_user().empty()) return {};
  MS_TRY_ASSIGN(const Account account, find_account(server_user(), "server_user"));
  if (lchown(path.c_str(), account.uid, account.gid) != 0)
    return os_error("chown " + path.string());
  if (!fs::is_directory(path)) return {};
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    if (lchown(entry.path().c_str(), account.uid, account.gid) != 0)
      return os_error("chown " + entry.path().string());
  }
  return {};
}

// Directories of processes that have ended.
void remove_leftovers(const fs::path& in) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(in, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const int pid = std::atoi(name.c_str() + std::string(kPrefix).size());
    if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), ignored);
  }
}

// A new data directory in `to`, by initdb.
Result<void> initdb(const std::string& to, const std::string& directory) {
  return run_program({server_program("initdb"), "-D", to, "-U", "postgres", "-A", "trust", "-E",
                      "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"},
                     server_user(), directory);
}

void copy_tree(const fs::path& from, const fs::path& to, std::error_code& error) {
  fs::copy(from, to, fs::copy_options::recursive, error);
  if (!error) fs::permissions(to, fs::perms::owner_all, error);
}

}  // namespace

// Debian's path, then those of other systems.
std::string server_program(const std::string& name) {
  for (int version = 30; version >= 15; --version) {
    const std::string path = fmt::format("/usr/lib/postgresql/{}/bin/{}", version, name);
    if (fs::exists(path)) return path;
  }
  return name;
}

std::string server_user() {
  return geteuid() == 0 ? "postgres" : "";
}

Result<std::string> make_server_directory() {
  static std::atomic<int> count{0};
  // Short, without TMPDIR: the path of a socket has at most 107 bytes.
  const fs::path parent = "/tmp";
  remove_leftovers(parent);
  const fs::path path = parent / fmt::format("{}{}.{}", kPrefix, getpid(), ++count);
  std::error_code error;
  fs::remove_all(path, error);
  if (!fs::create_directory(path, error)) return os_error("making " + path.string());
  fs::permissions(path, fs::perms::owner_all, error);
  MS_TRY(give_to_server(path));
  return path.string();
}

int free_port() {
  static std::atomic<int> next{0};
  for (int i = 0; i < kPorts; ++i) {
    const int port = kFirstPort + (getpid() * 7 + next++) % kPorts;
    const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return port;
  }
  return 0;
}

PgCluster::PgCluster(ClusterOptions options) : options_(std::move(options)) {
  const char* tls = std::getenv("MAINSPRING_TEST_PG_TLS");
  if (tls != nullptr && std::string_view(tls) == "on") options_.tls = true;
  options_.tcp |= options_.tls;
}

Result<std::unique_ptr<PgCluster>> PgCluster::make(ClusterOptions options) {
  std::unique_ptr<PgCluster> cluster(new PgCluster(std::move(options)));
  MS_TRY(cluster->prepare());
  MS_TRY(cluster->start());
  return cluster;
}

PgCluster::~PgCluster() {
  // Not by SIGKILL: that would leak its System V shared memory.
  resume();
  server_.signal(SIGQUIT);
  if (!server_.await_end(seconds(10))) server_.kill();
  std::error_code ignored;
  if (!options_.data_directory.empty()) fs::remove_all(options_.data_directory, ignored);
  fs::remove_all(directory_, ignored);
}

// The cache in the build directory: the first process makes it, the others wait for it.
Result<void> PgCluster::init_data() {
  const fs::path cached = fs::path(MAINSPRING_BINARY_DIR) / "pg_template";
  const Fd lock(open((cached.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock || flock(lock.get(), LOCK_EX) != 0) return os_error("locking " + cached.string());
  std::error_code error;
  const std::string wanted =
      server_program("postgres") + " 1\n";  // increase it when the cached content changes
  if (read_text(cached / "made_by") != wanted) {
    fs::remove_all(cached, error);
    const std::string fresh = directory_ + "/fresh";
    MS_TRY(initdb(fresh, directory_));
    fs::create_directory(cached, error);
    copy_tree(fresh, cached / "data", error);
    fs::remove_all(fresh);
    if (!error) std::ofstream(cached / "made_by") << wanted;
  }
  if (!error) copy_tree(cached / "data", data_, error);
  if (error) return Error{ErrorCode::internal, "copying a data directory: " + error.message()};
  return give_to_server(data_);
}

// A self-signed certificate for localhost.
Result<void> PgCluster::use_tls() {
  MS_TRY(run_program({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                      "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                      "-keyout", data_ + "/server.key", "-out", data_ + "/server.crt"},
                     server_user(), directory_));
  const std::string hba = data_ + "/pg_hba.conf";
  std::string lines = read_text(hba);
  for (std::size_t at = 0; (at = lines.find("\nhost ", at)) != std::string::npos; ++at)
    lines.replace(at, 6, "\nhostssl ");
  std::ofstream(hba) << lines;
  return {};
}

Result<void> PgCluster::prepare() {
  MS_TRY_ASSIGN(directory_, make_server_directory());
  std::error_code unknown;
  remove_leftovers(kMemory);
  if (options_.in_memory && fs::space(kMemory, unknown).available > kMemoryRoom && !unknown) {
    options_.data_directory = kMemory + ("/" + fs::path(directory_).filename().string());
    fs::create_directory(options_.data_directory, unknown);
    MS_TRY(give_to_server(options_.data_directory));
  }
  data_ =
      options_.data_directory.empty() ? directory_ + "/data" : options_.data_directory + "/data";
  MS_TRY(init_data());
  if (options_.tls) MS_TRY(use_tls());
  if (options_.tcp) port_ = free_port();
  std::ofstream conf(data_ + "/postgresql.conf", std::ios::app);
  conf << fmt::format("listen_addresses = '{}'\n", options_.tcp ? "127.0.0.1" : "")
       << fmt::format("port = {}\n", options_.tcp ? port_ : 5432)
       << fmt::format("unix_socket_directories = '{}'\n", directory_)
       << fmt::format("max_connections = {}\n", options_.max_connections)
       << fmt::format("fsync = {}\n", options_.fsync ? "on" : "off")
       // Files in the directory, which are removed with it, not in /dev/shm.
       << "dynamic_shared_memory_type = mmap\n"
       << "shared_buffers = 32MB\n"
       << fmt::format("ssl = {}\n", options_.tls ? "on" : "off")
       << "jit = off\n"  // as the guide says; else reads through a pooler compile for 40 ms
       // The copied files were never synced: syncing each one would take seconds.
       << "recovery_init_sync_method = syncfs\n"
       << "log_line_prefix = '%m [%p] '\n"
       // The server restarts at once after a killed backend, also the tenth time.
       << "restart_after_crash = on\n";
  for (const std::string& setting : options_.settings) conf << setting << "\n";
  return conf ? Result<void>() : Result<void>(os_error("writing postgresql.conf"));
}

Result<void> PgCluster::start() {
  std::error_code ignored;
  // Left by a killed server; no other server uses this directory.
  fs::remove(data_ + "/postmaster.pid", ignored);
  MS_TRY(server_.start({.argv = {server_program("postgres"), "-D", data_},
                        .directory = directory_,
                        .user = server_user(),
                        .ready = kReady,
                        .file_bytes = options_.file_bytes},
                       kStartLimit));
  return {};
}

Result<void> PgCluster::stop(Stop how) {
  server_.signal(how == Stop::fast ? SIGINT : SIGQUIT);
  if (server_.await_end(kStopLimit)) return {};
  return Error{ErrorCode::unavailable, "the server does not stop:\n" + server_.log()};
}

void PgCluster::kill9() {
  server_.kill();
}

std::vector<int> PgCluster::children() const {
  const int pid = server_.pid();
  std::ifstream in(fmt::format("/proc/{0}/task/{0}/children", pid));
  return {std::istream_iterator<int>(in), std::istream_iterator<int>()};
}

void PgCluster::signal_all(int number) const {
  // The postmaster first: then it starts no more children.
  server_.signal(number);
  for (const int child : children()) ::kill(child, number);
}

void PgCluster::pause() {
  signal_all(SIGSTOP);
}

void PgCluster::resume() {
  signal_all(SIGCONT);
}

std::vector<PgCluster::Backend> PgCluster::backends(const std::string& user) const {
  std::vector<Backend> found;
  for (const int child : children()) {
    // "postgres: USER DATABASE [local] DOING" or "… HOST(PORT) DOING"; not "postgres: walwriter ".
    std::string title = read_text(fmt::format("/proc/{}/cmdline", child));
    title.resize(std::min(title.size(), title.find('\0')));
    const std::string begin = "postgres: " + (user.empty() ? "" : user + " ");
    const std::size_t where = std::min(title.find("] "), title.find(") "));
    if (!title.starts_with(begin) || where == std::string::npos) continue;
    found.push_back({child, title.substr(where + 2)});
  }
  return found;
}

bool PgCluster::kill_backend(int pid) const {
  const std::vector<int> all = children();
  return std::find(all.begin(), all.end(), pid) != all.end() && ::kill(pid, SIGKILL) == 0;
}

Result<Rows> PgCluster::sql(const std::string& text, const std::string& database) {
  MS_TRY_ASSIGN(PgConnection connection, PgConnection::open(url(database, "postgres")));
  return connection.sql(text);
}

Result<void> PgCluster::set(const std::string& name, const std::string& value) {
  MS_TRY(sql(fmt::format("ALTER SYSTEM SET {} = '{}'", name, value)));
  MS_TRY(sql("SELECT pg_reload_conf()"));
  constexpr int kTries = 2000;  // each takes a connection's time
  for (int i = 0; i < kTries; ++i) {
    MS_TRY_ASSIGN(const Rows rows,
                  sql(fmt::format("SELECT current_setting('{}') = '{}'", name, value)));
    if (rows[0][0] == "t") return {};
  }
  return Error{ErrorCode::internal, fmt::format("{} does not become {}", name, value)};
}

Result<std::string> PgCluster::new_database() {
  const std::string name = fmt::format("test{}", ++databases_);
  MS_TRY(
      sql("DO $$ BEGIN CREATE ROLE mainspring LOGIN; "
          "EXCEPTION WHEN duplicate_object THEN NULL; END $$"));
  MS_TRY(sql(fmt::format("CREATE DATABASE {} OWNER mainspring", name)));
  return name;
}

std::string PgCluster::url(const std::string& database, const std::string& user) const {
  if (options_.tls) {
    return fmt::format(
        "postgres://{}@localhost:{}/{}?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={}", user,
        port_, database, data_ + "/server.crt");
  }
  return fmt::format("postgres://{}@/{}?host={}&port={}", user, database, directory_,
                     options_.tcp ? port_ : 5432);
}

std::string PgCluster::tcp_url(int port, const std::string& database, const std::string& user) {
  return fmt::format("postgres://{}@127.0.0.1:{}/{}", user, port, database);
}

std::string PgCluster::socket_path() const {
  return fmt::format("{}/.s.PGSQL.{}", directory_, options_.tcp ? port_ : 5432);
}

}  // namespace mainspring::pg_testing
