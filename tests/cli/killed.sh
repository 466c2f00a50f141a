# What is left of a run when one of its processes is killed: nothing, and within 2 s an error that names the rank.
#   killed.sh WEFT rank      SIGKILL to a rank inside a launch: the others end, the command ends with 2
#   killed.sh WEFT command   SIGKILL to the command: its ranks end by themselves
weft=$1 victim=$2
said=$(mktemp)
shm_before=$(ls /dev/shm 2>/dev/null | wc -l)
"$weft" run examples/adam.weft --size P=1Mi --schedule fused --ranks 3 --rounds 100000 >"$said" 2>&1 &
command=$!
trap 'kill -9 $command 2>/dev/null; rm -f "$said"' EXIT

children() { cat "/proc/$1/task/$1/children" 2>/dev/null; }
fail() { echo "killed.sh: $1"; cat "$said"; exit 1; }
# alive PID...: some of these processes run (a zombie whose parent has not asked for it does not)
alive() {
  for pid; do
    grep -q '^State:[[:space:]]*[^ZX]' "/proc/$pid/status" 2>/dev/null && return 0
  done
  return 1
}

# The ranks of the check come first and live for less than two seconds; those that stay longer are in their launches.
ranks="" seen=0
for tenth in $(seq 900); do
  now=$(children $command)
  [ "$now" = "$ranks" ] && seen=$((seen + 1)) || { ranks=$now seen=0; }
  set -- $ranks
  [ $# = 3 ] && [ $seen -ge 20 ] && break
  alive $command || fail "the run ended before it was disturbed"
  sleep 0.1
done
[ $# = 3 ] || fail "no three ranks were seen running"
second=$2

if [ "$victim" = rank ]; then kill -9 "$second"; else kill -9 $command; fi
for tenth in $(seq 20); do
  alive $command $ranks || break
  sleep 0.1
done
alive $command $ranks && fail "2 s later processes are left: $(for p in $command $ranks; do alive $p && echo $p; done)"
wait $command
code=$?
if [ "$victim" = rank ]; then
  [ $code = 2 ] || fail "exit status $code, not 2"
  grep -q "rank 1" "$said" || fail "the rank that died is not named"
fi
[ "$(ls /dev/shm 2>/dev/null | wc -l)" -le "$shm_before" ] || fail "something is left in /dev/shm"
echo "nothing is left, status $code: $(tail -1 "$said")"
