#define _GNU_SOURCE
#include "mask.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const unsigned char *bytes;
    size_t length;
} TEXT;

static const unsigned char mask[] = {'*', '*', '*'};

static TEXT *texts;
static size_t count;
static unsigned char begins[256]; /* whether a text begins with this byte */
static unsigned char held[LONGEST_MASKED];
static size_t held_length;
static int ends_in_mask;

static int read_all(int file, unsigned char *bytes, size_t length) {
    size_t done = 0;
    while (done < length) {
        ssize_t got = pread(file, bytes + done, length - done, (off_t)done);
        if (got <= 0)
            return 0;
        done += (size_t)got;
    }
    return 1;
}

int mask_load(int file) {
    struct stat about;
    if (fstat(file, &about) != 0)
        return 0;
    size_t size = (size_t)about.st_size;
    unsigned char *bytes = malloc(size + 1);
    if (bytes == NULL || !read_all(file, bytes, size))
        return 0;
    for (size_t at = 0; at < size;) {
        uint32_t length;
        if (size - at < sizeof length)
            return 0;
        memcpy(&length, bytes + at, sizeof length);
        at += sizeof length;
        if (length <= sizeof mask || length > LONGEST_MASKED || length > size - at)
            return 0;
        TEXT *more = realloc(texts, (count + 1) * sizeof *texts);
        if (more == NULL)
            return 0;
        texts = more;
        texts[count++] = (TEXT){bytes + at, length};
        begins[bytes[at]] = 1;
        at += length;
    }
    return 1;
}

int mask_is_on(void) { return count != 0; }

/* Whether more must be known to say what is here: a text may have begun. */
static int is_beginning(const unsigned char *here, size_t left) {
    for (size_t i = 0; i < count; i++)
        if (texts[i].length > left && memcmp(texts[i].bytes, here, left) == 0)
            return 1;
    return 0;
}

/* The length of the longest text that is here; 0 if there is none. */
static size_t text_at(const unsigned char *here, size_t left) {
    size_t longest = 0;
    for (size_t i = 0; i < count; i++)
        if (texts[i].length <= left && texts[i].length > longest && memcmp(texts[i].bytes, here, texts[i].length) == 0)
            longest = texts[i].length;
    return longest;
}

/* Masks what is known whole. Returns where it stopped. */
static size_t mask_known(const unsigned char *in, size_t length, unsigned char *out, size_t *written, int is_last) {
    size_t at = 0;
    while (at < length) {
        size_t left = length - at;
        size_t found = 0;
        if (begins[in[at]]) {
            if (!is_last && is_beginning(in + at, left))
                break;
            found = text_at(in + at, left);
        }
        if (found && !ends_in_mask) {
            memcpy(out + *written, mask, sizeof mask);
            *written += sizeof mask;
        } else if (!found) {
            out[(*written)++] = in[at];
        }
        /* Texts side by side, and the parts of a long one, have one mask. */
        ends_in_mask = found != 0;
        at += found ? found : 1;
    }
    return at;
}

size_t mask_piece(const unsigned char *piece, size_t length, unsigned char *out, int is_last) {
    static unsigned char joined[LONGEST_MASKED + MOST_PIECE];
    size_t written = 0, whole = held_length + length;
    memcpy(joined, held, held_length);
    if (length)
        memcpy(joined + held_length, piece, length);
    size_t at = mask_known(joined, whole, out, &written, is_last);
    held_length = whole - at;
    memcpy(held, joined + at, held_length);
    return written;
}
