# bash completion of mainspring, made by `mainspring completion bash`.
# Use it: source <(mainspring completion bash)
_mainspring() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local at= words= word typed=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
  [[ $current == = ]] && current=
  [[ $previous == = ]] && previous=${COMP_WORDS[COMP_CWORD-2]}
  case $previous in
    --allowed-hosts) return ;;
    --args) return ;;
    --at) return ;;
    --batch) return ;;
    --batch-idle) return ;;
    --color) mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$current"); return ;;
    --config) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    --correlation-id) return ;;
    --count) return ;;
    --cron) return ;;
    --data) mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
    --delay) return ;;
    --dir) mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
    --directory) mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
    --end-at) return ;;
    --estimate) return ;;
    --every) return ;;
    --exec) return ;;
    --expires-in) return ;;
    --fence) return ;;
    --file) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    --from) return ;;
    --graceful-stop) return ;;
    --handoff) return ;;
    --header) return ;;
    --header-timeout) return ;;
    --idempotency-key) return ;;
    --idle) return ;;
    --idle-timeout) return ;;
    --io-threads) return ;;
    --jitter) return ;;
    --kind) return ;;
    --lease) return ;;
    --limit) return ;;
    --listen) return ;;
    --log-level) mapfile -t COMPREPLY < <(compgen -W 'debug info warn error off' -- "$current"); return ;;
    --many) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    --margin) return ;;
    --max-attempts) return ;;
    --max-batch-body-bytes) return ;;
    --max-batch-bytes) return ;;
    --max-batch-jobs) return ;;
    --max-body-bytes) return ;;
    --max-buffered-bytes) return ;;
    --max-connections) return ;;
    --max-finished-jobs) return ;;
    --max-header-bytes) return ;;
    --max-live-jobs) return ;;
    --max-parked-claims) return ;;
    --max-runs) return ;;
    --max-waiting-bytes) return ;;
    --max-waiting-jobs) return ;;
    --max-waiting-reads) return ;;
    --max-waiting-urgent) return ;;
    --misfire) mapfile -t COMPREPLY < <(compgen -W 'skip once all' -- "$current"); return ;;
    --misfire-cap) return ;;
    --misfire-window) return ;;
    --name) return ;;
    --on-conflict) mapfile -t COMPREPLY < <(compgen -W 'keep replace postpone' -- "$current"); return ;;
    --only) return ;;
    --overlap) mapfile -t COMPREPLY < <(compgen -W 'skip buffer_one buffer_all cancel_other terminate_other allow' -- "$current"); return ;;
    --priority) return ;;
    --prune-interval) return ;;
    --queue) return ;;
    --reader-threads) return ;;
    --reason) return ;;
    --reply-to) return ;;
    --report) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    --retention-completed) return ;;
    --retention-dead) return ;;
    --retry-after) return ;;
    --run-at) return ;;
    --save) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    --scheduler-batch) return ;;
    --scheduler-max-sleep) return ;;
    --server) return ;;
    --slot) return ;;
    --slots) return ;;
    --start-at) return ;;
    --state) mapfile -t COMPREPLY < <(compgen -W 'waiting scheduled available running completed retryable cancelled dead' -- "$current"); return ;;
    --stop-timeout) return ;;
    --store-cache-bytes) return ;;
    --store-reserve-bytes) return ;;
    --tag) return ;;
    --time-zone) return ;;
    --timeout) return ;;
    --timer-slots) return ;;
    --to) return ;;
    --tolerance) return ;;
    --ttl) return ;;
    --unique) return ;;
    --unique-for) return ;;
    --worker-memory) return ;;
  esac
  for word in "${typed[@]}"; do
    case "${at:+$at }$word" in
      'serve'|'work'|'lease'|'lease run'|'enqueue'|'bench'|'jobs'|'jobs list'|'jobs show'|'jobs cancel'|'jobs retry'|'queues'|'queues list'|'queues show'|'queues pause'|'queues resume'|'queues set'|'dead'|'dead list'|'dead show'|'dead redrive'|'dead retry'|'workers'|'schedules'|'schedules set'|'schedules list'|'schedules show'|'schedules preview'|'schedules trigger'|'schedules pause'|'schedules resume'|'schedules ledger'|'schedules backfill'|'schedules remove'|'timers'|'timers set'|'timers list'|'timers show'|'timers start'|'timers stop'|'timers wake'|'timers timeout'|'timers remove'|'leases'|'leases list'|'leases show'|'verify'|'store'|'store backup'|'store info'|'store migrate'|'store check'|'config'|'version'|'completion'|'help') at="${at:+$at }$word" ;;
    esac
  done
  case $at in
    '') words='serve work lease enqueue bench jobs queues dead workers schedules timers leases verify store config version completion help' ; [[ $current == -* ]] && words='--json --config --help' ;;
    'serve') words='' ; [[ $current == -* ]] && words='--hints --json --config --help --color --log-level --data --listen --stop-timeout --retention-completed --retention-dead --max-finished-jobs --max-live-jobs --store-reserve-bytes --store-cache-bytes --max-waiting-jobs --max-waiting-bytes --max-parked-claims --max-waiting-urgent --max-batch-jobs --max-batch-bytes --worker-memory --scheduler-batch --scheduler-max-sleep --prune-interval --io-threads --reader-threads --max-waiting-reads --max-connections --max-header-bytes --max-body-bytes --max-batch-body-bytes --max-buffered-bytes --header-timeout --idle-timeout --allowed-hosts' ;;
    'work') words='' ; [[ $current == -* ]] && words='--queue --exec --kind --directory --timeout --retry-after --max-attempts --once --drain --slot --name --estimate --tolerance --poll --idle --twin --timer --batch --batch-idle --timer-slots --json --config --help --server --color --log-level --slots --lease --graceful-stop' ;;
    'lease') words='run' ; [[ $current == -* ]] && words='--json --config --help' ;;
    'lease run') words='' ; [[ $current == -* ]] && words='--ttl --wait --json --config --help --server --color' ;;
    'enqueue') words='' ; [[ $current == -* ]] && words='--delay --run-at --priority --max-attempts --timeout --expires-in --tag --header --correlation-id --reply-to --unique --unique-for --on-conflict --fence --idempotency-key --many --wait --json --config --help --server --color' ;;
    'bench') words='' ; [[ $current == -* ]] && words='--dir --quick --only --list --save --report --json --config --help --color' ;;
    'jobs') words='list show cancel retry' ; [[ $current == -* ]] && words='--json --config --help' ;;
    'jobs list') words='' ; [[ $current == -* ]] && words='--queue --kind --tag --state --limit --all --json --config --help --server --color' ;;
    'jobs show') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'jobs cancel') words='' ; [[ $current == -* ]] && words='--reason --json --config --help --server --color' ;;
    'jobs retry') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'queues') words='list show pause resume set' ; [[ $current == -* ]] && words='--json --config --help' ;;
    'queues list') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'queues show') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'queues pause') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'queues resume') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'queues set') words='' ; [[ $current == -* ]] && words='--retention-completed --retention-dead --json --config --help --server --color' ;;
    'dead') words='list show redrive retry' ; [[ $current == -* ]] && words='--json --config --help' ;;
    'dead list') words='' ; [[ $current == -* ]] && words='--queue --kind --tag --limit --all --json --config --help --server --color' ;;
    'dead show') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'dead redrive') words='' ; [[ $current == -* ]] && words='--queue --kind --tag --limit --json --config --help --server --color' ;;
    'dead retry') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'workers') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'schedules') words='set list show preview trigger pause resume ledger backfill remove' ; [[ $current == -* ]] && words='--json --config --help' ;;
    'schedules set') words='' ; [[ $current == -* ]] && words='--cron --every --at --time-zone --jitter --start-at --end-at --misfire --misfire-window --misfire-cap --overlap --max-runs --pause-on-failure --queue --kind --args --priority --max-attempts --timeout --expires-in --tag --header --correlation-id --reply-to --paused --file --json --config --help --server --color' ;;
    'schedules list') words='' ; [[ $current == -* ]] && words='--limit --all --json --config --help --server --color' ;;
    'schedules show') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'schedules preview') words='' ; [[ $current == -* ]] && words='--from --count --cron --every --at --time-zone --jitter --start-at --end-at --json --config --help --server --color' ;;
    'schedules trigger') words='' ; [[ $current == -* ]] && words='--overlap --json --config --help --server --color' ;;
    'schedules pause') words='' ; [[ $current == -* ]] && words='--reason --json --config --help --server --color' ;;
    'schedules resume') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'schedules ledger') words='' ; [[ $current == -* ]] && words='--limit --all --json --config --help --server --color' ;;
    'schedules backfill') words='' ; [[ $current == -* ]] && words='--from --to --overlap --json --config --help --server --color' ;;
    'schedules remove') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'timers') words='set list show start stop wake timeout remove' ; [[ $current == -* ]] && words='--json --config --help' ;;
    'timers set') words='' ; [[ $current == -* ]] && words='--timeout --margin --handoff --every --cron --time-zone --stopped --queue --kind --args --priority --max-attempts --expires-in --tag --header --correlation-id --reply-to --json --config --help --server --color' ;;
    'timers list') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'timers show') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'timers start') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'timers stop') words='' ; [[ $current == -* ]] && words='--reason --json --config --help --server --color' ;;
    'timers wake') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'timers timeout') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'timers remove') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'leases') words='list show' ; [[ $current == -* ]] && words='--json --config --help' ;;
    'leases list') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'leases show') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color' ;;
    'verify') words='' ; [[ $current == -* ]] && words='--json --config --help --server --color --log-level --data --store-reserve-bytes --store-cache-bytes' ;;
    'store') words='backup info migrate check' ; [[ $current == -* ]] && words='--json --config --help' ;;
    'store backup') words='' ; [[ $current == -* ]] && words='--json --config --help --color --log-level --data --store-reserve-bytes --store-cache-bytes' ;;
    'store info') words='' ; [[ $current == -* ]] && words='--json --config --help --color --log-level --data --store-reserve-bytes --store-cache-bytes' ;;
    'store migrate') words='' ; [[ $current == -* ]] && words='--json --config --help --color --log-level --data --store-reserve-bytes --store-cache-bytes' ;;
    'store check') words='' ; [[ $current == -* ]] && words='--json --config --help --color --log-level --data --store-reserve-bytes --store-cache-bytes' ;;
    'config') words='' ; [[ $current == -* ]] && words='--explain --reference --json --config --help --server --color --log-level --data --listen --stop-timeout --retention-completed --retention-dead --max-finished-jobs --max-live-jobs --store-reserve-bytes --store-cache-bytes --max-waiting-jobs --max-waiting-bytes --max-parked-claims --max-waiting-urgent --max-batch-jobs --max-batch-bytes --worker-memory --scheduler-batch --scheduler-max-sleep --prune-interval --io-threads --reader-threads --max-waiting-reads --max-connections --max-header-bytes --max-body-bytes --max-batch-body-bytes --max-buffered-bytes --header-timeout --idle-timeout --allowed-hosts --slots --lease --graceful-stop' ;;
    'version') words='' ; [[ $current == -* ]] && words='--json --config --help' ;;
    'completion') words='' ; [[ $current == -* ]] && words='--json --config --help' ;;
    'help') words='' ; [[ $current == -* ]] && words='--json --config --help' ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o bashdefault -o default -F _mainspring mainspring
