/* The doctor's rules over made-up interfaces, files and versions. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "doctor/rules/conf_file.h"
#include "doctor/rules/gpu_code.h"
#include "doctor/rules/host_list.h"
#include "doctor/rules/known_bad.h"
#include "doctor/rules/known_nccl.h"
#include "doctor/rules/known_plugin.h"
#include "doctor/rules/known_torch.h"
#include "doctor/rules/proc_text.h"
#include "topology/interfaces.h"

static void add(struct muster_interfaces *to, const char *name, const char *address,
                unsigned prefix, bool running)
{
    struct muster_interface *at = &to->at[to->n++];
    *at = (struct muster_interface){.flags = running ? IFF_UP | IFF_RUNNING : IFF_UP,
                                    .prefix = prefix};
    snprintf(at->name, sizeof at->name, "%s", name);
    at->family = strchr(address, ':') ? AF_INET6 : AF_INET;
    assert_int_equal(inet_pton(at->family, address, &at->address), 1);
}

static void typical_host(struct muster_interfaces *host)
{
    host->n = 0;
    add(host, "lo", "127.0.0.1", 8, true);
    add(host, "docker0", "172.17.0.1", 16, true);
    add(host, "virbr0", "192.168.122.1", 24, true);
    add(host, "eth1", "10.9.0.5", 24, false);
    add(host, "br-12ab", "172.18.0.1", 16, true);
    add(host, "eth0", "10.0.0.5", 24, true);
    add(host, "bond0", "10.1.0.5", 24, true);
    add(host, "bond0.12", "10.2.0.5", 24, true);
    add(host, "lo", "::1", 128, true);
    add(host, "eth0", "fe80::1", 64, true);
}

static const struct {
    const char *ifname, *family;
    const char *first; /* NULL: none */
    int n;
    enum muster_choice_why why;
} choices[] = {
    {NULL, NULL, "br-12ab", 4, MUSTER_CHOICE_OTHER},
    {"eth0", NULL, "eth0", 1, MUSTER_CHOICE_VARIABLE},
    {"eth", NULL, "eth0", 1, MUSTER_CHOICE_VARIABLE},
    {"eth1", NULL, NULL, 0, MUSTER_CHOICE_VARIABLE}, /* not running */
    {"bond0", NULL, "bond0", 2, MUSTER_CHOICE_VARIABLE},
    {"=bond0", NULL, "bond0", 1, MUSTER_CHOICE_VARIABLE},
    {"^docker0", NULL, "lo", 6, MUSTER_CHOICE_VARIABLE}, /* lets lo in */
    {"^docker0,lo", NULL, "virbr0", 5, MUSTER_CHOICE_VARIABLE},
    {"^docker,lo,virbr,br-", NULL, "eth0", 3, MUSTER_CHOICE_VARIABLE},
    {"^=docker0,lo", NULL, "virbr0", 5, MUSTER_CHOICE_VARIABLE},
    {"ens3", NULL, NULL, 0, MUSTER_CHOICE_VARIABLE},
    {"e", NULL, "br-12ab", 4, MUSTER_CHOICE_OTHER}, /* one character is ignored */
    {"", NULL, "br-12ab", 4, MUSTER_CHOICE_OTHER},
    {"eth0,bond0", NULL, "eth0", 3, MUSTER_CHOICE_VARIABLE},
    {"lo", "AF_INET6", NULL, 0, MUSTER_CHOICE_VARIABLE}, /* ::1 is skipped */
    {NULL, "AF_INET6", "eth0", 1, MUSTER_CHOICE_OTHER},
    {NULL, "IPv6", "br-12ab", 4, MUSTER_CHOICE_OTHER}, /* unknown text is ignored */
    {"eth0:1234", NULL, "eth0", 1, MUSTER_CHOICE_VARIABLE},
};

static void interfaces_are_chosen_as_nccl_does(void **state)
{
    struct muster_interfaces host;
    struct muster_choice choice;
    (void)state;
    typical_host(&host);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        muster_interfaces_choose(&host, choices[i].ifname, choices[i].family, NULL, 0, &choice);
        assert_int_equal(choice.n, choices[i].n);
        assert_int_equal(choice.why, choices[i].why);
        if (choices[i].first)
            assert_string_equal(host.at[choice.at[0]].name, choices[i].first);
    }
}

