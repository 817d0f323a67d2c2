#pragma once
// The objects of a training behind handles: layouts, reducers, ZeRO, checkpoints.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "c/objects.hpp"
#include "weft/compression/hook_named.hpp"
#include "weft/gradient/gradient_reducer.hpp"
#include "weft/gradient/initial_values.hpp"
#include "weft/gradient/param_layout.hpp"
#include "weft/zero/sharded_optimizer.hpp"
#include "weft/zero/sharded_params.hpp"
#if WEFT_HAS_CHECKPOINT
#include "weft/checkpoint/checkpointer.hpp"
#endif

namespace weft::c {

/// What a ParamLayout is made of.
struct Layout {
  DataType dtype;
  std::vector<ParamSpec> parameters;

  ParamLayout layout() const { return ParamLayout(dtype, parameters); }
  /// @throws Error (usage) for a number that is no parameter's
  std::size_t known(int id) const;
  /// @throws Error (usage) where any is NULL
  std::vector<NamedValues> values(void* const* all, Device device) const;
};

struct Reducer {
  GradientReducer reducer;
  std::vector<ParamId> ids;  ///< by the caller's number: with an order of backward of its own they are others

  ParamId known(int id) const;
};

struct Zero {
  std::unique_ptr<zero::ShardedParams> params;
  std::unique_ptr<zero::ShardedOptimizer> optimizer{};  // null until it is set
  std::map<int, zero::Gathered> held{};                 // by unit

  ParamId known(int id) const;
  /// @throws Error (usage) where none was set
  zero::ShardedOptimizer& set_optimizer() const;
};

inline auto& layouts() noexcept {
  return table<Layout, Kind::layout>();
}
inline auto& reducers() noexcept {
  return table<Reducer, Kind::reducer>();
}
inline auto& zeros() noexcept {
  return table<Zero, Kind::zero>();
}
#if WEFT_HAS_CHECKPOINT
inline auto& checkpointers() noexcept {
  return table<checkpoint::Checkpointer, Kind::checkpointer>();
}
#endif

/// @throws Error (usage), here and below, for a number that is none of its words
inline int word_of(const char* argument, int value, int last, const char* header) {
  if (value < 0 || value > last) refuse_word(argument, value, last, header);
  return value;
}
inline Exchange exchange_of(weft_exchange_t exchange) {
  return word_of("exchange", exchange, WEFT_NO_SYNC, "weft_exchange_t") == WEFT_NO_SYNC ? Exchange::no_sync
                                                                                        : Exchange::now;
}
inline Unused unused_of(weft_unused_t unused) {
  return static_cast<Unused>(word_of("unused", unused, WEFT_UNUSED_AS_IN_FIRST_STEP, "weft_unused_t"));
}
inline InitialValues initial_values_of(weft_initial_values_t how) {
  return static_cast<InitialValues>(
      word_of("initial values", how, WEFT_FROM_RANK_0, "weft_initial_values_t"));
}
/// Null for NULL. @param start_step 0: 100; below 0: 0
std::shared_ptr<CommHook> hook_of(const char* hook, std::int64_t start_step);

}  // namespace weft::c
