#pragma once
// One flat space for all parameters: every tensor has a stable offset, in elements.
//
// Gradients, parameters and optimizer state of one model lie in buffers of this layout, so that a bucket is a
// range, a shard is a range, and a collective moves bytes where they already lie. Tensors start on cache
// lines, and the gaps between them are always zero. All tensors of a layout have one data type. A layout is a
// plain value: it can be compared by its hash, and copied.
//
// Where each rank keeps a part of every bucket, buckets must divide evenly: with_starts() widens gaps for
// that.
//
//   ParamLayout layout(DataType::f32, {{"embedding", 256 * 384}, {"head.weight", 384 * 256}});
//   float* head = gradients + layout.offset(ParamId{1});

#include <cstdint>
#include <string>
#include <vector>

#include "weft/core/dtype.hpp"
#include "weft/core/view.hpp"

namespace weft {

/// A parameter's place in the order of registration.
enum class ParamId : std::int32_t {};
constexpr std::size_t index(ParamId id) {
  return static_cast<std::size_t>(id);
}

struct ParamSpec {
  std::string name;
  std::int64_t count = 0;  ///< elements
  /// Where its values are, to refuse two parameters that share them, and two exchanges of one: reducers,
  /// ShardedParams, and what weft::torch wraps; not a part of the layout. Null: not known, and nothing is refused.
  const void* storage = nullptr;
  /// Row-major. Low-rank codecs take the first dimension for rows. Empty: a vector.
  std::vector<std::int64_t> shape{};
};

class ParamLayout {
 public:
  /// @throws Error (usage) when there are no parameters, when one has no elements or a shape that does not
  /// match its count, or when two have the same name or storage
  ParamLayout(DataType dtype, std::vector<ParamSpec> parameters);

  /// From any range of objects with a `name` and a `count`, and optionally a pointer `data` and a range
  /// `shape`.
  template <class Range>
  static ParamLayout of(const Range& parameters, DataType dtype = DataType::f32) {
    std::vector<ParamSpec> specs;
    for (const auto& one : parameters) {
      specs.push_back({one.name, static_cast<std::int64_t>(one.count)});
      if constexpr (requires { static_cast<const void*>(one.data); }) specs.back().storage = one.data;
      if constexpr (requires { one.shape; }) specs.back().shape.assign(one.shape.begin(), one.shape.end());
    }
    return ParamLayout(dtype, std::move(specs));
  }

  DataType dtype() const { return dtype_; }
  /// Number of parameters.
  int parameters() const { return static_cast<int>(specs_.size()); }
  /// @throws Error (usage), here and below, for a number that is no parameter's
  const std::string& name(ParamId id) const { return specs_[known(id)].name; }
  std::int64_t count(ParamId id) const { return specs_[known(id)].count; }
  /// At least one dimension.
  const std::vector<std::int64_t>& shape(ParamId id) const { return specs_[known(id)].shape; }
  const void* storage(ParamId id) const { return specs_[known(id)].storage; }
  std::int64_t offset(ParamId id) const { return offsets_[known(id)]; }
  const std::vector<std::int64_t>& offsets() const { return offsets_; }
  /// Elements of a buffer of this layout, gaps included.
  std::int64_t size() const { return size_; }
  std::size_t size_bytes() const { return static_cast<std::size_t>(size_) * size_of(dtype_); }

  /// The elements of one parameter in a buffer of this layout.
  View view(const View& buffer, ParamId id) const { return buffer.slice(offset(id), count(id)); }

  /// The same parameters with wider gaps. Each of `starts` begins at a multiple of `unit` elements, and the
  /// size is a multiple of it. So the elements between two starts divide evenly. @throws Error (usage) unless
  /// `unit` is whole cache lines and all of `starts` are parameters
  ParamLayout with_starts(const std::vector<ParamId>& starts, std::int64_t unit) const;
  /// The same, with no storage known.
  ParamLayout without_storages() const;
  /// Whether names, shapes and data type are the same; offsets may differ.
  bool has_parameters_of(const ParamLayout& other) const;

  /// Over names, shapes, data type and offsets. The same on every rank and in every run.
  std::uint64_t hash() const;

 private:
  std::size_t known(ParamId id) const {
    if (index(id) >= specs_.size()) refuse(id);
    return index(id);
  }
  [[noreturn]] void refuse(ParamId id) const;

  DataType dtype_;
  std::vector<ParamSpec> specs_;
  std::vector<std::int64_t> offsets_;
  std::int64_t size_ = 0;
};

}  // namespace weft
