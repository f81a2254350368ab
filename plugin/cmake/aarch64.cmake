# Toolchain: aarch64-linux-gnu-gcc. Libraries for arm64 come from the compiler's own folders, or from
# MUSTER_SYSROOT, a folder into which Debian packages were unpacked:
#   cmake --preset static -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=plugin/cmake/aarch64.cmake \
#     -DMUSTER_SYSROOT=/somewhere -DMUSTER_TESTS=OFF
# Where qemu-user is, ctest runs what was built (with cmocka, also for arm64).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${MUSTER_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MUSTER_SYSROOT)

find_program(MUSTER_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(MUSTER_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${MUSTER_QEMU} -L /usr/aarch64-linux-gnu)
endif()
