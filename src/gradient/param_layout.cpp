#include "weft/gradient/param_layout.hpp"

#include <functional>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "core/fnv.hpp"
#include "weft/core/buffer.hpp"

namespace weft {
namespace {

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

ParamLayout::ParamLayout(DataType dtype, std::vector<ParamSpec> parameters)
    : dtype_(dtype), specs_(std::move(parameters)) {
  if (specs_.empty()) throw Error(ErrorKind::usage, "a layout without parameters", "give at least one");
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(dtype));
  std::unordered_set<std::string> names;
  std::unordered_map<const void*, std::string> owners;
  for (ParamSpec& spec : specs_) {
    if (spec.count <= 0)
      throw Error(ErrorKind::usage, text("parameter ", spec.name, " has ", spec.count, " elements"));
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
    size_ += (spec.count + line - 1) / line * line;
  }
}

std::uint64_t ParamLayout::hash() const {
  detail::Fnv hash;
  hash.add(weft::name(dtype_));
  for (const ParamSpec& spec : specs_) {
    hash.add(spec.name).add(static_cast<std::int64_t>(spec.shape.size()));
    for (const std::int64_t dimension : spec.shape) hash.add(dimension);
  }
  return hash.value();
}

}  // namespace weft
