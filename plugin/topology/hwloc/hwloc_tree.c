#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"
#include "topology/hwloc/hwloc.h"
#include "topology/hwloc/nvlink_matrix.h"
#include "topology/hwloc/xml.h"

enum { NAMED = 4096 };

/* Where one is in the tree of objects. */
struct level {
    uint64_t nodeset;  /* of the nearest CPU object around */
    uint64_t locality; /* its number */
    int node;          /* of the nearest PCI object around; -1: none */
};

/* Distances name objects by a number or, in other files, by an index of NVML or CUDA. */
struct named {
    uint64_t gp_index;
    int node;
};

struct reader {
    struct muster_arena *memory; /* of what is needed on the way */
    struct muster_machine *machine;
    struct muster_xml xml;
    struct level level[MUSTER_XML_DEPTH + 1];
    struct named named[NAMED];
    int names;
    uint64_t objects;
    int devices_of; /* nodes that were there when GPUs and NICs were looked for */
    int gpu_osdev;  /* node of the GPU whose OSDev is open; -1: none */
};

/* "0x00000001,0x80000000": words of 32 bits, the highest first; "0xf...f" is endless. */
static uint64_t parse_set(const char *text)
{
    uint64_t set = 0;
    if (strncmp(text, "0xf...f", 7) == 0)
        return UINT64_MAX;
    while (*text) {
        char *end;
        set = set << 32 | (strtoull(text, &end, 16) & 0xffffffffu);
        if (end == text && *end != ',')
            break;
        text = *end == ',' ? end + 1 : end;
    }
    return set;
}

static double real_attribute(const struct muster_xml *xml, const char *key)
{
    char text[64];
    muster_xml_get(xml, key, text, sizeof text);
    double value = strtod(text, NULL);
    return value > 0 && value < 1e6 ? value : 0;
}

static uint64_t number_attribute(const struct muster_xml *xml, const char *key)
{
    char text[64];
    muster_xml_get(xml, key, text, sizeof text);
    return strtoull(text, NULL, 10);
}

static void fill_pci(struct reader *reader, struct muster_node *node)
{
    char text[96];
    unsigned class_code = 0, vendor = 0, device = 0;
    if (muster_xml_get(&reader->xml, "pci_busid", text, sizeof text))
        muster_pci_parse(text, &node->pci);
    if (muster_xml_get(&reader->xml, "pci_type", text, sizeof text) &&
        sscanf(text, "%4x [%4x:%4x]", &class_code, &vendor, &device) >= 1) {
        node->class_code = class_code << 8;
        node->vendor = (uint16_t)vendor;
        node->device = (uint16_t)device;
    }
    node->gbs = real_attribute(&reader->xml, "pci_link_speed");
}

static void remember(struct reader *reader, int node)
{
    uint64_t gp = number_attribute(&reader->xml, "gp_index");
    if (gp && reader->names < NAMED)
        reader->named[reader->names++] = (struct named){gp, node};
}

static int open_pci(struct reader *reader, struct level *level, bool bridge, struct muster_err *err)
{
    char kind[16];
    muster_xml_get(&reader->xml, "bridge_type", kind, sizeof kind);
    bool host = bridge && strncmp(kind, "0-", 2) == 0;
    if (!host && level->node < 0) {
        /* old files leave host bridges out where they hold a single device */
        level->node = muster_machine_add(reader->machine, -1, MUSTER_NODE_HOST_BRIDGE, err);
        if (level->node < 0)
            return -1;
        reader->machine->node[level->node].numa = level->nodeset;
        reader->machine->node[level->node].locality = level->locality;
    }
    int node = muster_machine_add(reader->machine, host ? -1 : level->node,
                                  host     ? MUSTER_NODE_HOST_BRIDGE
                                  : bridge ? MUSTER_NODE_BRIDGE
                                           : MUSTER_NODE_DEVICE,
                                  err);
    if (node < 0)
        return -1;
    if (host) {
        reader->machine->node[node].numa = level->nodeset;
        reader->machine->node[node].locality = level->locality;
    } else {
        fill_pci(reader, &reader->machine->node[node]);
        remember(reader, node);
    }
    level->node = node;
    return 0;
}

static struct muster_nic *nic_of(struct muster_machine *machine, int node)
{
    for (int i = 0; i < machine->nics; i++)
        if (machine->nic[i].node == node)
            return &machine->nic[i];
    if (machine->nics == MUSTER_MACHINE_NICS)
        return NULL;
    machine->nic[machine->nics] = (struct muster_nic){.node = node, .up = true};
    return &machine->nic[machine->nics++];
}

