// Every line that NCCL prints, with random values, under the tags of launchers: the reader gives the values back. The printers are slow and
// plain; a # in a format stands for a value of the kind that its letter names.

#include "weft-report/nccl/formats.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <set>

#include "support/draw.hpp"
#include "weft-report/nccl/nccl.hpp"
#include "weft/core/text.hpp"

namespace weft::report::nccl {
namespace {

using weft::test::Draw;

struct Format {
  const char* level;
  const char* id;  // of the values that the reader keeps
  const char* text;
};

/// #d a number, #D with two digits at least, #n a number of bytes, #x hexadecimal, #X with 0x, #f 6 decimals, #g 2, #h 1, #p an address, #w a
/// word, #N a variable, #s words, #i an interface with address.
constexpr Format formats[] = {
    {"INFO", "driver", "cudaDriverVersion #d"},
    {"INFO", "bootstrap", "Bootstrap: Using #i"},
    {"INFO", "bootstrap", "Bootstrap : Using #i"},
    {"INFO", "bootstrap-timings",
     "Bootstrap timings total #f (create #f, send #f, recv #f, ring #f, delay #f)"},
    {"INFO", "setting", "#N set by environment to #w"},
    {"INFO", "setting-refused", "Invalid value #w for #N, using default #d."},
    {"INFO", "hca-setting", "NCCL_IB_HCA set to #w"},
    {"INFO", "config", "Comm config #w set to #w"},
    {"INFO", "no-ib-device", "NET/IB : No device found."},
    {"INFO", "no-libibverbs", "Failed to open libibverbs.so[.1]"},
    {"INFO", "nics", "NET/IB : Using [0]#w:#d/IB [1]#w:#d/RoCE [RO]; OOB #w:#w"},
    {"INFO", "port", "NET/IB: [#d] #w:#w:#d/IB provider=#w speed=#d context=#p pciPath=#w ar=#d"},
    {"INFO", "port",
     "NET/IB: [#d] #w:#w:#d/RoCE provider=#w speed=#d context=#p pciPath=#w ar=#d oooRqSize=#d"},
    {"INFO", "virtual-nic", "NET/IB : Made virtual device [#d] name=#w speed=#d ndevs=#d"},
    {"INFO", "virtual-nic", "NET/IB : Made virtual device [#d] name=#w speed=#d ndevs=#d rail=#d plane=#d"},
    {"INFO", "gpu-direct", "NET/IB : GPU Direct RDMA Enabled for HCA #d '#w'"},
    {"INFO", "gpu-direct", "NET/#w : GPU Direct RDMA Disabled for HCA #d '#w'"},
    {"INFO", "dma-buf", "DMA-BUF is available on GPU device #d"},
    {"INFO", "sockets", "NET/Socket : Using [0]#i [1]#i"},
    {"INFO", "socket-threads", "NET/Socket: Using #d threads and #d sockets per thread"},
    {"INFO", "plug-in-loaded", "Successfully loaded external network plugin #w"},
    {"INFO", "plug-in-begun", "Initialized NET plugin #w"},
    {"INFO", "plug-in-used", "Assigned NET plugin #w to comm"},
    {"INFO", "network", "Using network #s"},
    {"INFO", "plug-in-not-found", "#w/Plugin: Could not find:#s"},
    {"INFO", "init-start",
     "#w comm #p rank #d nranks #d cudaDev #d nvmlDev #d busId #x commId #X - Init START"},
    {"INFO", "init-done",
     "#w comm #p rank #d nranks #d cudaDev #d nvmlDev #d busId #x commId #X - Init COMPLETE"},
    {"INFO", "split-start",
     "#w comm #p rank #d nranks #d cudaDev #d nvmlDev #d busId #x parent #p splitCount #d color #d key #d- "
     "Init START"},
    {"INFO", "split-start",
     "#w comm #p rank #d nranks #d cudaDev #d nvmlDev #d busId #x parent #p childCount #d color #d key #d- "
     "Init START"},
    {"INFO", "split-done",
     "#w comm #p rank #d nranks #d cudaDev #d nvmlDev #d busId #x parent #p splitCount #d color #d key #d - "
     "Init COMPLETE"},
    {"INFO", "split-done",
     "#w comm #p rank #d nranks #d cudaDev #d nvmlDev #d busId #x parent #p childCount #d color #d key #d - "
     "Init COMPLETE"},
    {"INFO", "init-timings",
     "Init timings - #w: rank #d nranks #d total #g (kernels #g, alloc #g, bootstrap #g, allgathers #g, topo "
     "#g, graphs #g, connections #g, rest #g)"},
    {"INFO", "p2p-timing", "timings: rank #d nranks #d P2p connect done in #g"},
    {"INFO", "shape", "comm #p rank #d nRanks #d nNodes #d localRanks #d localRank #d MNNVL #d"},
    {"INFO", "multi-node-nvlink", "MNNVL busId #X fabric UUID #x.#x cliqueId #X state #d healthMask #X"},
    {"INFO", "nvlink-clique", "MNNVL #d cliqueId #x cliqueSize #d cliqueRank #d"},
    {"INFO", "nvlink-clique", "MNNVL #d cliqueId #x cliqueSize #d cliqueRank #d nvlDomainSize #d"},
    {"INFO", "p2p-type", "Check P2P Type isAllDirectP2p #d directMode #d isAllCudaP2p #d"},
    {"INFO", "system", "=== System : maxBw #h totalBw #h ==="},
    {"INFO", "graph", "Pattern #d, crossNic #d, nChannels #d, bw #f/#f, type #w/#w, sameChannels #d"},
    {"INFO", "ring", "Ring #D : #d -> #d -> #d"},
    {"INFO", "tree", "Tree #d : #d -> #d -> #d/#d/#d"},
    {"INFO", "trees", "Trees [0] #d/#d/#d->#d->#d [1] #d/#d/#d->#d->#d"},
    {"INFO", "collnet-channel", "CollNet #D/#d : #d [#w] via COLLNET/#w"},
    {"INFO", "rings-connected", "Connected all rings, use ring PXN #d GDR #d"},
    {"INFO", "trees-connected", "Connected all trees"},
    {"INFO", "nvls", "NVLS multicast support is available on dev #d (NVLS_NCHANNELS #d)"},
    {"INFO", "nvls", "NVLS multicast support is not available on dev #d"},
    {"INFO", "nvls-tree", "Connected NVLS tree"},
    {"INFO", "nvls-memory",
     "NVLS comm #p headRank #d nHeads #d nvlsRanks #d buffSize #n nvlsPerRankSize #n nvlsTotalSize #n"},
    {"INFO", "channels",
     "#d coll channels, #d collnet channels, #d nvls channels, #d p2p channels, #d p2p channels per peer"},
    {"INFO", "p2p-chunk", "P2P Chunksize set to #d"},
    {"INFO", "thread-thresholds", "threadThresholds #d/#d/#d | #d/#d/#d | #d | #d"},
    {"INFO", "cpu-affinity",
     "ncclTopoGetCpuAffinity: Affinity for GPU #d is #w. (GPU affinity = #w ; CPU affinity = #w)."},
    {"INFO", "choice", "#w: #n Bytes -> Algo #w proto #w channel{Lo..Hi}={#d..#d}"},
    {"INFO", "symmetric-choice", "#w [Symmetric]: #n Bytes -> Kernel #w nchannels #d nthreads #d nWorks #d"},
    {"INFO", "copy-engine-choice", "#w [Copy Engine]: #n Bytes -> cudaMemcpy#w"},
    {"INFO", "tuner", "TUNER/Plugin: Using #s (v5)"},
    {"INFO", "algorithms", "Enabled NCCL Func/Proto/Algo Matrix:"},
    {"INFO", "ended", "comm #p rank #d nranks #d cudaDev #d busId #x - Destroy COMPLETE"},
    {"INFO", "ended", "comm #p rank #d nranks #d cudaDev #d busId #x - Abort COMPLETE"},
    {"INFO", "port-speed", "NET/IB : #w:#d speed change detected: #d -> #d Mbps"},
    {"INFO", "connect-retry",
     "socketPollConnect: connect to #i returned #s, retrying (#d/#d) after sleep for #d msec"},
    {"INFO", "cumem-fallback",
     "cuMem host allocations do not appear to be working; falling back to a /dev/shm/ based implementation."},
    {"INFO", "stack-limit", "Stack size limit (#w) is unsafe; will use #dKB for newly launched threads"},
    {"INFO", "nics-of-ranks", "Local Net device counts across ranks: min #d max #d"},
    {"INFO", "other-rail",
     "NET/IB : There are mismatched physical devices between local (#w) and remote (#w). To disable this "
     "warning, set NCCL_IB_WARN_RAIL_LOCAL=0"},
    {"WARN", "duplicate-gpu", "Duplicate GPU detected : rank #d and rank #d both on CUDA device #x"},
    {"WARN", "versions-differ", "Mismatched NCCL version detected : rank #d version #d rank #d version #d"},
    {"WARN", "no-algorithm", "No algorithm/protocol available for function #w with datatype #w.#s"},
    {"WARN", "no-algorithm", "Error : no algorithm/protocol available for function #w with datatype #w.#s"},
    {"WARN", "nvlink-p2p-off",
     "P2P is disabled between NVLINK connected GPUs #d and #d. This should not be the case given their "
     "connectivity"},
    {"WARN", "cuda-failure", "Cuda failure #d '#s'"},
    {"WARN", "completion",
     "NET/IB: Got completion from peer #i with status=#s(#d) opcode=#w(#d) reqSize=#d vendor_err=#d "
     "req_type=#w #s hca #w"},
    {"WARN", "completion",
     "NET/IB: Got completion from peer #i with status=#s(#d) opcode=#w(#d) vendor_err=#d #s hca #w"},
    {"WARN", "port-event", "NET/IB : #w:#d async fatal event: #s"},
    {"WARN", "queue-pair-failed", "Call to ibv_modify_qp failed with #d #w, #s"},
    {"WARN", "verb-failed", "Call to #w failed with error #s errno #d"},
    {"WARN", "shm-failed", "Error: failed to extend #w to #n bytes, error: #s (#d)"},
    {"WARN", "connect-failed",
     "socketPollConnect: connect to #i returned #s, exceeded error retry count after #d attempts"},
    {"WARN", "accept-failed", "ncclOsSocketTryAccept: exceeded error retry count after #d attempts, #s"},
    {"WARN", "accept-failed", "socketTryAccept: exceeded error retry count after #d attempts, #s"},
    {"WARN", "peer-closed", "socketProgress: Connection closed by remote peer #i"},
    {"WARN", "truncated",
     "NET/Socket : peer #i message truncated : receiving #d bytes instead of #d. If you believe your socket "
     "network is in a healthy state"},
    {"WARN", "nvls-failed",
     "Failed to bind NVLink SHARP (NVLS) Multicast memory of size #n : CUDA error #d '#s'."},
    {"WARN", "imex",
     "MNNVL (cliqueSize #d) is available but not working on this system. Check the IMEX channel "
     "configuration"},
    {"WARN", "incompatible-nics",
     "NET/IB : Attempted to connect incompatible devices: [#d]#w:#d/IB and [#d]#w:#d/RoCE. Try selecting "
     "NICs of only one link type"},
};

std::string draw_word(Draw& draw) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  std::string word(1, letters[static_cast<std::size_t>(draw.below(52))]);
  for (int more = draw.below(9); more > 0; --more)
    word += letters[static_cast<std::size_t>(draw.below(static_cast<int>(letters.size())))];
  return word;
}
std::string draw_hex(Draw& draw) {
  return hex(static_cast<std::uint64_t>(draw.below(1 << 30)) << (draw.below(2) * 24));
}
std::string draw_decimal(Draw& draw, int places) {
  std::string fraction;
  for (int i = 0; i < places; ++i) fraction += static_cast<char>('0' + draw.below(10));
  return text(draw.below(1000), '.', fraction);
}

std::string draw_value(Draw& draw, char kind) {
  switch (kind) {
    case 'd':
      return text(draw.below(4) == 0 ? -1 : draw.below(1 << 20));
    case 'D': {
      const int number = draw.below(40);
      return (number < 10 ? "0" : "") + text(number);
    }
    case 'n':
      return text(static_cast<std::int64_t>(draw.below(1 << 30)) * (1 + draw.below(1000)));
    case 'x':
      return draw_hex(draw);
    case 'X':
      return "0x" + draw_hex(draw);
    case 'f':
      return draw_decimal(draw, 6);
    case 'g':
      return draw_decimal(draw, 2);
    case 'h':
      return draw_decimal(draw, 1);
    case 'p':
      return draw.below(8) == 0 ? "(nil)" : "0x7" + draw_hex(draw);
    case 'w':
      return draw_word(draw);
    case 'N':
      return "NCCL_" + draw_word(draw);
    case 's':
      return draw_word(draw) + " " + draw_word(draw);
    default:
      return draw_word(draw) +
             text(":10.", draw.below(256), ".0.", draw.below(256), '<', draw.below(60000), '>');
  }
}

struct Printed {
  std::string message;
  std::vector<std::string> drawn;  // the values, in order
};

Printed print_format(Draw& draw, const char* text_of_format) {
  Printed printed;
  for (const char* at = text_of_format; *at != '\0'; ++at) {
    if (*at != '#') {
      printed.message += *at;
      continue;
    }
    printed.drawn.push_back(draw_value(draw, *++at));
    printed.message += printed.drawn.back();
  }
  return printed;
}

/// host:pid:tid [device] and level, behind a launcher's tag; WARN with time and place, as NCCL does.
std::string framed(Draw& draw, const std::string& level, const std::string& message) {
  const std::string tag =
      draw.one_of<std::string>({"", "[1,3]<stdout>:", "3: ", "[rank3]:", "(pid=77) ",
                                "2026-03-01T10:00:00.123456789Z stdout F ", "train-0 | "});
  const bool warn = level == "WARN";
  return tag + (warn ? "[2026-03-01 10:00:00] " : "") + "node1:7:8 [3] " +
         (warn ? "transport/any.cc:12 " : "") + "NCCL " + level + " " + message;
}

/// Each value that the reader keeps stands in what was printed, in order, and what was drawn is all in them or in the plain text between.
void expect_read(const Format& format, const Printed& printed, const std::string& line) {
  JobLog log;
  log.add(line + "\n", "log");
  ASSERT_EQ(log.job().processes.size(), 1U) << line;
  const Process& process = log.job().processes[0];
  EXPECT_EQ(process.host, "node1") << line;
  EXPECT_EQ(process.pid, 7) << line;
  const auto stated = process.stated.find(format.id);
  ASSERT_NE(stated, process.stated.end()) << format.id << ": " << line;
  EXPECT_EQ(stated->second.evidence.text, line);
  if (stated->second.values.size() == printed.drawn.size()) {
    EXPECT_EQ(stated->second.values, printed.drawn) << line;
    return;
  }
  std::size_t at = 0;
  std::string joined;
  for (const std::string& value : stated->second.values) {
    at = printed.message.find(value, at);
    ASSERT_NE(at, std::string::npos) << value << " in " << line;
    at += value.size();
    joined += value + "\n";
  }
  std::size_t from = 0;
  for (const std::string& value : printed.drawn) {
    const std::size_t found = joined.find(value, from);
    // Behind the end of a pattern stands what later versions add.
    if (found == std::string::npos) {
      EXPECT_GE(printed.message.rfind(value), at) << value << " is lost: " << line;
      continue;
    }
    from = found + value.size();
  }
}

TEST(NcclFormats, PrintedWithRandomValuesAreReadBack) {
  Draw draw(24);
  for (int trial = 0; trial < 50; ++trial) {
    for (const Format& format : formats) {
      const Printed printed = print_format(draw, format.text);
      expect_read(format, printed, framed(draw, format.level, printed.message));
    }
  }
}

TEST(NcclFormats, AllStandInTheTest) {
  std::set<std::string_view> tested;
  for (const Format& format : formats) tested.insert(format.id);
  for (const LineFormat& format : line_formats()) EXPECT_TRUE(tested.contains(format.id)) << format.id;
}

/// One that is cut states nothing, and a cut one before it does not take its place.
TEST(NcclFormats, ThatAreCutStateNoShorterValues) {
  Draw draw(25);
  for (const Format& format : formats) {
    const Printed printed = print_format(draw, format.text);
    const std::string line = "node1:7:8 [3] NCCL " + std::string(format.level) + " " + printed.message;
    for (int cut = 0; cut < 8; ++cut) {
      JobLog log;
      log.add(line.substr(0, static_cast<std::size_t>(draw.below(static_cast<int>(line.size())))) + "\n" +
                  line + "\n",
              "log");
      EXPECT_GE(log.job().known_lines, 1) << line;
    }
  }
}

TEST(NcclFormats, OfConnectionsAreCountedByWhatCarriesThem) {
  Draw draw(26);
  const std::pair<const char*, int Connections::*> carriers[] = {
      {"Channel #D/#d : #d[#d] -> #d[#d] [send] via NET/Socket/#d", &Connections::socket},
      {"Channel #D/#d : #d[#d] -> #d[#d] [receive] via NET/Socket/#d/Shared", &Connections::socket},
      {"Channel #D/#d : #d[#d] -> #d[#d] [send] via NET/IB/#d", &Connections::rdma},
      {"Channel #D/#d : #d[#d] -> #d[#d] [send] via NET/IB/#d/GDRDMA", &Connections::rdma_direct},
      {"Channel #D/#d : #d[#d] -> #d[#d] [receive] via NET/IB/#d/GDRDMA(PCI)/Shared",
       &Connections::rdma_direct},
      {"Channel #D/#d : #d[#d] -> #d[#d] [send] via NET/IB/#d(#d)/GDRDMA", &Connections::rdma_direct},
      {"Channel #D/#d : #d[#d] -> #d[#d] via P2P/direct pointer/read", &Connections::p2p},
      {"Channel #D/#d : #d[#d] -> #d[#d] via P2P/CUMEM/read/CE", &Connections::p2p},
      {"Channel #D/#d : #d[#d] -> #d[#d] via P2P/MNNVL", &Connections::p2p},
      {"Channel #D/#d : #d[#d] -> #d[#d] via P2P/IPC/read", &Connections::p2p},
      {"Channel #D/#d : #d[#d] -> #d[#d] via P2P/indirect/#d[#d]", &Connections::p2p},
      {"Channel #D : #d[#d] -> #d[#d] via SHM/direct", &Connections::shm},
      {"Channel #D : #d[#d] -> #d[#d] via SHM/direct/direct", &Connections::shm},
      {"Channel #D : #d[#d] -> #d[#d] via SHM/CE/direct", &Connections::shm},
      {"Channel #D : #d[#d] -> #d[#d] via direct shared memory", &Connections::shm}};
  for (const auto& [format, counter] : carriers) {
    JobLog log;
    for (int i = 0; i < 3; ++i)
      log.add(framed(draw, "INFO", print_format(draw, format).message) + "\n", "log");
    ASSERT_EQ(log.job().processes.size(), 1U) << format;
    const Connections& all = log.job().processes[0].connections;
    EXPECT_EQ(all.*counter, 3) << format;
    EXPECT_EQ(all.p2p + all.shm + all.socket + all.rdma + all.rdma_direct, 3) << format;
  }
}

/// What becomes a fact of the process or of the job, beside the values as they are.
TEST(NcclFormats, OfFactsGiveThem) {
  Draw draw(27);
  for (int trial = 0; trial < 100; ++trial) {
    const std::string version =
        text("2.", draw.below(31), '.', draw.below(10), "+cuda", 10 + draw.below(4), '.', draw.below(9));
    const std::string network = draw_value(draw, 's');
    const std::string interface = draw_value(draw, 'i');
    const std::string name = "NCCL_" + draw_word(draw);
    const int value = draw.below(1000);
    const int nodes = 1 + draw.below(64);
    const int rank = draw.below(64);
    const int ranks = 64 + draw.below(64);
    const int device = draw.below(8);
    const std::string bus = draw_hex(draw);
    JobLog log;
    for (const std::string& message :
         {"NCCL version " + version, "Using network " + network, "Bootstrap: Using " + interface,
          text(name, " set by environment to ", value, '.'),
          text("comm 0x1 rank ", rank, " nRanks ", ranks, " nNodes ", nodes,
               " localRanks 8 localRank 0 MNNVL 0"),
          text("[Rank ", rank, "] ncclCommInitRank comm 0x1 rank ", rank, " nranks ", ranks, " cudaDev ",
               device, " nvmlDev 0 busId ", bus, " commId 0x77 - Init START")})
      log.add(framed(draw, "INFO", message) + "\n", "log");
    ASSERT_EQ(log.job().processes.size(), 1U);
    const Process& process = log.job().processes[0];
    EXPECT_EQ(process.version.value, version);
    EXPECT_EQ(process.network.value, network);
    EXPECT_EQ(process.bootstrap.value, interface);
    EXPECT_EQ(process.settings.at(name).value, text(value));
    EXPECT_EQ(process.nodes, nodes);
    EXPECT_EQ(process.rank, rank);
    EXPECT_EQ(process.ranks, ranks);
    EXPECT_EQ(process.cuda_device, device);
    EXPECT_EQ(process.bus.value, bus);
    ASSERT_EQ(process.comms.size(), 1U);
    EXPECT_EQ(process.comms[0].id, "0x77");
  }
}

TEST(NcclFormats, ThatStandBeforeTheLevelStateNothing) {
  JobLog log;
  log.add("NCCL_IB_HCA set to NCCL WARN NCCL_ALGO\n", "log");
  EXPECT_EQ(log.job().setting("NCCL_ALGO"), nullptr);
  EXPECT_EQ(log.job().setting("NCCL_IB_HCA"), nullptr);
}

TEST(NcclFormats, OfPatternsTakeTheirKindOfValue) {
  using Values = std::vector<std::string_view>;
  EXPECT_EQ(values_in("a -12 b", "a %d b"), Values{"-12"});
  EXPECT_EQ(values_in("a 0x1f b", "a %x b"), Values{"0x1f"});
  EXPECT_EQ(values_in("a 1.50)", "a %f)"), Values{"1.50"});
  EXPECT_EQ(values_in("a (nil) 0x1", "a %p %p"), (Values{"(nil)", "0x1"}));
  EXPECT_EQ(values_in("one two: 3", "%s: %d"), (Values{"one two", "3"}));
  EXPECT_EQ(values_in("a", "a%s"), Values{""});
  for (const char* message : {"", "a", "a x b", "a 1", "a 1 ", "b 1 b"})
    EXPECT_EQ(values_in(message, "a %d b"), std::nullopt) << message;
  EXPECT_EQ(longest_literal("%s comm %p rank %d"), " comm ");
}

}  // namespace
}  // namespace weft::report::nccl
