#include "weft-plan/scale/unknown_name.hpp"

#include "core/base/strings.hpp"
#include "weft/core/error.hpp"

namespace weft::scale {

void refuse_name(const char* kind, std::string_view name, const std::vector<std::string>& names,
                 const std::string& otherwise) {
  std::string all;
  for (const std::string& one : names) all += (all.empty() ? "" : ", ") + one;
  const auto near = detail::nearest_name(names, name);
  throw Error(ErrorKind::usage, text("no ", kind, " is named '", name, "'; there are ", all),
              near ? text("did you mean ", *near, "?") : otherwise);
}

}  // namespace weft::scale
