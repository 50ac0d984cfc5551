// Nothing: the target that compiles precompiled.h has to have one source file.