static void open_osdev(struct reader *reader, const struct level *level)
{
    enum { GPU = 1, NETWORK = 2, OPENFABRICS = 3, COPROC = 5 };
    char name[32];
    uint64_t type = number_attribute(&reader->xml, "osdev_type");
    muster_xml_get(&reader->xml, "name", name, sizeof name);
    reader->gpu_osdev = -1;
    if (level->node < 0)
        return;
    remember(reader, level->node);
    if (type == NETWORK || type == OPENFABRICS) {
        struct muster_nic *nic = nic_of(reader->machine, level->node);
        if (!nic)
            return;
        if (type == NETWORK) {
            memcpy(nic->name, name, sizeof name);
            nic->fabric |= strncmp(name, "ib", 2) == 0;
        } else {
            memcpy(nic->verbs, name, sizeof name);
            nic->fabric = true;
        }
    } else if (type == GPU || type == COPROC) {
        reader->gpu_osdev = level->node;
    }
}

static int open_object(struct reader *reader, struct muster_err *err)
{
    char type[32], set[1024];
    struct level *level = &reader->level[reader->xml.depth];
    *level = reader->level[reader->xml.depth - 1];
    muster_xml_get(&reader->xml, "type", type, sizeof type);
    if (strcmp(type, "Bridge") == 0)
        return open_pci(reader, level, true, err);
    if (strcmp(type, "PCIDev") == 0)
        return open_pci(reader, level, false, err);
    if (strcmp(type, "OSDev") == 0) {
        open_osdev(reader, level);
    } else if (muster_xml_get(&reader->xml, "nodeset", set, sizeof set)) {
        level->nodeset = parse_set(set);
        level->locality = ++reader->objects;
    }
    return 0;
}

/* A host bridge that was made up for one object serves the next one beside it, too. */
static void close_object(struct reader *reader)
{
    struct level *parent = &reader->level[reader->xml.depth];
    const struct level *level = parent + 1;
    if (parent->node < 0 && level->node >= 0) {
        int root = muster_machine_root(reader->machine, level->node);
        if (root >= 0 && root != level->node && reader->machine->node[root].parent < 0 &&
            reader->machine->node[level->node].parent == root &&
            reader->machine->node[root].locality == parent->locality)
            parent->node = root;
    }
}

/* Once for all words about one device: a file may hold any number of them. */
static void find_devices(struct reader *reader)
{
    if (reader->devices_of != reader->machine->nodes)
        muster_machine_find_devices(reader->machine);
    reader->devices_of = reader->machine->nodes;
}

static void take_info(struct reader *reader)
{
    char name[32], value[64];
    int node = reader->gpu_osdev;
    muster_xml_get(&reader->xml, "name", name, sizeof name);
    muster_xml_get(&reader->xml, "value", value, sizeof value);
    if (node < 0)
        return;
    find_devices(reader);
    int at = muster_machine_find_gpu(reader->machine, reader->machine->node[node].pci);
    if (at >= 0 && strcmp(name, "GPUModel") == 0)
        muster_text_copy(reader->machine->gpu[at].name, sizeof reader->machine->gpu[at].name,
                         value);
    if (at >= 0 && strcmp(name, "NVIDIAUUID") == 0)
        muster_text_copy(reader->machine->gpu[at].uuid, sizeof reader->machine->gpu[at].uuid,
                         value);
}

static int node_of_name(const struct reader *reader, uint64_t gp_index)
{
    for (int i = 0; i < reader->names; i++)
        if (reader->named[i].gp_index == gp_index)
            return reader->named[i].node;
    return -1;
}

/* The blank-separated words of a text, each given to `take`; false stops. */
static int each_word(struct muster_xml_span text, bool (*take)(void *to, const char *word),
                     void *to)
{
    char word[64];
    size_t i = 0;
    while (i < text.n) {
        size_t n = 0;
        while (i < text.n && strchr(" \t\r\n", text.at[i]))
            i++;
        while (i < text.n && !strchr(" \t\r\n", text.at[i])) {
            if (n + 1 < sizeof word)
                word[n++] = text.at[i];
            i++;
        }
        word[n] = '\0';
        if (n && !take(to, word))
            return -1;
    }
    return 0;
}

struct distances {
    const struct reader *reader;
    struct muster_nvlink_matrix matrix;
    bool indexes;
};

static bool take_word(void *to, const char *word)
{
    struct distances *distances = to;
    if (!distances->indexes)
        return muster_nvlink_matrix_value(&distances->matrix, strtoull(word, NULL, 10));
    const char *colon = strchr(word, ':');
    uint64_t gp = strtoull(colon ? colon + 1 : word, NULL, 10);
    bool device = strncmp(word, "OSDev", 5) == 0 || strncmp(word, "PCIDev", 6) == 0 || !colon;
    return muster_nvlink_matrix_node(&distances->matrix,
                                     device ? node_of_name(distances->reader, gp) : -1, !device);
}

