# The rules of muster doctor, and the command on hosts that are made up.
muster_test(doctor_env_test env_test.c LIBS muster_doctor_rules)
muster_test(doctor_rules_test rules_test.c LIBS muster_doctor_rules)
muster_test(doctor_compare_test compare_test.c LIBS muster_doctor_rules)
muster_test(doctor_bounded_test bounded_test.c LIBS muster_survey)

muster_test(doctor_p2p_test p2p_test.c LIBS muster_doctor)
add_dependencies(doctor_p2p_test fake_cuda)
set_tests_properties(doctor_p2p_test PROPERTIES
  ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_CURRENT_BINARY_DIR}/fake)

find_package(Python3 COMPONENTS Interpreter)
if(TARGET muster AND Python3_FOUND)
  add_test(NAME doctor_test COMMAND ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/doctor_test.py $<TARGET_FILE:muster>
    ${CMAKE_CURRENT_BINARY_DIR}/fake:${MUSTER_FAKE_NVML_DIR}
    ${PROJECT_SOURCE_DIR}/docs/doctor.md)
  set_tests_properties(doctor_test PROPERTIES TIMEOUT 600)
endif()
