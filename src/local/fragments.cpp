#include "local/fragments.hpp"

#include <algorithm>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

std::vector<int> cut(const ParamLayout& layout, int fragments) {
  std::int64_t all = 0;
  for (int i = 0; i < layout.parameters(); ++i) all += layout.count(ParamId{i});
  std::vector<int> result;
  std::int64_t before = 0;
  int fragment = 0;
  for (int i = 0; i < layout.parameters(); ++i) {
    const std::int64_t count = layout.count(ParamId{i});
    const int left = layout.parameters() - i;  // this one included
    // The cut before this parameter is nearer to the share than the one after it, counted from the middle of the parameter.
    const bool is_near = (2 * before + count) * fragments > 2 * all * (fragment + 1);
    const bool is_last = fragment + 1 == fragments;
    if (i > 0 && !is_last && (is_near || left < fragments - fragment)) ++fragment;
    result.push_back(fragment);
    before += count;
  }
  return result;
}

}  // namespace

std::vector<int> fragments_of(const ParamLayout& layout, const LocalStepsOptions& options) {
  if (options.fragments > layout.parameters())
    throw Error(ErrorKind::usage,
                text(options.fragments, " fragments of ", layout.parameters(), " parameters"),
                "a fragment is whole parameters: set LocalStepsOptions::fragments to at most their number");
  if (options.fragment_of.empty()) return cut(layout, options.fragments);
  const std::vector<int>& given = options.fragment_of;
  if (std::ssize(given) != layout.parameters())
    throw Error(ErrorKind::usage,
                text("LocalStepsOptions::fragment_of has ", given.size(), " numbers for ",
                     layout.parameters(), " parameters"),
                "give one for each parameter of the layout, in its order");
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] < 0 || given[i] >= options.fragments)
      throw Error(ErrorKind::usage,
                  text("parameter ", layout.name(ParamId{static_cast<int>(i)}), " in fragment ", given[i],
                       " of ", options.fragments),
                  text("fragments are 0 to ", options.fragments - 1));
  }
  for (int fragment = 0; fragment < options.fragments; ++fragment) {
    if (std::find(given.begin(), given.end(), fragment) == given.end())
      throw Error(ErrorKind::usage,
                  text("fragment ", fragment, " of ", options.fragments, " has no parameter"),
                  "name each fragment in LocalStepsOptions::fragment_of");
  }
  return given;
}

std::vector<ParamId> parameters_of(const std::vector<int>& fragments, int fragment) {
  std::vector<ParamId> ids;
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    if (fragments[i] == fragment) ids.push_back(ParamId{static_cast<int>(i)});
  }
  return ids;
}

ParamLayout layout_of(const ParamLayout& layout, const std::vector<ParamId>& ids) {
  if (std::ssize(ids) == layout.parameters()) return layout;
  std::vector<ParamSpec> specs;
  for (const ParamId id : ids)
    specs.push_back({layout.name(id), layout.count(id), nullptr, layout.shape(id)});
  return ParamLayout(layout.dtype(), std::move(specs));
}

std::int64_t steps_behind(const LocalStepsOptions& options, int fragment) {
  return options.every - (fragment + 1) * (options.every / options.fragments);
}

void check_streaming(const LocalStepsOptions& options) {
  if (options.fragments < 1)
    throw Error(ErrorKind::usage, text(options.fragments, " fragments"),
                "set LocalStepsOptions::fragments to 1 or more");
  if (options.every % options.fragments != 0)
    throw Error(ErrorKind::usage,
                text(options.fragments, " fragments, each sent every ", options.every, " inner steps"),
                text("fragments are sent every / fragments steps apart: set LocalStepsOptions::every to a "
                     "multiple of ",
                     options.fragments));
  if (options.delay < 0 || options.delay >= options.every)
    throw Error(
        ErrorKind::usage,
        text("a delay of ", options.delay, " inner steps, and each fragment is sent every ", options.every),
        text("a fragment is taken in before it is sent again: set LocalStepsOptions::delay from 0 to ",
             options.every - 1));
  if (!(options.mixing >= 0 && options.mixing < 1))
    throw Error(ErrorKind::usage, text("a mixing of ", options.mixing),
                "it is the share of this rank's own parameters: give one from 0 to below 1");
}

}  // namespace weft::detail
