# The manual pages and the completion, written by the command itself.
if(CMAKE_CROSSCOMPILING)
  message(STATUS "cross build: no manual pages and no completion, the command cannot run here")
  return()
endif()

set(muster_manual ${CMAKE_CURRENT_BINARY_DIR}/manual)
add_custom_command(OUTPUT ${muster_manual}/done
  COMMAND ${CMAKE_COMMAND} -DMUSTER=$<TARGET_FILE:muster> -DFOLDER=${muster_manual}
    -P ${CMAKE_CURRENT_SOURCE_DIR}/write_manual.cmake
  DEPENDS muster ${CMAKE_CURRENT_SOURCE_DIR}/write_manual.cmake
  COMMENT "Writing the manual pages and the completion"
  VERBATIM)
add_custom_target(muster_manual ALL DEPENDS ${muster_manual}/done)

foreach(section 1 5)
  install(DIRECTORY ${muster_manual}/man${section} DESTINATION ${CMAKE_INSTALL_MANDIR})
endforeach()
install(FILES ${muster_manual}/completion
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME muster)
install(FILES ${muster_manual}/_muster
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${muster_manual}/muster.fish
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
