#include "weft/gradient/param_layout.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "core/base/fnv.hpp"
#include "core/base/round_up.hpp"
#include "weft/core/buffer.hpp"

namespace weft {
namespace {

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t line_of(DataType dtype) {
  return static_cast<std::int64_t>(Buffer::alignment / size_of(dtype));
}

}  // namespace

ParamLayout::ParamLayout(DataType dtype, std::vector<ParamSpec> parameters)
    : dtype_(dtype), specs_(std::move(parameters)) {
  if (specs_.empty()) throw Error(ErrorKind::usage, "a layout without parameters", "give at least one");
  const std::int64_t line = line_of(dtype);
  std::unordered_set<std::string> names;
  std::unordered_map<const void*, std::string> owners;
  for (ParamSpec& spec : specs_) {
    if (spec.count <= 0)
      throw Error(ErrorKind::usage, text("parameter ", spec.name, " has ", spec.count, " elements"),
                  "leave parameters without elements out of the layout");
    if (spec.shape.empty()) spec.shape = {spec.count};
    if (elements(spec.shape) != spec.count)
      throw Error(ErrorKind::usage, text("parameter ", spec.name, " has ", spec.count,
                                         " elements and a shape of ", elements(spec.shape)));
    if (!names.insert(spec.name).second)
      throw Error(ErrorKind::usage, text("two parameters are named ", spec.name));
    const auto [owner, is_first] = owners.try_emplace(spec.storage, spec.name);
    if (spec.storage != nullptr && !is_first) {
      throw Error(ErrorKind::usage,
                  text("parameters ", owner->second, " and ", spec.name, " share their storage"),
                  "register a shared parameter once, and mark it when all its gradients are summed");
    }
    offsets_.push_back(size_);
    size_ += detail::round_up(spec.count, line);
  }
}

void ParamLayout::refuse(ParamId id) const {
  throw Error(ErrorKind::usage,
              text("parameter ", static_cast<std::int32_t>(id), " of a layout of ", parameters()),
              text("parameters are 0 to ", parameters() - 1));
}

ParamLayout ParamLayout::with_starts(const std::vector<ParamId>& starts, std::int64_t unit) const {
  const std::int64_t line = line_of(dtype_);
  if (unit < 1 || unit % line != 0)
    throw Error(ErrorKind::usage, text("parameters that start at multiples of ", unit, " elements"),
                text("give a multiple of ", line, ", a cache line of ", dtype_));
  std::vector<bool> is_start(specs_.size());
  for (const ParamId id : starts) {
    if (index(id) >= specs_.size())
      throw Error(ErrorKind::usage,
                  text("parameter ", static_cast<std::int32_t>(id), " of ", parameters(), " as a start"));
    is_start[index(id)] = true;
  }
  ParamLayout moved = *this;
  moved.size_ = 0;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (is_start[i]) moved.size_ = detail::round_up(moved.size_, unit);
    moved.offsets_[i] = moved.size_;
    moved.size_ += detail::round_up(specs_[i].count, line);
  }
  moved.size_ = detail::round_up(moved.size_, unit);
  return moved;
}

ParamLayout ParamLayout::without_storages() const {
  ParamLayout unknown = *this;
  for (ParamSpec& spec : unknown.specs_) spec.storage = nullptr;
  return unknown;
}

bool ParamLayout::has_parameters_of(const ParamLayout& other) const {
  const auto is_same = [](const ParamSpec& a, const ParamSpec& b) {
    return a.name == b.name && a.shape == b.shape;
  };
  return dtype_ == other.dtype_ && std::ranges::equal(specs_, other.specs_, is_same);
}

std::uint64_t ParamLayout::hash() const {
  detail::Fnv hash;
  hash.add(weft::name(dtype_));
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const ParamSpec& spec = specs_[i];
    hash.add(spec.name).add(static_cast<std::int64_t>(spec.shape.size()));
    for (const std::int64_t dimension : spec.shape) hash.add(dimension);
    hash.add(offsets_[i]);
  }
  return hash.add(size_).value();
}

}  // namespace weft
