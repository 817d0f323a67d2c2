#pragma once
// Schedules with something wrong, and whether the verifier finds it.

#include <cstdint>
#include <string>

#include "unit/pipeline/model/drawn_schedules.hpp"

namespace weft::test {

/// Changes one thing: an entry is swapped, moved, dropped, repeated or replaced, a wait is added or dropped,
/// a limit lowered.
void mutate(Case& one, Draw& draw);

/// How many mutants the verifier and the oracle judged alike.
struct Tally {
  long mutants = 0;
  long invalid = 0;           ///< by the oracle
  long rejected = 0;          ///< of these, by the verifier
  long valid = 0;             ///< by the oracle
  long wrongly_rejected = 0;  ///< of these, by the verifier
  long deadlocks = 0;         ///< of the invalid, those whose only fault is a deadlock
  long unfit = 0;             ///< schedules that should be valid before mutation, and are not
  std::string differences;    ///< each as text, with its seed

  bool agrees() const { return rejected == invalid && wrongly_rejected == 0 && unfit == 0; }
};
/// One schedule and one mutant of it, with 1 to 3 changes.
void try_mutant(std::uint64_t seed, Tally& tally);

}  // namespace weft::test
