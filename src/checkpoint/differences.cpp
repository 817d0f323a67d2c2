#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "checkpoint/checkpoint_state.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

std::string type_and_shape(DataType dtype, const std::vector<std::int64_t>& shape) {
  std::string words = text(dtype, '[');
  for (const std::int64_t size : shape) words += text(words.back() == '[' ? "" : ", ", size);
  return words + ']';
}

}  // namespace weft::detail

namespace weft::checkpoint {
namespace {

using detail::StoredTensor;
using detail::type_and_shape;

struct Apart {
  std::int64_t elements = 0;
  double most = 0;  // NaN where one is NaN and the other is not
};

template <class T>
void compare(ConstView first, ConstView second, Apart& apart) {
  for (std::int64_t i = 0; i < first.count(); ++i) {
    T a;
    T b;
    std::memcpy(&a, first.bytes() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    std::memcpy(&b, second.bytes() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    if (std::memcmp(&a, &b, sizeof(T)) == 0) continue;
    ++apart.elements;
    const auto plain = [](T value) { return static_cast<double>(static_cast<Accumulate<T>>(value)); };
    const double by = std::abs(plain(a) - plain(b));
    if (!std::isnan(apart.most) && !(by <= apart.most)) apart.most = by;
  }
}

/// By ranges of a few blocks, so that neither tensor is in memory whole.
Apart compare_tensors(const std::string& name, const StoredTensor& tensor, const Checkpoint& first,
                      const Checkpoint& second) {
  constexpr std::int64_t most_bytes = std::int64_t{4} << 20;
  const std::int64_t step = most_bytes / static_cast<std::int64_t>(size_of(tensor.dtype));
  Buffer one = Buffer::on_host(tensor.dtype, std::min(step, tensor.count()), Contents::any);
  Buffer other = Buffer::on_host(tensor.dtype, std::min(step, tensor.count()), Contents::any);
  Apart apart;
  for (std::int64_t at = 0; at < tensor.count(); at += step) {
    const std::int64_t count = std::min(step, tensor.count() - at);
    const View here = one.view().slice(0, count);
    const View there = other.view().slice(0, count);
    const Wanted from_first{name, tensor.shape, at, here};
    const Wanted from_second{name, tensor.shape, at, there};
    first.read({&from_first, 1});
    second.read({&from_second, 1});
    dispatch(tensor.dtype, [&]<class T>(std::type_identity<T>) { compare<T>(here, there, apart); });
  }
  return apart;
}

std::string words_of(const Value& value) {
  return std::visit([](const auto& one) { return text(one); }, value);
}

template <class Map>
std::set<std::string> names_in(const Map& first, const Map& second) {
  std::set<std::string> names;
  for (const auto& [name, one] : first) names.insert(name);
  for (const auto& [name, one] : second) names.insert(name);
  return names;
}

}  // namespace

std::vector<Difference> Checkpoint::differences(const Checkpoint& other) const {
  std::vector<Difference> all;
  /// Whether both have it; otherwise says which one has it.
  const auto in_both = [&](const std::string& name, const auto& first, const auto& second) {
    if (first.contains(name) && second.contains(name)) return true;
    all.push_back({name, first.contains(name) ? "only in the first" : "only in the second"});
    return false;
  };
  for (const std::string& name : names_in(values(), other.values())) {
    if (in_both(name, values(), other.values()) && value(name) != other.value(name))
      all.push_back({name, words_of(value(name)) + " and " + words_of(other.value(name))});
  }
  const auto& mine = state_->index.tensors;
  const auto& others = other.state_->index.tensors;
  for (const std::string& name : names_in(mine, others)) {
    if (!in_both(name, mine, others)) continue;
    const StoredTensor& first = mine.at(name);
    const StoredTensor& second = others.at(name);
    if (first.dtype != second.dtype || first.shape != second.shape) {
      all.push_back({name, type_and_shape(first.dtype, first.shape) + " and " +
                               type_and_shape(second.dtype, second.shape)});
      continue;
    }
    const Apart apart = compare_tensors(name, first, *this, other);
    if (apart.elements > 0)
      all.push_back({name,
                     text(apart.elements, " of ", first.count(), " elements, by ", apart.most, " at most"),
                     apart.elements});
  }
  return all;
}

}  // namespace weft::checkpoint
