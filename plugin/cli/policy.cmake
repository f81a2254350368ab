# What `muster policy` is made of.

# Readers and arithmetic, without the command's own input and output.
add_library(muster_policy_tools STATIC cost_file.c policy_asked.c simulate.c simulate_effect.c)
target_link_libraries(muster_policy_tools PUBLIC muster_policy muster_export muster_segment muster_base muster_flags)

target_sources(muster PRIVATE
  sub.c policy.c policy_check.c policy_explain.c policy_show.c policy_simulate.c report_rules.c)
target_link_libraries(muster PRIVATE muster_policy_tools)
