# What `muster policy` is made of.

# Readers and arithmetic, without the command's own input and output.
add_library(muster_policy_tools STATIC
  cost_file.c explain.c policy_asked.c simulate.c simulate_effect.c)
target_link_libraries(muster_policy_tools PUBLIC muster_pace muster_policy muster_export muster_segment muster_base muster_flags)

target_sources(muster PRIVATE
  sub.c policy.c policy_check.c policy_explain.c policy_show.c policy_simulate.c report_rules.c)
target_link_libraries(muster PRIVATE muster_policy_tools)

# The JSON Schema that editors check a policy with, written by the command itself.
if(NOT CMAKE_CROSSCOMPILING)
  set(muster_policy_schema ${CMAKE_CURRENT_BINARY_DIR}/policy.schema.json)
  add_custom_command(OUTPUT ${muster_policy_schema}
    COMMAND ${CMAKE_COMMAND} -DMUSTER=$<TARGET_FILE:muster> -DOUT=${muster_policy_schema}
      -P ${CMAKE_CURRENT_SOURCE_DIR}/write_schema.cmake
    DEPENDS muster ${CMAKE_CURRENT_SOURCE_DIR}/write_schema.cmake
    COMMENT "Writing the JSON Schema of a policy" VERBATIM)
  add_custom_target(muster_policy_schema_file ALL DEPENDS ${muster_policy_schema})
  install(FILES ${muster_policy_schema} DESTINATION ${CMAKE_INSTALL_DATADIR}/muster)
endif()
