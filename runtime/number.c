#include "number.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Halfway points between floats have at most 113 significant digits: what follows 120 can only break a tie.
 */
enum { DIGITS = 120, WORDS = 40 };

struct big {
    uint32_t word[WORDS]; /* least significant first */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void big_multiply_add(struct big *big, uint32_t factor, uint32_t add)
{
    uint64_t carry = add;
    for (int i = 0; i < WORDS; i++) {
        carry += (uint64_t)big->word[i] * factor;
        big->word[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static void big_shift(struct big *big, int bits)
{
    for (; bits >= 31; bits -= 31)
        big_multiply_add(big, UINT32_C(1) << 31, 0);
    big_multiply_add(big, UINT32_C(1) << bits, 0);
}

static int big_bits(const struct big *big)
{
    for (int i = WORDS - 1; i >= 0; i--)
        if (big->word[i])
            return 32 * i + 32 - __builtin_clz(big->word[i]);
    return 0;
}

static int big_compare(const struct big *a, const struct big *b)
{
    for (int i = WORDS - 1; i >= 0; i--)
        if (a->word[i] != b->word[i])
            return a->word[i] < b->word[i] ? -1 : 1;
    return 0;
}

static void big_subtract(struct big *a, const struct big *b)
{
    uint64_t borrow = 0;
    for (int i = 0; i < WORDS; i++) {
        uint64_t difference = (uint64_t)a->word[i] - b->word[i] - borrow;
        a->word[i] = (uint32_t)difference;
        borrow = difference >> 63;
    }
}

/* The same as nearest() for the short numbers that nearly all are, in a tenth of the time: records are read
 * by the thousand. */
enum { SHORT_DIGITS = 10, SHORT_PLACES = 19, SHIFT = 93 };
static uint32_t nearest_short(const char *digits, int count, int places)
{
    __extension__ typedef unsigned __int128 wide;
    uint64_t value = 0, divisor = 1;
    for (int i = 0; i < count; i++)
        value = value * 10 + (uint64_t)(digits[i] - '0');
    for (int i = 0; i < places; i++)
        divisor *= 10;
    /* 29 bits or more, as value is not 0 and the divisor less than 2^64 */
    wide quotient = ((wide)value << SHIFT) / divisor;
    bool rest = (wide)value << SHIFT != quotient * divisor;
    int drop = 128 - 24 -
               (quotient >> 64 ? __builtin_clzll((uint64_t)(quotient >> 64))
                               : 64 + __builtin_clzll((uint64_t)quotient));
    uint32_t kept = (uint32_t)(quotient >> drop);
    bool half = quotient >> (drop - 1) & 1;
    rest = rest || (quotient & (((wide)1 << (drop - 1)) - 1));
    if (half && (rest || (kept & 1)))
        kept++;
    /* as below, 2^24 carries into the exponent */
    return ((uint32_t)(drop - SHIFT + 150) << 23) + (kept - (UINT32_C(1) << 23));
}

/* Bits of the float nearest to digits * 10^exponent (digits not 0); the infinity's bits where that is too
 * large. */
static uint32_t nearest(const char *digits, int count, int exponent)
{
    const uint32_t infinity = UINT32_C(0x7f800000);
    if (count <= SHORT_DIGITS && exponent <= 0 && exponent >= -SHORT_PLACES)
        return nearest_short(digits, count, -exponent);
    if (count + exponent > 39)
        return infinity;
    if (count + exponent < -45)
        return 0;
    struct big top = {{0}}, bottom = {{1}};
    for (int i = 0; i < count; i++)
        big_multiply_add(&top, 10, (uint32_t)(digits[i] - '0'));
    for (int i = 0; i < exponent; i++)
        big_multiply_add(&top, 10, 0);
    for (int i = 0; i > exponent; i--)
        big_multiply_add(&bottom, 10, 0);

    /* quotient * 2^scale is the value, with 24 or 25 bits in the quotient, fewer for subnormal numbers */
    int scale = big_bits(&top) - big_bits(&bottom) - 24;
    if (scale < -149)
        scale = -149;
    if (scale < 0)
        big_shift(&top, -scale);
    else
        big_shift(&bottom, scale);
    uint32_t quotient = 0;
    big_shift(&bottom, 25);
    for (int i = 0; i <= 25; i++) {
        quotient <<= 1;
        if (big_compare(&top, &bottom) >= 0) {
            big_subtract(&top, &bottom);
            quotient |= 1;
        }
        if (i < 25)
            big_shift(&top, 1);
    }
    bool rest = big_bits(&top) != 0;
    bool half;
    if (quotient >> 24) {
        half = quotient & 1;
        quotient >>= 1;
        scale++;
    } else {
        big_shift(&top, 1);
        int order = big_compare(&top, &bottom);
        half = order >= 0;
        rest = order != 0;
    }
    if (half && (rest || (quotient & 1)))
        quotient++;
    if (quotient < UINT32_C(1) << 23)
        return quotient;
    if (scale + 150 >= 255)
        return infinity;
    /* a quotient that was rounded up to 2^24 carries into the exponent, as it should */
    return ((uint32_t)(scale + 150) << 23) + (quotient - (UINT32_C(1) << 23));
}

enum gnf_number gnf_number_whole(const char *text, size_t length, int64_t *value)
{
    size_t i = length && (text[0] == '-' || text[0] == '+');
    bool negative = i && text[0] == '-';
    bool fits = true;
    int64_t sum = 0;
    if (i == length)
        return GNF_NUMBER_MALFORMED;
    for (; i < length; i++) {
        if (!is_digit(text[i]))
            return GNF_NUMBER_MALFORMED;
        int64_t digit = negative ? '0' - text[i] : text[i] - '0';
        fits = fits && !__builtin_mul_overflow(sum, 10, &sum) && !__builtin_add_overflow(sum, digit, &sum);
    }
    *value = sum;
    return fits ? GNF_NUMBER_OK : GNF_NUMBER_RANGE;
}

enum gnf_number gnf_number_float(const char *text, size_t length, float *value)
{
    char digits[DIGITS + 1];
    int count = 0, exponent = 0;
    size_t i = length && (text[0] == '-' || text[0] == '+');
    bool negative = i && text[0] == '-';
    bool any = false, point = false, more = false;
    /* a text longer than this is no number that a person wrote, and the exponent stays an int */
    if (length > 10000)
        return GNF_NUMBER_MALFORMED;
    for (; i < length && (is_digit(text[i]) || (text[i] == '.' && !point)); i++) {
        if (text[i] == '.') {
            point = true;
            continue;
        }
        any = true;
        exponent -= point;
        if (count == 0 && text[i] == '0')
            continue;
        if (count < DIGITS) {
            digits[count++] = text[i];
        } else {
            exponent++;
            more = more || text[i] != '0';
        }
    }
    if (!any)
        return GNF_NUMBER_MALFORMED;
    if (i < length) {
        if (text[i] != 'e' && text[i] != 'E')
            return GNF_NUMBER_MALFORMED;
        bool down = ++i < length && text[i] == '-';
        i += i < length && (text[i] == '-' || text[i] == '+');
        if (i == length)
            return GNF_NUMBER_MALFORMED;
        int written = 0;
        for (; i < length; i++) {
            if (!is_digit(text[i]))
                return GNF_NUMBER_MALFORMED;
            if (written < 100000)
                written = written * 10 + (text[i] - '0');
        }
        exponent += down ? -written : written;
    }
    if (more) {
        digits[count++] = '1';
        exponent--;
    }
    uint32_t bits = count ? nearest(digits, count, exponent) : 0;
    bool fits = bits < UINT32_C(0x7f800000);
    bits |= (uint32_t)negative << 31;
    memcpy(value, &bits, sizeof bits);
    return fits ? GNF_NUMBER_OK : GNF_NUMBER_RANGE;
}

void gnf_number_format(float value, char text[32])
{
    char digits[16] = "";
    int count = 0, exponent = 0;
    bool negative = __builtin_signbit(value) != 0;
    float size = negative ? -value : value, back = -1;
    for (int precision = 0; precision < 9 && back != size; precision++) {
        char printed[64];
        const char *c = printed;
        snprintf(printed, sizeof printed, "%.*e", precision, (double)size);
        /* only digits are taken: the separator is the locale's */
        for (count = 0; *c && *c != 'e'; c++)
            if (is_digit(*c))
                digits[count++] = *c;
        exponent = 0;
        for (const char *d = c; *d; d++)
            if (is_digit(*d))
                exponent = exponent * 10 + (*d - '0');
        if (strchr(c, '-'))
            exponent = -exponent;
        uint32_t bits = size == 0 ? 0 : nearest(digits, count, exponent - precision);
        memcpy(&back, &bits, sizeof back);
    }
    char *out = text;
    if (negative)
        *out++ = '-';
    if (exponent < -4 || exponent > 8) {
        *out++ = digits[0];
        if (count > 1)
            *out++ = '.';
        memcpy(out, digits + 1, (size_t)count - 1);
        snprintf(out + count - 1, 16, "e%d", exponent);
        return;
    }
    if (exponent < 0)
        *out++ = '0';
    for (int i = exponent < 0 ? exponent + 1 : 0; i < count || i <= exponent; i++) {
        if (i == exponent + 1)
            *out++ = '.';
        *out++ = i >= 0 && i < count ? digits[i] : '0';
    }
    *out = '\0';
}
