#pragma once
// What one process of a running NCCL job answers about the whole job on its RAS socket, as a value. NCCL 2.24 and later answer in text, 2.28.7
// and later in JSON, too (src/ras/client_support.cc of NCCL).
//
//   const Answer answer = parse_answer(bytes, "localhost:28028");
//   for (const Communicator& one : answer.communicators) std::cout << one.name << '\n';
//
// A text names only what stands out: a communicator without a fault has its row in `groups` and nothing in `communicators`, and of ranks that
// stand together it may say how many they are and name none. JSON names every rank of every communicator.
//
// WRONG: to take a rank that no Share names for one that is well; `size` of the Share says how many there are.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/findings/finding.hpp"

namespace weft::report::ras {

struct Process {
  std::string node{};     ///< the address of its host; empty: not known
  std::int64_t pid = -1;  ///< -1: not known
  std::string gpus{};     ///< in NCCL's words: "4", "4 (NVML 6)", "0,1"

  bool known() const { return pid >= 0; }
  bool same_as(const Process& other) const { return pid == other.pid && node == other.node; }
};

/// A rank of a communicator.
struct Member {
  int rank = 0;
  Process process{};
};

/// Ranks of which the answer says the same.
struct Share {
  int size = 0;
  std::vector<Member> named{};  ///< all of them, or some, or none
  int line = 0;                 ///< of the text that says so; 0: JSON
};

enum class Status : std::uint8_t { no_communicator, init, running, finalize, abort };
inline constexpr std::array<std::string_view, 5> status_names{"NOCOMM", "INIT", "RUNNING", "FINALIZE",
                                                              "ABORT"};
constexpr std::string_view name(Status status) {
  return status_names[static_cast<std::size_t>(status)];
}

struct Standing {
  Status status = Status::running;
  Share who{};
};

struct Launched {
  std::uint64_t operations = 0;
  Share who{};
};

/// How many operations of one type the ranks have launched.
struct Collective {
  std::string
      type{};  ///< "AllReduce"; "collective" where the version counts all types together (2.24 and 2.25)
  std::vector<Launched> levels{};
};

struct Failure {
  std::string what{};  ///< in NCCL's words: "System error"
  bool at_init = false;
  Share who{};
};

/// Others lost a process and say so; the cause is elsewhere.
inline constexpr std::string_view remote_error = "Remote process error";

struct Communicator {
  std::string name{};  ///< for people: "#0-0 (fa93daea854b060b)"
  std::string hash{};  ///< the same in two answers
  int size = 0;        ///< 0: not known
  std::vector<Collective> collectives{};
  std::vector<Standing> statuses{};
  std::vector<Failure> failures{};
  Share unanswered{};  ///< their processes gave no answer
};

/// A row of the text's table: communicators that are alike.
struct Group {
  int number = 0;
  int communicators = 0;
  int size = 0;  ///< ranks of each
  Status status = Status::running;
  std::string errors{};  ///< "OK", "INCOMPLETE,MISMATCH"
  int line = 0;
};

struct Processes {
  int size = 0;
  std::vector<Process> named{};
  int line = 0;
};

enum class Form : std::uint8_t { text, json };

struct Answer {
  std::string file{};  ///< where it came from: a file or an address
  Form form = Form::text;
  std::string nccl{};   ///< "2.28.7"
  std::string taken{};  ///< when, by the clock of the process; empty: not said
  int nodes = 0;        ///< 0: not said, as in JSON
  int processes = 0;    ///< 0: not said
  int gpus = 0;         ///< 0: not said
  int communicator_count = 0;
  int timeouts = 0;  ///< of processes that were asked
  std::vector<Group> groups{};
  std::vector<Communicator> communicators{};
  Processes dead{};
  Processes silent{};              ///< gave no answer, and are not held for dead
  std::vector<Evidence> unread{};  ///< lines that are none of an answer, such as those of a log behind it
};

/// Takes an answer of the client ncclras, or of nc, with the lines of the protocol before it.
/// @param file named in messages. @throws Error (usage) that says what the bytes are instead, or where they end too soon
Answer parse_answer(std::string_view bytes, const std::string& file);

}  // namespace weft::report::ras
