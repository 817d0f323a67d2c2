#include "weft/torch/error.hpp"

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace weft::torch {
namespace {

/// What the reducer and the sharded optimizer advise is done with the options of weft::torch.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> words{{
    {"ReducerOptions::", "DataParallelOptions::"},
    {"GradientReducer::join()", "DataParallel::join()"},
    {"GradientReducer::", "DataParallel::reducer()."},
    {"ShardedOptimizerOptions::", "ZeroOptions::"},
    {"ShardedOptions::", "ZeroOptions::"},
}};

std::string in_own_words(std::string line) {
  for (const auto& [theirs, ours] : words) {
    for (std::size_t at = line.find(theirs); at != line.npos; at = line.find(theirs, at + ours.size()))
      line.replace(at, theirs.size(), ours);
  }
  return line;
}

weft::Error in_own_words(const weft::Error& cause) {
  return {cause.kind(), in_own_words(cause.problem()), in_own_words(cause.advice()), cause.context(),
          cause.where()};
}

}  // namespace

// Without torch's backtrace: the message says where, and symbols take torch a second to look up.
Error::Error(const weft::Error& cause)
    : c10::Error(std::string(in_own_words(cause).what()), {}, nullptr), cause_(in_own_words(cause)) {}

}  // namespace weft::torch
