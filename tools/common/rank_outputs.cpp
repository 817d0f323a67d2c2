#include "common/rank_outputs.hpp"

#include "common/usage_once.hpp"
#include "weft/core/error.hpp"

namespace weft::tool {

void on_rank_0(const World& world, const std::function<void()>& body) {
  std::optional<Error> refusal;
  if (world.rank() == 0) {
    try {
      body();
    } catch (const Error& error) {
      refusal = error;
    }
  }
  const auto notes = world.rendezvous()->all_gather(refusal ? refusal->problem() : "", "files of rank 0",
                                                    Deadline::in(world.connect_timeout()));
  if (refusal) throw Error(*refusal);
  if (!notes.front().empty()) throw AlikeError(Error(ErrorKind::usage, notes.front()));
}

void open_on_rank_0(Outputs& outputs, const World& world,
                    const std::vector<std::pair<std::string, std::optional<std::string>>>& files) {
  if (world.rank() != 0) outputs.silence();
  on_rank_0(world, [&] {
    for (const auto& [option, path] : files) outputs.open(option, path);
  });
}

}  // namespace weft::tool
