# What `muster tune` is made of.

# How long operations took: also `muster policy simulate`'s measure.
add_library(muster_pace STATIC pace.c)
target_link_libraries(muster_pace PUBLIC muster_diagnose muster_flags)

# Arithmetic, measurements and files, without running anything.
add_library(muster_tune_tools STATIC tune_stats.c tune_measure.c tune_tracks.c tune_whole.c
  tune_write.c)
target_link_libraries(muster_tune_tools PUBLIC muster_pace muster_diagnose muster_policy muster_segment muster_base muster_flags m)

target_sources(muster PRIVATE tune.c tune_job.c tune_search.c)
target_link_libraries(muster PRIVATE muster_tune_tools)
