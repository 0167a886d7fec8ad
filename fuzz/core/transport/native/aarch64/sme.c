/* sme.c: what compilers call where functions share the storage ZA: the support routines of AAPCS64 that libraries of later
 * compilers have. A function that wants ZA for itself saves it for whoever said by TPIDR2 that it is still of use: its block
 * holds the address of a buffer, and the number of rows. Weak, as a library that has them is to be preferred. */
#define KF_ROUTINE(name) ".weak " name "\n.type " name ", %function\n.variant_pcs " name "\n" name ":\n"
#define KF_TPIDR2 "S3_3_C13_C0_5"
#define KF_SVCR "S3_3_C4_C2_2"
/* Each row of ZA: x16 holds its address, x17 counts down, w15 counts up. The block is that of x14.
 * addsvl x16, x16, #1 is a number: clang 14 has no word for it. */
#define KF_EACH_ROW(what)                                                                                              \
    "    ldr x16, [x14]\n    ldrh w17, [x14, #8]\n    mov w15, #0\n    cbz x16, 2f\n"                                  \
    "1:  cbz w17, 2f\n    " what " za[w15, 0], [x16]\n    .inst 0x04305830\n    add w15, w15, #1\n"                    \
    "    sub w17, w17, #1\n    b 1b\n2:\n"

__asm__(".arch_extension sve\n.arch_extension sme\n.text\n.p2align 4\n"
        /* Saves ZA for whoever it is of use to, if anybody. */
        KF_ROUTINE("__arm_tpidr2_save") "    mrs x14, " KF_TPIDR2 "\n    cbz x14, 2f\n" KF_EACH_ROW("str") "    ret\n"
        /* Brings back what was saved in the block of x0. */
        KF_ROUTINE("__arm_tpidr2_restore") "    mov x14, x0\n" KF_EACH_ROW("ldr") "    ret\n"
        /* Saves it, and turns it off. */
        KF_ROUTINE("__arm_za_disable")
        "    mrs x14, " KF_SVCR "\n    tbz x14, #1, 3f\n    mrs x14, " KF_TPIDR2 "\n    cbz x14, 2f\n" KF_EACH_ROW("str")
        "    msr " KF_TPIDR2 ", xzr\n    smstop za\n3:  ret\n"
        /* How many 64 bits a vector has now: 0 where there are none, as outside of streaming mode without SVE. */
        KF_ROUTINE("__arm_get_current_vg")
        "    mrs x0, " KF_SVCR "\n    tbnz x0, #0, 1f\n    adrp x0, kf_widest\n    ldr w0, [x0, #:lo12:kf_widest]\n"
        "    and x0, x0, #1\n    cbz x0, 2f\n1:  cntd x0\n2:  ret\n"
        /* The modes as they are, with the highest bits saying that there is SME, and TPIDR2. */
        KF_ROUTINE("__arm_sme_state")
        "    mrs x0, " KF_SVCR "\n    and x0, x0, #3\n    orr x0, x0, #0xc000000000000000\n    mrs x1, " KF_TPIDR2 "\n    ret\n");
