// Saves a state drawn from a seed, for tests of what reads checkpoints. usage: save_checkpoint FOLDER STEP RANKS SEED [NAME]
// NAME: what a tensor and a value are called.

#include <cstdlib>
#include <iostream>

#include "unit/checkpoint/states.hpp"
#include "weft/checkpoint/saver.hpp"

int main(int argc, char** argv) try {
  using namespace weft;
  if (argc != 5 && argc != 6) throw Error(ErrorKind::usage, "save_checkpoint FOLDER STEP RANKS SEED [NAME]");
  const int ranks = std::atoi(argv[3]);
  auto all = test::random_tensors(std::strtoull(argv[4], nullptr, 10), 20000);
  const std::string name = argc == 6 ? argv[5] : "random";
  if (argc == 6) all.front().name = name;
  run_as_threads(ranks, [&](Communicator comm) {
    checkpoint::Saver(comm, argv[1])
        .save(std::atoll(argv[2]), test::pieces_of(all, comm.rank(), ranks),
              {{"position", std::int64_t{12}}, {"scale", 0.5}, {name, argc == 6 ? name : argv[4]}});
  });
} catch (const weft::Error& error) {
  std::cerr << error.what() << std::endl;
  return weft::exit_code(error.kind());
}
