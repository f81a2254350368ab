/* Reads what extract.py wrote. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/nccl_types.h"
#include "generate.h"

static void give_up(const char *path, unsigned line, const char *what)
{
    fprintf(stderr, "accuracy: %s:%u: %s\n", path, line, what);
    exit(2);
}

static uint8_t func_of(const char *word)
{
    for (unsigned f = 1; f < MUSTER_FUNCS; f++)
        if (strcmp(word, muster_func_name(f)) == 0)
            return (uint8_t)f;
    return MUSTER_FUNC_UNKNOWN;
}

static void make_room(struct model *model)
{
    size_t n = (size_t)model->positions * model->steps + 1;
    model->transfer_ns = calloc(n, sizeof *model->transfer_ns);
    model->self_ns = calloc(n, sizeof *model->self_ns);
    if (!model->transfer_ns || !model->self_ns)
        exit(2);
}

void models_read(const char *path, struct models *models)
{
    FILE *file = fopen(path, "r");
    char text[256], word[32], group[8];
    unsigned line = 0, positions = 0, step, at;
    struct model *model = NULL;
    memset(models, 0, sizeof *models);
    if (!file)
        give_up(path, 0, "cannot be opened");
    while (fgets(text, sizeof text, file)) {
        int64_t self[BASE_RANKS];
        uint64_t n;
        line++;
        if (sscanf(text, "model %31s", word) == 1 && models->n < MODELS_MAX) {
            model = &models->model[models->n++];
            memcpy(model->name, word, sizeof word);
            model->sockets = strncmp(word, "net", 3) == 0;
            positions = 0;
            if (sscanf(text, "model %*s %u %u", &model->positions, &model->steps) != 2 ||
                model->positions > POSITIONS_MAX || !model->steps) {
                give_up(path, line, "expected positions and steps");
            }
            make_room(model);
        } else if (model && positions < model->positions &&
                   sscanf(text, "pos %7s %31s %" SCNu64, group, word, &n) == 3) {
            model->position[positions++] = (struct position){
                .group = strcmp(group, "tp") == 0   ? GROUP_TP
                         : strcmp(group, "dp") == 0 ? GROUP_DP
                                                    : GROUP_WORLD,
                .func = func_of(word),
                .count = n,
            };
        } else if (model &&
                   sscanf(text, "op %u %u %" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64,
                          &step, &at, &n, &self[0], &self[1], &self[2], &self[3]) == 7 &&
                   step < model->steps && at < model->positions) {
            model->transfer_ns[step * model->positions + at] = n;
            memcpy(model->self_ns[step * model->positions + at], self, sizeof self);
        } else {
            give_up(path, line, "expected a model, a position or an operation");
        }
    }
    fclose(file);
}

void models_free(struct models *models)
{
    for (unsigned m = 0; m < models->n; m++) {
        free(models->model[m].transfer_ns);
        free(models->model[m].self_ns);
    }
}
