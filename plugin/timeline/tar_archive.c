#include "timeline/tar_archive.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "timeline/torch.h"
#include "timeline/whole_file.h"

enum { TAR_BLOCK = 512, NAME_MOST = 99 };

static const char own_name[] = "muster.pftrace";

/* ---- tar ---- */

static void put_octal(char *field, size_t size, uint64_t value)
{
    for (size_t i = size - 1; i-- > 0; value /= 8)
        field[i] = (char)('0' + value % 8);
}

static void put_member(const char *name, const char *bytes, size_t n, FILE *out)
{
    static const char zeros[TAR_BLOCK];
    char header[TAR_BLOCK] = "";
    unsigned sum = 0;
    snprintf(header, NAME_MOST + 1, "%s", name);
    put_octal(header + 100, 8, 0644);
    put_octal(header + 108, 8, 0);
    put_octal(header + 116, 8, 0);
    put_octal(header + 124, 12, n);
    put_octal(header + 136, 12, 0);
    memset(header + 148, ' ', 8);
    header[156] = '0';
    memcpy(header + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof header; i++)
        sum += (unsigned char)header[i];
    put_octal(header + 148, 7, sum);
    fwrite(header, 1, sizeof header, out);
    fwrite(bytes, 1, n, out);
    fwrite(zeros, 1, (TAR_BLOCK - n % TAR_BLOCK) % TAR_BLOCK, out);
}

static void end_archive(FILE *out)
{
    static const char zeros[2 * TAR_BLOCK];
    fwrite(zeros, 1, sizeof zeros, out);
}

/* ---- the manifest ---- */

/* Of the file's own name what fits and needs no care. */
static void name_member(const char *path, size_t i, char *to, size_t size)
{
    const char *base = strrchr(path, '/');
    int n = snprintf(to, size, "torch-%zu-%.60s", i, base ? base + 1 : path);
    for (char *c = to; c < to + n && *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *c))
            *c = '_';
}

static const char *host_of(const struct muster_view *view, int64_t rank)
{
    for (size_t g = 0; g < view->gpus; g++)
        if (view->gpu[g].rank == rank)
            return view->gpu[g].host;
    return NULL;
}

static void put_beside(struct muster_json *json, const struct muster_view *view,
                       const struct muster_timeline_beside *beside, size_t i)
{
    char name[NAME_MOST + 1], machine[256];
    name_member(beside->path, i, name, sizeof name);
    const char *host = host_of(view, beside->rank);
    snprintf(machine, sizeof machine, "torch %s", host ? host : "of a host not known");
    muster_json_object(json, NULL);
    muster_json_str(json, "path", name);
    muster_json_object(json, "machine");
    muster_json_str(json, "name", machine);
    muster_json_end(json);
    if (beside->matched) {
        muster_json_object(json, "clocks");
        muster_json_object(json, "sync_to");
        muster_json_str(json, "file", own_name);
        muster_json_str(json, "clock", "BOOTTIME");
        muster_json_end(json);
        muster_json_i64(json, "offset_ns", beside->offset_ns);
        muster_json_end(json);
    }
    muster_json_end(json);
}

static void put_manifest(const struct muster_view *view,
                         const struct muster_timeline_beside *beside, size_t n, FILE *out)
{
    struct muster_json json;
    muster_json_begin(&json, out, false);
    muster_json_object(&json, NULL);
    muster_json_object(&json, "perfetto_manifest");
    muster_json_u64(&json, "version", 1);
    muster_json_object(&json, "trace_time");
    muster_json_str(&json, "clock", "BOOTTIME");
    muster_json_str(&json, "file", own_name);
    muster_json_end(&json);
    muster_json_array(&json, "files");
    muster_json_object(&json, NULL);
    muster_json_str(&json, "path", own_name);
    muster_json_object(&json, "machine");
    muster_json_str(&json, "name", "muster");
    muster_json_end(&json);
    muster_json_end(&json);
    for (size_t i = 0; i < n; i++)
        put_beside(&json, view, &beside[i], i);
    muster_json_end(&json);
    muster_json_end(&json);
    muster_json_end(&json);
}

/* ---- files ---- */

static int put_file(const struct muster_timeline *timeline, struct muster_timeline_beside *beside,
                    size_t i, FILE *out, struct muster_err *err)
{
    char name[NAME_MOST + 1];
    size_t n = 0;
    char *bytes = muster_whole_read(beside->path, MUSTER_TORCH_BYTES_MOST, &n, err);
    if (!bytes)
        return -1;
    int result = muster_torch_lay(timeline, beside->path, bytes, n, beside, err);
    name_member(beside->path, i, name, sizeof name);
    if (result == 0)
        put_member(name, bytes, n, out);
    free(bytes);
    return result;
}

int muster_archive_write(const struct muster_timeline *timeline, const char *trace, size_t bytes,
                         struct muster_timeline_beside *beside, size_t n, FILE *out,
                         struct muster_err *err)
{
    char *manifest = NULL;
    size_t length = 0;
    put_member(own_name, trace, bytes, out);
    for (size_t i = 0; i < n; i++)
        if (put_file(timeline, &beside[i], i, out, err))
            return -1;
    FILE *text = open_memstream(&manifest, &length);
    if (text)
        put_manifest(timeline->view, beside, n, text);
    if (!muster_text_close(text, &manifest))
        return muster_fail_memory(err, "a timeline");
    put_member("perfetto_manifest.json", manifest, length, out);
    end_archive(out);
    free(manifest);
    return 0;
}
