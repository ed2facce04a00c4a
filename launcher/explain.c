#include "launcher/explain.h"

#include <string.h>

/* The texts that bubblewrap 0.4 to 0.11 ends with, by what is in the way. */
enum obstacle {
    OBSTACLE_NONE,
    OBSTACLE_IDS,          /* the ids of the new user namespace could not be mapped */
    OBSTACLE_LOOPBACK,     /* no power over the new network namespace */
    OBSTACLE_NAMESPACES,   /* no new namespace at all */
    OBSTACLE_LIMIT,        /* too many namespaces, or too deep */
    OBSTACLE_UNSUPPORTED,  /* the kernel has no user namespaces */
    OBSTACLE_PROC,         /* no fresh /proc */
    OBSTACLE_MOUNTS,       /* no mount */
    OBSTACLE_CAPABILITIES, /* bwrap was started with capabilities, uid not 0 */
    OBSTACLE_SETUID,       /* set-user-id, and built without support for it */
    OBSTACLE_OLD           /* an option it does not know */
};

static const struct {
    const char *text;
    enum obstacle obstacle;
} messages[] = {
    {"setting up uid map", OBSTACLE_IDS},
    {"setting up gid map", OBSTACLE_IDS},
    {"writing to setgroups", OBSTACLE_IDS},
    {"loopback: Failed", OBSTACLE_LOOPBACK},
    {"No permissions to creat", OBSTACLE_NAMESPACES},
    {"namespace failed: nesting depth", OBSTACLE_LIMIT},
    {"namespace failed: No space left on device", OBSTACLE_LIMIT},
    {"maximum number of user namespaces exceeded", OBSTACLE_LIMIT},
    {"kernel does not support user namespaces", OBSTACLE_UNSUPPORTED},
    {"namespace failed: Operation not permitted", OBSTACLE_NAMESPACES},
    {"namespace failed: Permission denied", OBSTACLE_NAMESPACES},
    {"Can't mount proc on", OBSTACLE_PROC},
    {"Failed to make / slave", OBSTACLE_MOUNTS},
    {"mount tmpfs", OBSTACLE_MOUNTS},
    {"pivot_root", OBSTACLE_MOUNTS},
    {"Unexpected capabilities but not setuid", OBSTACLE_CAPABILITIES},
    {"setuid use of bubblewrap is not supported", OBSTACLE_SETUID},
    {"Unknown option", OBSTACLE_OLD},
};

static enum obstacle recognise(const char *text, size_t n)
{
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++)
        if (memmem(text, n, messages[i].text, strlen(messages[i].text)) != NULL)
            return messages[i].obstacle;
    return OBSTACLE_NONE;
}

static bool says(const char *text, size_t n, const char *part)
{
    return memmem(text, n, part, strlen(part)) != NULL;
}

static void explain_apparmor(const struct machine *m, struct buf *out)
{
    if (m->apparmor_restricts == 1)
        buf_puts(out,
                 "AppArmor restricts unprivileged user namespaces here "
                 "(kernel.apparmor_restrict_unprivileged_userns is 1), and a box needs one.\n");
    else
        buf_puts(out, "A user namespace could be made but gives no power, which is how AppArmor "
                      "restricts unprivileged user namespaces "
                      "(kernel.apparmor_restrict_unprivileged_userns).\n");
    buf_puts(out, "Either give bubblewrap a profile: as root, write these lines to "
                  "/etc/apparmor.d/bwrap and run 'apparmor_parser -r /etc/apparmor.d/bwrap':\n"
                  "    abi <abi/4.0>,\n"
                  "    include <tunables/global>\n"
                  "    profile bwrap /usr/bin/bwrap flags=(unconfined) {\n"
                  "      userns,\n"
                  "    }\n"
                  "Or lift the restriction for every program: 'sysctl -w "
                  "kernel.apparmor_restrict_unprivileged_userns=0' as root, and the same line in "
                  "/etc/sysctl.d to keep it.\n");
}

static void explain_container(struct buf *out)
{
    buf_puts(out, "In a container the runtime's seccomp and AppArmor profiles refuse namespaces "
                  "and mounts. Docker: start it with '--security-opt seccomp=unconfined "
                  "--security-opt apparmor=unconfined'. Kubernetes: set seccompProfile and "
                  "appArmorProfile of the securityContext to type Unconfined.\n");
}