static void ib_comes_first_and_docker_last(void **state)
{
    struct muster_interfaces host = {.n = 0};
    struct muster_choice choice;
    (void)state;
    add(&host, "lo", "127.0.0.1", 8, true);
    muster_interfaces_choose(&host, NULL, NULL, NULL, 0, &choice);
    assert_int_equal(choice.why, MUSTER_CHOICE_LO);
    add(&host, "docker0", "172.17.0.1", 16, true);
    muster_interfaces_choose(&host, NULL, NULL, NULL, 0, &choice);
    assert_int_equal(choice.why, MUSTER_CHOICE_DOCKER);
    add(&host, "eth0", "10.0.0.1", 24, true);
    add(&host, "ib0", "10.3.0.1", 24, true);
    muster_interfaces_choose(&host, NULL, NULL, NULL, 0, &choice);
    assert_int_equal(choice.why, MUSTER_CHOICE_IB);
    assert_string_equal(host.at[choice.at[0]].name, "ib0");
    host.n = 0;
    muster_interfaces_choose(&host, NULL, NULL, NULL, 0, &choice);
    assert_int_equal(choice.why, MUSTER_CHOICE_NONE);
}

static void bridges_of_virtual_machines_come_last_from_2_28_3_on(void **state)
{
    struct muster_interfaces host = {.n = 0};
    struct muster_choice choice;
    (void)state;
    add(&host, "virbr0", "192.168.122.1", 24, true);
    add(&host, "eth0", "10.0.0.1", 24, true);
    muster_interfaces_choose(&host, NULL, NULL, NULL, 22707, &choice);
    assert_int_equal(choice.n, 2);
    assert_int_equal(choice.why, MUSTER_CHOICE_ANY);
    assert_string_equal(host.at[choice.at[0]].name, "virbr0");
    for (int version = 0; version <= 22803; version += 22803) {
        muster_interfaces_choose(&host, NULL, NULL, NULL, version, &choice);
        assert_int_equal(choice.n, 1);
        assert_int_equal(choice.why, MUSTER_CHOICE_OTHER);
        assert_string_equal(host.at[choice.at[0]].name, "eth0");
    }
}

static void comm_id_leads_to_its_subnet(void **state)
{
    struct muster_interfaces host, id = {.n = 0};
    struct muster_choice choice;
    (void)state;
    typical_host(&host);
    add(&id, "", "10.1.0.77", 0, true);
    muster_interfaces_choose(&host, NULL, NULL, &id.at[0], 0, &choice);
    assert_int_equal(choice.why, MUSTER_CHOICE_COMM_ID);
    assert_string_equal(host.at[choice.at[0]].name, "bond0");
}

static void prefixes_that_take_more_are_told(void **state)
{
    (void)state;
    assert_true(muster_interfaces_by_prefix("bond0", "bond0.12"));
    assert_false(muster_interfaces_by_prefix("bond0", "bond0"));
    assert_false(muster_interfaces_by_prefix("=bond0", "bond0.12"));
    assert_false(muster_interfaces_by_prefix("^bond0", "eth0"));
    assert_true(muster_interfaces_match("mlx5_1", "mlx5_10"));
}

static void conf_lines_are_read_as_nccl_does(void **state)
{
    static const char text[] = "# NCCL_ALGO=ring\nNCCL_DEBUG=INFO\r\nno equals sign\n"
                               "NCCL_X=a=b\n\n NCCL_Y=1";
    struct muster_conf conf;
    (void)state;
    muster_conf_parse(&conf, text, sizeof text - 1);
    assert_int_equal(conf.n, 3);
    assert_string_equal(conf.at[0].name, "NCCL_DEBUG");
    assert_string_equal(conf.at[0].value, "INFO");
    assert_int_equal(conf.at[0].line, 2);
    assert_string_equal(conf.at[1].value, "a=b");
    assert_string_equal(conf.at[2].name, " NCCL_Y"); /* blanks are part of the name */
}

