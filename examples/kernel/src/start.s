# The other CPUs begin here, in 16 bits, ebx zero, in a copy at the beginning of a frame below 1 MiB.
    .code16
trampoline: lgdtl %cs:gdt_pointer - trampoline
    mov $1, %eax # protection
    mov %eax, %cr0
    ljmpl $8, $_start
gdt_pointer: .word 23
    .long gdt

# Every CPU: a stack by the number in its interrupt controller, page tables, 64 bits; then Rust.
    .code32
    .global _start, trampoline
_start: mov %cs:0xfee00020, %esp
    shr $8, %esp
    add $stacks + 0x10000, %esp
    lgdt %cs:gdt_pointer
    mov $0x20, %eax # physical address extension
    mov %eax, %cr4
    mov $tables, %eax
    mov %eax, %cr3
    mov $0xc0000080, %ecx # long mode
    mov $0x100, %eax
    xor %edx, %edx
    wrmsr
    mov $0x80000001, %eax # paging, protection
    mov %eax, %cr0
    ljmpl $16, $long_mode
    .code64
long_mode: mov %edx, %ss # none: interrupts go back to none
    mov %esp, %esp
    mov %ebx, %edi
    call enter

# Code of 32 and of 64 bits; the first 512 GiB, mapped where they are in pages of 1 GiB; eight stacks.
    .data
gdt: .quad 0, 0x00cf9a000000ffff, 0x00af9a000000ffff
    .balign 4096
tables: .quad directory + 3
    .skip 4088
directory: .rept 512
    .quad (. - directory) << 27 | 0x83
    .endr
    .comm stacks, 8 * 0x10000, 16

# QEMU finds this note (PVH), and begins at _start: 32 bits, no paging, the start info in ebx.
    .section .note.pvh, "a", @note
    .long 4, 4, 18, 0x6e6558, _start # name "Xen", kind 18
