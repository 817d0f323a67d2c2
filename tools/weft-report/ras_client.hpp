#pragma once
// Asks a process of a running NCCL job on its RAS socket (src/ras/client.cc of NCCL). The whole job is asked by that process; nothing in it changes.
//
//   const std::string bytes = ask(parse_ras_address("localhost:28028"), {});
//   const ras::Answer answer = ras::parse_answer(bytes, "localhost:28028");
//
// WRONG: to ask again and again without a pause; each question takes every process of the job a moment.

#include <string>
#include <string_view>

namespace weft::report {

struct RasAddress {
  std::string host = "localhost";
  std::string port = "28028";  ///< NCCL's default

  std::string text() const;
};

/// Takes HOST, HOST:PORT, :PORT, and an IPv6 address alone or as [ADDRESS]:PORT. @param called what an error calls it: "NCCL_RAS_ADDR".
/// @throws Error (usage)
RasAddress parse_ras_address(std::string_view words, const std::string& called);

struct AskOptions {
  double seconds = 20;     ///< for all of it
  bool text_only = false;  ///< JSON is not asked for
};

/// The answer, in JSON where the process offers it, else in the text that names the most ranks.
/// @throws Error (usage) where another program answers or the answer has more than 64 MiB, (peer_lost) where nobody does or the answer is cut,
/// (timeout)
std::string ask(const RasAddress& address, const AskOptions& options);

}  // namespace weft::report
