// A checkpoint beside dd: the same bytes to the same disk, each flushed (dd conv=fsync), in turn.
//
//   bench_checkpoint FOLDER [MIB [ROUNDS]]      default: 256 MiB, 12 rounds; one rank, on an idle disk
//
// "save" is Saver::save, "load" Checkpoint::read of all, from the page cache, beside "copy", one memcpy of as many bytes. "extra_mib" is what
// the peak of resident memory grows by in a save and in a load; the state itself is there before.

#include "weft/checkpoint/checkpoint.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "process_memory.hpp"
#include "program.hpp"
#include "rounds.hpp"
#include "weft/checkpoint/saver.hpp"
#include "weft/weft.hpp"

namespace {

using namespace weft;

void dd(const std::string& file, std::int64_t mib) {
  const std::string command =
      text("dd if=/dev/zero of='", file, "' bs=1M count=", mib, " conv=fsync 2>/dev/null");
  if (std::system(command.c_str()) != 0) throw Error(ErrorKind::system, "failed: " + command);
}

double peak_of(const std::function<void()>& work) {
  bench::forget_peak();
  const double before = bench::status_mib("VmHWM:");
  work();
  return bench::status_mib("VmHWM:") - before;
}

int run(int argc, char** argv) {
  if (argc < 2) throw Error(ErrorKind::usage, "bench_checkpoint FOLDER [MIB [ROUNDS]]");
  const std::string folder = text(argv[1], "/bench_checkpoint-", getpid());
  const std::int64_t mib = argc > 2 ? std::atoll(argv[2]) : 256;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 12;
  constexpr int tensors = 16;
  std::vector<float> state(static_cast<std::size_t>(mib) << 18U, 0.5F);
  std::vector<float> loaded(state.size(), 1.0F);
  const auto each = static_cast<std::int64_t>(state.size()) / tensors;
  std::vector<checkpoint::Piece> pieces;
  std::vector<checkpoint::Wanted> wanted;
  for (int i = 0; i < tensors; ++i) {
    const auto first = i * each;
    pieces.push_back({text("layer", i), {each}, 0, ConstView(std::span(state)).slice(first, each)});
    wanted.push_back({text("layer", i), {each}, 0, View(std::span(loaded)).slice(first, each)});
  }
  checkpoint::Saver saver(self(), folder, {.keep_last = 1});
  std::int64_t step = 0;
  const auto save = [&] { saver.save(++step, pieces); };
  const auto load = [&] { checkpoint::Checkpoint::newest(folder)->read(wanted); };
  std::vector<bench::Case> cases{
      {"dd conv=fsync", [&](int) { dd(folder + "/dd", mib); }},
      {"save", [&](int) { save(); }},
      {"copy", [&](int) { std::memcpy(loaded.data(), state.data(), state.size() * sizeof(float)); }},
      {"load", [&](int) { load(); }}};
  const double extra_save = peak_of(save);
  const double extra_load = peak_of(load);
  if (loaded != state) throw Error(ErrorKind::internal, "what was loaded is not what was saved");
  bench::in_turn(cases, rounds);
  bench::print_rates(cases, static_cast<double>(mib) / 1024, "GiB/s");
  std::printf("a save has %.2f of dd's rate (medians); extra memory: save %.1f MiB, load %.1f MiB\n",
              bench::median(cases[0].seconds) / bench::median(cases[1].seconds), extra_save, extra_load);
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::bench::program(argc, argv, run);
}
