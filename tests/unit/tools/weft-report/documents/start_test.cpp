// Which bytes open a document, and which are lines.

#include "weft-report/documents/start.hpp"

#include <gtest/gtest.h>

#include <string>

#include "weft-report/documents/documents.hpp"

namespace weft::report::documents {
namespace {

TEST(DocumentStart, NamesTheRootOfXml) {
  for (const char* start :
       {"<system version=\"1\">", "\xef\xbb\xbf \r\n<system>", "<system/>", "<?xml version=\"1.0\"?><system>",
        "<!-- <graphs> -->\n<!-- -->\n<system\n>", "<!DOCTYPE system SYSTEM \"a.dtd\"><system >",
        "<!DOCTYPE system [ <!ENTITY a \"b>\"> ]>\n<system >"})
    EXPECT_EQ(xml_root(start), "system") << start;
  EXPECT_EQ(xml_root("<graphs version"), "graphs");
  for (const char* start : {"", "system", "<", "<system", "< system>", "node1 <system>", "<!-- <system>",
                            "<?xml", "<!DOCTYPE a ["})
    EXPECT_EQ(xml_root(start), "") << start;
}

TEST(DocumentStart, OpensJsonOnlyForOneValue) {
  for (const char* start : {"{\"a\": 1}", " \n{\n  \"a\": [1, 2]\n}\n", "[1, 2]", "[{\"a\": \"}\\\"]\"}]",
                            "{}", "{\"cut", "[-1, 2"})
    EXPECT_TRUE(opens_json(start)) << start;
  for (const char* start :
       {"", "{", "a", "\"text\"", "{\"log\": \"a\"}\n{\"log\": \"b\"}\n", "[1,0]<stdout>:text",
        "[2026-01-01 10:00:00] node1", "[rank0]: text", "{a: 1}", "[0] [1]", "[\"\\\"\"] text"})
    EXPECT_FALSE(opens_json(start)) << start;
}

TEST(Documents, ThatAreBrokenSayWhereAndLeaveFactsAsTheyAre) {
  Facts facts;
  const std::string broken = "<system version=\"1\">\n<cpu numaid=\"0\">\n</system>\n";
  const Kind* kind = kind_of(broken);
  ASSERT_NE(kind, nullptr);
  const std::string wrong = read(*kind, broken, "topo.xml", facts);
  EXPECT_NE(wrong.find("is a topology of NCCL that cannot be read: line 3: "), std::string::npos) << wrong;
  EXPECT_EQ(facts.taken, 0);
  EXPECT_EQ(read(*kind, "<system version=\"1\"><cpu numaid=\"0\"/></system>", "topo.xml", facts), "");
  EXPECT_EQ(facts.taken, 1);
  EXPECT_EQ(facts.hosts.size(), 1U);
}

TEST(Documents, AreNoneOfOtherBytes) {
  for (const std::string& start : {std::string(), std::string("node1:1:1 [0] NCCL INFO text"),
                                   std::string("\x7f"
                                               "ELF"),
                                   std::string("<html>"), std::string("{\"log\": 1}")})
    EXPECT_EQ(kind_of(start), nullptr) << start;
}

}  // namespace
}  // namespace weft::report::documents
