#include <sstream>

#include "api.h"
#include "ragged_attention_build_config.h"

namespace ragged_attention {

BuildInfo build_info() {
  BuildInfo info{RAGGED_ATTENTION_COMPILER,
                 RAGGED_ATTENTION_ARCHS,
                 RAGGED_ATTENTION_CUTLASS,
                 RAGGED_ATTENTION_COMMIT,
                 {}};
#ifdef RAGGED_ATTENTION_MMA_REPEAT
  info.mma_repeat = RAGGED_ATTENTION_MMA_REPEAT;
#endif
  std::istringstream architectures(info.architectures);
  for (std::string one; std::getline(architectures, one, ';');) {
    info.sm.push_back(std::stoi(one));
  }
  return info;
}

}  // namespace ragged_attention
