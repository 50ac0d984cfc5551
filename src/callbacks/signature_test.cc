// Signatures: those of the standard's own vectors, and no others.
#include "callbacks/signature.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "callbacks/key_file.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

// Source: the test vector of the Standard Webhooks libraries.
constexpr std::string_view kSignatureKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr SignedParts kParts = {"msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
                                R"({"test": 2432232314})"};
constexpr std::string_view kSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
constexpr WallTime kThen = WallTime::from_us(std::int64_t{1'614'265'330} * 1'000'000);

SigningKeys keys(const std::string& text) {
  auto keys = parse_signing_keys("the file", text);
  REQUIRE_MESSAGE(keys, keys.error().message);
  return std::move(*keys);
}

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "callbacks-XXXXXX").string();
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("a signature matches the test vector of the standard") {
  CHECK(sign(keys(std::string(kSignatureKey)), kParts) == kSignature);
}

TEST_CASE("each key signs, so that receivers can change keys one after another") {
  const std::string other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
  const std::string both = sign(keys(other + "\n" + std::string(kSignatureKey) + "\n"), kParts);
  CHECK(both.ends_with(" " + std::string(kSignature)));
  CHECK(verify_signature(keys(other), kParts, both, kThen));
  CHECK(verify_signature(keys(std::string(kSignatureKey)), kParts, both, kThen));
}

TEST_CASE("a changed id, time, body or key fails verification") {
  const SigningKeys good = keys(std::string(kSignatureKey));
  const auto fails = [&](SignedParts parts, std::string_view header, WallTime now = kThen) {
    const auto verified = verify_signature(good, parts, header, now);
    return !verified && verified.error().code == ErrorCode::unauthenticated;
  };
  CHECK(verify_signature(good, kParts, kSignature, kThen));
  CHECK(verify_signature(good, kParts, std::string("v2,AAAA x ") + std::string(kSignature), kThen));
  CHECK(fails({"msg_p5jXN8AQM9LWM0D4loKWxJel", kParts.timestamp, kParts.body}, kSignature));
  CHECK(fails({kParts.id, "1614265331", kParts.body}, kSignature));
  CHECK(fails({kParts.id, kParts.timestamp, R"({"test": 2432232315})"}, kSignature));
  CHECK(fails({kParts.id, "x", kParts.body}, kSignature));
  CHECK(fails({kParts.id, "", kParts.body}, kSignature));
  for (const std::string_view header :
       {"", "v1,", "v1,g0hM9SsE", "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVl",
        "v1,====", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1O!="}) {
    CAPTURE(header);
    CHECK(fails(kParts, header));
  }
  CHECK_FALSE(
      verify_signature(keys("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), kParts, kSignature, kThen));
}

TEST_CASE("an old request and one from the future fail verification") {
  const SigningKeys good = keys(std::string(kSignatureKey));
  CHECK(verify_signature(good, kParts, kSignature, kThen + 5min));
  CHECK_FALSE(verify_signature(good, kParts, kSignature, kThen + 5min + 1us));
  CHECK(verify_signature(good, kParts, kSignature, kThen - 5min));
  CHECK_FALSE(verify_signature(good, kParts, kSignature, kThen - 5min - 1us));
}

TEST_CASE("a key's text is read back; an invalid text is refused without showing it") {
  SeededRandom random(7);
  const Secret key = make_signing_key(random);
  CHECK(key.reveal().size() == 32);
  const Secret text = signing_key_text(key);
  CHECK(text.reveal().starts_with("whsec_"));
  const auto back = parse_signing_key(text.reveal());
  REQUIRE(back);
  CHECK(back->reveal() == key.reveal());
  for (const std::string bad :
       {"", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "whsec_not base64 at all!"}) {
    CAPTURE(bad);
    const auto parsed = parse_signing_key(bad);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == ErrorCode::invalid_argument);
    if (bad.size() > 6) CHECK(parsed.error().message.find(bad) == std::string::npos);
  }
  CHECK_FALSE(parse_signing_keys("f", "# only a comment\n"));
  const std::string one(kSignatureKey);
  CHECK_FALSE(parse_signing_keys("f", one + "\n" + one + "\n" + one));
  CHECK(parse_signing_keys("f", "# old and new\r\n\n" + one + "\r\n" + one)->size() == 2);
}

TEST_CASE("concurrent callers create the key of a directory once, readable by its owner only") {
  Folder folder;
  std::vector<std::string> seen(4);
  {
    std::vector<std::jthread> askers;
    for (std::string& text : seen) {
      askers.emplace_back([&] {
        SystemRandom random;
        const auto keys = key_of_directory(folder.path, random);
        if (keys) text = keys->front().reveal();
      });
    }
  }
  CHECK(seen[0].size() == 32);
  CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == 1);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    ++files;
    struct stat info {};
    REQUIRE(::stat(entry.path().c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
  }
  CHECK(files == 1);
}

TEST_CASE("a key file that others can read is refused") {
  Folder folder;
  const std::string path = folder.path + "/key";
  std::ofstream(path) << kSignatureKey << "\n";
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  const auto open_to_others = read_key_file(path);
  REQUIRE_FALSE(open_to_others);
  CHECK(open_to_others.error().field == "callback_key_file");
  CHECK(open_to_others.error().message.find("600") != std::string::npos);
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  CHECK(read_key_file(path));
  CHECK_FALSE(read_key_file(folder.path + "/none"));
}
