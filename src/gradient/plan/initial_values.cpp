// Steps: every rank describes each tensor by one line (its name, count, type, and a hash of its values, which
// from_rank_0 leaves out). Ranks compare a hash of all lines; only if it differs do they send the lines
// themselves (plan_agreement.cpp). Then rank 0 broadcasts each tensor, if asked to.

#include "weft/gradient/initial_values.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <iomanip>
#include <sstream>

#include "gradient/plan/initial_values.hpp"
#include "gradient/plan/plan_agreement.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/copy.hpp"

namespace weft {
namespace detail {
namespace {

constexpr std::size_t word = sizeof(std::uint64_t);
constexpr std::size_t lanes = 4;

/// A bijection of the word for each state and of the state for each word, so that one changed word always
/// changes the state. The constant is 2^64 divided by the golden ratio.
constexpr std::uint64_t mixed(std::uint64_t state, std::uint64_t value) {
  state = (state ^ value) * 0x9e3779b97f4a7c15ULL;
  return state ^ (state >> 32U);
}

std::uint64_t hash_on_host(const std::byte* bytes, std::size_t size) {
  std::array<std::uint64_t, lanes> states{1, 2, 3, 4};
  std::size_t at = 0;
  for (; at + lanes * word <= size; at += lanes * word) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      std::uint64_t value = 0;
      std::memcpy(&value, bytes + at + lane * word, word);
      states[lane] = mixed(states[lane], value);
    }
  }
  std::uint64_t all = size;
  for (; at < size; ++at) all = mixed(all, std::to_integer<std::uint64_t>(bytes[at]));
  for (const std::uint64_t state : states) all = mixed(all, state);
  return all;
}

std::string described(const std::string& name, ConstView values) {
  return text(name, ", ", values.count(), " ", values.dtype());
}

}  // namespace

std::uint64_t content_hash(ConstView values) {
  if (values.device().is_host()) return hash_on_host(values.bytes(), values.size_bytes());
  Buffer here = Buffer::on_host(values.dtype(), values.count());
  Stream stream(values.device());
  copy(here.view(), values, stream);
  stream.synchronize();
  return hash_on_host(here.view().bytes(), here.size_bytes());
}

std::string line_of_values(const std::string& name, ConstView values) {
  std::ostringstream line;
  line << described(name, values) << ", hash " << std::hex << std::setfill('0') << std::setw(16)
       << content_hash(values);
  return line.str();
}

}  // namespace detail

void sync_initial_values(Communicator& comm, const std::vector<NamedValues>& tensors, InitialValues how) {
  constexpr const char* operation = "sync_initial_values";
  std::vector<std::string> lines;
  for (const NamedValues& tensor : tensors) {
    lines.push_back(how == InitialValues::compare ? detail::line_of_values(tensor.name, tensor.values)
                                                  : detail::described(tensor.name, tensor.values));
  }
  if (how == InitialValues::compare) {
    detail::agree_on(comm, lines,
                     {"ranks start with different values",
                      "seed and load alike on every rank, or pass InitialValues::from_rank_0", operation});
    return;
  }
  detail::agree_on(
      comm, lines,
      {"ranks have different tensors", "give the same tensors in the same order on every rank", operation});
  for (const NamedValues& tensor : tensors) {
    if (!tensor.values.empty()) comm.broadcast(tensor.values, 0, Stream(tensor.values.device())).wait();
  }
}

}  // namespace weft
