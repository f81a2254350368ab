# The built-in all-reduce job: of the command and of bench/allreduce.
add_library(muster_allreduce STATIC
  ${CMAKE_CURRENT_LIST_DIR}/gpu_api.c
  ${CMAKE_CURRENT_LIST_DIR}/allreduce.c
  ${CMAKE_CURRENT_LIST_DIR}/allreduce_rank.c)
target_link_libraries(muster_allreduce PUBLIC muster_flags muster_base ${CMAKE_DL_LIBS})
