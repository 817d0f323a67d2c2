#pragma once
// Which code each tensor travels in, chosen by the step time that is predicted: a pure function.
//
// From what was measured (when buckets are ready, what the wire takes, what coding takes) it predicts a step
// for three candidates, from exact to lossy: gradients as they are; all of them in bf16; PowerSGD, of those
// tensors for which it pays, with the others beside them as they are. A lossier one is chosen only where its
// step is shorter by a margin, for what it loses costs training something that nobody has measured.
//
//   const CodecChoice choice = choose_codecs(plan, profile, {.rank = 4});
//   std::cout << choice;                          // a table, the codes, and why
//
// The model. Beside the backward pass, a bucket begins when its gradients are ready and the one before it has
// arrived, and takes its coding, a latency for each collective, and its bytes; what of that comes after
// backward is exposed. Where the thread that computes carries buckets too, nothing hides, and all is exposed.
// A tensor pays when the step would be longer with it as it is: what hides behind backward anyway does not,
// and stays exact.
//
// WRONG: another profile on each rank. They would choose apart: agree on the numbers first, as auto_hook
// does.

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "weft/gradient/bucket_planner.hpp"

namespace weft {

struct AutoOptions {
  int rank = 4;  ///< of PowerSGD
  /// By what share a step must become shorter for a lossier code.
  double least_gain = 0.05;
  /// Steps that count until PowerSGD begins, where it is chosen; never before all have chosen.
  std::int64_t start_step = 100;
};

/// Seconds for an element, on the slowest rank.
struct CodingSpeed {
  double bf16 = 0;     ///< of a bucket: encoded, summed and decoded
  double matrix = 0;   ///< of a matrix: both products of PowerSGD, and the pass that rebuilds it
  double factor = 0;   ///< of its factors: judged, copied and made orthonormal
  double copying = 0;  ///< of what travels as it is beside factors: to where they lie, and back
};

/// What is known of a step whose gradients travel as they are.
struct StepProfile {
  std::vector<double> ready_seconds;  ///< by bucket, after the first one's
  double step_seconds = 0;            ///< from one step to the next
  LinkModel link;                     ///< of an all_reduce
  CodingSpeed coding;
  /// How many times as long a bucket takes beside computation as it does alone. Coding is taken to suffer
  /// alike.
  double slowdown = 1;
  bool beside = true;    ///< buckets are coded and carried while backward goes on; else in its way
  bool sharded = false;  ///< ranks keep a part of the means each
};

struct CodecChoice {
  struct Tensor {
    std::string name;
    std::string code;  ///< "none", or a name as hook_named() takes it
  };
  struct Candidate {
    std::string name;
    double exposed_seconds = 0;  ///< predicted
    double step_seconds = 0;
  };

  std::string chosen;  ///< one of the candidates
  std::vector<Tensor> tensors;
  std::vector<Candidate> candidates;  ///< from exact to lossy; PowerSGD only where it pays for a tensor
  std::string why;

  /// Of what is done, and not of the predictions: ranks compare it.
  std::uint64_t hash() const;
  /// Names of those that travel as they are.
  std::vector<std::string> whole() const;
  /// What and why, in one line.
  std::string in_words() const;
  /// A line for each candidate, and in_words().
  friend std::ostream& operator<<(std::ostream& out, const CodecChoice& choice);
};

/// The same for the same numbers, in whatever order the tensors of a bucket are.
/// @throws Error (usage) for options as auto_hook() does; when times are negative or none, or not one for
/// each bucket; for a link without a rate; a slowdown below 1
CodecChoice choose_codecs(const BucketPlan& plan, const StepProfile& profile, const AutoOptions& options);

}  // namespace weft
