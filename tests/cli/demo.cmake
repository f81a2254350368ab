add_test(NAME demo COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/demo.sh $<TARGET_FILE:muster>)
set_tests_properties(demo PROPERTIES TIMEOUT 120)
