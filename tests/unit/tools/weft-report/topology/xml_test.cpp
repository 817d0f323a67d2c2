// Documents that are hostile, or no documents at all.

#include "weft-report/topology/xml.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "weft-report/topology/topology.hpp"

namespace weft::report::topology {
namespace {

using weft::test::expect_error;

TEST(TopologyXml, FollowsNoEntityAndNoReference) {
  const std::string content =
      "<?xml version=\"1.0\"?>\n"
      "<!DOCTYPE system SYSTEM \"file:///etc/hostname\" [\n"
      "<!ENTITY host SYSTEM \"file:///etc/hostname\">\n"
      "<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">\n"
      "]>\n"
      "<system version=\"1\"><cpu numaid=\"0\" arch=\"&host;\" vendor=\"&b;\"/></system>";
  const std::vector<Host> hosts = read_system(content, "topo.xml");
  EXPECT_EQ(hosts.at(0).cpus.at(0).arch, "&host;");
  EXPECT_EQ(hosts.at(0).cpus.at(0).vendor, "&b;");
}

TEST(TopologyXml, CutsValuesAndRefusesDepth) {
  const std::string huge(1 << 20, 'x');
  EXPECT_EQ(read_system("<system version=\"1\"><cpu arch=\"" + huge + "\"/></system>", "a")
                .at(0)
                .cpus.at(0)
                .arch.size(),
            longest_value);
  std::string deep = "<system version=\"1\"><cpu>";
  for (int i = 0; i < 100'000; ++i) deep += "<pci>";
  for (int i = 0; i < 100'000; ++i) deep += "</pci>";
  expect_error(ErrorKind::usage, {"line 1: <pci> in more than 32 others"},
               [&] { read_system(deep + "</cpu></system>", "topo.xml"); });
}

TEST(TopologyXml, RefusesMoreThanAHostCanHave) {
  std::string gpus;
  for (int i = 0; i < 513; ++i) gpus += "<pci busid=\"" + std::to_string(i) + "\"><gpu dev=\"1\"/></pci>";
  expect_error(ErrorKind::usage, {"line 1: more than 512 GPUs in a host"},
               [&] { read_system("<system version=\"1\"><cpu>" + gpus + "</cpu></system>", "topo.xml"); });
  std::string nets;
  for (int i = 0; i < 513; ++i) nets += "<net/>";
  expect_error(ErrorKind::usage, {"line 1: more than 512 ports in a host"}, [&] {
    read_system("<system version=\"1\"><cpu><nic>" + nets + "</nic></cpu></system>", "topo.xml");
  });
  std::string cpus;
  for (int i = 0; i < 513; ++i) cpus += "<cpu host_hash=\"" + std::to_string(i) + "\"/>";
  expect_error(ErrorKind::usage, {"line 1: more than 512 hosts"},
               [&] { read_system("<system version=\"1\">" + cpus + "</system>", "topo.xml"); });
}

TEST(TopologyXml, KnowsTheLineOfAnElement) {
  const Xml xml("<graphs version=\"1\">\n\n  <graph id=\"0x1f\"\n bw=\"1.5 GB/s\"/></graphs>", "graph.xml");
  const pugi::xml_node graph = xml.root("graphs").child("graph");
  EXPECT_EQ(xml.evidence(graph).line, 3);
  EXPECT_EQ(xml.evidence(graph).text, "<graph id=\"0x1f\"");
  EXPECT_EQ(integer(graph, "id", -1), 31);
  EXPECT_EQ(integer(graph, "bw", -1), -1);
  EXPECT_EQ(integer(graph, "none", 7), 7);
  EXPECT_EQ(real(graph, "bw"), 1.5);
  EXPECT_EQ(real(graph, "id"), 0);
  expect_error(ErrorKind::usage, {"it has no element <system>"}, [&] { xml.root("system"); });
}

TEST(TopologyXml, ThatIsCutAnywhereIsRefused) {
  const std::string whole = "<system version=\"1\"><cpu numaid=\"0\" arch=\"a\"><pci/></cpu></system>";
  for (std::size_t length = 0; length < whole.size(); ++length)
    expect_error(ErrorKind::usage, {}, [&] { read_system(whole.substr(0, length), "topo.xml"); });
}

}  // namespace
}  // namespace weft::report::topology
