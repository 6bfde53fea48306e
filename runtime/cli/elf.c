#include "elf.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

enum {
    MACHINE_CUDA = 190,
    FORMAT_SIZED = 4, /* a 16-bit length and that many bytes; other formats hold 16 bits in place */
    ATTRIBUTE_FRAME_SIZE = 0x11, /* words: symbol, bytes */
    ATTRIBUTE_STACK_SIZE = 0x12, /* the same, with called functions */
    ATTRIBUTE_REGISTERS = 0x2f
};

struct image {
    const unsigned char *data;
    size_t size;
};

/* `count` items of `size` bytes at `offset`, if the image holds them; any alignment. */
static const void *part(const struct image *image, uint64_t offset, uint64_t count, uint64_t size)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || offset > image->size || bytes > image->size - offset)
        return NULL;
    return image->data + offset;
}

static bool read_section(const struct image *image, const Elf64_Ehdr *header, unsigned index,
                         Elf64_Shdr *section)
{
    const char *at = part(image, header->e_shoff, header->e_shnum, sizeof *section);
    if (at == NULL || index >= header->e_shnum)
        return false;
    memcpy(section, at + index * sizeof *section, sizeof *section);
    return section->sh_type == SHT_NOBITS || part(image, section->sh_offset, section->sh_size, 1) != NULL;
}

static const char *string_at(const struct image *image, const Elf64_Shdr *strings, uint64_t offset)
{
    if (offset >= strings->sh_size)
        return "";
    const char *text = (const char *)image->data + strings->sh_offset + offset;
    return memchr(text, '\0', strings->sh_size - offset) != NULL ? text : "";
}

/* Index of the entry in the symbol table that belongs to the section, or -1. */
static int64_t find_symbol(const struct image *image, const Elf64_Ehdr *header, unsigned table,
                           const char *entry)
{
    Elf64_Shdr symbols, strings;
    if (!read_section(image, header, table, &symbols) || symbols.sh_type != SHT_SYMTAB ||
        !read_section(image, header, symbols.sh_link, &strings))
        return -1;
    for (uint64_t i = 0; i < symbols.sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym symbol;
        memcpy(&symbol, image->data + symbols.sh_offset + i * sizeof symbol, sizeof symbol);
        if (strcmp(string_at(image, &strings, symbol.st_name), entry) == 0)
            return (int64_t)i;
    }
    return -1;
}

static void read_attributes(const unsigned char *at, size_t size, int64_t symbol,
                            struct elf_resources *resources)
{
    for (size_t i = 0; i + 4 <= size;) {
        uint16_t length;
        memcpy(&length, at + i + 2, sizeof length);
        unsigned format = at[i], attribute = at[i + 1];
        size_t payload = format == FORMAT_SIZED ? length : 0;
        uint32_t words[2];
        if (payload >= sizeof words && i + 4 + payload <= size) {
            memcpy(words, at + i + 4, sizeof words);
            if (words[0] == (uint64_t)symbol && attribute == ATTRIBUTE_REGISTERS)
                resources->registers = (int)words[1];
            if (words[0] == (uint64_t)symbol &&
                (attribute == ATTRIBUTE_FRAME_SIZE || attribute == ATTRIBUTE_STACK_SIZE) &&
                (int)words[1] > resources->stack_bytes)
                resources->stack_bytes = (int)words[1];
        }
        i += 4 + payload;
    }
}

gnf_status elf_read_resources(const void *data, size_t size, const char *entry,
                              struct elf_resources *resources)
{
    struct image image = {data, size};
    Elf64_Ehdr header;
    Elf64_Shdr names, section;
    memset(resources, 0, sizeof *resources);
    if (size < sizeof header || memcmp(data, ELFMAG, SELFMAG) != 0)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s: the compiled image is no cubin", entry);
    memcpy(&header, data, sizeof header);
    if (header.e_machine != MACHINE_CUDA || header.e_shentsize != sizeof section ||
        !read_section(&image, &header, header.e_shstrndx, &names))
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s: the compiled image is no cubin of a known form", entry);
    for (unsigned i = 0; i < header.e_shnum; i++) {
        if (!read_section(&image, &header, i, &section) ||
            strcmp(string_at(&image, &names, section.sh_name), ".nv.info") != 0)
            continue;
        int64_t symbol = find_symbol(&image, &header, section.sh_link, entry);
        if (symbol >= 0)
            read_attributes(image.data + section.sh_offset, section.sh_size, symbol, resources);
    }
    if (resources->registers == 0)
        return gnf_fail(GNF_INVALID_ARGUMENT, "%s: the cubin does not say how many registers it takes",
                        entry);
    return GNF_OK;
}
