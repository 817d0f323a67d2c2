#pragma once
// Errors of weft as the exceptions that users of torch catch.
//
// What ends communication is a torch.distributed.DistBackendError (a RuntimeError of Python): a lost peer, a
// timeout, ranks that disagree. A wrong argument is a ValueError. The line says rank, operation, values and
// what to do; ranks are those of the group, whose ranks of the world stand behind it where they differ.

#include <exception>
#include <string>

namespace weft::distributed {

/// @param where appended to the line, such as " (group of ranks 2, 3)"; may be empty
/// @returns `error` unless it is one of weft's
std::exception_ptr as_torch_error(const std::exception_ptr& error, const std::string& where);

/// A DistBackendError of this line.
std::exception_ptr backend_error(const std::string& line);

/// Throws ValueError: the caller gave what an operation cannot take.
[[noreturn]] void refuse(const std::string& operation, const std::string& problem, const std::string& advice);

}  // namespace weft::distributed
