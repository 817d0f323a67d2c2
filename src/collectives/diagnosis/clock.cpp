#include "weft/collectives/clock.hpp"

#include <limits>
#include <utility>
#include <vector>

#include "collectives/diagnosis/texts.hpp"
#include "core/files/output_file.hpp"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t now() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

/// Rank 0's answer to `questions` questions of `rank`, one after the other.
void answer(const Communicator& comm, int rank, int questions) {
  Stream stream;
  for (int i = 0; i < questions; ++i) {
    std::int64_t word = 0;
    const View view{std::span(&word, 1)};
    Group(comm).receive(view, rank).start(stream).wait();
    word = now();
    Group(comm).send(view, rank).start(stream).wait();
  }
}

std::int64_t ask(const Communicator& comm, int questions) {
  Stream stream;
  std::int64_t offset = 0;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < questions; ++i) {
    std::int64_t word = 0;
    const View view{std::span(&word, 1)};
    const std::int64_t asked = now();
    Group(comm).send(view, 0).start(stream).wait();
    Group(comm).receive(view, 0).start(stream).wait();
    const std::int64_t heard = now();
    if (heard - asked >= shortest) continue;
    shortest = heard - asked;
    offset = word - (asked + shortest / 2);
  }
  return offset;
}

}  // namespace

// One rank of each node asks, for its neighbours read the same clock: 2 * 16 messages a node, one node after the other, and an all_gather of 8 bytes a rank.
std::chrono::nanoseconds clock_offset(Communicator comm) {
  const Topology& ranks = comm.topology();
  if (ranks.nodes() == 1) return {};
  constexpr int questions = 16;
  std::int64_t offset = 0;
  for (int node = 1; node < ranks.nodes(); ++node) {
    const int asks = ranks.ranks_of(node).front();
    if (comm.rank() == 0) answer(comm, asks, questions);
    if (comm.rank() == asks) offset = ask(comm, questions);
  }
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(comm.size()));
  Stream stream;
  comm.all_gather(ConstView(std::span(&std::as_const(offset), 1)), View(std::span(offsets)), stream).wait();
  const int asked = ranks.ranks_of(ranks.node_of(comm.rank())).front();
  return std::chrono::nanoseconds(offsets[static_cast<std::size_t>(asked)]);
}

std::string merged_trace(const Trace& trace, const Communicator& comm) {
  const auto events = detail::gather_texts(comm, trace.events(comm.rank(), clock_offset(comm)));
  if (comm.rank() != 0) return {};
  std::string all = trace.heading();
  const char* separator = "";
  for (const std::string& one : events) {
    if (!one.empty()) all += std::exchange(separator, ",\n") + one;
  }
  return all + "\n]}\n";
}

void write_trace(const Trace& trace, const Communicator& comm, const std::string& path) {
  const std::string all = merged_trace(trace, comm);
  if (comm.rank() == 0) detail::OutputFile(path, "the trace " + path).write(all);
}

}  // namespace weft
