/* What holds for one call only: its variables, and its directory. */

#include "call.h"

#include "bash.h"
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A directory only to go back to need not be readable. Glibc names this flag only for GNU sources. */
#ifndef O_PATH
#define O_PATH 010000000
#endif

/* Where the way back is kept: beside the driver's own socket, above what people use by hand. */
enum { WAY_BACK_HOME = 1011 };

/* What a run changed for itself only, and how to put it back. */
static BUFFER put_back;
static uint32_t put_back_count;
static char *cwd_before;
static int cwd_before_fd = -1;

static void remember(const char *name) {
    capture_variable(&put_back, name);
    put_back_count++;
}

void set_exported(char *name, char *value) {
    SHELL_VAR *variable = find_variable(name);
    /* A readonly variable stays as it is: the caller may not do what the command may not. */
    if (variable && (variable->attributes & ATT_READONLY))
        return;
    variable = bind_variable(name, value, 0);
    if (variable) {
        variable->attributes |= ATT_EXPORTED;
        array_needs_making = 1;
        stupidly_hack_special_variables(name);
    }
}

void set_for_this_call(char *name, char *value) {
    remember(name);
    set_exported(name, value);
}

void keep_size_for_this_call(void) {
    remember("COLUMNS");
    remember("LINES");
}

/* Whether the directory was removed or moved, so that its path leads elsewhere or nowhere. */
static int has_lost_its_name(int here) {
    struct stat is, named;
    const char *path = the_current_working_directory;
    if (path == NULL || fstat(here, &is) != 0)
        return 0;
    return stat(path, &named) != 0 || is.st_dev != named.st_dev || is.st_ino != named.st_ino;
}

char *change_directory(char *cwd) {
    char *plain = sh_canonpath(cwd, CANON_CHECK_DOTDOT | CANON_CHECK_EXISTS);
    if (plain && chdir(plain) == 0)
        return plain;
    free(plain);
    return chdir(cwd) == 0 ? copied(cwd) : NULL;
}

int enter_for_this_call(char *given) {
    /* The way back is by descriptor: the directory may have lost its name by then. */
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char *cwd = change_directory(given);
    if (cwd == NULL) {
        int why = errno;
        if (here >= 0)
            close(here);
        return why;
    }
    if (here >= 0) {
        homeless = has_lost_its_name(here);
        cwd_before_fd = fcntl(here, F_DUPFD_CLOEXEC, WAY_BACK_HOME);
        close(here);
    }
    cwd_before = copied(the_current_working_directory ? the_current_working_directory : "");
    remember("PWD");
    remember("OLDPWD");
    set_working_directory(cwd);
    bind_variable("PWD", cwd, 0);
    if (homeless)
        bind_variable("OLDPWD", cwd_before, 0);
    free(cwd);
    return 0;
}

int homeless_in_this_call(void) { return cwd_before != NULL && homeless; }

/* Whether the command has left the directory of its call, in a shell that has none of its own to go back to. */
static int has_moved(void) {
    SHELL_VAR *before = homeless && cwd_before ? find_variable("OLDPWD") : NULL;
    return before && before->value && strcmp(before->value, cwd_before) != 0;
}

static void leave_this_call(int moved) {
    if (moved) {
        bind_variable("OLDPWD", cwd_before, 0);
        bind_variable("PWD", the_current_working_directory, 0);
        homeless = 0;
    } else if (cwd_before_fd >= 0 ? fchdir(cwd_before_fd) == 0 : *cwd_before && chdir(cwd_before) == 0) {
        set_working_directory(cwd_before);
    }
    if (cwd_before_fd >= 0)
        close(cwd_before_fd);
    cwd_before_fd = -1;
    free(cwd_before);
    cwd_before = NULL;
}

void undo_this_call(void) {
    CURSOR in = {put_back.bytes, put_back.length, 0};
    int moved = has_moved();
    while (put_back_count) {
        restore_variable(&in);
        put_back_count--;
    }
    put_back.length = 0;
    if (cwd_before)
        leave_this_call(moved);
}
