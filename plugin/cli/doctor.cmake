# What `muster topo` and `muster doctor` are made of.

# A machine seen from all sides.
add_library(muster_survey STATIC bounded.c survey.c topo_json.c topo_text.c)
target_link_libraries(muster_survey PUBLIC muster_topology muster_base muster_flags)

target_sources(muster PRIVATE topo.c)
target_link_libraries(muster PRIVATE muster_survey)
