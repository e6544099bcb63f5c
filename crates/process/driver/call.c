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

/* What a run changed for itself only, how to put it back, and where the account of each variable begins. */
static BUFFER put_back;
static size_t *starts, starts_capacity;
static uint32_t put_back_count;
static char *cwd_before;
static int cwd_before_fd = -1;

/* What is written of a variable that bash computes (RANDOM, SECONDS), in place of a fact: only whether it was exported. As
 * a fact it would come back as a plain variable. */
enum { COMPUTED = 0, COMPUTED_EXPORTED = 1 };

static int is_computed(const SHELL_VAR *variable) {
    return variable->dynamic_value || variable->assign_func || (variable->attributes & ATT_NOASSIGN);
}

static void remember(const char *name) {
    if (put_back_count == starts_capacity) {
        starts_capacity = starts_capacity ? starts_capacity * 2 : 16;
        starts = xrealloc(starts, starts_capacity * sizeof *starts);
    }
    starts[put_back_count++] = put_back.length;
    const SHELL_VAR *variable = find_variable_noref(name);
    if (variable && is_computed(variable)) {
        put_u8(&put_back, variable->attributes & ATT_EXPORTED ? COMPUTED_EXPORTED : COMPUTED);
        put_string(&put_back, name);
    } else {
        capture_variable(&put_back, name);
    }
}

static void put_back_from(size_t start) {
    CURSOR in = {put_back.bytes + start, put_back.length - start, 0};
    if (*in.at != COMPUTED && *in.at != COMPUTED_EXPORTED) {
        restore_variable(&in);
        return;
    }
    int exported = get_u8(&in) == COMPUTED_EXPORTED;
    char *name = get_string(&in);
    SHELL_VAR *variable = find_variable_noref(name);
    if (variable && !exported) {
        variable->attributes &= ~ATT_EXPORTED;
        array_needs_making = 1;
    }
    free(name);
}

/* With one of these bash takes a value for something else than a text: for a sum, which it evaluates, and runs what that
 * says; for an element; for the value of another variable; or it changes its letters. */
enum {
    MORE_THAN_TEXT =
        ATT_INTEGER | ATT_ARRAY | ATT_ASSOC | ATT_NAMEREF | ATT_UPPERCASE | ATT_LOWERCASE | ATT_CAPCASE
};

/* What bash computes takes the value by its own rule, but does not evaluate it. */
static void seed(SHELL_VAR *computed, char *value) {
    int integer = computed->attributes & ATT_INTEGER;
    computed->attributes &= ~ATT_INTEGER;
    bind_variable(computed->name, value, 0);
    computed->attributes |= integer;
}

/* Sets a variable to exactly this text. One that is more than a text is replaced. Gives NULL for a readonly one: the caller
 * may not do what the command may not. */
static SHELL_VAR *set_text(const char *name, char *value) {
    SHELL_VAR *old = find_variable_noref(name);
    int attributes = old ? old->attributes : 0;
    if (attributes & ATT_READONLY)
        return NULL;
    if (old && is_computed(old)) {
        seed(old, value);
        return old;
    }
    if (attributes & MORE_THAN_TEXT)
        unbind_variable_noref(name);
    SHELL_VAR *variable = bind_variable(name, value, 0);
    if (variable) {
        variable->attributes |= attributes & ATT_EXPORTED;
        array_needs_making = 1;
    }
    return variable;
}

static void set_exported(char *name, char *value) {
    SHELL_VAR *variable = set_text(name, value);
    if (variable) {
        variable->attributes |= ATT_EXPORTED;
        stupidly_hack_special_variables(name);
    }
}

static void set_for_this_call(char *name, char *value) {
    remember(name);
    set_exported(name, value);
}

/* Bash sets the size itself, and would set what a nameref leads to, which no one puts back. */
static void keep_for_this_call(const char *name) {
    const SHELL_VAR *variable = find_variable_noref(name);
    remember(name);
    if (variable && (variable->attributes & (ATT_NAMEREF | ATT_READONLY)) == ATT_NAMEREF)
        unbind_variable_noref(name);
}

void keep_size_for_this_call(void) {
    keep_for_this_call("COLUMNS");
    keep_for_this_call("LINES");
}

/* Whether the directory was removed or moved, so that its path leads elsewhere or nowhere. */
static int has_lost_its_name(int here) {
    struct stat is, named;
    const char *path = the_current_working_directory;
    if (path == NULL || fstat(here, &is) != 0)
        return 0;
    return stat(path, &named) != 0 || is.st_dev != named.st_dev || is.st_ino != named.st_ino;
}

/* Enters a directory as `cd` does, which takes `..` from the name and not from what a link leads to. Gives the name
 * without `.` and `..`, which is the caller's to free; NULL and errno if it cannot be entered. */
