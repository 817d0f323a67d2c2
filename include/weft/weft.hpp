#pragma once
// Everything a trainer includes.

#include "weft/collectives/clock.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/collectives/world.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/copy.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"
#include "weft/core/stream.hpp"
#include "weft/core/stream_trace.hpp"
#include "weft/core/trace.hpp"
#include "weft/core/view.hpp"
#include "weft/gradient/bucket_plan.hpp"
#include "weft/gradient/bucket_planner.hpp"
#include "weft/gradient/comm_hook.hpp"
#include "weft/gradient/gradient_reducer.hpp"
#include "weft/gradient/param_layout.hpp"
