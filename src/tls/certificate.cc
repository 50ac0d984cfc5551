// Certificates and keys in files.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "env/fd.h"
#include "env/private_files.h"
#include "tls/openssl_parts.h"
#include "tls/tls.h"

namespace mainspring {
namespace tls {
namespace {

// Of a key with a passphrase; without this OpenSSL asks on the terminal.
int no_passphrase(char*, int, int, void*) {
  return 0;
}

struct FreeNames {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};

std::string address_text(const ASN1_OCTET_STRING* address) {
  const int size = ASN1_STRING_length(address);
  char text[INET6_ADDRSTRLEN] = "";
  if (size == 4) inet_ntop(AF_INET, ASN1_STRING_get0_data(address), text, sizeof text);
  if (size == 16) inet_ntop(AF_INET6, ASN1_STRING_get0_data(address), text, sizeof text);
  return text;
}

std::vector<std::string> hosts_of(const X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, FreeNames> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> hosts;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) {
      const auto* text = ASN1_STRING_get0_data(name->d.dNSName);
      hosts.emplace_back(reinterpret_cast<const char*>(text),
                         static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      hosts.push_back(address_text(name->d.iPAddress));
    }
  }
  return hosts;
}

}  // namespace

std::string take_problems() {
  std::string out;
  while (const unsigned long code = ERR_get_error()) {
    const char* reason = ERR_reason_error_string(code);
    if (!out.empty()) out += "; ";
    out += reason != nullptr ? std::string(reason) : fmt::format("error {:x}", code);
  }
  return out.empty() ? "no reason given" : out;
}

Result<std::string> read_pem(const std::string& file, Readers readers) {
  const auto refuse = [&](std::string_view why) {
    return invalid("", fmt::format("cannot use {}: {}", file, why));
  };
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return refuse(std::strerror(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return refuse(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return refuse("not a regular file");
  if (readers == Readers::owner && is_exposed(status)) {
    return refuse(
        fmt::format("others may read it (mode {:04o}): a private key must have mode 0600 "
                    "or stricter: chmod 600 {}",
                    status.st_mode & 07777, file));
  }
  std::string text;
  char part[4096];
  while (text.size() <= kMaxPemBytes) {
    const ssize_t size = ::read(fd.get(), part, sizeof part);
    if (size == 0) return text;
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return refuse(std::strerror(errno));
    text.append(part, static_cast<std::size_t>(size));
  }
  return refuse(fmt::format("it is larger than {} bytes", kMaxPemBytes));
}

Result<std::vector<X509Ptr>> read_certificates(const std::string& file) {
  MS_TRY_ASSIGN(const std::string text, read_pem(file, Readers::anybody));
  const BioPtr in(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  std::vector<X509Ptr> out;
  ERR_clear_error();
  while (X509* one = PEM_read_bio_X509(in.get(), nullptr, no_passphrase, nullptr)) {
    out.emplace_back(one);
  }
  const unsigned long last = ERR_peek_last_error();
  const bool at_end =
      ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
  if (out.empty() && at_end) {
    ERR_clear_error();
    return invalid("", fmt::format("cannot use {}: there is no certificate in it "
                                   "(-----BEGIN CERTIFICATE-----)",
                                   file));
  }
  const std::string problems = take_problems();
  if (!at_end) return invalid("", fmt::format("cannot use {}: {}", file, problems));
  return out;
}

Result<KeyPtr> read_key(const std::string& file) {
  MS_TRY_ASSIGN(std::string text, read_pem(file, Readers::owner));
  const BioPtr in(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  ERR_clear_error();
  KeyPtr key(PEM_read_bio_PrivateKey(in.get(), nullptr, no_passphrase, nullptr));
  const bool locked = text.find("ENCRYPTED") != std::string::npos;
  OPENSSL_cleanse(text.data(), text.size());
  if (key != nullptr) return key;
  const std::string problems = take_problems();
  return invalid("", fmt::format("cannot use {}: {}", file,
                                 locked ? "the key has a passphrase: remove it"
                                        : "no private key in it: " + problems));
}

std::string name_text(const X509_NAME* name) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  // Of RFC 2253, but characters beyond ASCII stay what they are.
  X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

WallTime wall_time(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return WallTime::from_ms(static_cast<std::int64_t>(timegm(&parts)) * 1000);
}

bool is_address(const std::string& host) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace tls

Result<CertificateInfo> read_certificate(const std::string& file) {
  MS_TRY_ASSIGN(const auto certificates, tls::read_certificates(file));
  const X509* const first = certificates.front().get();
  CertificateInfo info;
  info.subject = tls::name_text(X509_get_subject_name(first));
  info.issuer = tls::name_text(X509_get_issuer_name(first));
  info.hosts = tls::hosts_of(first);
  info.not_before = tls::wall_time(X509_get0_notBefore(first));
  info.not_after = tls::wall_time(X509_get0_notAfter(first));
  return info;
}

}  // namespace mainspring