static char *change_directory(char *cwd) {
    char *plain = sh_canonpath(cwd, CANON_CHECK_DOTDOT | CANON_CHECK_EXISTS);
    if (plain && chdir(plain) == 0)
        return plain;
    free(plain);
    return chdir(cwd) == 0 ? copied(cwd) : NULL;
}

static int enter(char *given) {
    char *cwd = change_directory(given);
    if (cwd == NULL)
        return errno;
    const SHELL_VAR *before = find_variable("PWD");
    if (before && before->value && !(before->attributes & (ATT_ARRAY | ATT_ASSOC)))
        set_text("OLDPWD", before->value);
    set_working_directory(cwd);
    set_text("PWD", cwd);
    free(cwd);
    return 0;
}

static int enter_for_this_call(char *given) {
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
    set_text("PWD", cwd);
    if (homeless)
        set_text("OLDPWD", cwd_before);
    free(cwd);
    return 0;
}

static int set_up(CURSOR *in, char *cwd, void (*set)(char *, char *), int (*go)(char *)) {
    for (uint32_t left = get_u32(in); left && !in->bad; left--) {
        char *name = get_string(in), *value = get_string(in);
        set(name, value);
        free(name);
        free(value);
    }
    return cwd ? go(cwd) : 0;
}

/* Bash jumps to the top level where it fails to evaluate something. Nothing here should be evaluated, but without a place
 * of our own to jump to, that of the command before would be used, which has returned. */
static REFUSAL set_up_guarded(CURSOR *in, int has_cwd, void (*set)(char *, char *), int (*go)(char *)) {
    char *cwd = has_cwd ? get_string(in) : NULL;
    REFUSAL refusal = {FRAME_REFUSED, "a variable of this command cannot be set"};
    if (sigsetjmp(top_level, 0) == 0) {
        int why = set_up(in, cwd, set, go);
        refusal = (REFUSAL){FRAME_BAD_CWD, why ? strerror(why) : NULL};
    }
    free(cwd);
    return refusal;
}

REFUSAL begin_call(CURSOR *in, int has_cwd) {
    return set_up_guarded(in, has_cwd, set_for_this_call, enter_for_this_call);
}

REFUSAL begin_service(CURSOR *in, int has_cwd) { return set_up_guarded(in, has_cwd, set_exported, enter); }

int homeless_in_this_call(void) { return cwd_before != NULL && homeless; }

/* Whether the command has left the directory of its call, in a shell that has none of its own to go back to. */
static int has_moved(void) {
    SHELL_VAR *before = homeless && cwd_before ? find_variable("OLDPWD") : NULL;
    int is_text = before && before->value && !(before->attributes & (ATT_ARRAY | ATT_ASSOC));
    return is_text && strcmp(before->value, cwd_before) != 0;
}

static void leave_this_call(int moved) {
    if (moved) {
        set_text("OLDPWD", cwd_before);
        set_text("PWD", the_current_working_directory);
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
    int moved = has_moved();
    /* From the last to the first: a variable that was set twice is what it was before the first time. */
    while (put_back_count) {
        put_back_count--;
        put_back_from(starts[put_back_count]);
    }
    put_back.length = 0;
    if (cwd_before)
        leave_this_call(moved);
}

/* ---- traps of each step ---- */

/* Bash runs what is trapped on ERR, DEBUG and RETURN before it looks whether it was interrupted. Meanwhile an empty text
 * is in the place of each. Bash may free that, so it is there before it is needed, and the handler only exchanges. One
 * that a function does not inherit is out of reach: bash keeps it in its list of what to undo, and brings it back as it
 * leaves the function. */
static const int step_traps[3] = {DEBUG_TRAP, ERR_TRAP, RETURN_TRAP};
static char *silence[3], *silenced[3];

void prepare_silence(void) {
    for (int i = 0; i < 3; i++)
        if (silence[i] == NULL)
            silence[i] = copied("");
}

void silence_step_traps(void) {
    for (int i = 0; i < 3; i++) {
        char **trap = &trap_list[step_traps[i]];
        if (silenced[i] || !silence[i] || *trap == (char *)SIG_DFL || *trap == (char *)SIG_IGN)
            continue;
        silenced[i] = *trap;
        *trap = silence[i];
    }
}

/* Where bash has put another trap in the place meanwhile, as it does when it leaves a function, ours is freed, and the
 * other may be at its address. */
void bring_back_step_traps(void) {
    for (int i = 0; i < 3; i++) {
        char **trap = &trap_list[step_traps[i]];
        if (silenced[i] && *trap == silence[i] && **trap == '\0')
            *trap = silenced[i];
        else if (silenced[i])
            silence[i] = NULL;
        silenced[i] = NULL;
    }
}
