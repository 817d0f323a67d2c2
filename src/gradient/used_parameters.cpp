#include "gradient/used_parameters.hpp"

namespace weft::detail {

void UsedParameters::tell(Communicator& comm) {
  if (unused_ == Unused::refuse || is_known_) return;
  told_.wait();  // of the step before: it is read and written by that one until then
  anywhere_ = here_;
  told_ = comm.all_reduce(View(std::span(anywhere_)), ReduceOp::max, stream_);
  if (unused_ != Unused::as_in_first_step) return;
  is_known_ = true;
  expected_ = unused_now_;
}

}  // namespace weft::detail
