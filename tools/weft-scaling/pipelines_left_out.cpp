#include "pipelines.hpp"
#include "weft/core/error.hpp"

namespace weft::scaling {
namespace {

Error left_out() {
  return Error(ErrorKind::usage, "this weft-scaling is built without pipelines, as the quick start needs it",
               "cmake --preset release && cmake --build --preset release builds all of it");
}

}  // namespace

void check_schedule(const std::string& /*schedule*/) {
  throw left_out();
}

void check_pipeline(const Strategy& /*strategy*/, const Options& /*options*/, int /*ranks*/) {
  throw left_out();
}

std::unique_ptr<Training> make_pipeline_training(const Strategy& /*strategy*/, const Communicator& /*comm*/,
                                                 const examples::ModelSpec& /*spec*/,
                                                 const Options& /*options*/, const examples::Text& /*text*/,
                                                 std::shared_ptr<Trace> /*trace*/) {
  throw left_out();
}

}  // namespace weft::scaling
