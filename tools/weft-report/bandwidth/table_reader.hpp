#pragma once
// Reads tables of nccl-tests from the lines of a log, one after the other, in memory that does not grow with it.
//
//   std::vector<Table> tables;
//   TableReader reader(tables);
//   for (...) reader.take("slurm.out", number, line);
//
// Other lines may stand between those of a table, and a launcher's tag before each: ranks that print a table each ("[1,3]<stdout>:", "3:",
// "[rank3]:") are told apart by it. A row that was cut is left out. Beyond most_tables and Table::most_rows rows are only counted.
// WRONG: lines of NCCL; they are none of a table, and would only take time.

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "weft-report/bandwidth/columns.hpp"

namespace weft::report::bandwidth {

class TableReader {
 public:
  static constexpr std::size_t most_tables = 256;

  /// @param tables gets them, each when its first row is read; it must outlive the reader
  explicit TableReader(std::vector<Table>& tables) : tables_(tables) {}

  /// What NCCL printed on a line on which nccl-tests had begun a row: "   1024  256  float  sum  -1node1:7:8 [0] NCCL INFO ...". The row's part
  /// is kept for the line that ends it. Another line is returned as it is.
  std::string_view behind_row(std::string_view line);
  /// @return whether the line belongs to a table
  bool take(const std::string& file, int number, std::string_view line);

 private:
  /// One printer of tables.
  struct Stream {
    Table next{};  ///< what the lines before its rows say
    bool heading = false;
    bool devices = false;
    std::int64_t group = -1;
    Columns columns{};
    std::ptrdiff_t table = -1;  ///< index of the one that rows belong to; -1: the next row begins one
    std::string file{};
  };

  Stream& stream_of(std::string_view tag, const std::string& file);
  bool take_comment(std::string_view words, const Evidence& evidence, Stream& stream);
  void take_rank(std::string_view words, Stream& stream);
  void begin(Stream& stream);
  Table* table_of(Stream& stream);
  bool take_row(const std::string& file, int number, std::string_view line);

  std::vector<Table>& tables_;
  std::string interrupted_{};  ///< the part of a row
  std::map<std::string, Stream, std::less<>> streams_{};
};

}  // namespace weft::report::bandwidth
