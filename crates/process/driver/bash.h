/* What the driver uses of bash.
 *
 * The driver is a loadable builtin, so bash's own functions and variables are there to be called. These declarations
 * are our own and name only what has kept its shape since bash 4.4; `driver.c` checks the shape at load time and
 * refuses a bash that looks different. */

#ifndef SHELLKEEP_BASH_H
#define SHELLKEEP_BASH_H

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

typedef struct variable {
    char *name;
    char *value; /* a string, an array, an associative array or a command, as the attributes say */
    char *exportstr;
    void *dynamic_value;
    void *assign_func;
    int attributes;
    int context;
} SHELL_VAR;

enum {
    ATT_EXPORTED = 0x1,
    ATT_READONLY = 0x2,
    ATT_ARRAY = 0x4,
    ATT_INTEGER = 0x10,
    ATT_ASSOC = 0x40,
    ATT_TRACE = 0x80,
    ATT_UPPERCASE = 0x100,
    ATT_LOWERCASE = 0x200,
    ATT_CAPCASE = 0x400,
    ATT_NAMEREF = 0x800,
    ATT_INVISIBLE = 0x1000,
    ATT_NOASSIGN = 0x4000,
};

typedef struct bucket {
    struct bucket *next;
    char *key;
    void *data;
} BUCKET;

typedef struct hash_table HASH_TABLE;
typedef struct array ARRAY;

typedef struct array_element {
    intmax_t index;
    char *value;
} ARRAY_ELEMENT;

typedef struct var_context {
    char *name;
    int scope;
    int flags;
    struct var_context *up;
    struct var_context *down;
    HASH_TABLE *table;
} VAR_CONTEXT;

typedef struct command {
    int type;
    int flags;
} COMMAND;

/* Who runs this bash. The name, shell and home are looked up when they are first needed. */
struct user_info {
    uid_t uid, euid;
    gid_t gid, egid;
    char *user_name;
    char *shell;
    char *home_dir;
};

typedef struct alias {
    char *name;
    char *value;
} ALIAS;

typedef struct word_desc {
    char *word;
} WORD_DESC;

typedef struct word_list {
    struct word_list *next;
    WORD_DESC *word;
} WORD_LIST;

struct builtin {
    char *name;
    int (*function)(WORD_LIST *);
    int flags;
    char *const *long_doc;
    const char *short_doc;
    char *handle;
};

enum { BUILTIN_ENABLED = 0x1 };

/* Flags of parse_and_execute and named_function_string. */
enum { SEVAL_NOHIST = 0x004, SEVAL_RESETLINE = 0x010, SEVAL_NOOPTIMIZE = 0x400 };
enum { FUNC_MULTILINE = 0x1, FUNC_EXTERNAL = 0x2 };

/* Flags of sh_canonpath: the directory before each `..`, and the whole path, must exist. */
enum { CANON_CHECK_DOTDOT = 0x1, CANON_CHECK_EXISTS = 0x2 };

/* Why bash jumped to the top level. */
enum { JUMP_FORCE_EOF = 1, JUMP_DISCARD = 2 };

/* What startup_state says of a bash that was started with -c. */
enum { STARTED_WITH_COMMAND = 2 };

/* Signal numbers beyond the real ones: DEBUG, ERR and RETURN. */
enum { SIGNALS = 65, DEBUG_TRAP = SIGNALS, ERR_TRAP, RETURN_TRAP, TRAPS };

extern sigjmp_buf top_level;
extern int startup_state, parse_and_execute_level, indirection_level, executing_builtin, last_command_exit_value;
extern int glob_dot_filenames, shell_compatibility_level, ignoreeof, interactive_comments, source_uses_path;
extern int source_searches_cwd, inherit_errexit, expand_aliases, print_shift_error;
extern int read_but_dont_execute, posixly_correct, variable_context, extended_glob, array_needs_making, num_shell_builtins;
extern volatile sig_atomic_t interrupt_state, terminating_signal;
extern int wait_intr_flag, wait_signal_received;
extern int wait_builtin(WORD_LIST *);
extern int (*this_shell_builtin)(WORD_LIST *);
extern VAR_CONTEXT *global_variables, *shell_variables;
extern HASH_TABLE *shell_functions, *aliases;
extern struct builtin *shell_builtins;
extern char *trap_list[];
extern char *the_current_working_directory;
extern char *dollar_vars[];
extern void *last_procsub_child;
extern pid_t dollar_dollar_pid, shell_pgrp;
extern void set_ppid(void) __attribute__((weak));
extern time_t shell_start_time;
extern struct user_info current_user __attribute__((weak));

extern int parse_and_execute(char *, const char *, int);
extern void clear_unwind_protect_list(int);
extern void stop_making_children(void);
extern void exit_shell(int) __attribute__((noreturn));
extern void termsig_handler(int);
extern void *xmalloc(size_t);
extern void *xrealloc(void *, size_t);

/* Bash's own xmalloc says so and ends the shell when there is no memory; malloc and strdup would give NULL. */
static inline char *copied(const char *text) {
    size_t size = strlen(text) + 1;
    return memcpy(xmalloc(size), text, size);
}

static inline void *zeroed(size_t count, size_t size) { return memset(xmalloc(count * size), 0, count * size); }

extern SHELL_VAR *find_variable(const char *);
extern SHELL_VAR *find_variable_noref(const char *);
extern SHELL_VAR *find_function(const char *);
extern SHELL_VAR *bind_variable(const char *, char *, int);
extern SHELL_VAR *make_new_array_variable(char *);
extern SHELL_VAR *make_new_assoc_variable(char *);
extern int unbind_variable_noref(const char *);
extern void stupidly_hack_special_variables(char *);
extern char *named_function_string(char *, COMMAND *, int);

extern int array_insert(ARRAY *, intmax_t, char *);
extern void array_walk(ARRAY *, int (*)(ARRAY_ELEMENT *, void *), void *);
extern int assoc_insert(HASH_TABLE *, char *, char *);
extern void hash_walk(HASH_TABLE *, int (*)(BUCKET *));

extern void add_alias(char *, char *);
extern int set_minus_o_option(int, char *);
extern void set_shellopts(void);
extern int shopt_setopt(char *, int);
extern void set_bashopts(void);
extern void set_signal(int, char *);
extern void ignore_signal(int);
extern WORD_LIST *get_directory_stack(int);
extern WORD_LIST *list_rest_of_args(void);
extern void dispose_words(WORD_LIST *);
extern void set_working_directory(char *);
extern char *sh_single_quote(const char *);
extern char *sh_canonpath(char *, int);

#endif
