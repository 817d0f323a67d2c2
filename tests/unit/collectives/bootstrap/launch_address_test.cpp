#include "collectives/bootstrap/launch_address.hpp"

#include <gtest/gtest.h>

namespace weft::detail {
namespace {

TEST(LaunchAddress, IsTheFirstHostOfSlurmsList) {
  EXPECT_EQ(first_host("alone"), "alone");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("node[03-07,9]"), "node03");
  EXPECT_EQ(first_host("r[1-2]n[01-04],x"), "r1n01");
  EXPECT_THROW(first_host("node[03"), Error);
}

TEST(LaunchAddress, PutsBracketsAroundABareIpv6Address) {
  EXPECT_EQ(tcp_address("host", 5), "tcp://host:5");
  EXPECT_EQ(tcp_address("::1", 5), "tcp://[::1]:5");
  EXPECT_EQ(tcp_address("[::1]", 5), "tcp://[::1]:5");
}

}  // namespace
}  // namespace weft::detail
