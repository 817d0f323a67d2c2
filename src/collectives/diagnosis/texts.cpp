#include "collectives/diagnosis/texts.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace weft::detail {

namespace {

std::vector<std::int64_t> lengths_of(Communicator& comm, const std::string& mine, const Stream& stream) {
  const auto length = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(comm.size()));
  comm.all_gather(ConstView(std::span(&length, 1)), View(std::span(lengths)), stream).wait();
  return lengths;
}

}  // namespace

std::vector<std::string> exchange_texts(Communicator comm, const std::string& mine) {
  const Stream stream;
  const auto lengths = lengths_of(comm, mine, stream);
  const auto longest = static_cast<std::size_t>(std::ranges::max(lengths));
  std::vector<std::uint8_t> padded(longest);
  std::ranges::copy(mine, padded.begin());
  std::vector<std::uint8_t> all(longest * lengths.size());
  comm.all_gather(ConstView(std::span(std::as_const(padded))), View(std::span(all)), stream).wait();
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * longest);
    texts.emplace_back(begin, begin + lengths[rank]);
  }
  return texts;
}

std::vector<std::string> gather_texts(Communicator comm, const std::string& mine) {
  const Stream stream;
  const auto lengths = lengths_of(comm, mine, stream);
  std::vector<std::vector<std::uint8_t>> received(lengths.size());
  Group group(comm);
  std::vector<std::uint8_t> own(mine.begin(), mine.end());
  if (comm.rank() > 0) group.send(View(std::span(own)), 0);
  for (std::size_t rank = 1; comm.rank() == 0 && rank < received.size(); ++rank) {
    received[rank].resize(static_cast<std::size_t>(lengths[rank]));
    group.receive(View(std::span(received[rank])), static_cast<int>(rank));
  }
  group.start(stream).wait();
  if (comm.rank() > 0) return {};
  std::vector<std::string> texts;
  texts.reserve(received.size());
  for (const auto& one : received) texts.emplace_back(one.begin(), one.end());
  texts.front() = mine;
  return texts;
}

std::string broadcast_text(Communicator comm, const std::string& mine, int root) {
  Stream stream;
  auto length = static_cast<std::int64_t>(mine.size());
  comm.broadcast(View(std::span(&length, 1)), root, stream).wait();
  std::vector<std::uint8_t> bytes(mine.begin(), mine.end());
  bytes.resize(static_cast<std::size_t>(length));
  comm.broadcast(View(std::span(bytes)), root, stream).wait();
  return {bytes.begin(), bytes.end()};
}

}  // namespace weft::detail
