#pragma once
// What ranks write, passed on to the launcher's own standard output and standard error, a whole line at a time.

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "live_line.hpp"

namespace weft::launch {

class Output {
 public:
  /// @param labelled a line begins with "[3] ", the rank that wrote it @param live also gets what ranks write to standard error
  Output(bool labelled, LiveLine& live) : labelled_(labelled), live_(live) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// @param stream 1 or 2. A line without end is passed on in parts of 64 KiB
  void hear(int rank, int stream, std::string_view piece);
  /// The rest of a rank's last line; no other rank's continues it.
  void end(int rank);
  /// @throws Error (system) if something that ranks wrote to standard output could not be passed on, to a full disk for instance. A
  /// closed pipe is no error: as under mpirun, the job goes on.
  void expect_written() const;

 private:
  void write(int rank, int stream, std::string_view lines);
  void pass_on(int stream, std::string_view lines);

  const bool labelled_;
  LiveLine& live_;
  std::map<int, std::array<std::string, 2>> begun_;  // by rank, of each stream, without their ends
  int failure_ = 0;  // errno of the first write to standard output that failed
};

/// To a descriptor, all of it. @returns whether it could be written
bool write_all(int fd, std::string_view bytes);

}  // namespace weft::launch
