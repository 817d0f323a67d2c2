#include "data.hpp"

#include <cstring>
#include <type_traits>

namespace weft::bench {
namespace {

// Rows differ between ranks and along the buffer, with a period that no power of two shares.
template <class T>
Accumulate<T> value(int rank, std::int64_t i, ReduceOp op) {
  const std::int64_t mixed =
      (i % 1021 + 7 * static_cast<std::int64_t>(rank)) % (op == ReduceOp::prod ? 2 : 5);
  return static_cast<Accumulate<T>>(mixed + 1);
}

template <class T>
T reduced(std::int64_t i, int ranks, ReduceOp op) {
  using A = Accumulate<T>;
  A result = value<T>(0, i, op);
  for (int rank = 1; rank < ranks; ++rank) {
    const A next = value<T>(rank, i, op);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        result = static_cast<A>(result + next);
        break;
      case ReduceOp::prod:
        result = static_cast<A>(result * next);
        break;
      case ReduceOp::min:
        result = next < result ? next : result;
        break;
      case ReduceOp::max:
        result = next > result ? next : result;
        break;
    }
  }
  if (op == ReduceOp::avg) result = static_cast<A>(result / static_cast<A>(ranks));
  return static_cast<T>(result);
}

template <class T>
T expected(const Case& which, std::int64_t i) {
  const auto sent = [&](int rank, std::int64_t at) {
    return static_cast<T>(value<T>(rank, at, which.redop));
  };
  switch (which.op) {
    case Op::all_reduce:
    case Op::reduce:
      return reduced<T>(i, which.ranks, which.redop);
    case Op::reduce_scatter:
      return reduced<T>(which.rank * which.count + i, which.ranks, which.redop);
    case Op::all_gather:
      return sent(static_cast<int>(i / which.count), i % which.count);
    case Op::broadcast:
      return sent(which.root, i);
    case Op::all_to_all:
      return sent(static_cast<int>(i / which.count), which.rank * which.count + i % which.count);
    case Op::send_receive:
      return sent((which.rank + which.ranks - 1) % which.ranks, i);
  }
  return T{};
}

}  // namespace

void fill(const Case& which, std::byte* input) {
  dispatch(which.dtype, [&]<class T>(std::type_identity<T>) {
    T* elements = reinterpret_cast<T*>(input);
    for (std::int64_t i = 0; i < which.in_count(); ++i)
      elements[i] = static_cast<T>(value<T>(which.rank, i, which.redop));
  });
}

std::int64_t wrong(const Case& which, const std::byte* output) {
  if (!which.writes_here()) return 0;
  return dispatch(which.dtype, [&]<class T>(std::type_identity<T>) {
    const T* elements = reinterpret_cast<const T*>(output);
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < which.out_count(); ++i) {
      const T right = expected<T>(which, i);
      if (std::memcmp(&elements[i], &right, sizeof(T)) != 0) ++count;
    }
    return count;
  });
}

}  // namespace weft::bench
