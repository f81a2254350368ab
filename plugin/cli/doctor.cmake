# What `muster topo` and `muster doctor` are made of.

# A machine seen from all sides.
add_library(muster_survey STATIC bounded.c survey.c topo_json.c topo_text.c visible.c)
target_link_libraries(muster_survey PUBLIC muster_topology muster_base muster_flags)

# Tables of variables, from CSVs.
foreach(pair nccl-env:nccl nccl-env-removed:removed torch-env:torch)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 file)
  list(GET pair 1 kind)
  add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${file}.inc
    COMMAND ${CMAKE_COMMAND} -DCSV=${CMAKE_CURRENT_SOURCE_DIR}/data/${file}.csv
      -DOUT=${CMAKE_CURRENT_BINARY_DIR}/${file}.inc -DKIND=${kind}
      -P ${CMAKE_CURRENT_SOURCE_DIR}/write_env_table.cmake
    DEPENDS data/${file}.csv write_env_table.cmake
    VERBATIM)
  list(APPEND muster_env_tables ${CMAKE_CURRENT_BINARY_DIR}/${file}.inc)
endforeach()

# The rules: pure, no host is looked at.
add_library(muster_doctor_rules STATIC
  checks.c conf_file.c env_names.c env_table.c env_together.c env_values.c known_bad.c
  proc_text.c doctor_compare.c ${muster_env_tables})
target_include_directories(muster_doctor_rules PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
target_link_libraries(muster_doctor_rules PUBLIC muster_topology muster_base muster_jansson muster_flags)

add_library(muster_doctor STATIC
  doctor_active.c doctor_env.c doctor_fabric.c doctor_gpu.c doctor_host.c doctor_limits.c
  doctor_nccl.c doctor_net.c doctor_rdma.c doctor_versions.c p2p.c p2p_work.c)
target_link_libraries(muster_doctor PUBLIC muster_doctor_rules muster_survey muster_allreduce)

target_sources(muster PRIVATE doctor.c topo.c)
target_link_libraries(muster PRIVATE muster_doctor)
