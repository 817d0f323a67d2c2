// A small recommender: embedding tables in parts on all ranks, and a dense part that is data-parallel (docs/embedding.md).
//
//   weft-launch -n 2 build/recommender [FILE...]        text; unless it is given, the licences of the system
//
// An event is eight words of a text and a candidate for the ninth: the word that came, or one from elsewhere in the text. The model says how likely the
// candidate came. It is DLRM's (Naumov et al., 2019): a layer for numbers, a row of each table, the products of all pairs of these vectors, and two
// layers on top.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <set>
#include <unordered_map>
#include <weft/weft.hpp>
using namespace weft;
using embedding::Bags, embedding::Pooling, embedding::ShardedTables, embedding::Table;

constexpr int context = 8, numbers = 3, width = 16, hidden = 32, tables_count = 3;
constexpr int vectors = tables_count + 1, pairs = vectors * (vectors - 1) / 2, features = width + pairs;
constexpr int steps = 600, parts = 4, rows = 32;  // a step learns 4 batches of 32 events
constexpr std::int64_t pair_rows = 1 << 14;       // of the table of two words in a row, by hash
constexpr ParamId bottom{0}, middle{1},
    top{2};  // the parameters of the dense part; each layer's bias lies behind its matrix

struct Words {
  std::vector<std::int64_t> ids;  // of the text, in order
  std::vector<std::array<float, numbers>>
      about;  // each word of the vocabulary: length, capital, end of a sentence
};

Words read(const std::set<std::string>& files) {
  Words words;
  std::unordered_map<std::string, std::int64_t> vocabulary;
  for (const std::string& file : files) {
    std::ifstream in(file);
    for (std::string spelled, word; in >> spelled; word.clear()) {
      for (const char c : spelled)  // "Rank," and "rank" are one word
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
          word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (word.empty()) continue;
      const auto [known, is_new] = vocabulary.try_emplace(word, static_cast<std::int64_t>(vocabulary.size()));
      if (is_new)
        words.about.push_back({std::log(static_cast<float>(word.size())),
                               std::isupper(static_cast<unsigned char>(spelled[0])) != 0 ? 1.0F : 0.0F,
                               spelled.back() == '.' ? 1.0F : 0.0F});
      words.ids.push_back(known->second);
    }
  }
  if (words.ids.size() < 1000)
    throw Error(ErrorKind::usage,
                "no 1000 words of text in " + text(files.size(), files.size() == 1 ? " file" : " files"),
                "name more");
  return words;
}

/// Events as the tables take them: for each table indices and offsets.
struct Events {
  std::vector<std::int64_t> indices[tables_count], offsets[tables_count] = {{0}, {0}, {0}};
  std::vector<std::array<float, numbers>> about;
  std::vector<float> came;

  /// Adds event `number` of a part of the text: the same on whichever rank.
  void add(const Words& text, std::size_t begin, std::size_t end, unsigned number) {
    std::mt19937 random(number);
    const std::size_t at = begin + context + random() % (end - begin - context);
    const bool real = random() % 2 == 0;
    const std::int64_t candidate = text.ids[real ? at : begin + random() % (end - begin)];
    for (std::size_t i = at - context; i < at; ++i) indices[0].push_back(text.ids[i]);
    indices[1].push_back(candidate);
    indices[2].push_back((text.ids[at - 1] * 7919 + candidate * 104729) % pair_rows);
    for (int t = 0; t < tables_count; ++t) offsets[t].push_back(static_cast<std::int64_t>(indices[t].size()));
    about.push_back(text.about[static_cast<std::size_t>(candidate)]);
    came.push_back(real ? 1 : 0);
  }
  std::vector<Bags> bags() const {
    return {{indices[0], offsets[0]}, {indices[1], offsets[1]}, {indices[2], offsets[2]}};
  }
};

/// One event through the dense part.
struct Model {
  const float *w_bottom, *w_middle, *w_top;
  float vector[vectors][width] = {}, input[features] = {},
        h[hidden] = {};  // vector[0] comes from the numbers
  float likely = 0;

