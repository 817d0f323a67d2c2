#include "common/rank_outputs.hpp"

#include "collectives/diagnosis/agree.hpp"
#include "common/usage_once.hpp"

namespace weft::tool {

void on_rank_0(const World& world, const std::function<void()>& body) {
  using detail::Outcome;
  const Outcome mine = world.rank() == 0 ? Outcome::of(body) : Outcome();
  const auto words =
      world.rendezvous()->all_gather(mine.words(), "files of rank 0", Deadline::in(world.connect_timeout()));
  mine.expect({});
  const Outcome rank_0 = Outcome::from(words.front());
  if (rank_0.why()) throw AlikeError(*rank_0.why());
}

void open_on_rank_0(Outputs& outputs, const World& world,
                    const std::vector<std::pair<std::string, std::optional<std::string>>>& files) {
  if (world.rank() != 0) outputs.silence();
  on_rank_0(world, [&] {
    for (const auto& [option, path] : files) outputs.open(option, path);
  });
}

}  // namespace weft::tool
