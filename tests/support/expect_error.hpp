#pragma once
// Expects `call` to throw a weft::Error of a kind, whose message holds every one of `parts`.

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "weft/core/error.hpp"

namespace weft::test {

template <class Call>
void expect_error(ErrorKind kind, std::initializer_list<std::string> parts, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "no error was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(name(error.kind()), std::string(name(kind))) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "no '" << part << "' in: " << error.what();
    }
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos)
        << "more than one line: " << error.what();
  }
}

}  // namespace weft::test
