// What can be read from a kernel image: a cubin (ELF) or a PTX text.
#include "state.h"
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <map>

namespace sim
{
namespace
{
enum { MACHINE_CUDA = 190, OSABI_CUDA_2 = 0x41 };
enum { SYSTEM_SHARED = 1024 }; // bytes of the system's own that the section has from sm_90 on
// Attributes of .nv.info sections.
enum {
    INFO_MAX_THREADS = 0x05,
    INFO_FRAME = 0x11,
    INFO_PARAMETER = 0x17,
    INFO_REGISTERS = 0x2f,
    INFO_CLUSTER = 0x3d
};

uint32_t u32(const unsigned char *q)
{
    uint32_t v;
    memcpy(&v, q, 4);
    return v;
}

class Cubin
{
  public:
    explicit Cubin(const void *bytes)
        : bytes_((const unsigned char *)bytes), header_((const Elf64_Ehdr *)bytes)
    {
    }
    // The driver is not told the size; the tables at the end tell how far the sections may reach.
    bool valid()
    {
        const Elf64_Ehdr &h = *header_;
        if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_machine != MACHINE_CUDA ||
            h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shoff >> 31 || h.e_phoff >> 31 ||
            h.e_shstrndx >= h.e_shnum)
            return false;
        uint64_t end = std::max(h.e_shoff + (uint64_t)h.e_shnum * h.e_shentsize,
                                h.e_phoff + (uint64_t)h.e_phnum * h.e_phentsize);
        sections_ = (const Elf64_Shdr *)(bytes_ + h.e_shoff);
        for (int i = 0; i < h.e_shnum; i++)
            if (sections_[i].sh_type != SHT_NOBITS &&
                (sections_[i].sh_offset > end || sections_[i].sh_size > end - sections_[i].sh_offset))
                return false;
        return true;
    }
    int arch() const
    {
        bool second = header_->e_ident[EI_OSABI] == OSABI_CUDA_2;
        return (int)(second ? header_->e_flags >> 8 & 0xff : header_->e_flags & 0xff);
    }
    const Elf64_Shdr *section(const std::string &name) const
    {
        const char *names = (const char *)bytes_ + sections_[header_->e_shstrndx].sh_offset;
        for (int i = 0; i < header_->e_shnum; i++)
            if (name == names + sections_[i].sh_name)
                return &sections_[i];
        return nullptr;
    }
    // f(index, name) for each kernel: a global function that has properties.
    template <class F> bool kernels(F f) const
    {
        const Elf64_Shdr *table = section(".symtab");
        if (!table || table->sh_link >= header_->e_shnum)
            return false;
        const Elf64_Sym *symbols = (const Elf64_Sym *)(bytes_ + table->sh_offset);
        const char *names = (const char *)bytes_ + sections_[table->sh_link].sh_offset;
        for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++) {
            const Elf64_Sym &s = symbols[i];
            std::string name = names + s.st_name;
            if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && ELF64_ST_BIND(s.st_info) == STB_GLOBAL &&
                section(".nv.info." + name))
                f((unsigned)i, name);
        }
        return true;
    }
    // f(attribute, payload, size). Each is a format byte, an attribute byte, then 16 bits: the value, or with
    // format 4 the payload's size.
    template <class F> void attributes(const std::string &name, F f) const
    {
        const Elf64_Shdr *s = section(name);
        if (!s)
            return;
        const unsigned char *q = bytes_ + s->sh_offset, *end = q + s->sh_size;
        while (q + 4 <= end) {
            unsigned n = q[0] == 4 ? q[2] | (unsigned)q[3] << 8 : 0;
            f(q[1], q + 4, n);
            q += 4 + n;
        }
    }

  private:
    const unsigned char *bytes_;
    const Elf64_Ehdr *header_;
    const Elf64_Shdr *sections_ = nullptr;
};

