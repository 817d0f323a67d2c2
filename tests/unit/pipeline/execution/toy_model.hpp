#pragma once
// A model of stages that scale and shift, in whole numbers, so that sums are the same in any order. Tests
// compare an executed schedule with the same computation by hand, one microbatch after the other.

#include <map>
#include <string>
#include <vector>

#include "weft/pipeline/schedule.hpp"
#include "weft/pipeline/stage.hpp"

namespace weft::test {

/// How many elements a microbatch has.
struct ToySizes {
  std::int64_t most = 6;
  bool differ = false;
  std::int64_t of(int microbatch) const { return differ ? 1 + (microbatch * 5 + 3) % most : most; }
};

struct ToyGradient {
  double scale = 0;
  double shift = 0;
  friend bool operator==(const ToyGradient&, const ToyGradient&) = default;
};

/// The gradients of all stages, by hand.
std::vector<ToyGradient> toy_gradients(int stages, int microbatches, const ToySizes& sizes);

/// y = scale x + shift; the loss is the sum of y^2 / 2 after the last stage. Fails the test if it is called
/// in a way that no schedule allows.
class ToyStage : public pipeline::Stage {
 public:
  ToyStage(const pipeline::Schedule& schedule, int stage, const ToySizes& sizes);

  pipeline::Boundary input() const override;
  pipeline::Boundary output() const override;
  std::int64_t output_count(int microbatch, std::int64_t input_count) const override;
  void forward(const pipeline::MicrobatchValues& of, const Stream& compute) override;
  void backward_input(const pipeline::MicrobatchValues& of, const Stream& compute) override;
  void backward_weight(const pipeline::MicrobatchValues& of, const Stream& compute) override;
  void recompute(const pipeline::MicrobatchValues& of, const Stream& compute) override;
  void offload(int microbatch, const Stream& compute) override;
  void await_offload(int, const Stream&) override {}
  void load(int microbatch, const Stream& compute) override;
  void await_load(int, const Stream&) override {}
  void unshard(const Stream&) override {}
  void await_unshard(const Stream& compute) override;
  void reshard(const Stream& compute) override;
  void reduce_gradients(const Stream& compute) override;
  void await_reduce_gradients(const Stream&) override {}

  ToyGradient gradient;  ///< of all steps so far
  int reductions = 0;

 private:
  std::vector<double> kept(int microbatch);
  void expect_whole() const;

  bool first_, last_, is_sharded_ = false, is_whole_ = true;
  int stage_;
  ToySizes sizes_;
  std::map<int, std::vector<double>> kept_;  // inputs by microbatch
  std::map<int, std::vector<double>> on_host_;
  std::map<int, const void*> inputs_, output_gradients_;  // their addresses
};

}  // namespace weft::test
