/* Files of the kernel and of users, and variables, from hostile bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/env/env_rules.h"
#include "doctor/rules/conf_file.h"
#include "doctor/rules/known_bad.h"
#include "doctor/rules/packet_filter.h"
#include "doctor/rules/proc_text.h"
#include "topology/interfaces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void fuzz_text(char *text)
{
    struct muster_swap swap[4];
    char type[16] = "";
    require(muster_proc_pressure(text) <= 100);
    require(muster_proc_swaps(text, swap, 4) <= 4);
    if (muster_proc_mount_type(text, "/mnt/x", type, sizeof type))
        muster_proc_is_network(type);
    char path[64] = "";
    if (muster_proc_mapped(text, "libnccl.so", path, sizeof path))
        require(strlen(path) < sizeof path);
    muster_proc_field(text, "MemTotal", 10);
    muster_known_bad_driver(text, text, false);
}

static void fuzz_choice(const char *text)
{
    static struct muster_interfaces host = {
        .n = 2,
        .at = {{.name = "lo", .family = AF_INET, .flags = IFF_RUNNING, .prefix = 8},
               {.name = "eth0", .family = AF_INET, .flags = IFF_RUNNING, .prefix = 200}}};
    struct muster_choice choice;
    muster_interfaces_choose(&host, text, text, &host.at[1], 0, &choice);
    require(choice.n >= 0 && choice.n <= 2);
    muster_interfaces_by_prefix(text, "eth0");
}

static void fuzz_rules(const char *text)
{
    const struct muster_filter_packet packet = {"eth0", 0x0a010000, 16, 40000};
    struct muster_filter_answer answer = {.verdict = MUSTER_FILTER_NONE};
    muster_filter_iptables(text, &packet, &answer);
    muster_filter_nft(text, &packet, &answer);
    require((answer.verdict >= MUSTER_FILTER_MAY_PASS) == (answer.rule[0] != '\0'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct muster_conf conf;
    static struct muster_env_remarks remarks;
    struct muster_env_variable variable[MUSTER_CONF_LINES];
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    muster_conf_parse(&conf, text, size);
    require(conf.n <= MUSTER_CONF_LINES);
    for (int i = 0; i < conf.n; i++)
        variable[i] = (struct muster_env_variable){conf.at[i].name, conf.at[i].value};
    const struct muster_env_input input = {.at = variable, .n = (size_t)conf.n, .nccl = 22809};
    muster_env_evaluate(&input, &remarks);
    require(remarks.n <= MUSTER_ENV_REMARKS);
    fuzz_text(text);
    fuzz_choice(text);
    fuzz_rules(text);
    free(text);
    return 0;
}
