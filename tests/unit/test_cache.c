/* The cubin cache: hits, damage of every kind, folders that cannot be used. */
#define _GNU_SOURCE 1
#include "cache_fixture.h"
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { NOBODY = 65534 };

static void test_hit(void **state)
{
    struct fixture f;
    struct stat info;

    (void)state;
    open_cache(&f, folder(), MIB);
    assert_int_equal(scratch_count(scratch_folder, ""), 0); /* nothing is made before something is written */
    assert_true(fetch_is_right(&f, "key"));
    assert_true(fetch_is_right(&f, "key"));
    assert_int_equal(f.builds, 1);
    assert_true(fetch_is_right(&f, "another key"));
    assert_int_equal(f.builds, 2);
    close_cache(&f);
    open_cache(&f, folder(), MIB);
    assert_true(fetch_is_right(&f, "key"));
    assert_int_equal(f.builds, 0);
    assert_int_equal(f.seen.count[GNF_LOG_WARNING], 0);
    close_cache(&f);

    assert_int_equal(stat(folder(), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    assert_int_equal(stat(only_entry(folder()), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(scratch_count(folder(), ""), 2); /* no lock and no temporary stays */
}

static void test_relative_folder(void **state)
{
    char *before = getcwd(NULL, 0);
    struct fixture f;

    (void)state;
    assert_int_equal(chdir(scratch_folder), 0);
    open_cache(&f, "here///", MIB);
    assert_int_equal(chdir("/"), 0);
    assert_true(fetch_is_right(&f, "key"));
    assert_int_equal(scratch_count(scratch_path("here"), ".cubin"), 1);
    assert_string_equal(gnf_cache_folder(f.cache), scratch_path("here"));
    close_cache(&f);
    assert_int_equal(chdir(before), 0);
    free(before);
}

static void test_no_folder(void **state)
{
    struct gnf_cache_stats stats;
    struct fixture f;

    (void)state;
    assert_int_equal(chdir(scratch_folder), 0);
    open_cache(&f, NULL, MIB);
    assert_null(gnf_cache_folder(f.cache));
    assert_false(is_stored(&f, "key"));
    assert_int_equal(f.seen.count[GNF_LOG_WARNING], 0);
    assert_true(fetch_is_right(&f, "key"));
    assert_true(fetch_is_right(&f, "key"));
    assert_int_equal(f.builds, 2);
    assert_int_equal(f.seen.count[GNF_LOG_WARNING], 1);
    scratch_assert_contains(f.seen.last[GNF_LOG_WARNING], "GNFUSE_CACHE_DIR");
    assert_int_equal(gnf_cache_stats(f.cache, &stats), GNF_OK);
    assert_int_equal(scratch_count(scratch_folder, ""), 0);
    close_cache(&f);
    assert_int_equal(chdir("/"), 0);
}

static void test_never_compile(void **state)
{
    struct fixture f;
    void *image;
    size_t size;

    (void)state;
    open_cache(&f, folder(), MIB);
    assert_int_equal(gnf_cache_fetch(f.cache, "key", "block.t256.v4", NULL, NULL, &image, &size),
                     GNF_NOT_COMPILED);
    scratch_assert_contains(gnf_error_message(), "block.t256.v4");
    scratch_assert_contains(gnf_error_message(), "GNFUSE_JIT");
    assert_null(image);
    assert_true(fetch_is_right(&f, "key"));
    assert_true(is_stored(&f, "key"));
    close_cache(&f);
}

static void test_failed_build(void **state)
{
    struct fixture f;
    void *image;
    size_t size;

    (void)state;
    open_cache(&f, folder(), MIB);
    f.status = GNF_COMPILE_FAILED;
    assert_int_equal(gnf_cache_fetch(f.cache, "key", "kernel", build, &f, &image, &size), GNF_COMPILE_FAILED);
    assert_string_equal(gnf_error_message(), "the builder's own words");
    assert_int_equal(scratch_count(folder(), ""), 0);
    f.status = GNF_OK;
    assert_true(fetch_is_right(&f, "key"));
    assert_int_equal(f.seen.count[GNF_LOG_WARNING], 0);
    close_cache(&f);
}

/* ---- damage ---- */

static char bytes[8192];

static void make_empty(const char *path, size_t size)
{
    (void)size;
    assert_int_equal(truncate(path, 0), 0);
}

static void make_half(const char *path, size_t size)
{
    assert_int_equal(truncate(path, (off_t)size / 2), 0);
}

static void make_zero_start(const char *path, size_t size)
{
    memset(bytes, 0, 16);
    scratch_write(path, bytes, size);
}

static void make_flipped(const char *path, size_t size)
{
    bytes[size / 2] ^= 1;
    scratch_write(path, bytes, size);
}

static void make_longer(const char *path, size_t size)
{
    bytes[size] = 0;
    scratch_write(path, bytes, size + 1);
}

static void make_folder(const char *path, size_t size)
{
    (void)size;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0755), 0);
}

static void make_full_folder(const char *path, size_t size)
{
    char inside[600];

    make_folder(path, size);
    snprintf(inside, sizeof inside, "%s/inside", path);
    assert_int_equal(mkdir(inside, 0755), 0);
    strcat(inside, "/file");
    scratch_write(inside, "text", 4);
}

static void make_link(const char *path, size_t size)
{
    scratch_write(scratch_path("elsewhere"), bytes, size);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(scratch_path("elsewhere"), path), 0);
}

static void make_pipe(const char *path, size_t size)
{
    (void)size;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void test_damage(void **state)
{
    static const struct {
        const char *name;
        void (*make)(const char *path, size_t size);
    } kinds[] = {
        {"0 bytes", make_empty}, {"half", make_half},     {"first 16 bytes zero", make_zero_start},
        {"bit", make_flipped},   {"longer", make_longer}, {"folder", make_folder},
        {"link", make_link},     {"pipe", make_pipe},     {"folder with files", make_full_folder},
    };

    (void)state;
    fill(folder(), "key");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *path = only_entry(folder());
        struct gnf_cache_stats stats;
        struct fixture f;

        kinds[i].make(path, scratch_read(path, bytes, sizeof bytes));
        open_cache(&f, folder(), MIB);
        assert_false(is_stored(&f, "key"));
        close_cache(&f);
        open_cache(&f, folder(), MIB);
        if (!fetch_is_right(&f, "key") || !fetch_is_right(&f, "key") || f.builds != 1 ||
            f.seen.count[GNF_LOG_WARNING] != 1)
            fail_msg("%s: %d builds, %d warnings", kinds[i].name, f.builds, f.seen.count[GNF_LOG_WARNING]);
        scratch_assert_contains(f.seen.last[GNF_LOG_WARNING], path);
        assert_int_equal(scratch_count(folder(), ""), 1);
        assert_int_equal(gnf_cache_verify(f.cache, &stats), GNF_OK);
        assert_int_equal(stats.entries, 1);
        assert_int_equal(stats.damaged, 0);
        close_cache(&f);
    }
}

/* No single bit of the file can change unseen: header, key, image, checksum. */
static void test_every_bit(void **state)
{
    const char *path;
    struct fixture f;
    size_t size;

    (void)state;
    open_cache(&f, folder(), MIB);
    f.size = 40;
    assert_true(fetch_is_right(&f, "key"));
    path = only_entry(folder());
    size = scratch_read(path, bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        scratch_write(path, bytes, size);
        if (is_stored(&f, "key"))
            fail_msg("bit %zu of %zu bytes", bit, size);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    scratch_write(path, bytes, size);
    assert_true(is_stored(&f, "key"));
    for (size_t length = 0; length < size; length++) {
        scratch_write(path, bytes, length);
        assert_false(is_stored(&f, "key"));
    }
    close_cache(&f);
}

static void test_copied_entry(void **state)
{
    struct gnf_cache_stats stats;
    char path[600];
    struct fixture f;
    size_t size;

    (void)state;
    fill(folder(), "one");
    snprintf(path, sizeof path, "%s", only_entry(folder()));
    size = scratch_read(path, bytes, sizeof bytes);
    assert_int_equal(unlink(path), 0);
    fill(folder(), "two");
    snprintf(path, sizeof path, "%s", only_entry(folder()));
    scratch_write(path, bytes, size); /* whole, and of the key "one" */
    open_cache(&f, folder(), MIB);
    assert_false(is_stored(&f, "two"));
    assert_int_equal(gnf_cache_verify(f.cache, &stats), GNF_OK);
    assert_int_equal(stats.damaged, 1);
    scratch_write(path, bytes, size);
    assert_true(fetch_is_right(&f, "two"));
    assert_int_equal(f.builds, 1);
    assert_true(is_stored(&f, "two"));
    close_cache(&f);
}

/* ---- folders that cannot be used ---- */

/* Two keys: right images, nothing kept, one warning that names the setting. */
static bool degrades(const char *path, const char *part)
{
    struct fixture f;
    bool good;

    open_cache(&f, path, MIB);
    good = fetch_is_right(&f, "key") && fetch_is_right(&f, "key") && fetch_is_right(&f, "another") &&
           f.builds == 3 && f.seen.count[GNF_LOG_WARNING] == 1 &&
           strstr(f.seen.last[GNF_LOG_WARNING], "GNFUSE_CACHE_DIR") &&
           strstr(f.seen.last[GNF_LOG_WARNING], path) && strstr(f.seen.last[GNF_LOG_WARNING], part);
    if (!good)
        fprintf(stderr, "%s: %d builds, %d warnings, last: %s\n", path, f.builds,
                f.seen.count[GNF_LOG_WARNING], f.seen.last[GNF_LOG_WARNING]);
    close_cache(&f);
    return good;
}

/* Runs `what` in a child, and as an ordinary user where this one is root, for whom mode bits mean nothing. */
static void in_child(bool (*what)(void), bool ordinary)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        if (ordinary && geteuid() == 0 && (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)))
            _exit(2);
        _exit(what() ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void give_to_nobody(const char *path)
{
    if (geteuid() == 0)
        assert_int_equal(chown(path, NOBODY, NOBODY), 0);
}

static bool read_only_folder(void)
{
    char path[300];
    struct fixture f;
    bool hit;

    snprintf(path, sizeof path, "%s/cache", scratch_folder);
    open_cache(&f, path, MIB);
    hit = fetch_is_right(&f, "old") && f.builds == 1;
    close_cache(&f);
    if (!hit || chmod(path, 0555) != 0)
        return false;
    open_cache(&f, path, MIB);
    hit = fetch_is_right(&f, "old") && f.builds == 0 && f.seen.count[GNF_LOG_WARNING] == 0;
    close_cache(&f);
    return hit && degrades(path, "Permission denied") && scratch_count(path, "") == 1;
}

static void test_read_only(void **state)
{
    (void)state;
    assert_int_equal(mkdir(scratch_path("cache"), 0755), 0);
    give_to_nobody(scratch_path("cache"));
    in_child(read_only_folder, true);
    assert_int_equal(chmod(scratch_path("cache"), 0755), 0); /* to be removed again */
}

static bool parent_read_only(void)
{
    char path[300];

    snprintf(path, sizeof path, "%s/closed/a/cache", scratch_folder);
    return degrades(path, "Permission denied");
}

static void test_parent_read_only(void **state)
{
    (void)state;
    assert_int_equal(mkdir(scratch_path("closed"), 0555), 0);
    give_to_nobody(scratch_path("closed"));
    in_child(parent_read_only, true);
    assert_int_equal(scratch_count(scratch_path("closed"), ""), 0);
}

static void test_file_in_its_place(void **state)
{
    char below[300], longest[6000];

    (void)state;
    scratch_write(scratch_path("file"), "text", 4);
    assert_true(degrades(scratch_path("file"), "Not a directory"));
    snprintf(below, sizeof below, "%s/file/a/b", scratch_folder);
    assert_true(degrades(below, "Not a directory"));
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    {
        struct fixture f;
        open_cache(&f, longest, MIB);
        assert_true(fetch_is_right(&f, "key"));
        assert_int_equal(f.seen.count[GNF_LOG_WARNING], 1);
        close_cache(&f);
    }
}

/* A disk that fills up half-way through an entry. */
static bool disk_full(void)
{
    char path[300];

    snprintf(path, sizeof path, "%s/limited", scratch_folder);
    signal(SIGXFSZ, SIG_IGN);
    return setrlimit(RLIMIT_FSIZE, &(struct rlimit){2000, 2000}) == 0 && degrades(path, "File too large") &&
           scratch_count(path, "") == 0;
}

static void test_disk_full(void **state)
{
    (void)state;
    in_child(disk_full, false);
}

static bool full_disk(void)
{
    static const char page[4096];

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", scratch_folder, "tmpfs", 0, "size=4k") != 0)
        return true; /* not allowed here; test_disk_full has shown the same by other means */
    scratch_write(scratch_path("filler"), page, sizeof page);
    return degrades(scratch_folder, "No space left on device") && scratch_count(scratch_folder, "") == 1;
}

static bool read_only_mount(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", scratch_folder, "tmpfs", MS_RDONLY, "") != 0)
        return true;
    return degrades(scratch_folder, "Read-only file system");
}

static void test_mounts(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    in_child(full_disk, false);
    in_child(read_only_mount, false);
}

static void test_owner(void **state)
{
    struct gnf_cache_stats stats;
    struct fixture f;

    (void)state;
    if (geteuid() != 0)
        skip();
    /* Another's folder, with an entry that is whole. */
    fill(scratch_path("theirs"), "key");
    give_to_nobody(scratch_path("theirs"));
    assert_true(degrades(scratch_path("theirs"), "another user"));
    assert_int_equal(scratch_count(scratch_path("theirs"), ""), 1);
    open_cache(&f, scratch_path("theirs"), MIB);
    assert_int_equal(gnf_cache_clear(f.cache, &stats), GNF_IO);
    close_cache(&f);

    /* Another's link to a folder of ours. */
    fill(scratch_path("ours"), "key");
    assert_int_equal(symlink(scratch_path("ours"), scratch_path("link")), 0);
    open_cache(&f, scratch_path("link"), MIB);
    assert_true(is_stored(&f, "key"));
    close_cache(&f);
    assert_int_equal(lchown(scratch_path("link"), NOBODY, NOBODY), 0);
    assert_true(degrades(scratch_path("link"), "another user"));

    /* Another's entry in a folder of ours. */
    give_to_nobody(only_entry(scratch_path("ours")));
    open_cache(&f, scratch_path("ours"), MIB);
    assert_true(fetch_is_right(&f, "key"));
    assert_int_equal(f.builds, 1);
    close_cache(&f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_hit),
        TEST(test_relative_folder),
        TEST(test_no_folder),
        TEST(test_never_compile),
        TEST(test_failed_build),
        TEST(test_damage),
        TEST(test_every_bit),
        TEST(test_copied_entry),
        TEST(test_read_only),
        TEST(test_parent_read_only),
        TEST(test_file_in_its_place),
        TEST(test_disk_full),
        TEST(test_mounts),
        TEST(test_owner),
    };

    umask(022);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
