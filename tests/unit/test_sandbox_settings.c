#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/sandbox_settings.h"
#include "proxy/settings/schema.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define NETWORK "\"network\":{\"allowedDomains\":[],\"deniedDomains\":[]}"
#define LISTS "\"denyRead\":[],\"allowWrite\":[],\"denyWrite\":[]"

/* Settings of a document that has to be valid; NULL with the line in *error. */
static struct sandbox_settings *read_settings(const char *text, struct buf *error)
{
    struct issues issues;
    json_t *document = json_loads(text, JSON_ALLOW_NUL, NULL);
    assert_non_null(document);
    assert_true(schema_validate(document, SETTINGS_SANDBOX, &issues));
    issues_free(&issues);
    struct sandbox_settings *s = sandbox_settings_new(document, error);
    json_decref(document); /* nothing of it is kept */
    return s;
}

static void assert_list(const struct path_list *list, const char *expected)
{
    struct buf out;
    buf_init(&out, 1000);
    for (size_t i = 0; i < list->count; i++)
        buf_printf(&out, "%s%s;", list->entries[i].literal ? "=" : "", list->entries[i].text);
    assert_string_equal(buf_cstr(&out), expected);
    buf_free(&out);
}

static void test_defaults(void **state)
{
    struct buf error;
    (void)state;
    buf_init(&error, 1000);
    struct sandbox_settings *s = read_settings("{" NETWORK ",\"filesystem\":{" LISTS "}}", &error);
    assert_non_null(s);
    assert_int_equal(s->deny_read.count + s->allow_read.count + s->allow_write.count +
                         s->deny_write.count + s->credential_denies.count,
                     0);
    assert_null(s->withheld_variables[0]);
    assert_null(s->git_safe_directories[0]);
    assert_null(s->bwrap_path);
    assert_null(s->socat_path);
    assert_null(s->java_agent_jar);
    assert_int_equal(s->search_depth, 3);
    assert_int_equal(s->http_proxy_port, 0);
    assert_int_equal(s->socks_proxy_port, 0);
    assert_false(s->filesystem_disabled || s->allow_git_config || s->weaker_nested ||
                 s->nested_user_namespaces || s->all_unix_sockets);
    sandbox_settings_free(s);
    buf_free(&error);
}

static void test_everything(void **state)
{
    static const char text[] =
        "{\"network\":{\"allowedDomains\":[],\"deniedDomains\":[],\"allowAllUnixSockets\":true,"
        "\"httpProxyPort\":8080,\"socksProxyPort\":65535},"
        "\"filesystem\":{\"denyRead\":[\"/a\",{\"path\":\"/b*\",\"literal\":true},\"~\"],"
        "\"allowRead\":[\"c\"],\"allowWrite\":[\".\",\"/d/\"],\"denyWrite\":[\"e/**\"],"
        "\"allowGitConfig\":true},"
        "\"credentials\":{\"files\":[{\"path\":\"~/.k\",\"mode\":\"deny\"},"
        "{\"path\":\"~/.m\",\"mode\":\"mask\"}],"
        "\"envVars\":[{\"name\":\"T\",\"mode\":\"deny\"},{\"name\":\"M\",\"mode\":\"mask\"}],"
        "\"allowPlaintextInject\":true},"
        "\"mandatoryDenySearchDepth\":7.0,\"enableWeakerNestedSandbox\":true,"
        "\"allowNestedUserNamespaces\":true,\"bwrapPath\":\"/x/bwrap\",\"socatPath\":\"/x/socat\","
        "\"javaAgentJarPath\":\"/x/a.jar\",\"git\":{\"safeDirectories\":[\"/g/\",\"\"]}}";
    struct buf error;
    (void)state;
    buf_init(&error, 1000);
    struct sandbox_settings *s = read_settings(text, &error);
    assert_non_null(s);
    assert_list(&s->deny_read, "/a;=/b*;~;");
    assert_list(&s->allow_read, "c;");
    assert_list(&s->allow_write, ".;/d/;");
    assert_list(&s->deny_write, "e/**;");
    assert_list(&s->credential_denies, "~/.k;");
    assert_string_equal(s->withheld_variables[0], "T");
    assert_string_equal(s->withheld_variables[1], "M");
    assert_null(s->withheld_variables[2]);
    assert_string_equal(s->git_safe_directories[0], "/g/");
    assert_string_equal(s->git_safe_directories[1], "");
    assert_null(s->git_safe_directories[2]);
    assert_string_equal(s->bwrap_path, "/x/bwrap");
    assert_string_equal(s->socat_path, "/x/socat");
    assert_string_equal(s->java_agent_jar, "/x/a.jar");
    assert_int_equal(s->search_depth, 7);
    assert_int_equal(s->http_proxy_port, 8080);
    assert_int_equal(s->socks_proxy_port, 65535);
    assert_true(s->allow_git_config && s->weaker_nested && s->nested_user_namespaces &&
                s->all_unix_sockets);
    sandbox_settings_free(s);
    buf_free(&error);
}

