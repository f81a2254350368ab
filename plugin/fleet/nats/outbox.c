#include "fleet/nats/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static void forget(struct muster_outbox *outbox, size_t i)
{
    struct muster_letter *letter = &outbox->letter[i];
    outbox->flying -= letter->state == MUSTER_LETTER_FLIES;
    outbox->lost += letter->state != MUSTER_LETTER_THERE;
    outbox->bytes -= letter->bytes;
    free(letter->subject);
    free(letter->data);
}

static void drop_first(struct muster_outbox *outbox, size_t n)
{
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        forget(outbox, i);
    outbox->n -= n;
    memmove(outbox->letter, outbox->letter + n, outbox->n * sizeof *outbox->letter);
}

bool muster_outbox_add(struct muster_outbox *outbox, const char *subject, void *data, size_t bytes,
                       uint64_t now_ns)
{
    char *copy = strdup(subject);
    if (!copy ||
        !muster_reserve(&outbox->letter, &outbox->room, outbox->n + 1, sizeof *outbox->letter)) {
        free(copy);
        free(data);
        outbox->lost++;
        return false;
    }
    outbox->letter[outbox->n++] = (struct muster_letter){
        .id = outbox->next_id++, .made_ns = now_ns, .subject = copy, .data = data, .bytes = bytes};
    outbox->bytes += bytes;
    return true;
}

void muster_outbox_trim(struct muster_outbox *outbox, uint64_t now_ns)
{
    size_t n = 0, bytes = outbox->bytes;
    while (n < outbox->n && (outbox->letter[n].state == MUSTER_LETTER_THERE ||
                             now_ns - outbox->letter[n].made_ns > MUSTER_OUTBOX_KEPT_NS ||
                             bytes > MUSTER_OUTBOX_BYTES))
        bytes -= outbox->letter[n++].bytes;
    drop_first(outbox, n);
}

struct muster_letter *muster_outbox_next(struct muster_outbox *outbox, uint64_t now_ns)
{
    if (outbox->again && outbox->flying > 0)
        return NULL;
    outbox->again = false;
    for (size_t i = 0; i < outbox->n && outbox->flying < MUSTER_OUTBOX_FLYING; i++) {
        struct muster_letter *letter = &outbox->letter[i];
        if (letter->state != MUSTER_LETTER_WAITS)
            continue;
        letter->state = MUSTER_LETTER_FLIES;
        letter->sent_ns = now_ns;
        outbox->flying++;
        return letter;
    }
    return NULL;
}

void muster_outbox_answer(struct muster_outbox *outbox, uint64_t id, bool taken)
{
    size_t first = 0, end = outbox->n;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (outbox->letter[middle].id < id)
            first = middle + 1;
        else
            end = middle;
    }
    if (first == outbox->n || outbox->letter[first].id != id ||
        outbox->letter[first].state != MUSTER_LETTER_FLIES)
        return;
    outbox->letter[first].state = taken ? MUSTER_LETTER_THERE : MUSTER_LETTER_WAITS;
    outbox->flying--;
    outbox->there += taken;
    outbox->again |= !taken;
}

bool muster_outbox_overdue(const struct muster_outbox *outbox, uint64_t now_ns)
{
    for (size_t i = 0; i < outbox->n && outbox->flying > 0; i++)
        if (outbox->letter[i].state == MUSTER_LETTER_FLIES &&
            now_ns - outbox->letter[i].sent_ns > MUSTER_OUTBOX_ANSWER_NS)
            return true;
    return false;
}

void muster_outbox_recall(struct muster_outbox *outbox)
{
    for (size_t i = 0; i < outbox->n; i++)
        if (outbox->letter[i].state == MUSTER_LETTER_FLIES)
            outbox->letter[i].state = MUSTER_LETTER_WAITS;
    outbox->flying = 0;
    outbox->again = false;
}

size_t muster_outbox_waiting(const struct muster_outbox *outbox)
{
    size_t n = 0;
    for (size_t i = 0; i < outbox->n; i++)
        n += outbox->letter[i].state != MUSTER_LETTER_THERE;
    return n;
}

void muster_outbox_free(struct muster_outbox *outbox)
{
    drop_first(outbox, outbox->n);
    free(outbox->letter);
}