/* The element is open; reads to its end. */
static int read_distances(struct reader *reader, struct muster_err *err)
{
    struct distances *distances = muster_arena_array(reader->memory, 1, sizeof *distances);
    unsigned depth = reader->xml.depth;
    int event = muster_arena_check(reader->memory, err, reader->xml.name);
    if (event == 0)
        distances->reader = reader;
    while (event >= 0 && reader->xml.depth >= depth) {
        event = muster_xml_next(&reader->xml, err);
        if (event == MUSTER_XML_OPEN)
            distances->indexes = muster_xml_is(reader->xml.element, "indexes");
        if (event == MUSTER_XML_TEXT && reader->xml.depth > depth &&
            each_word(reader->xml.text, take_word, distances))
            event = muster_fail(err, "%s:%u: NVLinkBandwidth has too many values", reader->xml.name,
                                reader->xml.line);
        if (event == MUSTER_XML_END)
            break;
    }
    if (event >= 0) {
        muster_machine_find_devices(reader->machine);
        muster_nvlink_matrix_apply(&distances->matrix, reader->machine);
    }
    return event < 0 ? -1 : 0;
}

static int take_open(struct reader *reader, struct muster_err *err)
{
    char name[32];
    struct muster_xml *xml = &reader->xml;
    reader->level[xml->depth] = reader->level[xml->depth - 1];
    if (muster_xml_is(xml->element, "object"))
        return open_object(reader, err);
    if (muster_xml_is(xml->element, "info"))
        take_info(reader);
    if (muster_xml_is(xml->element, "distances2hetero") ||
        muster_xml_is(xml->element, "distances2")) {
        muster_xml_get(xml, "name", name, sizeof name);
        if (strcmp(name, "NVLinkBandwidth") == 0 && !xml->closing)
            return read_distances(reader, err);
    }
    return 0;
}

static int read_all(struct reader *reader, struct muster_err *err)
{
    bool topology = false;
    int event;
    while ((event = muster_xml_next(&reader->xml, err)) != MUSTER_XML_END) {
        if (event < 0)
            return -1;
        if (event == MUSTER_XML_OPEN) {
            topology |= muster_xml_is(reader->xml.element, "topology");
            if (!topology)
                return muster_fail(err, "%s:%u: found <%.*s>, expected <topology>: not hwloc's XML",
                                   reader->xml.name, reader->xml.line,
                                   (int)(reader->xml.element.n < 40 ? reader->xml.element.n : 40),
                                   reader->xml.element.at);
            if (take_open(reader, err))
                return -1;
        } else if (event == MUSTER_XML_CLOSE) {
            close_object(reader);
        }
    }
    return topology ? 0 : muster_fail(err, "%s: no <topology>: not hwloc's XML", reader->xml.name);
}

int muster_hwloc_read(struct muster_machine *machine, const char *name, const char *xml,
                      size_t size, struct muster_err *err)
{
    struct muster_arena memory = {0};
    struct reader *reader = muster_arena_array(&memory, 1, sizeof *reader);
    if (muster_arena_check(&memory, err, name))
        return -1;
    reader->memory = &memory;
    reader->machine = machine;
    reader->gpu_osdev = -1;
    reader->level[0].node = -1;
    muster_xml_begin(&reader->xml, name, xml, size);
    int rc = read_all(reader, err);
    muster_arena_free(&memory);
    if (rc)
        return -1;
    muster_machine_find_devices(machine);
    muster_text_copy(machine->source, sizeof machine->source, name);
    return 0;
}

int muster_hwloc_read_file(struct muster_machine *machine, const char *path, struct muster_err *err)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = NULL;
    int rc = -1;
    if (fd < 0 || fstat(fd, &status)) {
        muster_fail(err, "%s: %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(status.st_mode) || status.st_size > MUSTER_HWLOC_XML_MAX) {
        muster_fail(err, "%s: not a regular file of at most 32 MiB", path);
        goto out;
    }
    text = malloc((size_t)status.st_size + 1);
    if (!text) {
        muster_fail_memory(err, path);
        goto out;
    }
    ssize_t n = read(fd, text, (size_t)status.st_size);
    if (n < 0)
        muster_fail(err, "%s: %s", path, strerror(errno));
    else
        rc = muster_hwloc_read(machine, path, text, (size_t)n, err);
out:
    free(text);
    if (fd >= 0)
        close(fd);
    return rc;
}
