#include "common/rank_outputs.hpp"

#include "weft/core/error.hpp"

namespace weft::tool {

void open_on_rank_0(Outputs& outputs, const World& world,
                    const std::vector<std::pair<std::string, std::optional<std::string>>>& files) {
  std::optional<Error> refusal;
  if (world.rank() != 0) {
    outputs.silence();
  } else {
    try {
      for (const auto& [option, path] : files) outputs.open(option, path);
    } catch (const Error& error) {
      refusal = error;
    }
  }
  const auto notes = world.rendezvous()->all_gather(refusal ? refusal->problem() : "", "files to write",
                                                    Deadline::in(world.connect_timeout()));
  if (refusal) throw Error(*refusal);
  if (!notes.front().empty()) throw Error(ErrorKind::usage, notes.front());
}

}  // namespace weft::tool
