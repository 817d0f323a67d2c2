#include "zero/update/grouped_step.hpp"

namespace weft::detail {

StepSlice part(const StepSlice& slice, std::int64_t at, std::int64_t count, int moments) {
  const auto of = [&](const View& view) { return view.empty() ? View() : view.slice(at, count); };
  return {.gradient = slice.gradient.slice(at, count),
          .parameters = slice.parameters.slice(at, count),
          .master = of(slice.master),
          .first = moments > 0 ? of(slice.first) : View(),
          .second = moments > 1 ? of(slice.second) : View(),
          .kept = slice.kept};
}

void grouped_step(const StepSlice& slice, std::int64_t begin, const GroupedFactors& factors,
                  const Stream& stream) {
  const std::int64_t end = begin + slice.parameters.count();
  factors.runs->visit(begin, end, [&](std::int64_t from, std::int64_t to, std::size_t group) {
    const StepFactors& mine = factors.by_group[group];
    if (mine.rule == UpdateRule::none) return;
    fused_step(part(slice, from - begin, to - from, mine.moments()), mine, stream);
  });
}

}  // namespace weft::detail