static void kernel_files_are_understood(void **state)
{
    struct muster_swap swap[4];
    char type[64];
    static const char mounts[] = "/dev/sda1 / ext4 rw 0 0\nsrv:/x /mnt/net nfs4 rw 0 0\n";
    (void)state;
    assert_float_equal(muster_proc_pressure("some avg10=1.00 avg60=2.00 avg300=3 total=4\n"
                                            "full avg10=5.00 avg60=12.50 avg300=7 total=8\n"),
                       12.5, 0.001);
    assert_float_equal(muster_proc_pressure("some avg10=1"), -1, 0);
    assert_int_equal(muster_proc_swaps("Filename Type Size Used Priority\n"
                                       "/mnt/net/swap file 1048576 4096 -2\n/dev/sda2 partition "
                                       "8 0 -3\nrubbish\n",
                                       swap, 4),
                     2);
    assert_string_equal(swap[0].file, "/mnt/net/swap");
    assert_int_equal(swap[0].used_kib, 4096);
    assert_true(muster_proc_mount_type(mounts, swap[0].file, type, sizeof type));
    assert_true(muster_proc_is_network(type));
    assert_true(muster_proc_mount_type(mounts, "/mnt/network", type, sizeof type));
    assert_false(muster_proc_is_network(type));
    assert_int_equal(
        muster_proc_field("MemTotal:  100 kB\nMemAvailable: 7 kB\n", "MemAvailable", 10), 7);
    assert_int_equal(muster_proc_field("CapEff:\t00000000a80425fb\n", "CapEff", 16), 0xa80425fb);
    assert_int_equal(muster_proc_field("MemTotal: x\n", "MemTotal", 10), -1);
}

static void sockets_that_listen_are_found(void **state)
{
    static const char sockets[] =
        "  sl  local_address rem_address   st\n"
        "   0: 00000000:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 1\n"
        "   1: 0100007F:1F90 0100007F:A001 01 00000000:00000000 00:00000000 00000000  0 0 2\n";
    (void)state;
    assert_true(muster_proc_listens(sockets, 29500));
    assert_false(muster_proc_listens(sockets, 8080)); /* connected */
    assert_false(muster_proc_listens("", 29500));
}

