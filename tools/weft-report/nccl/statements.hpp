#pragma once
// The lines that state a fact, as a table: a phrase, and the function that takes the fact from the line.

#include <span>
#include <string>
#include <string_view>

#include "weft-report/nccl/job.hpp"
#include "weft-report/nccl/log_line.hpp"

namespace weft::report::nccl {

/// A line, where it stands, and its parts.
struct Said {
  const std::string& file;
  int number;
  std::string_view text;
  const LogLine& line;

  /// Long lines are cut: evidence is read by people.
  Evidence evidence() const;
  /// The same into one that is there, whose memory is used again.
  void copy_to(Evidence& evidence) const;
};

struct Statement {
  std::string_view phrase;
  /// @return whether the line states the fact after all
  bool (*take)(const Said& said, Process& process, Job& job);
};

std::span<const Statement> statements();

}  // namespace weft::report::nccl
