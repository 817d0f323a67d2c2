#include "core/elementwise.hpp"

namespace weft::detail {

void divide(View data, std::int64_t divisor) {
  dispatch(data.dtype(), [&]<class T>(std::type_identity<T>) {
    const auto by = static_cast<Accumulate<T>>(divisor);
    for (T& element : data.as<T>()) element = static_cast<T>(static_cast<Accumulate<T>>(element) / by);
  });
}

}  // namespace weft::detail
