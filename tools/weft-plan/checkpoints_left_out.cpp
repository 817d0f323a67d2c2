// Where weft was built without checkpoints.

#include "commands.hpp"
#include "weft/core/error.hpp"

namespace weft::plan {

int run_checkpoint(const std::vector<std::string>& /*arguments*/) {
  throw Error(ErrorKind::usage, "this weft-plan was built without checkpoints",
              "install xxHash (libxxhash-dev), and build it with -DWEFT_CHECKPOINT=ON");
}

}  // namespace weft::plan
