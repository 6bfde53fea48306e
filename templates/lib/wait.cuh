// Programmatic dependent launch (compute capability 9.0): a kernel's blocks may start while the kernel before is still
// running. Each waits before it touches what others write and before it ends, so that who waits for it waits for all before.
#if !defined(GNF_SIM) && __CUDA_ARCH__ >= 900
GNF_DEV void gnf_wait_for_previous()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
// The next kernel's blocks may take the room that this one's leave, from when the last of these has started.
GNF_DEV void gnf_let_next_start()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
#else
#ifdef GNF_SIM
GNF_DEV void gnf_wait_for_previous(SIMT_AT)
{
    simt_wait_for_previous(SIMT_HERE); // which sees that no thread forgets
}
#else
GNF_DEV void gnf_wait_for_previous()
{
}
#endif
GNF_DEV void gnf_let_next_start()
{
}
#endif