static void test_disabled_leaves_no_list(void **state)
{
    struct buf error;
    (void)state;
    buf_init(&error, 1000);
    struct sandbox_settings *s = read_settings(
        "{" NETWORK ",\"filesystem\":{\"disabled\":true,\"denyRead\":[\"/a\",\"b\\u0000\"],"
        "\"allowRead\":[\"/a\"],\"allowWrite\":[\"/a\"],\"denyWrite\":[\"/a\"]},"
        "\"credentials\":{\"files\":[{\"path\":\"/k\",\"mode\":\"deny\"}],"
        "\"envVars\":[{\"name\":\"T\",\"mode\":\"deny\"}]}}",
        &error);
    assert_non_null(s);
    assert_true(s->filesystem_disabled);
    assert_int_equal(s->deny_read.count + s->allow_read.count + s->allow_write.count +
                         s->deny_write.count + s->credential_denies.count,
                     0);
    assert_string_equal(s->withheld_variables[0], "T");
    sandbox_settings_free(s);
    buf_free(&error);
}

static void test_a_nul_byte_is_refused(void **state)
{
    static const struct {
        const char *text, *key;
    } rows[] = {
        {"\"filesystem\":{\"denyRead\":[\"/x\",\"/a\\u0000b\"],\"allowWrite\":[],\"denyWrite\":[]}",
         "filesystem.denyRead"},
        {"\"filesystem\":{" LISTS ",\"allowRead\":[{\"path\":\"\\u0000\",\"literal\":true}]}",
         "filesystem.allowRead"},
        {"\"filesystem\":{\"denyRead\":[],\"allowWrite\":[\"a\\u0000\"],\"denyWrite\":[]}",
         "filesystem.allowWrite"},
        {"\"filesystem\":{\"denyRead\":[],\"allowWrite\":[],\"denyWrite\":[\"a\\u0000\"]}",
         "filesystem.denyWrite"},
        {"\"filesystem\":{" LISTS "},\"credentials\":{\"files\":[{\"path\":\"/k\\u0000\",\"mode\":"
         "\"deny\"}]}",
         "credentials.files"},
        {"\"filesystem\":{" LISTS "},\"bwrapPath\":\"/b\\u0000\"", "bwrapPath"},
        {"\"filesystem\":{" LISTS "},\"socatPath\":\"/b\\u0000\"", "socatPath"},
        {"\"filesystem\":{" LISTS "},\"javaAgentJarPath\":\"/b\\u0000\"", "javaAgentJarPath"},
        {"\"filesystem\":{" LISTS "},\"git\":{\"safeDirectories\":[\"/b\\u0000\"]}",
         "git.safeDirectories"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf error, text;
        buf_init(&error, 1000);
        buf_init(&text, 1000);
        buf_printf(&text, "{" NETWORK ",%s}", rows[i].text);
        assert_null(read_settings(buf_cstr(&text), &error));
        assert_non_null(
            strstr(buf_cstr(&error), "Sandbox profile contains a path with a NUL byte, "));
        assert_non_null(strstr(buf_cstr(&error), rows[i].key));
        assert_null(strchr(buf_cstr(&error), '\n'));
        buf_free(&error);
        buf_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_disabled_leaves_no_list),
        cmocka_unit_test(test_a_nul_byte_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
