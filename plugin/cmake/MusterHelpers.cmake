# What every target of the project shares: language level, warnings, instrumentation.

find_package(Threads REQUIRED)

# What was built: the commit where there is one, also in the tarball of `git archive` (which fills
# plugin/cmake/commit); a tree with changes says so. MUSTER_COMMIT names it where neither is known.
set(MUSTER_COMMIT "" CACHE STRING "what the version says of the commit (default: as git has it)")
function(muster_find_commit result)
  set(commit ${MUSTER_COMMIT})
  if(NOT commit)
    file(READ ${PROJECT_SOURCE_DIR}/plugin/cmake/commit commit)
    string(STRIP "${commit}" commit)
  endif()
  if(commit MATCHES "^[$]Format") # not out of an archive
    find_package(Git QUIET)
    set(commit "built outside git")
    if(GIT_FOUND AND EXISTS ${PROJECT_SOURCE_DIR}/.git)
      execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --exclude=* --abbrev=12 --dirty=-changed
        WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE described RESULT_VARIABLE failed
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      if(NOT failed)
        set(commit "commit ${described}")
        execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --git-path logs/HEAD
          WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE head
          OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
        get_filename_component(head ${head} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
        if(EXISTS ${head}) # another commit is another version
          set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${head})
        endif()
      endif()
    endif()
  elseif(commit MATCHES "^[0-9a-f]+(-changed)?$")
    set(commit "commit ${commit}")
  endif()
  set(${result} ${commit} PARENT_SCOPE)
endfunction()
muster_find_commit(muster_commit)

# Only these are compiled anew for another commit.
function(muster_names_commit)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_DEFINITIONS MUSTER_COMMIT="${muster_commit}")
endfunction()

add_library(muster_flags INTERFACE)
target_compile_definitions(muster_flags INTERFACE _GNU_SOURCE MUSTER_VERSION="${PROJECT_VERSION}")
target_include_directories(muster_flags INTERFACE ${PROJECT_SOURCE_DIR}/plugin)
target_compile_options(muster_flags INTERFACE
  -std=c11 -fvisibility=hidden -Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes
  -Wstrict-prototypes -Wformat=2 -Wvla -Wundef -Wpointer-arith -Wcast-qual)
target_link_libraries(muster_flags INTERFACE Threads::Threads)
include(plugin/cmake/Hardening.cmake)
if(MUSTER_WERROR)
  target_compile_options(muster_flags INTERFACE -Werror)
endif()
if(MUSTER_SANITIZE)
  target_compile_options(muster_flags INTERFACE -fsanitize=${MUSTER_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(muster_flags INTERFACE -fsanitize=${MUSTER_SANITIZE})
  if(MUSTER_SANITIZE MATCHES thread AND CMAKE_C_COMPILER_ID STREQUAL GNU)
    # Fences stand between accesses that are atomic by themselves: what the sanitizer misses in them
    # orders nothing that it could see.
    target_compile_options(muster_flags INTERFACE -Wno-tsan)
  endif()
endif()
if(MUSTER_COVERAGE)
  target_compile_options(muster_flags INTERFACE --coverage)
  target_link_options(muster_flags INTERFACE --coverage)
endif()
if(MUSTER_FUZZ)
  target_compile_options(muster_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# A library that is in the package, from its static archive where `static` is true.
function(muster_find_library target name header static)
  find_path(${target}_INCLUDE ${header} REQUIRED)
  if(static)
    find_library(${target}_LIBRARY lib${name}.a REQUIRED)
  else()
    find_library(${target}_LIBRARY ${name} REQUIRED)
  endif()
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE})
  target_link_libraries(${target} INTERFACE ${${target}_LIBRARY})
endfunction()

# muster_room(NAME SOURCES... [LIBS ...]): one folder of plugin/ as a static library that may go
# into the plugin.
function(muster_room name)
  cmake_parse_arguments(ROOM "" "" "LIBS" ${ARGN})
  add_library(muster_${name} STATIC ${ROOM_UNPARSED_ARGUMENTS})
  set_target_properties(muster_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(muster_${name} PUBLIC muster_flags ${ROOM_LIBS})
endfunction()

# muster_hot(NAME): a room that goes through millions of operations, where a tenth of the instructions is worth
# more than the bytes.
function(muster_hot name)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(muster_${name} PRIVATE -O3)
  endif()
endfunction()

# Sources that put files into the program by the assembler: link-time optimization, with which Ubuntu
# builds packages, would not find what they define.
function(muster_embeds)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -fno-lto)
endfunction()

# muster_test(NAME SOURCES... [LIBS ...]): a cmocka program that ctest runs.
function(muster_test name)
  cmake_parse_arguments(TEST "" "" "LIBS" ${ARGN})
  add_executable(${name} ${TEST_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${TEST_LIBS} muster_flags muster_cmocka)
  set(seconds 300)
  if(MUSTER_SANITIZE) # ten times as slow, beside others
    set(seconds 1200)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds})
endfunction()

# muster_slow(TEST...): more than ten seconds alone, so left out of `ctest --preset release`; the preset
# `slow`, and with it .ci/run, runs them. Where all tests run they begin first. A test that was not made here is
# passed over.
function(muster_slow)
  foreach(name ${ARGN})
    if(TEST ${name})
      set_property(TEST ${name} APPEND PROPERTY LABELS slow)
      set_property(TEST ${name} PROPERTY COST 100)
    endif()
  endforeach()
endfunction()

# muster_fuzz(NAME SOURCES... [LIBS ...]): a libFuzzer target; its corpus is tests/fuzz/corpus/NAME.
function(muster_fuzz name)
  cmake_parse_arguments(FUZZ "" "" "LIBS" ${ARGN})
  add_executable(fuzz_${name} ${FUZZ_UNPARSED_ARGUMENTS})
  target_link_libraries(fuzz_${name} PRIVATE ${FUZZ_LIBS} muster_flags)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
endfunction()
