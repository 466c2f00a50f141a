# What the command does with its standard output, which the text cases cannot redirect: lost output is an io error (2).
if(TARGET weft)
  add_test(NAME cli.full_disk COMMAND sh -c "$<TARGET_FILE:weft> ops >/dev/full; test $? = 2")
  add_test(NAME cli.closed_output COMMAND sh -c "$<TARGET_FILE:weft> ops >&-; test $? = 2")
  add_test(NAME cli.closed_output_of_help COMMAND sh -c "$<TARGET_FILE:weft> --help >&-; test $? = 2")
  add_test(NAME cli.tuning_file_that_is_missing
           COMMAND sh -c "WEFT_TUNING=/nowhere/x $<TARGET_FILE:weft> run examples/adam.weft --size P=4 2>&1 | grep -q 'there is no tuning file /nowhere/x'"
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})

  # NAME: COMMAND (a line of shell; $W is the command) ends with status CODE and says TEXT.
  function(weft_says name code text command)
    add_test(NAME cli.${name}
             COMMAND sh -c "W=$<TARGET_FILE:weft>; said=$( { ${command} ; } 2>&1); code=$?; echo \"$said\"; test $code = ${code} && echo \"$said\" | grep -qF -- '${text}'"
             WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(cli.${name} PROPERTIES TIMEOUT 120)
  endfunction()

  # Variables of the environment: name, value, and what is allowed.
  set(run "$W run examples/adam.weft --size P=100 --rounds 1")
  weft_says(env.arena 1 "WEFT_ARENA=-5 is not a count from 0 to" "WEFT_ARENA=-5 ${run}")
  weft_says(env.algorithm 1 "WEFT_ALGO=nosuch: \"nosuch\": no algorithm is called nosuch" "WEFT_ALGO=nosuch ${run}")
  weft_says(env.protocol 1 "there are simple, ll, ll128" "NCCL_PROTO=nosuch ${run}")
  weft_says(env.timeout 1 "WEFT_TIMEOUT_S=abc is not a whole number from 1 to" "WEFT_TIMEOUT_S=abc ${run}")
  weft_says(env.level 1 "WEFT_DEBUG=loud is not warn or info or trace" "WEFT_DEBUG=loud ${run}")
  weft_says(env.is_listed 0 "nosuch" "WEFT_ALGO=nosuch $W env")

  # Inputs without an end, pipes without a writer, folders.
  weft_says(endless.program 2 "cannot read /dev/zero: it does not end, at most 67.1 MB are read" "$W run /dev/zero")
  weft_says(endless.plan 2 "cannot read /dev/urandom: it does not end" "$W verify /dev/urandom")
  weft_says(endless.shapes 2 "cannot read /dev/urandom: it does not end" "$W run examples/adam.weft --shapes /dev/urandom")
  weft_says(endless.schedule 2 "cannot read /dev/zero: it does not end" "$W show examples/adam.weft --schedule /dev/zero")
  weft_says(endless.tuning 2 "cannot read /dev/zero: it does not end" "WEFT_TUNING=/dev/zero ${run}")
  weft_says(endless.tuning_to_write 2 "cannot read /dev/zero: it does not end"
            "$W tune examples/adam.weft --size P=100 --tuning /dev/zero")
  weft_says(endless.machine 2 "cannot read /dev/zero: it does not end"
            "WEFT_MACHINE=/dev/zero $W explain examples/adam.weft --size P=100")
  weft_says(folder.program 2 "Is a directory" "$W run examples")
  weft_says(folder.tuning 1 "is a folder" "WEFT_TUNING=. ${run}")
  weft_says(large.program 2 "it has 10.7 GB, at most 67.1 MB are read"
            "f=$(mktemp) && truncate -s 10G $f && $W run $f; c=$?; rm $f; exit $c")
  weft_says(pipe.program 2 "nothing has come out of it"
            "f=$(mktemp -u) && mkfifo $f && $W run $f; c=$?; rm $f; exit $c")
  weft_says(pipe.standard_input 0 "program 1 adam" "cat examples/adam.weft | $W show /dev/stdin")

  # Schedules that change the numbers: only where they are asked for, and then held to their own wires' tolerance.
  weft_says(numerics.keep 1 "has no schedule named" "$W run examples/adam.weft --size P=999 --rounds 1 --schedule s9999")
  weft_says(numerics.word 1 "--numerics: fast not in {keep,loose}" "$W explain examples/adam.weft --size P=999 --numerics fast")
  weft_says(numerics.kept 0 "0 lines" "echo $($W explain examples/adam.weft --size P=999 | grep -c narrow) lines")
  weft_says(numerics.loose 0 "schedule split a; reorder m1 v1 u w1; store m v; narrow w1 bf16; fuse"
            "s=$($W explain examples/adam.weft --size P=999 --numerics loose | grep 'narrow w1 bf16; fuse' | head -1 | cut -d' ' -f1) && $W run examples/adam.weft --size P=999 --rounds 1 --schedule $s")

  # Without a tuning entry `tuned` is the most fused schedule that can be lowered, and says so.
  weft_says(tuned.fallback 0 "no tuning entry of adam on 2 ranks near this size: taking the most fused schedule"
            "WEFT_CACHE_DIR=$(mktemp -d) ${run}")

  # A rank of the command that is killed inside a launch; the command that is killed itself.
  foreach(victim rank command)
    add_test(NAME cli.killed_${victim} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/killed.sh $<TARGET_FILE:weft> ${victim}
             WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(cli.killed_${victim} PROPERTIES TIMEOUT 120)
  endforeach()

  # Plans without a program: MSCCL schedules and plan files, run and checked.
  foreach(schedule allpairs_allreduce direct_reduce_scatter hierarchical_allgather ring_allreduce two_step_alltoall)
    weft_says(run.${schedule} 0 "right: every element"
              "$W run tests/cases/msccl/${schedule}.xml --size i=1Ki --rounds 1 --threads")
  endforeach()
  weft_says(run.custom 0 "right: the interpreter" "$W run tests/cases/msccl/to_next.xml --size i=1Ki --rounds 1")
  weft_says(run.other_type 0 "\"result_bytes\": 2046" "$W run tests/cases/msccl/ring_allreduce.xml --size i=1Ki --rounds 1 --json --param T=f16 --param op=max")
  weft_says(run.plan 0 "right: the interpreter" "$W run tests/cases/plan/fused_ring_adam.plan --ranks 3 --size s=1Ki --rounds 1 --threads")
  weft_says(run.race 1 "V10: rank 0 lane tb1 channel 0 step s0" "$W run tests/cases/cli/race.xml")
  weft_says(run.no_step 1 "V6: gpu 0 threadblock 1 step 0" "$W run tests/cases/cli/no_step.xml")
  weft_says(run.other_ranks 1 "is for 3 ranks" "$W run tests/cases/msccl/ring_allreduce.xml --ranks 4")
  weft_says(run.plan_with_schedule 1 "for which --schedule says nothing" "$W run tests/cases/msccl/ring_allreduce.xml --schedule plain")
  weft_says(run.counts 1 "has counts that a launch gives" "$W run tests/cases/plan/pairwise_all_to_all_v.plan")

  # Caches and disks that take nothing, homes that are not there: notices, or errors before work is spent.
  set(fused "$W run examples/adam.weft --size P=100 --rounds 1 --schedule fused")
  weft_says(disk.output 2 "cannot write /dev/full: No space left on device" "$W show examples/adam.weft -o /dev/full")
  weft_says(disk.limit 2 "File too large"
            "d=$(mktemp -d); ( ulimit -f 0; $W show examples/adam.weft -o $d/x ); c=$?; rmdir $d && exit $c")
  weft_says(cache.none_to_run 0 "kernels are evaluated, not compiled" "WEFT_CACHE_DIR=/proc/weft ${fused}")
  weft_says(cache.none_to_tune 2 "cannot create the cache directory /proc/weft"
            "WEFT_CACHE_DIR=/proc/weft $W tune examples/adam.weft --size P=100")
  weft_says(cache.open_to_others 2 "code is loaded from it"
            "d=$(mktemp -d); chmod 755 $d; WEFT_CACHE_DIR=$d $W tune examples/adam.weft --size P=100; c=$?; rmdir $d; exit $c")
  weft_says(cache.no_home 0 "schedule split a" "env -u HOME -u XDG_CACHE_HOME -u WEFT_CACHE_DIR ${fused}")

  # Tuning files of another version or machine: said, not used, and kept as they are.
  weft_says(tuning.version 1 "tuning form 9, this build reads form 1"
            "f=$(mktemp); echo tuning = 9 > $f; WEFT_TUNING=$f ${run}; c=$?; grep -q 9 $f || c=9; rm $f; exit $c")
  weft_says(tuning.version_to_write 1 "tuning form 9, this build reads form 1"
            "f=$(mktemp); echo tuning = 9 > $f; $W tune examples/adam.weft --size P=100 --tuning $f; c=$?; grep -q 9 $f || c=9; rm $f; exit $c")
  weft_says(tuning.garbage 1 "tuning file" "WEFT_TUNING=LICENSE ${run}")

  # Too little memory, of the machine or by limit: asked before anything is taken.
  weft_says(memory.run 2 "not enough memory for the buffers of 2 ranks"
            "$W run examples/attention_end.weft --size B=1024 --size S=1024 --size K=100000 --size H=100000")
  weft_says(memory.tune 2 "not enough memory for the buffers of 2 ranks"
            "$W tune examples/attention_end.weft --size B=1024 --size S=1024 --size K=100000 --size H=100000")
  if(NOT WEFT_SANITIZE MATCHES address)  # whose shadow is larger than the limit
    weft_says(memory.limited 2 "not enough memory for the buffers of 2 ranks"
              "ulimit -v 2000000; $W run examples/adam.weft --size P=256Mi")
  endif()
  weft_says(memory.bench 2 "not enough memory" "$W bench all_reduce -b 64T -e 64T -n 1")

  # Pictures of a simulated run: written, the same time with and without, and never less than there was.
  set(ring "$W sim all_reduce -m dgx_h100 -b 64K -e 64K --algorithm ring --protocol LL --channels 2")
  weft_says(sim.pictures 0 "480 steps and 448 messages recorded"
            "f=$(mktemp) && ${ring} --timeline $f --trace $f.json && grep -q 'application/json' $f && grep -q traceEvents $f.json; c=$?; rm -f $f $f.json; exit $c")
  weft_says(sim.recording_changes_nothing 0 "same"
            "f=$(mktemp) && a=$(${ring}) && b=$(${ring} --timeline $f | grep -v '^# .* recorded' | grep -v '^# critical path'); rm $f; test \"$a\" = \"$b\" && echo same")
  weft_says(sim.too_many_spans 2 "the trace passed 100 steps or messages" "${ring} --timeline /tmp/weft_never.html --most-spans 100")
  weft_says(sim.pictures_of_one_run 1 "show one run of a plan" "$W sim all_reduce -b 64K -e 1M -f 2 --timeline /tmp/weft_never.html")
  weft_says(trace.of_a_real_run 0 "rank 1 is drawn"
            "f=$(mktemp) && WEFT_TIMELINE=$f $W run examples/adam.weft --size P=100 --rounds 1 && $W trace show $f -o $f.html && grep -q 'rank 1' $f.html && echo rank 1 is drawn; c=$?; rm -f $f $f.html; exit $c")
  weft_says(sim.pictures_nowhere 2 "/nowhere/x.html" "${ring} --timeline /nowhere/x.html")
endif()
