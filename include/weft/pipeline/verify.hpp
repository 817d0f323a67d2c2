#pragma once
// Checks that a schedule can be executed, and that it computes what it should. The check shares no code with
// generators and passes.
//
//   verify(plan, problem);              // throws Error (usage) on the first fault
//   if (auto fault = find_fault(plan, problem)) std::cerr << *fault;
//
// What is checked
//   Entries     have a stage of that device and a microbatch that exists, and none with a microbatch comes
//               twice. Only transfers, UNSHARD, REDUCE_GRAD, OFFLOAD and LOAD are awaited: once, after
//               they were posted. A pair that overlaps is an F and, right after it, a backward of another
//               microbatch or stage; it starts when both can.
//   Computing   Every stage computes every microbatch once: F, and B, or I and W. W after I, I and B after
//               F; F after that of the stage before, I and B after I or B of the next stage, on whichever
//               devices these are.
//   Memory      Activations held at once, by the order of a row, never exceed memory_limit of the device:
//               F takes the activation, the end of I gives back all but kept_for_weight, that of W or B the
//               rest.
//   Transfers   if the schedule has any; if not, every device has a value once it is computed. Every value
//               that another device needs is sent once, after it was computed, and received once; the receive
//               is awaited before the use, the send before the end of the row. Posts never block. From one
//               device to another, the k-th send meets the k-th receive, which must name the same value. No
//               transfer is buffered: it is done once both sides posted it and all before it are done.
//   Deadlock    Every device gets to the end of its row.
//   Parameters  of a stage with any UNSHARD are whole (unsharded, awaited, and not resharded since) whenever
//               it computes, W and RECOMPUTE included. They may be whole at the end.
//   Reductions  if the schedule has any: each stage once, after its last W or B, and awaited.
//   Recompute   after F and before I or B. F then holds nothing (the stage's input is not counted), and
//               RECOMPUTE takes the activation.
//   Offload     of an activation that is held: after F (or RECOMPUTE) and before the last use, once. Memory
//               is free when WAIT_OFFLOAD passes and taken again when LOAD is posted; I, B and W need it
//               loaded and awaited.
// Costs are not checked: see expect_valid.

#include <optional>
#include <ostream>
#include <string>

#include "weft/pipeline/problem.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline {

struct Fault {
  std::string what;  ///< "device 2, entry 7 (2I3): its forward has not run"; entries count from 0
  int device = -1;   ///< whose row, or -1 if the whole schedule is at fault
  int entry = -1;    ///< column of that row, or -1

  friend std::ostream& operator<<(std::ostream& out, const Fault& fault);
};

/// The first fault, or none: row by row, then between rows. Linear in entries (12.6 million in half a
/// second); takes 4 bytes for each stage and microbatch, 8 with transfers.
std::optional<Fault> find_fault(const Schedule& schedule, const Problem& problem);
/// @throws Error (usage) with device, column and what is wrong
void verify(const Schedule& schedule, const Problem& problem);

}  // namespace weft::pipeline
