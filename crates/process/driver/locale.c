#include "locale.h"

#include "bash.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* What is loaded ahead, and what bash started with. */
static char *prepared, *original;

void locale_prepare(const char *name) {
    if (prepared || !*name)
        return;
    prepared = copied(name);
    original = copied(setlocale(LC_ALL, NULL));
    /* One that the machine does not have leaves the original. */
    setlocale(LC_ALL, name);
    /* glibc looks for the conversion of its characters when one is first needed. */
    (void)!mblen("", 1);
}

void locale_begin(const char *name) {
    if (prepared && strcmp(name, prepared) != 0)
        setlocale(LC_ALL, original);
    free(prepared);
    prepared = NULL;
}
