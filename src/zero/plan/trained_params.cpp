#include "zero/plan/trained_params.hpp"

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

void expect_known(const ParamLayout& model, ParamId id, const char* name) {
  const int number = static_cast<int>(id);
  if (number >= 0 && number < model.parameters()) return;
  throw Error(ErrorKind::usage, text(name, " has parameter ", number),
              text("parameters are 0 to ", model.parameters() - 1));
}

std::vector<bool> marked(const ParamLayout& model, const std::vector<ParamId>& frozen) {
  std::vector<bool> marks(static_cast<std::size_t>(model.parameters()));
  for (const ParamId id : frozen) {
    expect_known(model, id, "frozen");
    if (marks[index(id)])
      throw Error(ErrorKind::usage, text(model.name(id), " is frozen twice"), "name each parameter once");
    marks[index(id)] = true;
  }
  if (static_cast<int>(frozen.size()) == model.parameters())
    throw Error(ErrorKind::usage, "all parameters are frozen",
                "there is nothing to train: leave one parameter out of frozen");
  return marks;
}

/// A layout of the parameters whose mark equals `mark`. @param numbers gets their numbers in this layout, by parameter of the model
ParamLayout some(const ParamLayout& model, const std::vector<bool>& marks, bool mark,
                 std::vector<ParamId>& numbers) {
  std::vector<ParamSpec> specs;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] != mark) continue;
    const ParamId id{static_cast<int>(i)};
    numbers[i] = ParamId{static_cast<int>(specs.size())};
    specs.push_back({.name = model.name(id),
                     .count = model.count(id),
                     .storage = model.storage(id),
                     .shape = model.shape(id)});
  }
  return ParamLayout(model.dtype(), std::move(specs));
}

}  // namespace

TrainedParams::TrainedParams(const ParamLayout& model, const std::vector<ParamId>& frozen)
    : model_(model),
      is_frozen_(marked(model, frozen)),
      number_(is_frozen_.size()),
      trained_(frozen.empty() ? model : some(model, is_frozen_, false, number_)) {
  if (!frozen.empty()) {
    frozen_ = some(model, is_frozen_, true, number_);
  } else {
    for (std::size_t i = 0; i < number_.size(); ++i) number_[i] = ParamId{static_cast<int>(i)};
  }
}

ParamId TrainedParams::trained(ParamId id, const char* operation) const {
  expect_known(model_, id, operation);
  if (!is_frozen(id)) return number(id);
  throw Error(ErrorKind::usage, text(operation, " of ", model_.name(id), ", which is frozen"),
              "a frozen parameter has no gradient: leave it out of backward");
}

std::vector<ParamId> TrainedParams::trained_of(const std::vector<ParamId>& ids, const char* name) const {
  std::vector<ParamId> result;
  for (const ParamId id : ids) {
    expect_known(model_, id, name);
    if (!is_frozen(id)) result.push_back(number(id));
  }
  return result;
}

TrainedParams::Units TrainedParams::units(const std::vector<ParamId>& firsts) const {
  const std::vector<ParamId> all = firsts.empty() ? std::vector{ParamId{0}} : firsts;
  Units units;
  for (std::size_t unit = 0; unit < all.size(); ++unit) {
    const auto end =
        unit + 1 < all.size() ? index(all[unit + 1]) : static_cast<std::size_t>(model_.parameters());
    std::size_t first = index(all[unit]);
    while (first < end && is_frozen_[first]) ++first;
    if (first == end) continue;
    units.firsts.push_back(number_[first]);
    units.of.push_back(unit);
  }
  return units;
}

}  // namespace weft::detail
