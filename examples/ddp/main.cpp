// Data-parallel training on text, byte by byte (docs/trainer.md): weft-launch -n 2 build/ddp [TEXT] [--checkpoint FOLDER]
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <set>
#include <weft/weft.hpp>
using namespace weft;
constexpr int context = 6, bytes = 256, hidden = 32;  // 6 bytes in, 32 hidden values, 256 probabilities out
constexpr int steps = 400, parts = 4, rows = 32;      // a step learns 4 batches of 32 rows of the text
constexpr ParamId embed{0}, head{1};                  // the parameters

std::string read(const std::filesystem::path& source) {
  std::error_code failed;  // what cannot be read is left out
  std::set<std::filesystem::path> files{source};
  if (is_directory(source, failed)) files = {std::filesystem::directory_iterator(source, failed), {}};
  std::string text;
  for (const auto& file : files)
    if (is_regular_file(symlink_status(file, failed)))
      text.append(std::istreambuf_iterator<char>(std::ifstream(file).rdbuf()), {});
  if (text.size() < 1000) throw Error(ErrorKind::usage, "no 1000 bytes of text in " + source.string());
  return text;
}

struct Model {
  const float *w_embed, *w_head;
  const unsigned char* x[rows] = {};                // each row: 6 bytes of text, and the byte to predict
  float h[rows][hidden] = {}, y[rows][bytes] = {};  // hidden values; gradient of the loss before softmax
  double loss = 0;                                  // the mean of the rows
  int at(int r, int k) const { return (k / hidden * bytes + x[r][k / hidden]) * hidden + k % hidden; }
  void forward(std::string_view text, int batch) {
    *this = {w_embed, w_head};
    for (int r = 0; r < rows; ++r) {
      x[r] = (const unsigned char*)&text[std::mt19937(batch * rows + r)() % (text.size() - context)];
      for (int k = 0; k < context * hidden; ++k) h[r][k % hidden] += w_embed[at(r, k)];
      for (float& value : h[r]) value = std::tanh(value);
      for (int k = 0; k < bytes * hidden; ++k) y[r][k / hidden] += h[r][k % hidden] * w_head[k];
      float sum = 0;
      for (float& value : y[r]) sum += value = std::exp(value);
      loss -= std::log(y[r][x[r][context]] / sum) / rows;
      for (float& value : y[r]) value /= sum * rows;
      y[r][x[r][context]] -= 1.0F / rows;
    }
  }
  void backward(auto gradient, auto ready) {  // adds to gradient(id), and calls ready(id) when it is complete
    float *const g_head = gradient(head), dh[rows][hidden] = {};
    for (int r = 0; r < rows; ++r)
      for (int k = 0; k < bytes * hidden; ++k)
        g_head[k] += y[r][k / hidden] * h[r][k % hidden], dh[r][k % hidden] += y[r][k / hidden] * w_head[k];
    ready(head);
    float* const g_embed = gradient(embed);
    for (int r = 0; r < rows; ++r)
      for (int k = 0; k < context * hidden; ++k)
        g_embed[at(r, k)] += dh[r][k % hidden] * (1 - h[r][k % hidden] * h[r][k % hidden]);
    ready(embed);
  }
};

void train(Communicator& comm, std::string_view text, checkpoint::Checkpointer& checkpointer) {
  const ParamLayout layout(DataType::f32, {{"embed", context * bytes * hidden}, {"head", bytes * hidden}});
  GradientReducer reducer(comm, layout, {.hook = tree_hook(parts)});
  Buffer memory = comm.allocate(DataType::f32, layout.size());
  const std::span<float> weights = memory.as<float>(), gradients = reducer.gradients().as<float>();
  std::ranges::generate(weights, [r = std::mt19937(1)]() mutable { return float(r()) / 4e10F; });
  sync_initial_values(comm, {{"weights", memory.view()}}, InitialValues::from_rank_0);  // as DDP does
  Stream compute;
  Model model{&weights[layout.offset(embed)], &weights[layout.offset(head)]};
  for (int step = int(checkpointer.resume({{"weights", memory.view()}})); step <= steps; ++step) {
    if (double loss = 0; step % 100 == 0 && comm.rank() == 0) {
      for (int i = 0; i < 20; ++i) model.forward(text.substr(text.size() / 10 * 9), i), loss += model.loss;
      std::cout << "step " << step << ": held-out loss " << loss / 20 << std::endl;
    }
    for (int mine = parts / comm.size(), part = comm.rank() * mine; part < (comm.rank() + 1) * mine; ++part) {
      reducer.begin_step((part + 1) % mine != 0 ? Exchange::no_sync : Exchange::now);
      if (!reducer.accumulating()) std::ranges::fill(gradients, 0.0F);
      model.forward(text.substr(0, text.size() / 10 * 9), step * parts + part);
      model.backward([&](ParamId id) { return &gradients[layout.offset(id)]; },
                     [&](ParamId id) { reducer.mark_ready(id, compute); });
      reducer.finish_step(compute);
    }
    compute.synchronize();
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 1.0F * gradients[i];
    if (!checkpointer.after_step(step + 1, step == steps, {{"weights", memory.view()}})) return;
  }
  const std::string_view all((const char*)weights.data(), weights.size_bytes());
  std::cout << "rank " << comm.rank() << ": parameters " << std::hash<std::string_view>()(all) << std::endl;
}

int main(int argc, char** argv) try {
  std::string text = "/usr/share/common-licenses", folder, option = "--checkpoint";
  for (int i = 1; i < argc; ++i) option == argv[i] && argv[i + 1] ? folder = argv[++i] : text = argv[i];
  Communicator comm = connect(World::from_environment());
  checkpoint::Checkpointer checkpointer(comm, {.folder = folder, .every = 100});
  comm.run([&] { train(comm, read(text), checkpointer); });
  return checkpointer.told_to_end() ? 75 : 0;  // 75: start it again to go on
} catch (const std::exception& error) {
  return std::cerr << message_of(error) << std::endl, exit_code(error);
}
