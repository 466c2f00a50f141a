# What the command does with its standard output, which the text cases cannot redirect: lost output is an io error (2).
if(TARGET weft)
  add_test(NAME cli.full_disk COMMAND sh -c "$<TARGET_FILE:weft> ops >/dev/full; test $? = 2")
  add_test(NAME cli.closed_output COMMAND sh -c "$<TARGET_FILE:weft> ops >&-; test $? = 2")
  add_test(NAME cli.closed_output_of_help COMMAND sh -c "$<TARGET_FILE:weft> --help >&-; test $? = 2")
  add_test(NAME cli.tuning_file_that_is_missing
           COMMAND sh -c "WEFT_TUNING=/nowhere/x $<TARGET_FILE:weft> run examples/adam.weft --size P=4 2>&1 | grep -q 'there is no tuning file /nowhere/x'"
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endif()