  void forward(const std::array<float, numbers>& about) {
    for (int i = 0; i < width; ++i) {
      float sum = w_bottom[numbers * width + i];
      for (int n = 0; n < numbers; ++n) sum += w_bottom[i * numbers + n] * about[static_cast<std::size_t>(n)];
      input[i] = vector[0][i] = std::tanh(sum);
    }
    for (int a = 0, pair = width; a < vectors; ++a)
      for (int b = 0; b < a; ++b, ++pair) {
        input[pair] = 0;
        for (int i = 0; i < width; ++i) input[pair] += vector[a][i] * vector[b][i];
      }
    float sum = w_top[hidden];
    for (int k = 0; k < hidden; ++k) {
      float in = w_middle[features * hidden + k];
      for (int f = 0; f < features; ++f) in += w_middle[k * features + f] * input[f];
      sum += w_top[k] * (h[k] = std::tanh(in));
    }
    likely = 1 / (1 + std::exp(-sum));
  }

  /// Adds to the gradients of the dense part, times `share`, and writes those of the tables' rows.
  void backward(const std::array<float, numbers>& about, float came, float share, float* g_bottom,
                float* g_middle, float* g_top, float* g_rows[]) const {
    const float dy = likely - came;
    float d_input[features] = {}, d_vector[vectors][width] = {};
    for (int k = 0; k < hidden; ++k) {
      const float d = dy * w_top[k] * (1 - h[k] * h[k]);
      g_top[k] += share * dy * h[k];
      g_middle[features * hidden + k] += share * d;
      for (int f = 0; f < features; ++f) {
        g_middle[k * features + f] += share * d * input[f];
        d_input[f] += d * w_middle[k * features + f];
      }
    }
    g_top[hidden] += share * dy;
    std::copy_n(d_input, width, d_vector[0]);
    for (int a = 0, pair = width; a < vectors; ++a)
      for (int b = 0; b < a; ++b, ++pair)
        for (int i = 0; i < width; ++i) {
          d_vector[a][i] += d_input[pair] * vector[b][i];
          d_vector[b][i] += d_input[pair] * vector[a][i];
        }
    for (int i = 0; i < width; ++i) {
      const float d = share * d_vector[0][i] * (1 - vector[0][i] * vector[0][i]);
      g_bottom[numbers * width + i] += d;
      for (int n = 0; n < numbers; ++n) g_bottom[i * numbers + n] += d * about[static_cast<std::size_t>(n)];
    }
    for (int t = 0; t < tables_count; ++t) std::copy_n(d_vector[t + 1], width, g_rows[t]);
  }
};

/// Rows of a batch, and later their gradients: a buffer for each table.
struct Rows {
  std::vector<std::vector<float>> memory;
  explicit Rows(std::size_t events) : memory(tables_count, std::vector<float>(events * width)) {}
  template <class V>
  std::vector<V> views() {
    std::vector<V> all;
    for (auto& one : memory) all.push_back(V(std::span(one)));
    return all;
  }
  float* row(int table, std::size_t event) {
    return memory[static_cast<std::size_t>(table)].data() + event * width;
  }
};

/// Over all ranks' rows, whichever rank has which.
std::int64_t fingerprint(Communicator& comm, ShardedTables& tables, Stream& compute) {
  std::int64_t sum = 0;
  for (const checkpoint::Piece& piece : tables.state().pieces) {
    if (piece.dtype() != DataType::f32) continue;
    const auto values = std::get<ConstView>(piece.values).as<const float>();
    for (std::size_t i = 0; i < values.size(); ++i)
      sum += static_cast<std::int64_t>((std::bit_cast<std::uint32_t>(values[i]) + 1ULL) *
                                       (static_cast<std::uint64_t>(piece.first) + i + 1) *
                                       0x9e3779b97f4a7c15ULL);
  }
  comm.all_reduce(View(std::span(&sum, 1)), ReduceOp::sum, compute).wait();
  return sum;
}

