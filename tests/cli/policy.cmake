# `muster policy` and `muster report --by rule`.
muster_test(policy_cost_file_test cost_file_test.c LIBS muster_policy_tools)
muster_test(policy_simulate_test simulate_test.c ${PROJECT_SOURCE_DIR}/tests/unit/export/fixture.c
  LIBS muster_policy_tools)
target_include_directories(policy_simulate_test PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit/export)
muster_test(policy_rules_test report_rules_test.c ${PROJECT_SOURCE_DIR}/plugin/cli/report_rules.c
  ${PROJECT_SOURCE_DIR}/tests/unit/export/fixture.c LIBS muster_policy_tools)
target_include_directories(policy_rules_test PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit/export)

find_package(Python3 COMPONENTS Interpreter)
if(TARGET muster AND TARGET nccl-profiler-muster AND Python3_FOUND)
  add_test(NAME policy_test COMMAND ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/policy_test.py $<TARGET_FILE:muster> ${PROJECT_SOURCE_DIR}
    $<TARGET_FILE:host_steered>)
  set_tests_properties(policy_test PROPERTIES TIMEOUT 300)
endif()