static void explain_clone_switch(struct buf *out)
{
    buf_puts(out, "Unprivileged user namespaces are switched off here "
                  "(kernel.unprivileged_userns_clone is 0). To switch them on: 'sysctl -w "
                  "kernel.unprivileged_userns_clone=1' as root, and the same line in "
                  "/etc/sysctl.d to keep it.\n");
}

static void explain_limit(const struct machine *m, struct buf *out)
{
    if (m->nested)
        buf_puts(out, "This is inside a box already, which lets no other be made in it; its "
                      "settings can say \"allowNestedUserNamespaces\": true, and then write denies "
                      "do not hold against a hostile command.\n");
    else if (m->namespaces_max == 0)
        buf_puts(out, "No user namespaces are allowed here (user.max_user_namespaces is 0). To "
                      "allow them: 'sysctl -w user.max_user_namespaces=15000' as root, and the "
                      "same line in /etc/sysctl.d to keep it.\n");
    else
        buf_puts(out, "The limit of namespaces is reached: see the switches "
                      "user.max_*_namespaces of sysctl; 32 levels are the deepest.\n");
}

/* No new namespace: the switches say why, else it is what stands around this process. */
static void explain_namespaces(const struct machine *m, struct buf *out)
{
    if (m->nested) {
        explain_limit(m, out);
    } else if (m->user_namespaces == 0 && !m->root) {
        explain_clone_switch(out);
    } else if (m->namespaces_max == 0) {
        explain_limit(m, out);
    } else if (m->container) {
        explain_container(out);
    } else if (m->apparmor_restricts == 1) {
        explain_apparmor(m, out);
    } else {
        buf_puts(out, "The kernel's switches allow namespaces, so that something around this "
                      "process refuses them: a container, a seccomp filter, or another sandbox.\n");
        explain_container(out);
    }
}

static void explain_powerless(const struct machine *m, struct buf *out)
{
    explain_apparmor(m, out);
    if (m->container && m->apparmor_restricts != 1)
        explain_container(out);
}

static void explain_ids(const char *text, size_t n, const struct machine *m, struct buf *out)
{
    if (m->root && says(text, n, "Operation not permitted"))
        buf_puts(out, "To map uid 0 takes CAP_SETFCAP since Linux 5.12, and this process does not "
                      "have it. In a container: start it with '--cap-add SETFCAP'; or run srt as "
                      "another user.\n");
    else
        explain_powerless(m, out);
}

static void explain_proc(bool weaker_nested, struct buf *out)
{
    buf_puts(out, "Parts of /proc are covered here, as in a container, and the kernel then refuses "
                  "a fresh one. Docker: start the container with '--security-opt "
                  "systempaths=unconfined'. Podman: '--security-opt unmask=ALL'.\n");
    if (!weaker_nested)
        buf_puts(out, "Or set \"enableWeakerNestedSandbox\": true in the settings: the box then "
                      "has the container's /proc, and the command can see the container's "
                      "processes.\n");
}

void explain_bwrap(const char *text, size_t n, bool weaker_nested, const struct machine *m,
                   struct buf *out)
{
    switch (recognise(text, n)) {
    case OBSTACLE_NONE:
        break;
    case OBSTACLE_IDS:
        explain_ids(text, n, m, out);
        break;
    case OBSTACLE_LOOPBACK:
        explain_powerless(m, out);
        break;
    case OBSTACLE_NAMESPACES:
        explain_namespaces(m, out);
        break;
    case OBSTACLE_LIMIT:
        explain_limit(m, out);
        break;
    case OBSTACLE_UNSUPPORTED:
        buf_puts(out, "This kernel is built without user namespaces, or they are off at boot "
                      "(CONFIG_USER_NS; user_namespace.enable=1): a box needs them.\n");
        break;
    case OBSTACLE_PROC:
        explain_proc(weaker_nested, out);
        break;
    case OBSTACLE_MOUNTS:
        explain_container(out);
        break;
    case OBSTACLE_CAPABILITIES:
        buf_puts(out, "bubblewrap was started with capabilities, which it refuses. If its file has "
                      "some: 'setcap -r /usr/bin/bwrap' as root. If the container gives some to "
                      "every process: start srt with 'setpriv --inh-caps=-all "
                      "--ambient-caps=-all'.\n");
        break;
    case OBSTACLE_SETUID:
        buf_puts(out, "This bubblewrap is set-user-id and not built for it: 'chmod u-s' its file "
                      "as root.\n");
        break;
    case OBSTACLE_OLD:
        buf_puts(out, "This bubblewrap does not know an option that a box needs; 0.4.0 is the "
                      "oldest that does.\n");
        break;
    }
}
