# What `muster demo` is made of, for the command and for the benchmarks.

# The built-in all-reduce job.
add_library(muster_allreduce STATIC gpu_api.c allreduce.c allreduce_rank.c)
target_link_libraries(muster_allreduce PUBLIC muster_flags muster_base ${CMAKE_DL_LIBS})

add_library(muster_scratch STATIC scratch.c)
target_link_libraries(muster_scratch PUBLIC muster_flags muster_base)

# A recording of a real 4-GPU job with a late rank, inside the command.
set(demo_recording ${PROJECT_SOURCE_DIR}/tests/traces/recordings/late-gpu)
file(GLOB demo_recording_files CONFIGURE_DEPENDS ${demo_recording}/rank-*.jsonl.xz)
add_library(muster_demo_recording STATIC demo_recording.c)
target_link_libraries(muster_demo_recording PUBLIC muster_flags muster_base)
set_source_files_properties(demo_recording.c PROPERTIES
  COMPILE_DEFINITIONS MUSTER_DEMO_RECORDING="${demo_recording}"
  OBJECT_DEPENDS "${demo_recording_files}")
