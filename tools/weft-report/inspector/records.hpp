#pragma once
// What one file of NCCL's Inspector says, compactly: 20 bytes a record. Pure.
//
//   Reader reader;                       // of one file, from its beginning
//   while (read(chunk)) reader.take(chunk);
//   const FileRecords records = reader.finish();
//
// Inspector (NCCL 2.28 and newer, ext-profiler/inspector, from 2.29.7 plugins/profiler/inspector) writes an object a line:
//
//   {"header": {"id", "comm_name", "rank", "n_ranks", "nnodes"}, "metadata": {"dump_timestamp_us", "hostname", "pid", ...},
//    "coll_perf": {"coll", "coll_sn", "coll_msg_size_bytes", "coll_exec_time_us", "coll_timing_source", ..., "event_trace_ts": {...}}}
//
//   2.28.3: no comm_name, no p2p_perf; a dump writes the last operation alone, so that ranks have others (inspector.cc, line 546)
//   2.30:   comm_name, p2p_perf, and all operations since the last dump (inspector_json.cc, line 306)
//   v4.1, v4.2 of the format: objects of other kinds (passed over), dump_stats with operations that were lost, coll_algo and coll_proto
//
// coll_msg_size_bytes is count * size of the type: of all_gather and reduce_scatter what one rank gives (inspector.cc of 2.30.7, line 1471).
// coll_sn counts the operations of one kind of one communicator. coll_exec_time_us is the longest kernel of that rank: a rank that comes early
// waits within it, the last one does not.
//
// An object may also stand over several lines, as Inspector's README shows it, or hold the members of header and metadata itself.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace weft::report::inspector {

enum class Kind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  all_gather_v,
  send_receive,
  send,
  receive,
  other
};
inline constexpr std::size_t kinds = 11;
/// As nccl-tests calls it: "all_reduce".
std::string_view name(Kind kind);
/// Of Inspector's word: "AllReduce".
Kind kind_of(std::string_view word);
/// Whether all ranks end it together, so that times of ranks can be compared. A root, and a sender, end when they like.
constexpr bool ends_together(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::all_gather || kind == Kind::reduce_scatter;
}
constexpr bool is_collective(Kind kind) {
  return kind < Kind::send_receive;
}

/// A rank of a communicator, as a file names it.
struct Member {
  std::string id{};  ///< of the communicator, "0x7f8c496ae9f661"
  std::string name{};
  std::int64_t rank = -1;
  std::int64_t ranks = -1;
  std::int64_t nodes = -1;
  std::string host{};
  std::int64_t pid = -1;
  bool operator<(const Member& other) const {
    return std::tie(id, rank, ranks, host, pid) <
           std::tie(other.id, other.rank, other.ranks, other.host, other.pid);
  }
};

struct Record {
  std::uint32_t number = 0;  ///< among the operations of its kind
  float microseconds = 0;
  std::uint32_t when = 0;    ///< seconds since 1970
  std::uint16_t member = 0;  ///< in FileRecords::members
  std::uint16_t size = 0;    ///< in FileRecords::sizes
  Kind kind{};
  bool by_gpu = false;  ///< whether the GPU's clock measured it
};

struct FileRecords {
  std::vector<Member> members{};
  std::vector<std::uint64_t> sizes{};  ///< bytes, as nccl-tests counts them
  std::vector<Record> records{};
  std::uint64_t objects = 0;   ///< that were complete, of any kind
  std::uint64_t left_out = 0;  ///< operations that are not in `records`, for memory's sake
  std::uint64_t lost = 0;      ///< operations that Inspector says it dropped
  int bad_lines = 0;
  int first_bad = 0;      ///< its line
  std::string problem{};  ///< of that line
  bool cut = false;       ///< the last object is not complete: the file is still being written
};

class Reader {
 public:
  /// @param stride operations whose number it divides are kept: the same ones on every rank
  explicit Reader(std::uint32_t stride = 1) : stride_(stride) {}
  void take(std::string_view chunk);
  FileRecords finish();

 private:
  void take_line(std::string_view line);
  bool parse(std::string_view object);
  void refuse(int line, std::string problem);

  std::uint32_t stride_;
  FileRecords found_;
  std::map<Member, std::uint16_t> members_;
  std::map<std::uint64_t, std::uint16_t> sizes_;
  std::map<std::string, std::uint64_t> lost_;  // by communicator; the file states sums
  std::string rest_;                           // of a line that a chunk cut
  std::string object_;                         // that goes on in the next line
  int line_ = 0;
  int object_line_ = 0;
  bool ends_ = false;      // the line is the file's last, and has no end
  bool skipping_ = false;  // a line that is too long
};

}  // namespace weft::report::inspector
