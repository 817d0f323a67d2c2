#include "zero/state_file.hpp"

#include <algorithm>
#include <chrono>

#include "core/pinned.hpp"
#include "weft/core/env.hpp"

namespace weft::detail {
namespace {

std::chrono::nanoseconds patience() {
  const std::chrono::duration<double> seconds(Environment::of_process().number(env::timeout));
  return std::chrono::duration_cast<std::chrono::nanoseconds>(seconds);
}

}  // namespace

StateFile::StateFile(Device device, const StateKind& kind, StateFrames frames, const std::string& directory,
                     int rank)
    : kind_(kind),
      frames_(std::move(frames)),
      rank_(rank),
      ring_(ScratchFile(directory, frames_.file_bytes()),
            pinned(device, DataType::u8, static_cast<std::int64_t>(frames_.ring_bytes())),
            std::min(StateFrames::places, frames_.frames().size()), patience()) {}

std::int64_t StateFile::reach(std::int64_t at, std::int64_t most) const {
  const StateFrames::Frame& frame = frames_.of(at);
  return std::min(most, frame.begin + frame.count - at);
}

void StateFile::announce(std::int64_t at) {
  const StateFrames::Frame& frame = frames_.of(at);
  ring_.want({frame.offset, frame.bytes});
}

template <class Call>
auto StateFile::told_of(std::uint64_t step, Call call) {
  try {
    return call();
  } catch (const Error& error) {
    throw error.in({rank_, step > 0 ? "step" : "offload", step});
  }
}

void StateFile::read_ahead(std::uint64_t step) {
  told_of(step, [&] { ring_.read_ahead(); });
}

void StateFile::visit(std::int64_t at, std::int64_t count, bool changes, std::uint64_t step,
                      const Work& work) {
  const StateFrames::Frame& frame = frames_.of(at);
  const auto memory = told_of(step, [&] { return ring_.take(); });
  work(views(frame, memory).slice(at - frame.begin, count));
  told_of(step, [&] { ring_.put_back(changes); });
}

void StateFile::settle(std::uint64_t step) {
  told_of(step, [&] { ring_.settle(); });
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
