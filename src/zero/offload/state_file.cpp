#include "zero/offload/state_file.hpp"

#include <algorithm>
#include <chrono>

#include "core/base/round_up.hpp"
#include "core/files/scratch_file.hpp"
#include "core/memory/host_memory.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/env.hpp"

namespace weft::detail {
namespace {

std::chrono::nanoseconds transfer_timeout() {
  const std::chrono::duration<double> seconds(Environment::of_process().number(env::timeout));
  return std::chrono::duration_cast<std::chrono::nanoseconds>(seconds);
}

}  // namespace

StateFrames::StateFrames(const std::vector<std::int64_t>& bounds, std::int64_t most,
                         const std::array<std::size_t, 3>& element_bytes) {
  for (std::size_t cell = 0; cell + 1 < bounds.size(); ++cell) {
    for (std::int64_t begin = bounds[cell]; begin < bounds[cell + 1]; begin += frames_.back().count) {
      Frame frame{.begin = begin, .count = std::min(most, bounds[cell + 1] - begin), .offset = file_bytes_};
      for (std::size_t i = 0; i < element_bytes.size(); ++i) {
        frame.arrays_at[i] = frame.bytes;
        frame.bytes += round_up(static_cast<std::size_t>(frame.count) * element_bytes[i], Buffer::alignment);
      }
      frame.bytes = round_up(frame.bytes, ScratchFile::block);
      file_bytes_ += frame.bytes;
      largest_ = std::max(largest_, frame.bytes);
      frames_.push_back(frame);
    }
  }
}

const StateFrames::Frame& StateFrames::of(std::int64_t element) const {
  return *(std::ranges::upper_bound(frames_, element, {}, &Frame::begin) - 1);
}

std::size_t StateFrames::ring_bytes() const {
  return frames_.empty() ? 0 : std::min(places, frames_.size()) * largest_ + ScratchFile::block;
}

StateFile::StateFile(Device device, const StateKind& kind, StateFrames frames, const std::string& directory,
                     int rank)
    : kind_(kind),
      frames_(std::move(frames)),
      rank_(rank),
      ring_(ScratchFile(directory, frames_.file_bytes()),
            pinned(device, DataType::u8, static_cast<std::int64_t>(frames_.ring_bytes())),
            std::min(StateFrames::places, frames_.frames().size()), transfer_timeout()) {}

std::int64_t StateFile::reach(std::int64_t at, std::int64_t most) const {
  const StateFrames::Frame& frame = frames_.of(at);
  return std::min(most, frame.begin + frame.count - at);
}

void StateFile::announce(std::int64_t at) {
  const StateFrames::Frame& frame = frames_.of(at);
  ring_.want({frame.offset, frame.bytes});
}

template <class Call>
auto StateFile::with_context(std::uint64_t step, Call call) {
  try {
    return call();
  } catch (const Error& error) {
    throw error.in({rank_, step > 0 ? "step" : "offload", step});
  }
}

void StateFile::read_ahead(std::uint64_t step) {
  with_context(step, [&] { ring_.read_ahead(); });
}

void StateFile::visit(std::int64_t at, std::int64_t count, bool changes, std::uint64_t step,
                      const Visitor& visitor) {
  const StateFrames::Frame& frame = frames_.of(at);
  const auto memory = with_context(step, [&] { return ring_.take(); });
  visitor(views(frame, memory).slice(at - frame.begin, count));
  with_context(step, [&] { ring_.put_back(changes); });
}

void StateFile::settle(std::uint64_t step) {
  with_context(step, [&] { ring_.settle(); });
}

StateViews StateFile::views(const StateFrames::Frame& frame, std::span<std::byte> memory) const {
  const auto bytes = kind_.element_bytes();
  const auto of = [&](std::size_t which, DataType dtype) {
    return bytes[which] == 0 ? View() : View(memory.data() + frame.arrays_at[which], frame.count, dtype);
  };
  return {of(0, kind_.master_type()), of(1, kind_.exact_type()), of(2, kind_.exact_type())};
}

double StateFile::elements_per_second() {
  using Clock = std::chrono::steady_clock;
  const auto some = std::span(frames_.frames()).first(std::min<std::size_t>(frames_.frames().size(), 16));
  const auto begin = Clock::now();
  for (const auto& frame : some) announce(frame.begin);
  for (const auto& frame : some) visit(frame.begin, frame.count, true, 0, [](const StateViews&) {});
  settle(0);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return static_cast<double>(some.back().begin + some.back().count) / std::max(seconds, 1e-9);
}

}  // namespace weft::detail
