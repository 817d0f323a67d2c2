#pragma once
// --optimizer and what goes with it, on the command lines of the trainers.

#include "common/command_line.hpp"
#include "weft-scaling/gpt/trainer/schedule.hpp"

namespace weft::examples {

inline void add_options(boost::program_options::options_description& all, RecipeChanges& recipe) {
  using boost::program_options::value;
  const auto to = [](auto& place) { return [&place](const auto& given) { place = given; }; };
  all.add_options()  //
      ("optimizer", value<std::string>()->value_name("NAME")->notifier(to(recipe.optimizer)),
       "adamw (with the model's settings), muon, lamb, lars or sgd")  //
      ("learning-rate", value<double>()->value_name("RATE")->notifier(to(recipe.learning_rate)),
       "peak of the schedule (the model's own)")  //
      ("final-fraction", value<double>()->value_name("SHARE")->notifier(to(recipe.final_fraction)),
       "share of the peak at the end of the cosine (the model's own; use 0 to compare losses)")  //
      ("warmup", value<std::int64_t>()->value_name("N")->notifier(to(recipe.warmup_steps)),
       "steps over which the rate rises (the model's own)")  //
      ("beta1", value<double>()->value_name("SHARE")->notifier(to(recipe.beta1)),
       "AdamW's first moment (the model's own)");
}

/// @throws Error (usage) for an option without effect
inline void check(const boost::program_options::variables_map& values, const RecipeChanges& recipe) {
  if (recipe.optimizer == "sgd" || recipe.optimizer == "lars")
    tool::refuse_ignored(values, {"beta1"}, text(*recipe.optimizer, " has no first moment, adamw has"));
}

}  // namespace weft::examples
