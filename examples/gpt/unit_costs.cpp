#include "unit_costs.hpp"

#include "gpt_stage.hpp"

namespace weft::examples {
namespace {

/// A unit by itself, with parameters that are all zero: what it takes does not depend on them.
template <class Real>
struct LoneUnit {
  LoneUnit(Math<Real>& math, const GptSizes& sizes, const GptStageOptions& options)
      : table(math), layers(table, sizes), stage(layers, table, sizes, options) {
    const std::vector<std::uint8_t> text(static_cast<std::size_t>(sizes.context) + 1, ' ');
    const std::vector<Sequence> batch(static_cast<std::size_t>(options.sequences), Sequence(text));
    for (int parameter = stage.first_parameter(); parameter < stage.end_parameter(); ++parameter) {
      values.push_back(math.allocate(table.infos()[static_cast<std::size_t>(parameter)].count));
      table.place(parameter, static_cast<Real*>(values.back().view().data()));
    }
    stage.begin_step(batch);
  }

  ParameterTable<Real> table;
  GptLayers<Real> layers;
  GptStage<Real> stage;
  std::vector<Buffer> values;
};

}  // namespace

template <class Real>
UnitCosts measured_units(Communicator comm, Math<Real>& math, const GptSizes& sizes, int sequences,
                         const Stream& compute) {
  std::vector<std::unique_ptr<LoneUnit<Real>>> mine;
  std::vector<pipeline::Stage*> stages(static_cast<std::size_t>(sizes.units()), nullptr);
  std::vector<std::int64_t> held(stages.size(), 0);
  for (int unit = comm.rank(); unit < sizes.units(); unit += comm.size()) {
    const GptStageOptions options{.begin = unit, .end = unit + 1, .sequences = sequences};
    mine.push_back(std::make_unique<LoneUnit<Real>>(math, sizes, options));
    const auto at = static_cast<std::size_t>(unit);
    stages[at] = &mine.back()->stage;
    held[at] = std::max<std::int64_t>(mine.back()->stage.slot_bytes(), 1);
  }
  pipeline::Costs costs = pipeline::measured_costs(comm, stages, compute);
  Stream stream;
  comm.all_reduce(View(std::span(held)), ReduceOp::max, stream).wait();
  // A slot is held until the weight gradients are there.
  for (std::size_t unit = 0; unit < held.size(); ++unit)
    costs.stages[unit].activation = costs.stages[unit].kept_for_weight = held[unit];
  return {std::move(costs.stages), costs.hops.front()};
}

template UnitCosts measured_units(Communicator, Math<float>&, const GptSizes&, int, const Stream&);
template UnitCosts measured_units(Communicator, Math<double>&, const GptSizes&, int, const Stream&);

}  // namespace weft::examples
