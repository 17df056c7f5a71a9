// A C++ program that links the installed library.
#include <cstdio>

#include "cutlass_kernels/api.h"

int main() {
  ragged_attention::BuildInfo const info = ragged_attention::build_info();
  std::printf("%s, %s\n", info.compiler.c_str(), info.architectures.c_str());
  // Never true; keeps the launcher and with it the CUDA run-time library in the program.
  if (info.sm.empty()) ragged_attention::run_full_vjp({}, {}, {}, nullptr);
}
