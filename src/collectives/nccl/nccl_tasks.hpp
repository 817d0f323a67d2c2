#pragma once
// Operations as NCCL's calls: each is a task that hands its calls over when its turn on the stream comes; from then on the issuer watches
// over it.

#include <bit>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/nccl/issuer.hpp"

namespace weft::detail::nccl {

/// The sum of a mean of f16 may not fit f16. So its terms are first divided by a power of two from the number of ranks on, which
/// changes no bit but of subnormals, as between nodes on the host; the rest comes off the sum.
struct HalfMean {
  explicit HalfMean(int ranks)
      : divisor(static_cast<float>(std::bit_ceil(static_cast<unsigned>(ranks)))),
        rest(static_cast<double>(divisor) / ranks) {}

  /// NCCL's operation, which ends with the communicator.
  Result find(const Api& api, Comm* comm, Op& found) {
    if (!op) {
      Op made{};
      Half scalar(1 / divisor);
      const Result result = api.RedOpCreatePreMulSum(&made, &scalar, f16, on_the_host, comm);
      if (result != success) return result;
      op = made;
    }
    found = *op;
    return success;
  }

  float divisor;
  double rest;  ///< factor that is left
  std::optional<Op> op{};
};

/// NCCL connects ranks at their first operation, whose call waits for all of them. It is this one, so that a call of the user's
/// returns at once. An algorithm that NCCL chooses for other sizes connects at its own first use.
/// @param scratch memory of one float on the device
std::unique_ptr<Task> first_task(std::shared_ptr<Issuer> issuer, const weft::Stream& stream,
                                 std::shared_ptr<void> scratch);
std::unique_ptr<Task> collective_task(std::shared_ptr<Issuer> issuer, const weft::Stream& stream,
                                      const Operation& operation, std::shared_ptr<void> scratch,
                                      std::shared_ptr<HalfMean> half_mean);
std::unique_ptr<Task> transfers_task(std::shared_ptr<Issuer> issuer, const weft::Stream& stream,
                                     Transfers transfers);

}  // namespace weft::detail::nccl
