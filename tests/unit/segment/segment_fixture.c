#include "segment_fixture.h"

#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/identity.h"
#include "segment/totals.h"

int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    strcpy(fixture->shm, "/dev/shm/muster-test-XXXXXX");
    strcpy(fixture->run, "/tmp/muster-test-XXXXXX");
    if (!mkdtemp(fixture->shm) || !mkdtemp(fixture->run)) {
        free(fixture);
        return -1;
    }
    *state = fixture;
    return 0;
}

static int remove_one(const char *path, const struct stat *file, int type, struct FTW *walk)
{
    (void)file, (void)type, (void)walk;
    return remove(path);
}

int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    nftw(fixture->shm, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    nftw(fixture->run, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(fixture);
    return 0;
}

void fixture_identity(const struct fixture *fixture, struct muster_seg_identity *identity)
{
    muster_identity_read(identity);
    snprintf(identity->run_dir, sizeof(identity->run_dir), "%s", fixture->run);
    snprintf(identity->file_stem, sizeof(identity->file_stem), "host-%u", identity->pid);
}

void fixture_comm(struct muster_segment *segment)
{
    struct muster_seg_comm *comm = &segment->comm[0];
    comm->uid = 1;
    comm->id = 0x1122334455667788;
    comm->rank = 2;
    comm->nranks = 4;
    comm->nnodes = 1;
    strcpy(comm->name, "dp");
}

struct muster_op fixture_op(uint64_t n)
{
    uint64_t scatter = (n * 2654435761u) % 1000003;
    return (struct muster_op){
        .number = n,
        .enqueue_ns = 5000000000000 + n * 1400000 + scatter,
        .begin_ns = 1790000000000000000 + n * 1400000 + scatter * 2,
        .end_ns = 1790000000000000000 + n * 1400000 + scatter * 2 + 400000 + scatter / 3,
        .count = 1 << (10 + n % 12),
        .comm = 1,
        .peer = -1,
        .func = n % 5 == 0 ? MUSTER_FUNC_ALL_GATHER : MUSTER_FUNC_ALL_REDUCE,
        .dtype = MUSTER_DTYPE_BFLOAT16,
        .algo = MUSTER_ALGO_RING,
        .proto = MUSTER_PROTO_SIMPLE,
        .channels = 16,
        .source = MUSTER_SOURCE_GPU,
        .flags = MUSTER_OP_IN_WINDOW,
    };
}

void fixture_retire(struct muster_segment *segment, const struct muster_op *op)
{
    static struct muster_row_index index;
    muster_rows_index(segment, &index);
    muster_rows_add(segment, &index, op,
                    muster_op_size_bytes(op->func, op->dtype, op->count, segment->comm[0].nranks));
    segment->comm[0].retired++;
    uint64_t n = atomic_fetch_add(&segment->ring_head, 1);
    segment->ring[n % MUSTER_SEG_RING] = *op;
}

void fixture_slot(struct muster_segment *segment, unsigned i, uint64_t number,
                  enum muster_slot_state state)
{
    struct muster_seg_slot *slot = &segment->slot[i];
    slot->number = number;
    slot->enqueue_ns = 77000 + number;
    slot->count = 256;
    slot->comm = 1;
    slot->peer = -1;
    slot->nranks = 4;
    slot->func = MUSTER_FUNC_ALL_REDUCE;
    slot->dtype = MUSTER_DTYPE_FLOAT32;
    slot->channels = 2;
    atomic_store(&segment->slot_state[i], muster_slot_word(7, state));
}

pid_t fixture_killed_process(void (*child)(const struct fixture *), const struct fixture *fixture)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        child(fixture);
        if (write(ready[1], "r", 1) == 1)
            pause();
        _exit(1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return pid;
}

char *fixture_path(char *path, size_t size, const char *dir, const char *name)
{
    snprintf(path, size, "%s/%s", dir, name);
    return path;
}

unsigned fixture_count(const char *dir, const char *end)
{
    DIR *entries = opendir(dir);
    unsigned n = 0;
    struct dirent *entry;
    assert_non_null(entries);
    while ((entry = readdir(entries))) {
        size_t name = strlen(entry->d_name), tail = strlen(end);
        n += name >= tail && strcmp(entry->d_name + name - tail, end) == 0;
    }
    closedir(entries);
    return n;
}
