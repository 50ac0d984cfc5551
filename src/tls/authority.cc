// A private certificate authority for your own servers and clients.
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "env/fd.h"
#include "tls/openssl_parts.h"
#include "tls/tls.h"

namespace mainspring {
namespace {

using tls::BioPtr;
using tls::KeyPtr;
using tls::X509Ptr;

constexpr std::size_t kMaxCommonName = 64;  // RFC 5280, ub-common-name
constexpr std::size_t kMaxHosts = 100;
constexpr int kSerialBits = 127;
// Clocks differ: a certificate must not start in the future of another machine.
constexpr Duration kSkew = std::chrono::minutes(5);
constexpr Duration kMaxValid = std::chrono::hours(24 * 36500);

Error file_problem(std::string_view what, const std::string& path) {
  return Error{ErrorCode::io_error,
               fmt::format("cannot {} {}: {}", what, path, std::strerror(errno))};
}

Error openssl_problem(std::string_view what) {
  return Error{ErrorCode::io_error, fmt::format("cannot {}: {}", what, tls::take_problems())};
}

// Atomic, by rename; if `mode` says so, only the owner can read the file at any time.
Result<void> write_file(const std::string& path, std::string_view bytes, mode_t mode) {
  const std::string draft = path + ".new";
  ::unlink(draft.c_str());
  {
    const Fd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!fd) return file_problem("make", draft);
    while (!bytes.empty()) {
      const ssize_t size = ::write(fd.get(), bytes.data(), bytes.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return file_problem("write", draft);
      bytes.remove_prefix(static_cast<std::size_t>(size));
    }
    if (::fchmod(fd.get(), mode) != 0 || ::fsync(fd.get()) != 0) {
      return file_problem("write", draft);
    }
  }
  if (::rename(draft.c_str(), path.c_str()) != 0) return file_problem("replace", path);
  return {};
}

std::string memory_text(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

Result<void> write_pair(const std::string& stem, X509* certificate, EVP_PKEY* key) {
  const BioPtr pem(BIO_new(BIO_s_mem()));
  const BioPtr secret(BIO_new(BIO_s_secmem()));
  if (PEM_write_bio_X509(pem.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(secret.get(), key, nullptr, nullptr, 0, nullptr, nullptr) !=
          1) {
    return openssl_problem("write a certificate");
  }
  std::string key_text = memory_text(secret.get());
  auto written = write_file(stem + ".key", key_text, 0600);
  OPENSSL_cleanse(key_text.data(), key_text.size());
  MS_TRY(written);
  return write_file(stem + ".pem", memory_text(pem.get()), 0644);
}

// -- rules for names

Result<void> check_name(const std::string& name) {
  if (name.empty() || name.size() > kMaxCommonName) {
    return invalid("name",
                   fmt::format("name \"{}\": must have 1 to {} characters", name, kMaxCommonName));
  }
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (!std::all_of(name.begin(), name.end(), good) || name.front() == '.' || name.front() == '-') {
    return invalid("name", fmt::format("name \"{}\": must be letters, digits, '-', '_' and '.', "
                                       "and begin with none of '-' and '.'",
                                       name));
  }
  return {};
}

// A name or an address, and "*." before a name.
Result<void> check_host_name(const std::string& host) {
  if (tls::is_address(host)) return {};
  std::string_view rest = host;
  if (rest.starts_with("*.")) rest.remove_prefix(2);
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (rest.empty() || host.size() > 253 || !std::all_of(rest.begin(), rest.end(), good) ||
      rest.front() == '.' || rest.back() == '.' || rest.find("..") != std::string_view::npos) {
    return invalid("host",
                   fmt::format("host \"{}\": must be a name or an address, without a port", host));
  }
  return {};
}

Result<void> check_valid(Duration valid) {
  if (valid >= std::chrono::minutes(1) && valid <= kMaxValid) return {};
  return invalid("days", "days: must be 1 minute to 36500 days");
}

// -- the certificate

bool set_time(ASN1_TIME* into, WallTime time) {
  return ASN1_TIME_set(into, static_cast<time_t>(time.ms() / 1000)) != nullptr;
}

bool set_serial(X509* certificate) {
  const std::unique_ptr<BIGNUM, tls::Free<BN_free>> number(BN_new());
  return number != nullptr &&
         BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, tls::Free<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

struct Extension {
  int nid;
  std::string value;
};

struct Draft {
  std::string name;
  WallTime not_before, not_after;
  std::vector<Extension> extensions;
};

// `issuer` = nullptr: self-signed with `key`. Otherwise `signer` is the issuer's key.
X509Ptr sign(const Draft& draft, EVP_PKEY* key, X509* issuer, EVP_PKEY* signer) {
  X509Ptr made(X509_new());
  X509* const x = made.get();
  if (x == nullptr || X509_set_version(x, X509_VERSION_3) != 1 || !set_serial(x)) return nullptr;
  const auto* text = reinterpret_cast<const unsigned char*>(draft.name.data());
  X509_NAME* const subject = X509_get_subject_name(x);
  X509* const by = issuer == nullptr ? x : issuer;
  if (X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8, text,
                                 static_cast<int>(draft.name.size()), -1, 0) != 1 ||
      X509_set_issuer_name(x, X509_get_subject_name(by)) != 1 ||
      !set_time(X509_getm_notBefore(x), draft.not_before) ||
      !set_time(X509_getm_notAfter(x), draft.not_after) || X509_set_pubkey(x, key) != 1) {
    return nullptr;
  }
  for (const Extension& extension : draft.extensions) {
    if (!add_extension(x, by, extension.nid, extension.value)) return nullptr;
  }
  if (X509_sign(x, signer, EVP_sha256()) == 0) return nullptr;
  return made;
}

}  // namespace

Result<void> Authority::create(const std::string& directory, const std::string& name,
                               Duration valid, WallTime now) {
  if (name.empty() || name.size() > kMaxCommonName) {
    return invalid("name", fmt::format("the authority's name \"{}\": must have 1 to {} bytes", name,
                                       kMaxCommonName));
  }
  MS_TRY(check_valid(valid));
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return file_problem("make", directory);
  }
  for (const char* file : {"/ca.pem", "/ca.key"}) {
    struct stat status {};
    if (::lstat((directory + file).c_str(), &status) == 0) {
      return Error{ErrorCode::conflict,
                   fmt::format("{}{} exists: use another directory, or remove this authority and "
                               "every certificate that it has signed",
                               directory, file)};
    }
  }
  const KeyPtr key(EVP_EC_gen("P-256"));
  Draft draft{name,
              now - kSkew,
              now + valid,
              {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
               {NID_key_usage, "critical,keyCertSign,cRLSign"},
               {NID_subject_key_identifier, "hash"}}};
  const X509Ptr made = key == nullptr ? nullptr : sign(draft, key.get(), nullptr, key.get());
  if (made == nullptr) return openssl_problem("make an authority");
  return write_pair(directory + "/ca", made.get(), key.get());
}

Result<void> Authority::issue(const std::string& directory, const std::string& name,
                              const std::vector<std::string>& hosts, bool client, Duration valid,
                              WallTime now) {
  MS_TRY(check_name(name));
  if (name == "ca") return invalid("name", "name \"ca\": is that of the authority");
  MS_TRY(check_valid(valid));
  if (client && !hosts.empty()) {
    return invalid("host", "a client certificate has no hosts: its name identifies the client");
  }
  if (!client && (hosts.empty() || hosts.size() > kMaxHosts)) {
    return invalid(
        "host",
        fmt::format(
            "a server certificate must have 1 to {} hosts: names and addresses of the server",
            kMaxHosts));
  }
  std::string names;
  for (const std::string& host : hosts) {
    MS_TRY(check_host_name(host));
    names += fmt::format("{}{}:{}", names.empty() ? "" : ",", tls::is_address(host) ? "IP" : "DNS",
                         host);
  }
  const std::string stem = directory + "/ca";
  if (::access((stem + ".pem").c_str(), F_OK) != 0) {
    return Error{
        ErrorCode::not_found,
        fmt::format("there is no authority in {} (ca.pem): create one with `mainspring tls init`",
                    directory)};
  }
  MS_TRY_ASSIGN(const std::vector<X509Ptr> authority, tls::read_certificates(stem + ".pem"));
  MS_TRY_ASSIGN(const KeyPtr signer, tls::read_key(stem + ".key"));
  X509* const issuer = authority.front().get();
  const WallTime last = tls::wall_time(X509_get0_notAfter(issuer));
  if (last <= now) {
    return invalid("", fmt::format("the authority in {} expired at {}: make another one", directory,
                                   format_wall_time(last)));
  }
  Draft draft{name,
              std::max(now - kSkew, tls::wall_time(X509_get0_notBefore(issuer))),
              std::min(now + valid, last),
              {{NID_basic_constraints, "critical,CA:FALSE"},
               {NID_key_usage, "critical,digitalSignature"},
               {NID_ext_key_usage, client ? "clientAuth" : "serverAuth"},
               {NID_subject_key_identifier, "hash"},
               {NID_authority_key_identifier, "keyid:always"}}};
  if (!client) draft.extensions.push_back({NID_subject_alt_name, names});
  const KeyPtr key(EVP_EC_gen("P-256"));
  const X509Ptr made = key == nullptr ? nullptr : sign(draft, key.get(), issuer, signer.get());
  if (made == nullptr) return openssl_problem("make a certificate");
  return write_pair(directory + "/" + name, made.get(), key.get());
}

}  // namespace mainspring
