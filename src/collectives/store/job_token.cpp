#include "collectives/store/job_token.hpp"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/strings.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr std::size_t shortest = 16;  // bytes: too many to try, even of hexadecimal digits
constexpr std::size_t longest = 4096;

std::string file_content(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto refused = [&](const std::string& why) {
    const int reason = errno;
    if (file >= 0) close(file);
    return Error(ErrorKind::usage,
                 text(env::token_file.name, "=", path, ": ", why.empty() ? std::strerror(reason) : why),
                 "give a file that only its user can read (chmod 600; a mounted secret: defaultMode 0400)");
  };
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0) throw refused("");
  if (!S_ISREG(status.st_mode)) throw refused("it is no file");
  if ((status.st_mode & (S_IRWXO | S_IWGRP)) != 0) throw refused("others may read or write it");
  std::string content(longest + 1, '\0');
  const ssize_t got = read(file, content.data(), content.size());
  if (got < 0) throw refused("");
  close(file);
  content.resize(static_cast<std::size_t>(got));
  content.erase(content.find_last_not_of(" \t\r\n") + 1);
  return content;
}

}  // namespace

Challenge new_challenge() {
  Challenge challenge;
  if (getentropy(challenge.data(), challenge.size()) != 0)
    throw system_error("the kernel gives no random numbers");
  return challenge;
}

Proof prove(const std::string& token, Side side, const Challenge& of_rank, const Challenge& of_server) {
  std::array<unsigned char, 1 + 2 * sizeof(Challenge)> message;
  message[0] = static_cast<unsigned char>(side);
  std::memcpy(message.data() + 1, of_rank.data(), of_rank.size());
  std::memcpy(message.data() + 1 + of_rank.size(), of_server.data(), of_server.size());
  Proof proof;
  unsigned int bytes = 0;
  const unsigned char* made = HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()), message.data(),
                                   message.size(), proof.data(), &bytes);
  if (made == nullptr || bytes != proof.size())
    throw Error(ErrorKind::system, "OpenSSL cannot compute HMAC-SHA256",
                "see whether its configuration forbids it");
  return proof;
}

bool equal(const Proof& one, const Proof& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

std::string job_token(const Environment& environment) {
  const auto given = environment.get(env::token);
  const auto file = environment.get(env::token_file);
  if (!given && !file) return {};
  const std::string token = given ? *given : file_content(*file);
  if (token.size() >= shortest && token.size() <= longest) return token;
  throw Error(
      ErrorKind::usage,
      text("the job's token of ", given ? env::token.name : env::token_file.name, " has ", token.size(),
           token.size() > longest ? " bytes or more" : " bytes"),
      text("give ", shortest, " to ", longest, " random bytes, the same to all ranks: openssl rand -hex 32"));
}

}  // namespace weft::detail
