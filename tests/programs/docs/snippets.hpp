#pragma once
// What the snippets of README.md and docs/ take for granted: a model, its data, a communicator. They are compiled, not run.

#include <iostream>
#include <weft/deepspeed/config.hpp>
#include <weft/weft.hpp>

using namespace weft;

struct Parameter {
  std::string name;
  std::int64_t count;
  float* data;
};
struct Batch {};
struct Model {
  std::vector<Parameter> parameters();
  void forward(const Batch& batch);
  void backward(const std::function<void(ParamId)>& ready);
};
struct Adam {
  void step(const std::vector<Parameter>& parameters, View gradients);
};

extern Model model;
extern Adam adam;
extern std::vector<Batch> data;
extern Communicator comm;
extern Stream compute, wire;
extern ParamLayout layout, layout_of_my_stages;
extern std::vector<ParamId> first_of_each_layer;
extern std::optional<GradientReducer> the_reducer;
extern GradientReducer& reducer;
extern zero::ShardedParams& params;
extern zero::ShardedOptimizer& adam_of_zero;
extern checkpoint::Saver& saver;
extern ReduceOp op;
extern View view, parameters, gradients;
extern ParamId id;
extern int device, data_rank;
extern zero::Optimizer rule;
extern std::vector<embedding::Table> tables_of_model;
extern embedding::ShardedTables& tables;
extern std::vector<View> rows;
extern std::vector<ConstView> gradients_of_rows;
extern std::vector<std::uint32_t> users_read, words_read;
extern Batch next_batch;
std::vector<embedding::Bags> bags_of(const Batch& batch);

void save(ConstView values);
void load(View values);

// Of CUDA and of weft/interop/cuda.hpp, for machines without CUDA.
struct CudaGraph;
extern CudaGraph* forward_and_backward;
int cudaGraphLaunch(CudaGraph* graph, void* stream);
void* native_handle(const Stream& stream);
