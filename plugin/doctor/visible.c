#include "doctor/visible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static bool one_model(const struct muster_machine *machine)
{
    for (int i = 1; i < machine->gpus; i++)
        if (strcmp(machine->gpu[i].name, machine->gpu[0].name) != 0)
            return false;
    return true;
}

/* "GPU-" and as much of the rest as makes it unique. -1: none, or more than one. */
static int by_uuid(const struct muster_machine *machine, const char *word)
{
    int found = -1;
    for (int i = 0; i < machine->gpus; i++)
        if (strncmp(machine->gpu[i].uuid, word, strlen(word)) == 0) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

static int by_number(const struct muster_machine *machine, const char *word)
{
    char *end;
    unsigned long number = strtoul(word, &end, 10);
    return end != word && *end == '\0' && number < (unsigned long)machine->gpus ? (int)number : -1;
}

void muster_visible_gpus(const struct muster_machine *machine, const char *list, const char *order,
                         struct muster_visible *visible)
{
    char word[64];
    *visible = (struct muster_visible){.known = true};
    if (!list) {
        visible->n = machine->gpus;
        memset(visible->gpu, true, (size_t)machine->gpus);
        return;
    }
    bool by_bus = order && strcmp(order, "PCI_BUS_ID") == 0;
    for (size_t length; *list; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word),
                 list);
        bool uuid = strncmp(word, "GPU-", 4) == 0;
        if (strncmp(word, "MIG-", 4) == 0 || (!uuid && !by_bus && !one_model(machine)))
            visible->known = false;
        int gpu = uuid ? by_uuid(machine, word) : by_number(machine, word);
        if (gpu < 0) {
            muster_text_copy(visible->stopped_at, sizeof visible->stopped_at, word);
            return;
        }
        if (visible->gpu[gpu]) /* what CUDA makes of a GPU named twice is no matter: env.value */
            visible->known = false;
        visible->n += !visible->gpu[gpu];
        visible->gpu[gpu] = true;
    }
}
