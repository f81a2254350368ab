# What makes a defect harder to exploit, and the same sources give the same bytes wherever they lie.
# Each flag is used where the compiler knows it.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)

function(muster_flag_if_known name flag)
  check_c_compiler_flag("-Werror ${flag}" ${name})
  if(${name})
    target_compile_options(muster_flags INTERFACE ${flag})
  endif()
endfunction()

muster_flag_if_known(MUSTER_HAS_STACK_PROTECTOR -fstack-protector-strong)
muster_flag_if_known(MUSTER_HAS_STACK_CLASH -fstack-clash-protection)
muster_flag_if_known(MUSTER_HAS_CET -fcf-protection=full)
muster_flag_if_known(MUSTER_HAS_BRANCH_PROTECTION -mbranch-protection=standard)

# Sanitizers check more, and fortified calls would hide what they look at. Without optimization the
# headers only warn.
if(NOT MUSTER_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  check_c_source_compiles("
    #include <features.h>
    #if !__GLIBC_PREREQ(2, 34) || (defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12)
    #error
    #endif
    int main(void) { return 0; }" MUSTER_HAS_FORTIFY_3)
  if(MUSTER_HAS_FORTIFY_3)
    set(muster_fortify 3)
  else()
    set(muster_fortify 2)
  endif()
  target_compile_options(muster_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${muster_fortify})
endif()

target_link_options(muster_flags INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)

# Paths of the build machine are nobody's business, and would differ between two builds. Where
# coverage is counted they find the sources.
if(NOT MUSTER_FUZZ AND NOT MUSTER_COVERAGE)
  muster_flag_if_known(MUSTER_HAS_PREFIX_MAP "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.")
  muster_flag_if_known(MUSTER_HAS_BUILD_PREFIX_MAP "-ffile-prefix-map=${PROJECT_BINARY_DIR}=build")
endif()
