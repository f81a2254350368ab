#include "doctor/hosts/hosts_conf.h"

#include <string.h>

#include "base/env.h"
#include "doctor/rules/conf_file.h"

void muster_hosts_conf(void)
{
    char path[MUSTER_CONF_FILES][MUSTER_CONF_PATH];
    const char *root = muster_env("MUSTER_ROOT");
    int files = muster_conf_paths(root ? root : "", path);
    struct muster_conf *conf = malloc(sizeof *conf);
    for (int i = 0; i < files && conf; i++) {
        muster_conf_load(conf, path[i]);
        for (int j = 0; j < conf->n; j++)
            if (strncmp(conf->at[j].name, "NCCL_", 5) == 0)
                setenv(conf->at[j].name, conf->at[j].value, 0);
    }
    free(conf);
}
