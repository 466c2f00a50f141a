# The engine is what its figures are about: a debug build of it would be useless, so it is optimised like generated code.
target_compile_options(weft_sim PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O3>)
