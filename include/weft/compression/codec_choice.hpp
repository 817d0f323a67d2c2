#pragma once
// Chooses a codec for each tensor by the predicted step time: a pure function.
//
//   const CodecChoice choice = choose_codecs(plan, profile, {.rank = 4});
//   std::cout << choice;                          // a table, the codecs, and the reasons
//
// From measured figures (when buckets are ready, what the wire takes, what coding takes) it predicts the step
// for three candidates, from exact to lossy. They are: no codec; bf16 for all tensors; PowerSGD for the
// tensors for which it pays, with the others uncompressed. A lossier candidate is chosen only if its step is
// shorter by a margin, because what its losses cost the training is not measured.
//
// The model. Buckets are sent one after the other while backward runs. A bucket begins when its gradients are
// ready and the bucket before has arrived; it takes its coding time, one latency for each collective, and its
// bytes. What ends after backward is exposed. If the thread that computes also carries buckets, nothing
// overlaps, and all of it is exposed. PowerSGD pays for a tensor if the step would be longer with the tensor
// uncompressed: a tensor whose transfer is hidden by backward anyway stays exact.
//
// WRONG: a different profile on each rank. The ranks would choose differently: agree on the figures first, as
// auto_hook does.

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "weft/gradient/bucket_planner.hpp"

namespace weft {

struct AutoOptions {
  int rank = 4;  ///< rank of PowerSGD
  /// Share of the step time that a lossier candidate must save.
  double least_gain = 0.05;
  /// Steps that count before PowerSGD begins, if it is chosen. It never begins before the choice.
  std::int64_t start_step = 100;
};

/// Seconds per element, on the slowest rank.
struct CodingSpeed {
  double bf16 = 0;     ///< bf16: encode, sum and decode an element of a bucket
  double matrix = 0;   ///< PowerSGD, element of a matrix: both products, and the pass that rebuilds it
  double factor = 0;   ///< PowerSGD, element of its factors: make them orthonormal
  double copying = 0;  ///< PowerSGD, element of an uncompressed tensor: copy it beside the factors, and back
};

/// The figures of a step whose gradients travel without a codec.
struct StepProfile {
  std::vector<double> ready_seconds;  ///< by bucket: when it is ready, counted from the first bucket
  double step_seconds = 0;            ///< from one step to the next
  LinkModel link;                     ///< of an all_reduce
  CodingSpeed coding;
  /// Time of a bucket beside computation over its time alone. Coding is assumed to slow down alike.
  double slowdown = 1;
  /// Buckets are compressed and carried while backward runs; false: by backward's thread.
  bool beside = true;
  bool sharded = false;  ///< each rank keeps a part of the means (Means::sharded)
};

struct CodecChoice {
  struct Tensor {
    std::string name;
    std::string codec;  ///< "none", or a name that hook_named() takes
  };
  struct Candidate {
    std::string name;
    double exposed_seconds = 0;  ///< predicted
    double step_seconds = 0;
  };

  std::string chosen;  ///< one of the candidates
  std::vector<Tensor> tensors;
  std::vector<Candidate> candidates;  ///< from exact to lossy; PowerSGD only if it pays for a tensor
  std::string why;

  /// Covers what was chosen, not the predictions. Ranks compare it.
  std::uint64_t hash() const;
  /// Names of the tensors that travel uncompressed.
  std::vector<std::string> whole() const;
  /// The choice and the reasons, in one line.
  std::string in_words() const;
  /// Prints a line for each candidate, and in_words().
  friend std::ostream& operator<<(std::ostream& out, const CodecChoice& choice);
};

/// The result depends on the figures only, not on the order of tensors in a bucket.
/// @throws Error (usage) for options that auto_hook() refuses; for times that are negative or not finite;
/// unless there is one ready time for each bucket; for a link without a rate; for a slowdown below 1
CodecChoice choose_codecs(const BucketPlan& plan, const StepProfile& profile, const AutoOptions& options);

}  // namespace weft
