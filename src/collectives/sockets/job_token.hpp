#pragma once
// What lets a process into the TCP store: the job's token, which never travels. Each side proves that it knows it
// by HMAC-SHA256 (RFC 2104) over who speaks and two random challenges, one of each side: a proof fits neither
// another connection (replay) nor the other direction (reflection). Only in builds with Boost and OpenSSL.

#include <array>
#include <string>

#include "weft/core/env.hpp"

namespace weft::detail {

using Challenge = std::array<unsigned char, 32>;
using Proof = std::array<unsigned char, 32>;
enum class Side : unsigned char { rank = 'r', server = 's' };

/// From the kernel's random numbers.
Challenge new_challenge();
Proof prove(const std::string& token, Side side, const Challenge& of_rank, const Challenge& of_server);
/// In a time that does not depend on where they differ.
bool equal(const Proof& one, const Proof& other);

/// WEFT_TOKEN, or what the file that WEFT_TOKEN_FILE names holds, without white space at its end; empty where
/// neither is set. @throws Error (usage) for a token below 16 bytes or above 4096, or a file that others may read
std::string job_token(const Environment& environment);

}  // namespace weft::detail
