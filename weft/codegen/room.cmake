# The compiler that built Weft is the first guess at run time.
target_compile_definitions(weft_codegen PRIVATE WEFT_BUILD_CXX="${CMAKE_CXX_COMPILER}")
target_link_libraries(weft_codegen PUBLIC Threads::Threads)

# prelude_text(): what generated files share, as a string.
weft_embed(weft_codegen weft/codegen/prelude_impl.h weft/codegen/prelude_text.h weft::codegen prelude_text)