Kernel cubin_kernel(const Cubin &cubin, unsigned index, const std::string &name)
{
    Kernel k;
    k.name = name;
    cubin.attributes(".nv.info", [&](int a, const unsigned char *q, unsigned n) {
        if (a == INFO_REGISTERS && n >= 8 && u32(q) == index)
            k.registers = (int)u32(q + 4);
        if (a == INFO_FRAME && n >= 8 && u32(q) == index)
            k.local = (int)u32(q + 4);
    });
    if (const Elf64_Shdr *shared = cubin.section(".nv.shared." + name))
        k.shared = (int)shared->sh_size - (cubin.arch() >= 90 ? SYSTEM_SHARED : 0);
    std::map<unsigned, unsigned> sizes; // by ordinal, as they come in any order
    cubin.attributes(".nv.info." + name, [&](int a, const unsigned char *q, unsigned n) {
        if (a == INFO_MAX_THREADS && n >= 12)
            k.max_threads = (int)(u32(q) * u32(q + 4) * u32(q + 8));
        else if (a == INFO_CLUSTER && n >= 12)
            for (int i = 0; i < 3; i++)
                k.cluster[i] = u32(q + 4 * i);
        else if (a == INFO_PARAMETER && n >= 12)
            sizes[q[4] | (unsigned)q[5] << 8] = u32(q + 8) >> 18;
    });
    for (auto &s : sizes)
        k.param_sizes.push_back(s.second);
    return k;
}
CUresult read_cubin(const void *bytes, const Device &d, Image &image)
{
    Cubin cubin(bytes);
    REQUIRE(cubin.valid(), CUDA_ERROR_INVALID_IMAGE);
    image.arch = image.target = cubin.arch();
    if (image.arch / 10 != d.major || image.arch % 10 > d.minor) {
        say("a cubin for sm_" + std::to_string(image.arch) + " on " + d.name);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    bool ok = cubin.kernels([&](unsigned index, const std::string &name) {
        image.kernels.push_back(cubin_kernel(cubin, index, name));
    });
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

// "8.5" is 85; 0 where it is no such number.
int version_number(const char *p)
{
    char *end;
    long major = strtol(p, &end, 10);
    return end != p && *end == '.' ? (int)(major * 10 + strtol(end + 1, nullptr, 10)) : 0;
}
// The newest PTX that a driver takes.
int newest_ptx(int driver_version)
{
    int major = driver_version / 1000, minor = driver_version / 10 % 100;
    if (major >= 13)
        return 90 + minor;
    static const int twelve[] = {80, 81, 82, 83, 84, 85, 85, 86, 87, 88};
    return major == 12 ? twelve[std::min(minor, 9)] : 70 + std::min(minor, 8);
}
unsigned parameter_size(const std::string &text)
{ // ".param .align 8 .b8 NAME[240]" or ".param .u64 NAME"
    size_t bracket = text.find('['), type = text.find_first_of("0123456789", text.find_last_of('.'));
    if (bracket != std::string::npos)
        return (unsigned)strtoul(text.c_str() + bracket + 1, nullptr, 10);
    return type == std::string::npos ? 0 : (unsigned)strtoul(text.c_str() + type, nullptr, 10) / 8;
}
Kernel ptx_kernel(const std::string &text, size_t at)
{
    Kernel k;
    size_t open = text.find('(', at), close = text.find(')', at), body = text.find('{', at);
    k.name = text.substr(at, std::min(open, body) - at);
    while (!k.name.empty() && strchr(" \t\r\n", k.name.back()))
        k.name.pop_back();
    if (open < body && close != std::string::npos)
        for (size_t p = text.find(".param", open); p < close; p = text.find(".param", p + 1))
            k.param_sizes.push_back(parameter_size(text.substr(p, text.find_first_of(",)", p) - p)));
    size_t most = text.find(".maxntid", at);
    if (most < body)
        k.max_threads = atoi(text.c_str() + most + 8);
    return k;
}
CUresult read_ptx(const char *bytes, const Device &d, Image &image)
{
    std::string text = bytes;
    size_t version = text.find(".version"), target = text.find(".target sm_");
    REQUIRE(version != std::string::npos && target != std::string::npos, CUDA_ERROR_INVALID_PTX);
    int ptx = version_number(text.c_str() + version + strlen(".version "));
    REQUIRE(ptx, CUDA_ERROR_INVALID_PTX);
    REQUIRE(ptx <= newest_ptx(driver().version), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    char *suffix;
    image.arch = (int)strtol(text.c_str() + target + strlen(".target sm_"), &suffix, 10);
    int capability = d.major * 10 + d.minor;
    if (image.arch > capability || (*suffix == 'a' && image.arch != capability)) {
        say("PTX for sm_" + std::to_string(image.arch) + " on " + d.name);
        return CUDA_ERROR_INVALID_PTX;
    }
    static const char entry[] = ".entry ";
    for (size_t p = text.find(entry); p != std::string::npos; p = text.find(entry, p + 1))
        image.kernels.push_back(ptx_kernel(text, p + strlen(entry)));
    image.target = image.arch;
    image.arch = capability; // compiled for the device at hand
    return CUDA_SUCCESS;
}
} // namespace

CUresult image_read(const void *bytes, const Device &device, Image &image)
{
    REQUIRE(bytes, CUDA_ERROR_INVALID_VALUE);
    const char *text = (const char *)bytes;
    if (!strncmp(text, ELFMAG, SELFMAG))
        return read_cubin(bytes, device, image);
    if (!strncmp(text, "//", 2) || !strncmp(text, ".version", 8))
        return read_ptx(text, device, image);
    return CUDA_ERROR_INVALID_IMAGE;
}
} // namespace sim
