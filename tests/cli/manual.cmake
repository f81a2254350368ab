# The manual pages and the completion that the build has written. Not built where it cannot run them.
if(TARGET muster_manual)
  add_test(NAME manual_test COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/manual_test.sh
    $<TARGET_FILE:muster> ${muster_BINARY_DIR}/plugin/cli/manual)
  set_tests_properties(manual_test PROPERTIES SKIP_RETURN_CODE 77)
  add_test(NAME completion_test COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/completion_test.sh
    ${muster_BINARY_DIR}/plugin/cli/manual/completion)
endif()
