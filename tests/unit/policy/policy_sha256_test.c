#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "policy/sha256.h"

static void expect_hash(const char *text, size_t bytes, const char *expected)
{
    uint8_t digest[32];
    char hex[MUSTER_POLICY_HEX];
    muster_sha256(digest, text, bytes);
    muster_policy_hex(hex, digest);
    assert_string_equal(hex, expected);
}

/* NIST's examples (FIPS 180 example files) and RFC 6234, 8.5. */
static void standard_vectors(void **state)
{
    (void)state;
    expect_hash("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_hash("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect_hash("\x19", 1, "68aa2e2ee5dff96e3355e6c7ee373e3d6a4e17f75f9518d843709c0c9bc3e3d4");
    char *many = malloc(1000000);
    memset(many, 'a', 1000000);
    expect_hash(many, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(many);
}

/* The padding has two shapes; lengths around the border between them (from sha256sum). */
static void lengths_around_a_block(void **state)
{
    (void)state;
    char a[65];
    memset(a, 'a', sizeof(a));
    expect_hash(a, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    expect_hash(a, 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    expect_hash(a, 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
    expect_hash(a, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
    expect_hash(a, 65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(standard_vectors),
        cmocka_unit_test(lengths_around_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
