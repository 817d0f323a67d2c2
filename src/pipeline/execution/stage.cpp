#include "weft/pipeline/stage.hpp"

#include "weft/core/error.hpp"

namespace weft::pipeline {
namespace {

// What a pass may ask of a stage beside computation, and this stage does not override.
[[noreturn]] void cannot(const char* what) {
  throw Error(ErrorKind::usage, text("the schedule asks a stage to ", what, ", which it cannot do"),
              text("override Stage::", what, ", or leave out the pass that puts it into the schedule"));
}

}  // namespace

void Stage::recompute(const MicrobatchValues&, const Stream&) {
  cannot("recompute");
}
void Stage::offload(int, const Stream&) {
  cannot("offload");
}
void Stage::await_offload(int, const Stream&) {
  cannot("await_offload");
}
void Stage::load(int, const Stream&) {
  cannot("load");
}
void Stage::await_load(int, const Stream&) {
  cannot("await_load");
}
void Stage::unshard(const Stream&) {
  cannot("unshard");
}
void Stage::await_unshard(const Stream&) {
  cannot("await_unshard");
}
void Stage::reshard(const Stream&) {
  cannot("reshard");
}
void Stage::reduce_gradients(const Stream&) {
  cannot("reduce_gradients");
}
void Stage::await_reduce_gradients(const Stream&) {
  cannot("await_reduce_gradients");
}

}  // namespace weft::pipeline
