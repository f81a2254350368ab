#include "segment_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment/identity.h"

static const char *const variables[] = {"RANK",
                                        "SLURM_PROCID",
                                        "OMPI_COMM_WORLD_RANK",
                                        "PMI_RANK",
                                        "PMIX_RANK",
                                        "LOCAL_RANK",
                                        "SLURM_LOCALID",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "MPI_LOCALRANKID",
                                        "WORLD_SIZE",
                                        "SLURM_NTASKS",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMI_SIZE",
                                        "MUSTER_REPLAY",
                                        "SLURM_JOB_ID",
                                        "SLURM_STEP_ID",
                                        "PBS_JOBID",
                                        "LSB_JOBID",
                                        "TORCHELASTIC_RUN_ID",
                                        "NCCL_HOSTID"};

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
        unsetenv(variables[i]);
    return 0;
}

static void the_slurm_step_is_kept(void **state)
{
    (void)state;
    struct muster_seg_identity identity;
    muster_identity_read(&identity);
    assert_string_equal(identity.slurm_job, "");
    setenv("SLURM_STEP_ID", "3", 1); /* without a job it means nothing */
    muster_identity_read(&identity);
    assert_string_equal(identity.slurm_step, "");
    setenv("SLURM_JOB_ID", "4711", 1);
    muster_identity_read(&identity);
    assert_string_equal(identity.slurm_job, "4711");
    assert_string_equal(identity.slurm_step, "3");
    setenv("SLURM_STEP_ID", "4294967291", 1); /* a batch script's */
    muster_identity_read(&identity);
    assert_string_equal(identity.slurm_step, "");
}

static void launchers_tell_the_rank(void **state)
{
    (void)state;
    static const char *const names[][3] = {
        {"RANK", "LOCAL_RANK", "WORLD_SIZE"},
        {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"}};
    struct muster_seg_identity identity;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        clear(NULL);
        setenv(names[i][0], "12", 1);
        setenv(names[i][1], "4", 1);
        setenv(names[i][2], "16", 1);
        muster_identity_read(&identity);
        assert_int_equal(identity.rank, 12);
        assert_int_equal(identity.local_rank, 4);
        assert_int_equal(identity.world, 16);
        assert_int_equal(identity.rank_source, MUSTER_RANK_FROM_ENV);
    }
}

/* As in a batch script: Slurm's rank is the script's, and mpirun hands it on to all ranks. */
static void a_rank_of_a_batch_script_is_nobodys(void **state)
{
    (void)state;
    static const char *const steps[] = {NULL, "4294967290", "4294967291"};
    struct muster_seg_identity identity;
    setenv("SLURM_JOB_ID", "99", 1);
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_LOCALID", "0", 1);
    setenv("SLURM_NTASKS", "4", 1);
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        if (steps[i])
            setenv("SLURM_STEP_ID", steps[i], 1);
        muster_identity_read(&identity);
        assert_int_equal(identity.rank, -1);
        assert_int_equal(identity.rank_source, MUSTER_RANK_FROM_COMM);
        assert_int_equal(identity.local_rank, -1);
        assert_int_equal(identity.world, -1);
    }
    setenv("SLURM_STEP_ID", "0", 1);
    muster_identity_read(&identity);
    assert_int_equal(identity.rank, 0);
    assert_int_equal(identity.world, 4);
}

