#include "weft/collectives/clock.hpp"

#include <array>
#include <limits>

#include "core/base/output_file.hpp"
#include "weft/core/error.hpp"

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

/// All ranks' texts at rank 0, by rank; elsewhere nothing.
std::vector<std::string> gathered(Communicator comm, const std::string& mine) {
  Stream stream;
  const auto length = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(comm.size()));
  comm.all_gather(ConstView(std::span(&length, 1)), View(std::span(lengths)), stream).wait();
  std::vector<std::vector<std::uint8_t>> received(lengths.size());
  Group group(comm);
  const std::vector<std::uint8_t> bytes(mine.begin(), mine.end());
  std::vector<std::uint8_t> own = bytes;
  if (comm.rank() > 0) group.send(View(std::span(own)), 0);
  for (std::size_t rank = 1; comm.rank() == 0 && rank < received.size(); ++rank) {
    received[rank].resize(static_cast<std::size_t>(lengths[rank]));
    group.receive(View(std::span(received[rank])), static_cast<int>(rank));
  }
  group.start(stream).wait();
  std::vector<std::string> texts;
  for (const auto& one : received) texts.emplace_back(one.begin(), one.end());
  texts.front() = mine;
  return texts;
}

}  // namespace

std::chrono::nanoseconds clock_offset(Communicator comm) {
  if (comm.topology().nodes() == 1) return {};
  constexpr int questions = 16;
  std::int64_t offset = 0;
  for (int rank = 1; rank < comm.size(); ++rank) {
    if (comm.rank() == 0) answer(comm, rank, questions);
    if (comm.rank() == rank) offset = ask(comm, questions);
  }
  return std::chrono::nanoseconds(offset);
}

std::string merged_trace(const Trace& trace, const Communicator& comm) {
  const auto events = gathered(comm, trace.events(comm.rank(), clock_offset(comm)));
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
