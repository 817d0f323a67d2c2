#pragma once
// The implementations of an operation: weft, and those that it is compared with.

#include <memory>
#include <string>

#include "case.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::bench {

/// A contestant's own memory: two buffers of the largest case, of which an operation in place uses one.
struct Memory {
  Buffer first;
  Buffer second;

  std::byte* input(const Case& which) { return first.view().bytes() + which.in_offset(); }
  std::byte* output(const Case& which) {
    return (which.in_place ? first : second).view().bytes() + which.out_offset();
  }
};

/// Everything but name() is collective.
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual std::string name() const = 0;
  /// Whether it implements the operation.
  virtual bool carries(const Case&) const { return true; }
  /// Runs the operation so many times, one after the other.
  virtual void run(const Case& which, int times) = 0;
  /// The address of the output after run().
  virtual const std::byte* result(const Case& which) { return memory_.output(which); }
  Memory& memory() { return memory_; }

 protected:
  explicit Contestant(Memory memory) : memory_(std::move(memory)) {}

 private:
  Memory memory_;
};

/// @param bytes of the largest case; `second` buffer only where `out_of_place`
/// @param arena memory that all ranks of the node can map; otherwise private memory
std::unique_ptr<Contestant> make_weft(const Communicator& comm, std::size_t bytes, bool out_of_place,
                                      bool arena);

/// weft on a communicator that uses only one algorithm between nodes.
std::unique_ptr<Contestant> make_algorithm(const Communicator& comm, Algorithm algorithm, std::size_t bytes,
                                           bool out_of_place, bool arena);

/// Open MPI's own collectives on private memory, as a program that calls MPI gets them. 16-bit types use a
/// user-defined operation, because MPI has none. @throws Error (usage) without MPI
std::unique_ptr<Contestant> make_mpi(std::size_t bytes, bool out_of_place);

/// The same memory traffic as weft's operations in shared memory, by the same kernels, with one bare spin
/// barrier after each operation and nothing else: no checks, no flight record, no deadlines.
/// @throws Error (usage) between nodes
std::unique_ptr<Contestant> make_bound(const Communicator& comm, const World& world, std::size_t bytes,
                                       bool out_of_place);

}  // namespace weft::bench
