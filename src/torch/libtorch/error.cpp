#include "weft/torch/error.hpp"

namespace weft::torch {

// Without torch's backtrace: the message says where, and symbols take torch a second to look up.
Error::Error(const weft::Error& cause) : c10::Error(std::string(cause.what()), {}, nullptr), cause_(cause) {}

}  // namespace weft::torch
