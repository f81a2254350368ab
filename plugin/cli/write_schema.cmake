# Writes the JSON Schema of a policy to OUT. Called by the build with MUSTER, the command.
execute_process(COMMAND ${MUSTER} policy schema OUTPUT_FILE ${OUT} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "muster policy schema: ${status}")
endif()
