/* The locale of a shell that becomes a session.
 *
 * Loading one takes a tenth of a session's first command: bash asks for it when it gets LANG. The zygote loads the one
 * that most sessions use, so that its copies have it already. */

#ifndef SHELLKEEP_LOCALE_H
#define SHELLKEEP_LOCALE_H

/* Loads a locale, so that bash finds it loaded when it asks for it. An empty name loads none. */
void locale_prepare(const char *name);

/* The session uses this locale for everything, or another one for something if the name is empty. Anything but the
 * prepared one begins where bash begins. */
void locale_begin(const char *name);

#endif
