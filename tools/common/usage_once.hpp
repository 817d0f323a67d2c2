#pragma once
// Usage errors of a program that a launcher starts on several ranks: said once. The ranks have not connected then, so each decides by
// the launcher's variables (OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID, RANK, WEFT_RANK, ...) whether it is the first.
//
//   const Options options = tool::alike_on_ranks([&] { return parse(arguments); });   // rank 0 says what is wrong here
//   const Text text = Text::read(options.text);   // a rank may be alone with what is wrong here
//   int main(int argc, char** argv) { return tool::run_program("NAME", argc, argv, tool::on_ranks(run)); }

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/core/error.hpp"

namespace weft::tool {

/// A usage error that all ranks have alike, because they have one command line.
class AlikeError : public Error {
 public:
  explicit AlikeError(const Error& error) : Error(error) {}
};

/// Calls `body`, whose usage errors all ranks have alike.
template <class Body>
std::invoke_result_t<Body> alike_on_ranks(Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    throw AlikeError(error);
  }
}

/// How many ranks the launcher's variables say there are, so that what does not suit them is refused before a rank waits for another. None
/// where they do not say: World knows.
std::optional<int> launched_ranks();

/// By the launcher's variables; true where they do not say.
bool is_first_rank();
/// "connecting 4 ranks", for a line of progress.
std::string connecting_ranks();

using Body = std::function<int(const std::vector<std::string>&)>;

/// `run` on one of several ranks. The first rank alone says a usage error that all have alike. Another one, such as a file that cannot be
/// read, waits for 5 s on the others: where the first has it too, launchers end them within that time (mpirun at once, weft-launch after
/// 4 s). Under Slurm, which does not, each says it.
Body on_ranks(Body run);

}  // namespace weft::tool
