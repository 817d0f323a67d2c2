#include "case.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "weft/core/error.hpp"

namespace weft::bench {
namespace {

struct TypeName {
  DataType dtype;
  const char* nccl;
};
constexpr std::array type_names{
    TypeName{DataType::f32, "float"},     TypeName{DataType::f64, "double"}, TypeName{DataType::f16, "half"},
    TypeName{DataType::bf16, "bfloat16"}, TypeName{DataType::i32, "int32"},  TypeName{DataType::i64, "int64"},
    TypeName{DataType::u8, "uint8"},      TypeName{DataType::i8, "int8"},    TypeName{DataType::i16, "int16"},
    TypeName{DataType::u32, "uint32"},    TypeName{DataType::u64, "uint64"}};
constexpr std::array redops{ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min,
                            ReduceOp::avg, ReduceOp::band, ReduceOp::bor, ReduceOp::bxor};

[[noreturn]] void refuse(const char* what, const std::string& word, const std::string& allowed) {
  throw Error(ErrorKind::usage, text(what, " '", word, "' is unknown"), "allowed are " + allowed);
}

}  // namespace

std::vector<Case> cases(const Sizes& sizes, Case like) {
  std::vector<Case> result;
  const std::size_t unit =
      size_of(like.dtype) * (has_parts(like.op) ? static_cast<std::size_t>(like.ranks) : 1);
  for (std::size_t bytes = sizes.first; bytes <= sizes.last;) {
    like.count = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / unit));
    if (result.empty() || result.back().count != like.count) result.push_back(like);
    const auto next = sizes.step > 0 ? static_cast<double>(bytes) + static_cast<double>(sizes.step)
                                     : static_cast<double>(bytes) * sizes.factor;
    if (next > static_cast<double>(sizes.last)) break;
    bytes = static_cast<std::size_t>(next);
  }
  return result;
}

const char* nccl_name(DataType dtype) {
  return std::ranges::find(type_names, dtype, &TypeName::dtype)->nccl;
}

DataType dtype_named(const std::string& word) {
  std::string allowed;
  for (const TypeName& one : type_names) {
    if (word == one.nccl || word == weft::name(one.dtype)) return one.dtype;
    allowed += text(one.nccl, " (", one.dtype, "), ");
  }
  refuse("--datatype", word, allowed + "all");
}

ReduceOp redop_named(const std::string& word) {
  for (const ReduceOp op : redops) {
    if (word == weft::name(op)) return op;
  }
  refuse("--op", word, "sum, prod, max, min, avg, all, and of integers band, bor, bxor");
}

Op op_named(const std::string& word) {
  std::string allowed;
  for (const Operation& one : operations()) {
    if (word == one.name) return one.op;
    allowed += text(allowed.empty() ? "" : ", ", one.name);
  }
  refuse("collective", word, allowed);
}

}  // namespace weft::bench
