# The all-reduce job against a driver and an NCCL without GPUs.
foreach(library cuda nccl)
  set(fake fake_${library})
  add_library(${fake} SHARED fake_gpu.c)
  if(library STREQUAL cuda)
    target_sources(${fake} PRIVATE fake_p2p.c)
  endif()
  target_link_libraries(${fake} PRIVATE muster_flags)
  set_target_properties(${fake} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake
    OUTPUT_NAME ${library})
endforeach()
set_target_properties(fake_cuda PROPERTIES SUFFIX .so.1)
set_target_properties(fake_nccl PROPERTIES SUFFIX .so.2)

muster_test(allreduce_test allreduce_test.c LIBS muster_allreduce muster_base)
add_dependencies(allreduce_test fake_cuda fake_nccl)
set_tests_properties(allreduce_test PROPERTIES
  ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_CURRENT_BINARY_DIR}/fake)
