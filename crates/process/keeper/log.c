#define _GNU_SOURCE
#include "log.h"
#include "mask.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The log is this many segments; the oldest goes when there is no room, so at least three quarters are always kept. */
enum { PARTS = 4 };
/* A disk that is now full, now not, makes short segments; more than this many are not kept. */
enum { MOST_SEGMENTS = 64 };
/* The smallest segment worth a file. */
enum { LEAST_PART = 4096 };
/* How long we do not try again after a write failed. */
enum { RETRY_MS = 100 };
/* What is copied at once where bytes must go through our own memory. */
enum { COPY_BYTES = MOST_PIECE };
enum { NAME_BYTES = 32, OFFSET_DIGITS = 20 };

typedef struct {
    uint64_t start;
    uint64_t size;
} SEGMENT;

static int directory = -1, file = -1;
static uint64_t limit, part, kept, written;
static SEGMENT segments[MOST_SEGMENTS]; /* the oldest first; the last is the open one, if one is open */
static int count;
static int64_t failed_at = -RETRY_MS;

int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void name_of(char *name, uint64_t start) { snprintf(name, NAME_BYTES, "log-%020" PRIu64, start); }

static int parse_name(const char *name, uint64_t *start) {
    if (strncmp(name, "log-", 4) != 0 || strlen(name) != 4 + OFFSET_DIGITS)
        return 0;
    if (strspn(name + 4, "0123456789") != OFFSET_DIGITS)
        return 0;
    return sscanf(name + 4, "%" SCNu64, start) == 1;
}

static void forget(int index) {
    kept -= segments[index].size;
    memmove(segments + index, segments + index + 1, (size_t)(count - index - 1) * sizeof *segments);
    count--;
}

static void drop_oldest(void) {
    char name[NAME_BYTES];
    name_of(name, segments[0].start);
    unlinkat(directory, name, 0);
    forget(0);
}

static void remember(uint64_t start, uint64_t size) {
    if (count == MOST_SEGMENTS) {
        if (start < segments[0].start)
            return;
        drop_oldest();
    }
    int at = count;
    while (at > 0 && segments[at - 1].start > start)
        at--;
    memmove(segments + at + 1, segments + at, (size_t)(count - at) * sizeof *segments);
    segments[at] = (SEGMENT){start, size};
    kept += size;
    count++;
}

static void make_room(uint64_t bytes) {
    while (kept + bytes > limit && count > 1)
        drop_oldest();
}

static int open_segment(uint64_t start, int flags) {
    char name[NAME_BYTES];
    name_of(name, start);
    return openat(directory, name, O_WRONLY | O_CLOEXEC | flags, 0600);
}

void log_begin(int where, uint64_t most) {
    directory = where;
    part = most / PARTS > LEAST_PART ? most / PARTS : LEAST_PART;
    limit = part * PARTS;
    int copy = openat(where, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = copy >= 0 ? fdopendir(copy) : NULL;
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        uint64_t start;
        struct stat about;
        if (parse_name(entry->d_name, &start) && fstatat(where, entry->d_name, &about, 0) == 0)
            remember(start, (uint64_t)about.st_size);
    }
    if (listing)
        closedir(listing);
    make_room(0);
    if (count) {
        written = segments[count - 1].start + segments[count - 1].size;
        file = open_segment(segments[count - 1].start, 0);
        lseek(file, 0, SEEK_END);
    }
}

static void close_segment(void) {
    if (file < 0)
        return;
    close(file);
    file = -1;
    if (count && segments[count - 1].size == 0) {
        char name[NAME_BYTES];
        name_of(name, segments[count - 1].start);
        unlinkat(directory, name, 0);
        forget(count - 1);
    }
}

/* Whether there is an open segment with room; begins one if not. */
static int has_segment(void) {
    struct stat about;
    if (file >= 0 && (fstat(file, &about) != 0 || about.st_nlink == 0)) {
        /* Someone removed it; no one would read what we put there. */
        close(file);
        file = -1;
        forget(count - 1);
    }
    if (file >= 0 && segments[count - 1].size < part)
        return 1;
    close_segment();
    if (now_ms() - failed_at < RETRY_MS)
        return 0;
    file = open_segment(written, O_CREAT | O_TRUNC);
    if (file < 0) {
        failed_at = now_ms();
        return 0;
    }
    remember(written, 0);
    return 1;
}

static void give_up_segment(void) {
    failed_at = now_ms();
    close_segment();
}

static void count_written(size_t length) {
    segments[count - 1].size += length;
    kept += length;
    written += length;
}

static void put(const unsigned char *bytes, size_t length, int is_kept) {
    ssize_t done = is_kept && length ? write(file, bytes, length) : 0;
    size_t kept_now = done > 0 ? (size_t)done : 0;
    if (kept_now)
        count_written(kept_now);
    if (is_kept && kept_now < length)
        give_up_segment();
    written += length - kept_now;
}

/* By way of our own memory: to drop it, to mask it, or to write it where the file system cannot take pages from a pipe. */
static ssize_t copy(int pipe, size_t most, int is_kept) {
    static unsigned char bytes[COPY_BYTES], shown[COPY_BYTES + LONGEST_MASKED];
    ssize_t length = read(pipe, bytes, most < sizeof bytes ? most : sizeof bytes);
    if (length <= 0)
        return length;
    if (mask_is_on())
        put(shown, mask_piece(bytes, (size_t)length, shown, 0), is_kept);
    else
        put(bytes, (size_t)length, is_kept);
    return length;
}

void log_end(void) {
    static unsigned char shown[LONGEST_MASKED];
    size_t length = mask_piece(NULL, 0, shown, 1);
    if (length)
        put(shown, length, has_segment());
}

ssize_t log_take(int pipe) {
    static int must_copy;
    int waiting = 0;
    if (!has_segment())
        return copy(pipe, COPY_BYTES, 0);
    /* If nothing waits we ask for one byte, to learn whether there can be more. */
    size_t most = ioctl(pipe, FIONREAD, &waiting) == 0 && waiting > 0 ? (size_t)waiting : 1;
    uint64_t room = part - segments[count - 1].size;
    if (most > room)
        most = (size_t)room;
    make_room(most);
    if (must_copy || mask_is_on())
        return copy(pipe, most, 1);
    ssize_t moved = splice(pipe, NULL, file, NULL, most, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (moved > 0)
        count_written((size_t)moved);
    if (moved >= 0 || errno == EAGAIN || errno == EINTR)
        return moved;
    if (errno == EINVAL) {
        must_copy = 1;
        return copy(pipe, most, 1);
    }
    give_up_segment();
    return copy(pipe, COPY_BYTES, 0);
}