void train(Communicator& comm, const Words& text) {
  const auto vocabulary = static_cast<std::int64_t>(text.about.size());
  ShardedTables tables(comm,
                       {{"context", vocabulary, width, Pooling::mean},
                        {"candidate", vocabulary, width},
                        {"pair", pair_rows, width}},
                       {.rule = embedding::RowAdaGrad{.learning_rate = 0.1}});
  const ParamLayout layout(
      DataType::f32,
      {{"bottom", (numbers + 1) * width}, {"middle", (features + 1) * hidden}, {"top", hidden + 1}});
  GradientReducer reducer(comm, layout, {.hook = tree_hook(parts)});
  Buffer memory = comm.allocate(DataType::f32, layout.size());
  const std::span<float> weights = memory.as<float>(), gradients = reducer.gradients().as<float>();
  std::mt19937 random(1);
  for (float& one : weights) one = (static_cast<float>(random() % 2001) - 1000) * 3e-4F;
  sync_initial_values(comm, {{"weights", memory.view()}}, InitialValues::from_rank_0);
  const auto part_of = [&](std::span<float> all, ParamId id) {
    return &all[static_cast<std::size_t>(layout.offset(id))];
  };
  Model model{part_of(weights, bottom), part_of(weights, middle), part_of(weights, top)};
  Stream compute;

  const std::size_t held_out = text.ids.size() / 10 * 9;
  const auto forward = [&](Rows& pooled, const Events& events, std::size_t event) {
    for (int t = 0; t < tables_count; ++t) std::copy_n(pooled.row(t, event), width, model.vector[t + 1]);
    model.forward(events.about[event]);
    return -std::log(std::max(1e-6F, events.came[event] > 0 ? model.likely : 1 - model.likely));
  };
  const auto evaluate = [&](int step) {  // all ranks look up; a look-up that no step follows trains nothing
    Events events;
    for (unsigned i = 0; i < 1000; ++i) events.add(text, held_out, text.ids.size(), i);
    Rows pooled(events.came.size());
    tables.look_up(events.bags(), pooled.views<View>(), compute);
    compute.synchronize();
    float loss = 0;
    for (std::size_t i = 0; i < events.came.size(); ++i) loss += forward(pooled, events, i);
    if (comm.rank() == 0)
      std::cout << "step " << step << ": held-out loss " << loss / static_cast<float>(events.came.size())
                << std::endl;
  };

  const int mine = parts / comm.size();
  for (int step = 0; step < steps; ++step) {
    if (step % 100 == 0) evaluate(step);
    Events events;  // this rank's parts of the batch
    for (int i = comm.rank() * mine * rows; i < (comm.rank() + 1) * mine * rows; ++i)
      events.add(text, 0, held_out, static_cast<unsigned>(step * parts * rows + i) + 1000);
    Rows pooled(events.came.size());
    tables.look_up(events.bags(), pooled.views<View>(), compute);
    compute.synchronize();
    for (int part = 0; part < mine; ++part) {
      reducer.begin_step(part + 1 < mine ? Exchange::no_sync : Exchange::now);
      if (!reducer.accumulating()) std::ranges::fill(gradients, 0.0F);
      for (int i = part * rows; i < (part + 1) * rows; ++i) {
        const auto event = static_cast<std::size_t>(i);
        forward(pooled, events, event);
        float* rows_of_event[tables_count];  // their gradients take the rows' place
        for (int t = 0; t < tables_count; ++t) rows_of_event[t] = pooled.row(t, event);
        model.backward(events.about[event], events.came[event], 1.0F / rows, part_of(gradients, bottom),
                       part_of(gradients, middle), part_of(gradients, top), rows_of_event);
      }
      for (const ParamId id : {top, middle, bottom}) reducer.mark_ready(id, compute);
      reducer.finish_step(compute);
    }
    tables.step(pooled.views<ConstView>(), compute, std::nullopt, 1.0 / (parts * rows));
    compute.synchronize();
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.3F * gradients[i];
  }
  evaluate(steps);
  const std::int64_t of_tables = fingerprint(comm, tables, compute);
  const std::string_view dense(reinterpret_cast<const char*>(weights.data()), weights.size_bytes());
  const embedding::TablesTraffic traffic = tables.traffic();
  std::cout << "rank " << comm.rank() << ": parameters " << std::hash<std::string_view>()(dense) << " and "
            << of_tables << ", " << traffic.rows_read << " rows read, " << traffic.bytes_sent << " bytes sent"
            << std::endl;
}

int main(int argc, char** argv) try {
  std::set<std::string> files(argv + 1, argv + argc);
  if (files.empty())
    for (const auto& one : std::filesystem::directory_iterator("/usr/share/common-licenses"))
      if (one.is_regular_file() && !one.is_symlink()) files.insert(one.path());
  Communicator comm = connect(World::from_environment());
  comm.run([&] { train(comm, read(files)); });
} catch (const std::exception& error) {
  return std::cerr << message_of(error) << std::endl, exit_code(error);
}
