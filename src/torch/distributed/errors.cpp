#include "torch/distributed/errors.hpp"

#include <c10/util/Exception.h>

#include "collectives/diagnosis/operation_words.hpp"
#include "weft/core/env.hpp"
#include "weft/core/error.hpp"

namespace weft::distributed {
namespace {

template <class TorchError>
std::exception_ptr made(const std::string& line) {
  return std::make_exception_ptr(
      TorchError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, line));
}

/// What helps in Python, in place of what does in C++ and of variables of the environment, which have no effect there.
std::string with_options_of_python(std::string line) {
  constexpr std::string_view join =
      "where ranks have different numbers of batches, train within DistributedDataParallel's join(), or "
      "torch.distributed.algorithms.Join";
  constexpr std::string_view timeout = "the timeout= argument of init_process_group or new_group";
  for (const auto& [there, here] :
       {std::pair(detail::uneven_batches_advice, join), std::pair(env::connect_timeout.name, timeout),
        std::pair(env::timeout.name, timeout)}) {
    const std::size_t at = line.find(there);
    if (at != std::string::npos) line.replace(at, there.size(), here);
  }
  return line;
}

}  // namespace

std::exception_ptr backend_error(const std::string& line) {
  return made<c10::DistBackendError>(line);
}

std::exception_ptr as_torch_error(const std::exception_ptr& error, const std::string& where) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& of_weft) {
    std::string line = with_options_of_python(of_weft.what()) + where;
    constexpr std::string_view library = "weft: ";
    if (of_weft.kind() == ErrorKind::timeout)
      line.insert(line.starts_with(library) ? library.size() : 0, "Timed out waiting: ");
    const bool is_another_ranks = of_weft.advice() == detail::its_own_message;
    if (of_weft.kind() == ErrorKind::usage && !is_another_ranks) return made<c10::ValueError>(line);
    return backend_error(line);
  } catch (...) {
    return std::current_exception();
  }
}

void refuse(const std::string& operation, const std::string& problem, const std::string& advice) {
  std::rethrow_exception(made<c10::ValueError>("weft: " + operation + ": " + problem + "; " + advice));
}

}  // namespace weft::distributed
