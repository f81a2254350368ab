# Where `cmake --install` puts things. debian/ makes the package from it.

# Debian's place for libraries under any prefix: the loader looks there, and a package needs it even
# from a build tree that was configured for /usr/local.
if(CMAKE_LIBRARY_ARCHITECTURE AND NOT DEFINED CMAKE_INSTALL_LIBDIR)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "libraries")
endif()
include(GNUInstallDirs)

install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
install(FILES config/default.yaml config/flaky-network.yaml config/no-p2p.yaml
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# For those who watch many hosts: docs/fleet.md.
install(DIRECTORY config/enroot config/grafana config/hooks config/kubernetes config/nats config/prometheus config/slurm config/systemd
  DESTINATION ${CMAKE_INSTALL_DATADIR}/muster USE_SOURCE_PERMISSIONS)
