#pragma once
// What ShardedTables is made of: see sharded_tables.cpp (requests and look-ups), tables_files.cpp (rows in files), tables_step.cpp (gradients
// and updates), tables_saving.cpp.

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/diagnosis/counters.hpp"
#include "collectives/diagnosis/used_by_one.hpp"
#include "embedding/batch_exchange.hpp"
#include "embedding/held_rows.hpp"
#include "embedding/wanted_rows.hpp"
#include "weft/embedding/sharded_tables.hpp"

namespace weft::embedding {

/// A rule but for its rate, which may change.
std::string words(const Rule& rule);

class ShardedTables::State {
 public:
  State(Communicator comm, std::vector<Table> tables, TablesOptions options);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  void request(std::span<const Bags> bags);
  void look_up(std::span<const View> pooled, const Stream& compute);
  void step(std::span<const ConstView> gradients, const Stream& compute, std::optional<double> learning_rate,
            double scale);
  std::vector<float> row(int table, std::int64_t row);
  checkpoint::State state();
  void load_state(const checkpoint::Values& values, const checkpoint::Reader& read);

  Communicator comm_;
  detail::UsedByOne users_{"ShardedTables", comm_};
  std::vector<Table> tables_;
  RowPlacement placement_;
  TablesTraffic traffic_{};

  std::int64_t bytes() const;
  std::int64_t steps() const { return steps_; }
  FileFigures file_figures() const;

 private:
  using Batch = std::shared_ptr<detail::BatchExchange>;

  void fill(std::size_t table, const TablesOptions& options);
  Batch unused_batch();
  void send_slots(detail::BatchExchange& batch);
  void begin_reading(const detail::BatchExchange& batch);
  void wait_for_files();
  void end_reading(bool changed);
  void count();
  void lay_out(detail::BatchExchange& batch);
  void check_memory(const detail::BatchExchange& batch, const char* what, std::size_t table,
                    const ConstView& memory) const;
  void copy_rows(detail::BatchExchange& batch, Buffer& rows);
  void pool(const detail::BatchExchange& batch, const Buffer& arrived, std::span<const View> pooled);
  void describe_parts(detail::BatchExchange& batch);
  void sum_gradients(const detail::BatchExchange& batch, std::span<const ConstView> gradients, Buffer& sums);
  void update(const detail::BatchExchange& batch, const Buffer& sums, const Buffer& arrived, double scale);

  int ranks_, rank_;
  std::vector<int> columns_{};
  std::vector<detail::RowPlaces> places_{};
  std::vector<detail::HeldRows> held_{};
  detail::RowRule rule_;    ///< the wire's: steps that have run
  std::int64_t steps_ = 0;  ///< that were called
  Stream wire_;
  bool any_file_ = false;  ///< of all ranks alike
  Stream file_worker_{};   ///< reads and writes files, where there are any
  std::shared_ptr<detail::Counters> counters_;
  struct Counted {
    detail::Growth hits{}, misses{}, read{}, written{}, stalled{};
  };
  Counted counted_{};

  detail::DigitSort sort_{};         ///< the host's, for requests
  detail::DigitSort update_sort_{};  ///< the wire's
  std::deque<Batch> requested_{};
  std::vector<Batch> batches_{};  ///< all there are, to be used again
  Batch looked_up_{};
  detail::SampleSum counter_{};                ///< the host's, which counts parts
  std::vector<const float*> rows_of_table_{};  ///< the wire's, in pool()
  /// The wire's, kept from step to step.
  struct StepMemory {
    detail::SampleSum sum{};
    struct Contribution {  ///< of one rank to the gradient of a row
      const float* values;
      const std::int32_t* samples;  ///< one of each part
      std::int32_t parts;
    };
    std::vector<Contribution> contributions{};
    std::vector<const float*> next_values{};  ///< of each rank, and below
    std::vector<const std::int32_t*> next_words{}, next_samples{};
    std::vector<std::int32_t> first_samples{};
  };
  StepMemory step_memory_{};
  detail::GrowingBuffer rows_out_{}, rows_in_{};
};

}  // namespace weft::embedding
