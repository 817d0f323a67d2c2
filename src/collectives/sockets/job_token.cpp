#include "collectives/sockets/job_token.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "core/base/strings.hpp"
#include "core/files/input_file.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr std::size_t shortest = 16;  // bytes: too many to try, even of hexadecimal digits
constexpr std::size_t longest = 4096;

std::string file_content(const std::string& path) {
  const auto refused = [&](const std::string& why) {
    return Error(ErrorKind::usage, text(env::token_file.name, "=", path, ": ", why),
                 "give a file that only its user can read (chmod 600; a mounted secret: defaultMode 0400)");
  };
  InputFile file(path);
  if (!file.is_open()) throw refused(file.problem());
  struct stat status {};
  if (fstat(file.descriptor(), &status) != 0) throw refused(std::strerror(errno));
  if ((status.st_mode & (S_IRWXO | S_IWGRP)) != 0) throw refused("others may read or write it");
  std::string content(longest + 1, '\0');
  try {
    content.resize(file.read(content.data(), content.size()));
  } catch (const Error& error) {
    throw refused(error.problem());
  }
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