/* mpirun starts its daemons on other hosts by srun. */
static void the_innermost_launcher_tells_the_rank(void **state)
{
    (void)state;
    static const char *const of_slurm[] = {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"};
    static const char *const of_mpirun[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                            "OMPI_COMM_WORLD_SIZE"};
    static const char *const numbers[] = {"5", "1", "8"}, *const others[] = {"2", "2", "4"};
    struct muster_seg_identity identity;
    for (size_t i = 0; i < 3; i++) {
        setenv(of_slurm[i], others[i], 1);
        setenv(of_mpirun[i], numbers[i], 1);
    }
    muster_identity_read(&identity);
    assert_int_equal(identity.rank, 2); /* of no job: nothing speaks against it */
    setenv("SLURM_JOB_ID", "99", 1);
    setenv("SLURM_STEP_ID", "0", 1);
    muster_identity_read(&identity);
    assert_int_equal(identity.rank, 5);
    assert_int_equal(identity.local_rank, 1);
    assert_int_equal(identity.world, 8);
    setenv("RANK", "7", 1);
    muster_identity_read(&identity);
    assert_int_equal(identity.rank, 5); /* of which world? */
    assert_int_equal(muster_identity_launcher_rank(), 7);
    setenv("WORLD_SIZE", "8", 1);
    muster_identity_read(&identity);
    assert_int_equal(identity.rank, 7);
}

/* What a launcher sets for one process, the communicators it then makes, and who it is. */
struct launch {
    const char *what;
    const char *set[4][2];
    int32_t comm[3][2]; /* ranks, own rank */
    int32_t rank, world, local;
    enum muster_rank_source source;
    bool logged;
};

static const struct launch launches[] = {
    {"torchrun",
     {{"RANK", "3"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "4"}},
     {{4, 3}, {2, 1}},
     3,
     4,
     1,
     MUSTER_RANK_FROM_ENV,
     false},
    {"Lightning's own launcher, second process",
     {{"LOCAL_RANK", "1"}, {"WORLD_SIZE", "2"}},
     {{2, 1}},
     1,
     2,
     1,
     MUSTER_RANK_FROM_COMM,
     false},
    {"Lightning's own launcher, first process",
     {{"LOCAL_RANK", "0"}, {"WORLD_SIZE", "2"}},
     {{2, 0}},
     0,
     2,
     0,
     MUSTER_RANK_FROM_COMM,
     false},
    {"mpirun",
     {{"OMPI_COMM_WORLD_RANK", "5"},
      {"OMPI_COMM_WORLD_SIZE", "8"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"PMIX_RANK", "5"}},
     {{8, 5}},
     5,
     8,
     1,
     MUSTER_RANK_FROM_ENV,
     false},
    {"srun",
     {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}},
     {{4, 2}},
     2,
     4,
     0,
     MUSTER_RANK_FROM_ENV,
     false},
    {"Ray Train",
     {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}},
     {{2, 1}},
     1,
     2,
     0,
     MUSTER_RANK_FROM_ENV,
     false},
    {"Ray's actors, which set nothing",
     {{NULL}},
     {{2, 1}, {4, 3}},
     3,
     4,
     -1,
     MUSTER_RANK_FROM_COMM,
     false},
    {"one process with many GPUs",
     {{NULL}},
     {{4, 0}, {4, 1}, {4, 2}},
     0,
     4,
     -1,
     MUSTER_RANK_FROM_COMM,
     false},
    {"torchrun, one process a host with all its GPUs",
     {{"RANK", "1"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "2"}},
     {{8, 4}, {8, 5}},
     4,
     8,
     0,
     MUSTER_RANK_FROM_COMM,
     true},
    {"JAX, one process", {{NULL}}, {{2, 1}, {2, 0}}, 1, 2, -1, MUSTER_RANK_FROM_COMM, false},
    {"a rank that a shell hands on to every process",
     {{"RANK", "0"}, {"WORLD_SIZE", "2"}},
     {{2, 1}},
     1,
     2,
     -1,
     MUSTER_RANK_FROM_COMM,
     true},
    {"a rank without a world", {{"RANK", "0"}}, {{2, 1}}, 1, 2, -1, MUSTER_RANK_FROM_COMM, false},
    {"groups in another order after one of the whole world",
     {{"RANK", "3"}, {"WORLD_SIZE", "4"}},
     {{4, 3}, {4, 0}},
     3,
     4,
     -1,
     MUSTER_RANK_FROM_ENV,
     false},
    {"a group of some ranks first",
     {{"RANK", "3"}, {"WORLD_SIZE", "4"}},
     {{2, 1}, {4, 3}},
     3,
     4,
     -1,
     MUSTER_RANK_FROM_ENV,
     false},
    {"a rank beyond its world",
     {{"RANK", "4"}, {"WORLD_SIZE", "4"}},
     {{4, 1}},
     1,
     4,
     -1,
     MUSTER_RANK_FROM_COMM,
     false},
    {"one GPU alone", {{NULL}}, {{1, 0}}, 0, 1, -1, MUSTER_RANK_FROM_COMM, false},
};

static void launchers_frameworks_and_communicators(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(launches) / sizeof(*launches); i++) {
        const struct launch *launch = &launches[i];
        struct muster_seg_identity identity;
        bool settled = false;
        unsigned logged = 0;
        clear(NULL);
        for (size_t v = 0; v < 4 && launch->set[v][0]; v++)
            setenv(launch->set[v][0], launch->set[v][1], 1);
        muster_identity_read(&identity);
        for (size_t c = 0; c < 3 && launch->comm[c][0]; c++)
            logged += muster_identity_learn(&identity, &settled, launch->comm[c][0],
                                            launch->comm[c][1]) == MUSTER_RANK_CONTRADICTED;
        if (identity.rank != launch->rank || identity.world != launch->world)
            fail_msg("%s: rank %d of %d", launch->what, identity.rank, identity.world);
        assert_int_equal(identity.local_rank, launch->local);
        assert_int_equal(identity.rank_source, launch->source);
        assert_int_equal(logged, launch->logged);
    }
}

static void without_a_launcher_the_rank_is_open(void **state)
{
    (void)state;
    struct muster_seg_identity identity;
    setenv("RANK", "-1", 1);
    setenv("SLURM_PROCID", "many", 1);
    setenv("PMI_RANK", "99999999999", 1);
    muster_identity_read(&identity);
    assert_int_equal(identity.rank, -1);
    assert_int_equal(identity.rank_source, MUSTER_RANK_FROM_COMM);
    assert_int_equal(identity.replay_speed, 0);
}

