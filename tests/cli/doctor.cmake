# The rules of muster doctor, and the command on hosts that are made up.
muster_test(doctor_env_test env_test.c LIBS muster_doctor_rules)
muster_test(doctor_rules_test rules_test.c LIBS muster_doctor_rules)
muster_test(doctor_compare_test compare_test.c LIBS muster_doctor_rules)
muster_test(doctor_bounded_test bounded_test.c LIBS muster_survey)
