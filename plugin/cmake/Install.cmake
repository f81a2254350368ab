# Where `cmake --install` puts things, and the Debian package.

# Debian's place for libraries under any prefix: the loader looks there, and a package needs it even
# from a build tree that was configured for /usr/local.
if(CMAKE_LIBRARY_ARCHITECTURE AND NOT DEFINED CMAKE_INSTALL_LIBDIR)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "libraries")
endif()
include(GNUInstallDirs)

install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
install(FILES docs/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES config/default.yaml config/flaky-network.yaml config/no-p2p.yaml
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

set(MUSTER_MAINTAINER "The muster authors" CACHE STRING "maintainer in the Debian package")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME muster)
set(CPACK_PACKAGE_VENDOR muster)
set(CPACK_PACKAGE_CONTACT ${MUSTER_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "what every NCCL operation of a job cost, rank by rank")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
  "A profiler plugin that NCCL loads into a training job, and the command muster
that reports from its recordings. The job stays unchanged; GPUs, CUDA and NCCL
are not needed to install it or to read recordings.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
include(CPack)