static void lists_of_hosts_have_their_names(void **state)
{
    static const struct {
        const char *list, *name;
        bool has;
    } cases[] = {
        {"node1", "node1", true},
        {"node1", "node11", false},
        {"node[1-3,7],big01", "node2", true},
        {"node[1-3,7],big01", "node7", true},
        {"node[1-3,7],big01", "node4", false},
        {"node[1-3,7],big01", "node02", false},
        {"node[1-3,7],big01", "big01", true},
        {"node[01-16]", "node09", true},
        {"node[01-16]", "node9", false},
        {"node[098-102]", "node101", true},
        {"rack[1-2]n[1-4]", "rack2n3", true},
        {"rack[1-2]n[1-4]-ib", "rack2n3-ib", true},
        {"rack[1-2]n[1-4]", "rack2", false},
        {"node[1-", "node1", false},
        {"node[x]", "node1", false},
        {"", "node1", false},
        {"head,node[1-2]", "head", true},
        {"head,node[1-2]", "node", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (muster_host_list_has(cases[i].list, cases[i].name) != cases[i].has)
            fail_msg("%s in %s", cases[i].name, cases[i].list);
}

static void drivers_known_to_be_bad_are_named(void **state)
{
    (void)state;
    assert_non_null(muster_known_bad_driver("545.23.08", "NVIDIA GeForce RTX 3090", false));
    assert_null(muster_known_bad_driver("545.23.08", "NVIDIA GeForce RTX 3090", true));
    assert_null(muster_known_bad_driver("545.23.08", "NVIDIA H200", false));
    assert_null(muster_known_bad_driver("535.154.05", "NVIDIA GeForce RTX 3090", false));
    assert_non_null(muster_known_bad_driver("560.35.03", "NVIDIA GeForce RTX 4090", false));
    assert_non_null(muster_known_bad_driver("560.35.03", "NVIDIA RTX A6000", false));
    assert_null(muster_known_bad_driver("560.35.03", "NVIDIA H100 80GB HBM3", true));
    assert_non_null(muster_known_bad_driver("440.100", "NVIDIA GeForce RTX 2080 Ti", false));
    assert_null(muster_known_bad_driver("440.64", "NVIDIA GeForce RTX 2080 Ti", false));
    assert_null(muster_known_bad_driver("440.100", "Tesla V100-SXM2-16GB", true));
    assert_non_null(muster_known_bad_driver("367.35", "GeForce GTX TITAN X", false));
    assert_null(muster_known_bad_driver("375.26", "GeForce GTX TITAN X", false));
    assert_non_null(muster_known_bad_driver("545.29.06", "NVIDIA GeForce RTX 3090", false));
    assert_non_null(muster_known_bad_driver("390.30", "Tesla V100-SXM2-16GB", true));
    assert_null(muster_known_bad_driver("396.26", "Tesla V100-SXM2-16GB", true));
    assert_non_null(muster_known_too_new(12, 22501));
    assert_null(muster_known_too_new(12, 22602));
    assert_int_equal(muster_known_first_cuda(8, 6), 11000);
    assert_int_equal(muster_known_first_cuda(7, 5), 10000);
    assert_int_equal(muster_known_first_cuda(6, 1), 0);
    assert_int_equal(muster_known_first_cuda(9, 0), 11080);
    assert_int_equal(muster_known_first_cuda(12, 0), 12080);
    assert_non_null(muster_known_cuda_gap(12020, 13000));
    assert_null(muster_known_cuda_gap(13000, 12090));
    assert_null(muster_known_cuda_gap(12020, 12090)); /* of one major version */
    assert_non_null(muster_known_cuda_gap(9000, 9010));
    assert_null(muster_known_cuda_gap(9010, 9000));
    assert_true(muster_known_cuda_minor_gap(12020, 12040));
    assert_false(muster_known_cuda_minor_gap(12040, 12020));
    assert_false(muster_known_cuda_minor_gap(9000, 9010));
}

static const struct muster_known_nccl *find_bug(int version, uint64_t has, const char *class_id)
{
    for (size_t i = 0; i < muster_known_nccl_n; i++)
        if (strcmp(muster_known_nccl[i].class_id, class_id) == 0 &&
            muster_known_nccl_holds(&muster_known_nccl[i], version, has))
            return &muster_known_nccl[i];
    return NULL;
}

static void known_bugs_hold_where_their_needs_do(void **state)
{
    (void)state;
    const struct muster_known_nccl *bug = find_bug(22602, MUSTER_NCCL_NO_CUMEM, "F71");
    assert_non_null(bug);
    assert_int_equal(bug->weight, MUSTER_KNOWN_SURE);
    assert_non_null(find_bug(22809, MUSTER_NCCL_ON_ARM | MUSTER_NCCL_HOSTS, "F52"));
    assert_null(find_bug(22809, MUSTER_NCCL_ON_ARM, "F52")); /* one host: no proxies */
    assert_null(find_bug(22903, MUSTER_NCCL_ON_ARM | MUSTER_NCCL_HOSTS, "F52"));
    assert_non_null(find_bug(22203, MUSTER_NCCL_RDMA | MUSTER_NCCL_PEERMEM, "F61"));
    assert_null(find_bug(22304, MUSTER_NCCL_RDMA | MUSTER_NCCL_PEERMEM, "F61"));
    const uint64_t p5 = MUSTER_NCCL_ON_HOPPER | MUSTER_NCCL_NVSWITCH | MUSTER_NCCL_HOSTS;
    assert_non_null(find_bug(21803, p5 | MUSTER_NCCL_RDMA, "F47"));
    assert_null(find_bug(21803, p5, "F47"));
    assert_non_null(find_bug(22501, MUSTER_NCCL_ON_RTX50, "F72"));
    assert_null(find_bug(22501, MUSTER_NCCL_ON_HOPPER, "F72"));
    assert_non_null(find_bug(22602, MUSTER_NCCL_ON_RTX50, "F72"));
    assert_null(find_bug(22703, MUSTER_NCCL_ON_RTX50, "F72"));
    const uint64_t guest = MUSTER_NCCL_ON_HOPPER | MUSTER_NCCL_NVSWITCH | MUSTER_NCCL_VIRTUAL;
    assert_non_null(find_bug(22105, guest, "F47"));
    assert_null(find_bug(22105, guest & ~MUSTER_NCCL_VIRTUAL, "F47"));
    assert_null(find_bug(22304, guest, "F47"));
}

/* An entry of a CUDA binary without content. */
static size_t put_entry(char *at, unsigned kind, unsigned architecture)
{
    enum { HEADER = 64 };
    memset(at, 0, HEADER);
    at[0] = (char)kind;
    at[4] = HEADER;
    memcpy(at + 28, &architecture, sizeof architecture);
    return HEADER;
}

static size_t put_binary(char *at, size_t content)
{
    static const char magic[] = {'\x50', '\xed', '\x55', '\xba', 1, 0, 16, 0};
    memcpy(at, magic, sizeof magic);
    memcpy(at + sizeof magic, &content, sizeof content);
    return sizeof magic + sizeof content;
}

static void a_library_runs_on_the_gpus_it_was_built_for(void **state)
{
    (void)state;
    enum { CODE = 2, PTX = 1 };
    char bytes[512] = "some text", text[64];
    size_t n = 20;
    struct muster_gpu_code code;
    muster_gpu_code_read(bytes, sizeof bytes, &code);
    assert_false(code.n || code.ptx);
    n += put_binary(bytes + n, 128);
    n += put_entry(bytes + n, CODE, 90);
    n += put_entry(bytes + n, CODE, 80);
    muster_gpu_code_read(bytes, n, &code);
    muster_gpu_code_text(&code, text, sizeof text);
    assert_string_equal(text, "80 and 90");
    assert_true(muster_gpu_code_runs(&code, 8, 0));
    assert_true(muster_gpu_code_runs(&code, 8, 9)); /* of one major version, not later */
    assert_false(muster_gpu_code_runs(&code, 7, 5));
    assert_false(muster_gpu_code_runs(&code, 10, 0));
    /* a second binary with PTX for what comes later */
    n += put_binary(bytes + n, 64);
    n += put_entry(bytes + n, PTX, 90);
    muster_gpu_code_read(bytes, n, &code);
    assert_true(muster_gpu_code_runs(&code, 12, 0));
    assert_false(muster_gpu_code_runs(&code, 7, 5));
    /* one that is cut says what its whole entries say */
    muster_gpu_code_read(bytes, n - 1, &code);
    assert_int_equal(code.ptx, 0);
}

static const struct muster_known_nccl *pick(int version, uint64_t has, const char *symptoms,
                                            bool certain)
{
    return muster_known_nccl_pick(
        &(struct muster_known_question){.version = version, .has = has, .symptoms = symptoms},
        certain);
}

static void what_a_job_showed_chooses_among_bugs(void **state)
{
    (void)state;
    const uint64_t p5 =
        MUSTER_NCCL_ON_HOPPER | MUSTER_NCCL_NVSWITCH | MUSTER_NCCL_HOSTS | MUSTER_NCCL_RDMA;
    const struct muster_known_nccl *slow = pick(21903, p5, "slow_transfer", false);
    assert_non_null(slow);
    assert_true(slow->shows & MUSTER_SHOWS_SLOWNESS);
    assert_false(muster_known_nccl_explains(slow, "hang_stuck"));
    /* a bug that hangs is likely there, and does not explain what is slow */
    const struct muster_known_nccl *hangs = pick(21903, p5, "slow_transfer", true);
    assert_non_null(hangs);
    assert_false(muster_known_nccl_explains(hangs, "slow_transfer"));
    assert_true(muster_known_nccl_explains(hangs, "late_rank,hang_stuck"));
    /* what few hosts have counts before what all have */
    const struct muster_known_nccl *usb = pick(21904, MUSTER_NCCL_USB_NETWORK, NULL, true);
    assert_non_null(usb);
    assert_int_equal(usb->needs, MUSTER_NCCL_USB_NETWORK);
    assert_null(pick(22000, MUSTER_NCCL_USB_NETWORK, NULL, true));
    const uint64_t odd = MUSTER_NCCL_ODD_NUMA;
    assert_int_equal(pick(22809, odd, "init_error", false)->needs, odd);
    assert_false(muster_known_nccl_is_wide(pick(22809, odd, "init_error", false)));
}

/* Bugs that notes of releases and known issues tell of: inside their versions and places, not
 * outside. */
static void bugs_of_release_notes_hold_in_their_versions(void **state)
{
    (void)state;
    static const struct {
        int version;
        uint64_t has;
        const char *symptoms, *source; /* NULL: not named */
    } cases[] = {
        {21602, 0, "slow_transfer", "notes of 2.16.5 (nccl#770)"},
        {21605, 0, "slow_transfer", NULL},
        {20909, MUSTER_NCCL_ON_VOLTA | MUSTER_NCCL_NO_NVSWITCH, "hang_stuck", "notes of 2.10.3"},
        {20909, MUSTER_NCCL_ON_VOLTA | MUSTER_NCCL_NVSWITCH, "hang_stuck", NULL},
        {22907, MUSTER_NCCL_RDMA | MUSTER_NCCL_HOSTS, "hang_stuck",
         "docs of cuBLASMp, known issues"},
        {22907, MUSTER_NCCL_RDMA, "hang_stuck", "nccl#2379"},
        {22704, 0, "init_error", "notes of 2.27.5 (nccl#1732)"},
        {22803, 0, "init_error", "pytorch#164402"},
        {22501, MUSTER_NCCL_RDMA | MUSTER_NCCL_HOSTS, "hang_dead", "notes of 2.26.2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool held = false;
        for (size_t j = 0; j < muster_known_nccl_n && cases[i].source; j++)
            held |= strcmp(muster_known_nccl[j].source, cases[i].source) == 0 &&
                    muster_known_nccl_explains(&muster_known_nccl[j], cases[i].symptoms) &&
                    muster_known_nccl_holds(&muster_known_nccl[j], cases[i].version, cases[i].has);
        const struct muster_known_nccl *sure =
            pick(cases[i].version, cases[i].has, cases[i].symptoms, true);
        if (cases[i].source && !held)
            fail_msg("%s does not hold for %d", cases[i].source, cases[i].version);
        if (!cases[i].source && sure && muster_known_nccl_explains(sure, cases[i].symptoms))
            fail_msg("%s is named for %d", sure->source, cases[i].version);
    }
}

static int plugin_version(const char *text)
{
    return muster_known_plugin_version(text, strlen(text));
}

static const struct muster_known_plugin *find_plugin_bug(const char *words)
{
    for (size_t i = 0; i < muster_known_plugin_n; i++)
        if (strstr(muster_known_plugin[i].what, words))
            return &muster_known_plugin[i];
    fail_msg("no bug tells of %s", words);
    return NULL;
}

static void bugs_of_the_plugin_for_efa_hold_beside_their_nccl(void **state)
{
    (void)state;
    assert_int_equal(plugin_version("NET/OFI Initializing aws-ofi-nccl 1.9.1-aws"), 10901);
    assert_int_equal(plugin_version("aws-ofi-nccl failed, aws-ofi-nccl 1.21.1"), 12101);
    assert_int_equal(plugin_version("aws-ofi-nccl GitHub-dev"), 0);
    assert_int_equal(plugin_version("aws-ofi-nccl "), 0);
    const struct muster_known_plugin *bug =
        muster_known_plugin_pick(11300, 22304, MUSTER_PLUGIN_DMABUF, "init_error", true);
    assert_non_null(bug);
    assert_int_equal(bug->needs, MUSTER_PLUGIN_DMABUF);
    assert_null(muster_known_plugin_pick(11300, 22304, 0, "init_error", true));
    assert_non_null(muster_known_plugin_pick(11300, 21605, 0, "init_error", true));
    assert_null(muster_known_plugin_pick(11300, 22304, MUSTER_PLUGIN_DMABUF, "wrong_result", true));
    /* beside NCCL 2.28 alone */
    assert_true(muster_known_plugin_holds(find_plugin_bug("NCCL 2.28"), 11701, 22807, 0));
    assert_false(muster_known_plugin_holds(find_plugin_bug("NCCL 2.28"), 11702, 22807, 0));
    assert_false(muster_known_plugin_holds(find_plugin_bug("NCCL 2.28"), 11701, 22706, 0));
    for (size_t i = 0; i < muster_known_plugin_n; i++) {
        assert_true(muster_known_plugin[i].first <= muster_known_plugin[i].last);
        assert_true(muster_known_plugin[i].what[0] && muster_known_plugin[i].fix[0]);
    }
}

/* A bug of many versions is no reason, unless it is the only one that gives wrong data. */
static void a_bug_of_many_versions_is_named_where_it_stands_alone(void **state)
{
    (void)state;
    const struct muster_known_nccl *bug = pick(22606, 0, "wrong_result", false);
    assert_true(bug && bug->shows & MUSTER_SHOWS_WRONG_DATA && muster_known_nccl_is_wide(bug));
    bug = pick(22304, 0, "wrong_result", false); /* so does another one */
    assert_null(bug);
    bug = pick(21004, 0, "init_error", false);
    assert_null(bug);
}

/* Its own line in the log makes certain what otherwise depends on the program. */
static void a_bug_whose_line_the_log_has_is_certain(void **state)
{
    (void)state;
    const uint64_t job = MUSTER_NCCL_RDMA | MUSTER_NCCL_HOSTS;
    struct muster_known_question of = {.version = 22501, .has = job, .symptoms = "init_error"};
    assert_null(muster_known_nccl_pick(&of, true));
    of.logged = "log.shm_files log.net_id";
    const struct muster_known_nccl *bug = muster_known_nccl_pick(&of, true);
    assert_non_null(bug);
    assert_string_equal(muster_known_nccl_prints(bug), "log.net_id");
    of.version = 22703;
    assert_null(muster_known_nccl_pick(&of, true));
    of = (struct muster_known_question){
        .version = 21903, .has = MUSTER_NCCL_HOSTS, .logged = "log.interrupted"};
    assert_string_equal(muster_known_nccl_pick(&of, true)->source, "nccl#1757");
    of = (struct muster_known_question){.version = 21003, .logged = "log.remote_memory"};
    assert_string_equal(muster_known_nccl_pick(&of, true)->source, "nccl#555, nccl#844");
    of.version = 21207;
    assert_true(!muster_known_nccl_pick(&of, true) ||
                !muster_known_nccl_logged(muster_known_nccl_pick(&of, true), &of));
}

static void sums_of_nvlink_sharp_over_several_hosts(void **state)
{
    const uint64_t hopper = MUSTER_NCCL_ON_HOPPER | MUSTER_NCCL_NVSWITCH;
    (void)state;
    const struct muster_known_nccl *bug =
        pick(21805, hopper | MUSTER_NCCL_HOSTS, "wrong_result", false);
    assert_string_equal(bug->source, "nccl-tests#167");
    bug = pick(21805, hopper, "wrong_result", false); /* one host: no tree */
    assert_true(!bug || strcmp(bug->source, "nccl-tests#167") != 0);
    bug = pick(21903, hopper | MUSTER_NCCL_HOSTS, "wrong_result", false);
    assert_true(!bug || strcmp(bug->source, "nccl-tests#167") != 0);
}

static void what_few_hosts_have_names_their_bug(void **state)
{
    (void)state;
    const struct muster_known_nccl *bug =
        pick(23007, MUSTER_NCCL_RDMA | MUSTER_NCCL_MANY_PORTS, "init_error", true);
    assert_string_equal(bug->source, "nccl#2282");
    assert_null(pick(23007, MUSTER_NCCL_RDMA, "init_error", true));
    bug = pick(21903, MUSTER_NCCL_OLD_CUDA, "init_error", false);
    assert_int_equal(bug->needs, MUSTER_NCCL_OLD_CUDA);
    bug = pick(20908, MUSTER_NCCL_OLD_DRIVER, "init_error", true);
    assert_string_equal(bug->source, "nccl#496");
    const uint64_t job = MUSTER_NCCL_HOSTS | MUSTER_NCCL_CUMEM;
    assert_string_equal(pick(21903, job, "hang_stuck", false)->source, "nccl#1116, nccl#1134");
    bug = pick(21903, MUSTER_NCCL_HOSTS | MUSTER_NCCL_NO_CUMEM, "hang_stuck", false);
    assert_true(!bug || strcmp(bug->source, "nccl#1116, nccl#1134") != 0);
}

/* Every row can hold for some version, and says what, where and what to do. */
static void the_table_of_bugs_is_whole(void **state)
{
    (void)state;
    int lines = 0;
    assert_true(muster_known_nccl_n >= 25);
    for (size_t i = 0; i < muster_known_nccl_n; i++) {
        const struct muster_known_nccl *bug = &muster_known_nccl[i];
        assert_true(bug->first <= bug->last && bug->first >= 20300);
        assert_true(*bug->what && *bug->fix && *bug->class_id && strpbrk(bug->source, "#2.d"));
        assert_true(muster_known_nccl_holds(bug, bug->last, ~0u));
        assert_false(muster_known_nccl_holds(bug, bug->last + 1, ~0u));
        if (bug->needs)
            assert_false(muster_known_nccl_holds(bug, bug->first, 0));
        assert_true(bug->shows || bug->weight != MUSTER_KNOWN_SURE);
        lines += muster_known_nccl_prints(bug) != NULL;
    }
    assert_true(lines >= 7); /* each of these names the source of a row */
}

static void bugs_of_pytorch_are_of_its_releases(void **state)
{
    (void)state;
    assert_int_equal(muster_torch_version("2.10.0+cu130'"), 21000);
    assert_int_equal(muster_torch_version("1.12.0"), 11200);
    assert_int_equal(muster_torch_version("2.8.0.dev20250330+cu126"), 0);
    assert_int_equal(muster_torch_version("2.1.0a0+32f93b1"), 0);
    assert_int_equal(muster_torch_version("2.10"), 0);
    assert_null(muster_known_torch_find(21000, true, false));
    assert_null(muster_known_torch_find(21000, false, true));
    assert_non_null(muster_known_torch_find(21000, true, true));
    assert_non_null(muster_known_torch_find(20700, false, false));
    assert_null(muster_known_torch_find(20701, true, true));
    for (size_t i = 0; i < muster_known_torch_n; i++) {
        const struct muster_known_torch *bug = &muster_known_torch[i];
        assert_in_range(bug->first, 10000, bug->last);
        assert_non_null(strchr(bug->source, '#'));
        assert_true(bug->symptoms[0] && bug->what[0] && bug->fix[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interfaces_are_chosen_as_nccl_does),
        cmocka_unit_test(ib_comes_first_and_docker_last),
        cmocka_unit_test(bridges_of_virtual_machines_come_last_from_2_28_3_on),
        cmocka_unit_test(comm_id_leads_to_its_subnet),
        cmocka_unit_test(prefixes_that_take_more_are_told),
        cmocka_unit_test(conf_lines_are_read_as_nccl_does),
        cmocka_unit_test(kernel_files_are_understood),
        cmocka_unit_test(sockets_that_listen_are_found),
        cmocka_unit_test(lists_of_hosts_have_their_names),
        cmocka_unit_test(drivers_known_to_be_bad_are_named),
        cmocka_unit_test(known_bugs_hold_where_their_needs_do),
        cmocka_unit_test(a_library_runs_on_the_gpus_it_was_built_for),
        cmocka_unit_test(what_a_job_showed_chooses_among_bugs),
        cmocka_unit_test(bugs_of_release_notes_hold_in_their_versions),
        cmocka_unit_test(bugs_of_the_plugin_for_efa_hold_beside_their_nccl),
        cmocka_unit_test(a_bug_of_many_versions_is_named_where_it_stands_alone),
        cmocka_unit_test(a_bug_whose_line_the_log_has_is_certain),
        cmocka_unit_test(sums_of_nvlink_sharp_over_several_hosts),
        cmocka_unit_test(what_few_hosts_have_names_their_bug),
        cmocka_unit_test(the_table_of_bugs_is_whole),
        cmocka_unit_test(bugs_of_pytorch_are_of_its_releases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
