/* Files in memory that a target fills anew for each input. */
#ifndef MUSTER_TESTS_FUZZ_FILE_TREE_H
#define MUSTER_TESTS_FUZZ_FILE_TREE_H

/* Makes a folder below /dev/shm, whose name it writes to `root`, and below it n files with the
 * folders that they lie in; fd: of each, to read and write. All of it is removed at exit. Once a
 * process; ends it where that fails. */
void file_tree_make(char root[static 64], const char *const *files, int n, int *fd);

#endif
