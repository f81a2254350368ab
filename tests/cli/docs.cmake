# What docs/limits.md promises, and that each promise names a test.
add_test(NAME limits_test COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/limits_test.sh
  ${PROJECT_SOURCE_DIR}/docs/limits.md ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CTEST_COMMAND}
  ${PROJECT_BINARY_DIR})

find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME places_test COMMAND ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/places_test.py $<TARGET_FILE:muster>
    ${PROJECT_SOURCE_DIR}/tests/traces/recordings/late-gpu)
  set_tests_properties(places_test PROPERTIES TIMEOUT 300)
endif()
