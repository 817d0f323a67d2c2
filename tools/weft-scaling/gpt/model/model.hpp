#pragma once
// The interface of a model to a trainer: its parameters, a forward pass that returns the loss, and a backward
// pass that reports each gradient as soon as it is complete.
//
// The trainer owns parameters and gradients. Parameters lie in one flat buffer, and `bind` tells the model
// where each one starts; or a ParameterSource provides them group by group, each before its layers run, so
// that not all need memory at the same time. Gradients are written where the GradientSink says, so they can
// be in a communication buffer from the start. Activations belong to the model: they are allocated once, for
// its batch size, and never in a step. A model serves one thread at a time; the same inputs give the same
// bits, run after run.
//
//   auto model = make_model<float>("gpt-ref");
//   std::vector<std::int64_t> offsets = packed_offsets(model->parameters());
//   Buffer flat = Buffer::on_host(DataType::f32, total_count(model->parameters()));
//   model->bind(flat.view(), offsets);
//   model->initialize(seed);
//   double loss = model->forward(batch);
//   model->backward(sink);
//
// WRONG: backward() twice after one forward(): the first call consumed the activations. It throws.
// WRONG: freeing `flat` after bind(): the model keeps the addresses.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft-scaling/gpt/data/text.hpp"
#include "weft-scaling/gpt/math/math.hpp"

namespace weft::examples {

/// How a parameter starts. `waves`: row t holds sines and cosines of t with wavelengths from 6 to 6000 rows,
/// so that neighbouring rows are similar; `deviation` is their root mean square.
struct Initial {
  enum class Shape { constant, normal, waves };
  Shape shape = Shape::constant;
  double mean = 0;       ///< constant
  double deviation = 0;  ///< normal, waves
};

struct ParameterInfo {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t count = 0;
  Initial initial{};
};

/// Where gradients go. Parameters are numbered as in Model::parameters().
template <class Real>
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// Where the gradient of `parameter` is to be written; every element is overwritten.
  virtual Real* target(int parameter) = 0;
  /// The gradient of `parameter` is complete. Called once per parameter and backward pass, last layer first.
  virtual void ready(int parameter) = 0;
};

/// Provides the values of parameters, group by group. The groups are those of Model::groups().
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  /// Until done(), the model's table says where the group's values are.
  virtual void use(int group) = 0;
  virtual void done(int group) = 0;
};

/// Parameters in order of registration, and where their values lie. Layers keep a pointer to their model's
/// table.
template <class Real>
class ParameterTable {
 public:
  explicit ParameterTable(Math<Real>& math) : math_(math) {}
  Math<Real>& math() const { return math_; }

  /// @returns the parameter's number
  int add(std::string name, std::vector<std::int64_t> shape, const Initial& initial);
  /// @throws Error (usage) unless there is one offset per parameter and each parameter lies within `flat`
  void bind(const View& flat, std::span<const std::int64_t> offsets);
  bool bound() const { return !values_.empty(); }
  /// Sets the address of one parameter.
  void place(int parameter, Real* values);
  const std::vector<ParameterInfo>& infos() const { return infos_; }
  Real* operator[](int parameter) const { return values_[static_cast<std::size_t>(parameter)]; }

 private:
  Math<Real>& math_;
  std::vector<ParameterInfo> infos_;
  std::vector<Real*> values_;
};

template <class Real>
class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// In order of use in the forward pass.
  const std::vector<ParameterInfo>& parameters() const { return table_.infos(); }
  /// @throws Error (usage) when a parameter would lie outside `flat`
  void bind(const View& flat, std::span<const std::int64_t> offsets) { table_.bind(flat, offsets); }
  /// The first parameter of each group of layers that run together, in order of use: units of ZeRO.
  const std::vector<int>& groups() const { return groups_; }
  /// From now on the model asks `source` before a group runs. `source` must live until the next call, or as
  /// long as the model.
  void follow(ParameterSource* source) { source_ = source; }
  ParameterTable<Real>& table() { return table_; }
  /// Fills the bound parameters; the same seed gives the same bits whatever the offsets.
  void initialize(std::uint64_t seed);

  /// Sequences in the largest batch that forward() takes.
  int sequences() const { return sequences_; }
  /// Bytes of one sequence, the byte to predict last included.
  int sequence_bytes() const { return sequence_bytes_; }
  /// Bytes of activations that the model holds.
  virtual std::int64_t workspace_bytes() const = 0;

  /// @returns the mean loss in nats per predicted byte
  /// @throws Error (usage) before bind(), or when the batch does not have 1..sequences() sequences of
  /// sequence_bytes()
  double forward(Batch batch);
  /// Gradients of the mean loss of the last forward(). @throws Error (usage) without one
  void backward(GradientSink<Real>& sink);

 protected:
  Model(Math<Real>& math, int sequences, int sequence_bytes)
      : table_(math), sequences_(sequences), sequence_bytes_(sequence_bytes) {}
  Math<Real>& math() const { return table_.math(); }

  /// A group's parameters are in use while it lives.
  class AtWork {
   public:
    AtWork(ParameterSource* source, int group) : source_(source), group_(group) {
      if (source_ != nullptr) source_->use(group_);
    }
    ~AtWork() {
      if (source_ != nullptr) source_->done(group_);
    }
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;

   private:
    ParameterSource* source_;
    int group_;
  };
  AtWork at_work(std::size_t group) const { return {source_, static_cast<int>(group)}; }
  /// The table, for parameters of a new group.
  ParameterTable<Real>& new_group() {
    begin_group(static_cast<int>(table_.infos().size()));
    return table_;
  }
  /// For groups whose parameters are registered already; ascending.
  void begin_group(int first) { groups_.push_back(first); }

  virtual double run_forward(Batch batch) = 0;
  virtual void run_backward(GradientSink<Real>& sink) = 0;

  ParameterTable<Real> table_;

 private:
  std::vector<int> groups_;
  ParameterSource* source_ = nullptr;
  int sequences_;
  int sequence_bytes_;
  bool forwarded_ = false;
};

/// The initial values of `parameter`. They depend on its number and the seed only, to the bit.
template <class Real>
std::vector<Real> initial_values(const ParameterInfo& info, int parameter, std::uint64_t seed);

/// The number of elements of all parameters.
std::int64_t total_count(std::span<const ParameterInfo> parameters);

/// Offsets that put the parameters one after the other without gaps.
std::vector<std::int64_t> packed_offsets(std::span<const ParameterInfo> parameters);

}  // namespace weft::examples
