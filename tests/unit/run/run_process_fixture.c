#include "run_process_fixture.h"

#include <stdlib.h>

struct muster_segment_file process_segment(const struct fixture *fixture)
{
    struct muster_seg_identity identity;
    struct muster_segment_file file;
    fixture_identity(fixture, &identity);
    identity.rank = 3;
    if (muster_segment_create(&file, fixture->shm, &identity, NULL) != MUSTER_SEGMENT_OK ||
        !file.shared)
        abort();
    fixture_comm(file.map);
    return file;
}

void process_retire(struct muster_segment_file *file, struct muster_log_writer *writer,
                    uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n < to; n++) {
        struct muster_op op = fixture_op(n);
        fixture_retire(file->map, &op);
        if (writer)
            muster_log_put(writer, &op);
    }
}

uint64_t process_total(const struct muster_segment *segment)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++)
        count += segment->row[i].comm ? segment->row[i].count : 0;
    return count;
}

void process_assert_ops(const struct muster_process *process, uint64_t from, uint64_t n)
{
    assert_true(process->ops >= n);
    for (uint64_t i = 0; i < n; i++) {
        struct muster_op expected = fixture_op(from + i);
        assert_memory_equal(&process->op[i], &expected, sizeof(expected));
    }
}
