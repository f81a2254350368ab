# Jobs that are steered: the stand-in's, with a tuner.
find_package(Python3 COMPONENTS Interpreter)
if(TARGET muster AND TARGET nccl-profiler-muster AND Python3_FOUND)
  add_test(NAME cli_steer_test COMMAND ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_LIST_DIR}/steer_test.py $<TARGET_FILE:muster> $<TARGET_FILE:host_steered>)
  set_tests_properties(cli_steer_test PROPERTIES TIMEOUT 600)
endif()

foreach(test stats tracks whole)
  muster_test(cli_tune_${test}_test ${CMAKE_CURRENT_LIST_DIR}/tune_${test}_test.c LIBS muster_tune_tools)
endforeach()
muster_test(cli_tune_measure_test ${CMAKE_CURRENT_LIST_DIR}/tune_measure_test.c
  ${CMAKE_SOURCE_DIR}/tests/unit/diagnose/ranks.c LIBS muster_tune_tools)
target_include_directories(cli_tune_measure_test PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit)