static void the_process_and_host_are_named(void **state)
{
    (void)state;
    struct muster_seg_identity identity;
    char stem[64];
    setenv("NCCL_HOSTID", "node7", 1);
    setenv("MUSTER_REPLAY", "max", 1);
    muster_identity_read(&identity);
    snprintf(stem, sizeof(stem), "node7-%d", (int)getpid());
    assert_string_equal(identity.file_stem, stem);
    assert_string_equal(identity.host, "node7");
    assert_int_equal(identity.pid, getpid());
    assert_true(identity.start_ticks > 0);
    assert_int_equal(identity.replay_speed, UINT32_MAX);
    setenv("MUSTER_REPLAY", "8", 1);
    muster_identity_read(&identity);
    assert_int_equal(identity.replay_speed, 8);
}

static void expect_dir(const char *configured, const char *expected)
{
    char dir[MUSTER_SEG_PATH], cwd[MUSTER_SEG_PATH], absolute[2 * MUSTER_SEG_PATH];
    struct muster_err err;
    assert_int_equal(muster_run_dir_choose(dir, sizeof(dir), configured, 0xdeadbeef01020304, &err),
                     0);
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    snprintf(absolute, sizeof(absolute), "%s/%s", cwd, expected);
    assert_string_equal(dir, expected[0] == '/' ? expected : absolute);
}

static void the_run_directory_follows_the_job(void **state)
{
    (void)state;
    assert_false(muster_run_dir_known(""));
    expect_dir("", "muster-deadbeef");
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    assert_false(muster_run_dir_known(""));
    expect_dir("", "muster-deadbeef");
    setenv("TORCHELASTIC_RUN_ID", "../a b", 1);
    expect_dir("", "muster-.._a_b");
    setenv("LSB_JOBID", "77", 1);
    expect_dir("", "muster-77");
    setenv("PBS_JOBID", "88.server", 1);
    expect_dir("", "muster-88.server");
    setenv("SLURM_JOB_ID", "99", 1);
    expect_dir("", "muster-99");
    assert_false(muster_run_dir_known("")); /* srun will add a step */
    setenv("SLURM_STEP_ID", "3", 1);
    expect_dir("", "muster-99.3");
    assert_true(muster_run_dir_known(""));
    setenv("SLURM_STEP_ID", "4294967290", 1); /* the shell of salloc */
    expect_dir("", "muster-99");
    assert_false(muster_run_dir_known(""));
    expect_dir("here/there", "here/there");
    expect_dir("././/here", "here");
    expect_dir("./", "./");
    expect_dir(".", ".");
    expect_dir(".here/./there", ".here/./there");
    expect_dir("/there", "/there");
}

static void expect_fallback(const char *tmp, const char *run_dir, const char *expected)
{
    char dir[MUSTER_SEG_PATH];
    setenv("TMPDIR", tmp, 1);
    assert_int_equal(muster_run_dir_fallback(dir, sizeof(dir), run_dir, NULL), 0);
    assert_string_equal(dir, expected);
}

static void where_it_cannot_be_written_it_moves_under_tmpdir(void **state)
{
    (void)state;
    const char *before = getenv("TMPDIR");
    char *kept = before ? strdup(before) : NULL;
    expect_fallback("/scratch", "/there/muster-7", "/scratch/muster-7");
    expect_fallback("", "/there/muster-7", "/tmp/muster-7");
    expect_fallback("relative", "/there/muster-7", "/tmp/muster-7");
    expect_fallback("/scratch", "/there/", "/scratch/muster");
    if (kept)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    free(kept);
}

static void a_path_too_long_is_an_error(void **state)
{
    (void)state;
    char dir[MUSTER_SEG_PATH], path[MUSTER_SEG_PATH + 10];
    struct muster_err err;
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = 0;
    assert_int_equal(muster_run_dir_choose(dir, sizeof(dir), path, 0, &err), -1);
    assert_non_null(strstr(err.text, "too long"));
    assert_int_equal(muster_run_dir_fallback(dir, sizeof(dir), path, &err), -1);
    assert_non_null(strstr(err.text, "too long"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(the_slurm_step_is_kept),
        TEST(launchers_tell_the_rank),
        TEST(a_rank_of_a_batch_script_is_nobodys),
        TEST(the_innermost_launcher_tells_the_rank),
        TEST(launchers_frameworks_and_communicators),
        TEST(without_a_launcher_the_rank_is_open),
        TEST(the_process_and_host_are_named),
        TEST(the_run_directory_follows_the_job),
        TEST(where_it_cannot_be_written_it_moves_under_tmpdir),
        TEST(a_path_too_long_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
