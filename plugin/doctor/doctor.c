#include "doctor/doctor.h"

int muster_doctor_examine(struct muster_doctor *doctor, struct muster_err *err)
{
    struct muster_arena arena = {0};
    doctor->memory = &arena;
    doctor->checks->several_hosts = muster_doctor_several_hosts();
    muster_doctor_nccl(doctor);
    muster_doctor_log(doctor);
    muster_doctor_driver(doctor);
    muster_doctor_ways(doctor);
    muster_doctor_environment(doctor);
    muster_doctor_network(doctor);
    muster_doctor_names(doctor);
    muster_doctor_firewall(doctor);
    muster_doctor_mesh(doctor);
    muster_doctor_proxy(doctor);
    muster_doctor_scanner(doctor);
    muster_doctor_ranks(doctor);
    muster_doctor_extensions(doctor);
    muster_doctor_kernel(doctor);
    muster_doctor_shm(doctor);
    muster_doctor_limits(doctor);
    muster_doctor_threads(doctor);
    muster_doctor_binding(doctor);
    muster_doctor_service(doctor);
    muster_doctor_host(doctor);
    muster_doctor_kernel_log(doctor);
    muster_doctor_versions(doctor);
    muster_doctor_gpu_code(doctor);
    muster_doctor_pairs(doctor);
    muster_doctor_two(doctor);
    muster_doctor_frameworks(doctor);
    muster_doctor_torch(doctor);
    muster_doctor_known_plugin(doctor);
    muster_doctor_gpus(doctor);
    muster_doctor_multicast(doctor);
    muster_doctor_sharing(doctor);
    muster_doctor_rdma(doctor);
    muster_doctor_hca(doctor);
    muster_doctor_ports(doctor);
    muster_doctor_pcie(doctor);
    muster_doctor_fabric(doctor);
    muster_doctor_runtime(doctor);
    muster_doctor_active(doctor);
    muster_checks_end(doctor->checks);
    muster_arena_end(&arena, &doctor->checks->memory);
    doctor->memory = NULL;
    return muster_arena_check(&doctor->checks->memory, err, "the checks");
}
