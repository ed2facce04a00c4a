/* srt-decider: decides by a file of rules what a gateway lets out. See srt-decider(8). */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "decider/reference/options.h"
#include "decider/reference/rules_file.h"
#include "decider/reference/serve.h"

enum { EXIT_USAGE = 2, MESSAGES_MAX = 16777216 };

static int run(const struct decider_options *options)
{
    struct buf error;
    buf_init(&error, MESSAGES_MAX);
    struct decider_rules *rules = decider_rules_read(options->rules, &error);
    if (rules == NULL)
        fd_write_all(STDERR_FILENO, buf_data(&error), buf_len(&error));
    buf_free(&error);
    if (rules == NULL)
        return EXIT_FAILURE;
    if (!options->check)
        return decider_serve(options, rules);
    decider_rules_unref(rules);
    puts("ok");
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct decider_options options;
    struct buf error;

    log_set_program("srt-decider");
    buf_init(&error, MESSAGES_MAX);
    if (!decider_options_parse(argc, argv, &options, &error)) {
        log_error("%s", buf_cstr(&error));
        fputs(decider_usage, stderr);
        buf_free(&error);
        return EXIT_USAGE;
    }
    buf_free(&error);
    if (options.version)
        puts("srt-decider " SRT_VERSION);
    else if (options.help)
        fputs(decider_usage, stdout);
    else
        return run(&options);
    return EXIT_SUCCESS;
}
