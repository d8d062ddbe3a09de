#compdef outlast
# Completes outlast in zsh: put it into a folder of fpath as _outlast, or source it.
_outlast() {
    if (( CURRENT == 2 )); then
        compadd -- drill demo scaffold exec checkpoints publish work queue results plan simulate prices learn why render lint rules schema doctor submit watch logs stop resume settings completion --help --version
        return
    fi
    case "$words[2] $words[CURRENT-1]" in
        "drill --format") compadd -- text json junit; return ;;
        "demo --format") compadd -- text json; return ;;
        "scaffold --framework") compadd -- numpy torch jax huggingface lightning; return ;;
        "checkpoints --format") compadd -- text json; return ;;
        "publish --format") compadd -- text json; return ;;
        "work --until") compadd -- drained forever; return ;;
        "queue --format") compadd -- text json; return ;;
        "results --format") compadd -- text json; return ;;
        "plan --polarity") compadd -- available preempted; return ;;
        "plan --format") compadd -- text json; return ;;
        "simulate --polarity") compadd -- available preempted; return ;;
        "simulate --repair") compadd -- keep-order sort refuse; return ;;
        "simulate --format") compadd -- text json; return ;;
        "prices --format") compadd -- text json csv; return ;;
        "learn --format") compadd -- text json; return ;;
        "why --tier") compadd -- auto spot flex-start on-demand hybrid; return ;;
        "why --format") compadd -- text json; return ;;
        "render --format") compadd -- text json; return ;;
        "lint --format") compadd -- text json sarif github junit; return ;;
        "lint --fail-on") compadd -- info warning error never; return ;;
        "rules --format") compadd -- text json; return ;;
        "doctor --role") compadd -- submit watch; return ;;
        "doctor --format") compadd -- text json; return ;;
        "submit --wait") compadd -- started finished; return ;;
        "submit --format") compadd -- text json; return ;;
        "watch --format") compadd -- text json; return ;;
        "stop --format") compadd -- text json; return ;;
        "resume --tier") compadd -- auto spot flex-start on-demand hybrid; return ;;
        "resume --format") compadd -- text json; return ;;
        "settings --format") compadd -- text json; return ;;
    esac
    case "$words[2] $words[CURRENT]" in
        "drill -"*) compadd -- --evictions --every --trace --seed --grace --no-notice --hostile --overlap --workers --nodes --ranks --expect --key --tolerance --finished-when --skip-baseline --recording --workdir --reset --replace-after --job-backoff --backoff-limit --timeout --keep --keep-env --strict --report --format --help; return ;;
        "demo -"*) compadd -- --seed --out --format --help; return ;;
        "scaffold -"*) compadd -- --name --framework --help; return ;;
        "exec -"*) compadd -- --grace --distrust-zero --durable --help; return ;;
        "checkpoints -"*) compadd -- --verify --diff --export --prune --keep-last --force --format --help; return ;;
        "publish -"*) compadd -- --key --format --help; return ;;
        "work -"*) compadd -- --queue --sink --chunk --batch --until --lease --timeout --failures-max --result-version --help; return ;;
        "queue -"*) compadd -- --watch --dead --retry-dead --limit --format --help; return ;;
        "results -"*) compadd -- --export --format --help; return ;;
        "plan -"*) compadd -- --set --sweep --prices --flex-multiplier --value-of-time --bucket-location --trace --polarity --weibull-shape --html --svg --today --runs --seed --format --help; return ;;
        "simulate -"*) compadd -- --save-time --restart-time --unannounced-share --interval --start-every --rounds --work --deadline --machine --location --prices --polarity --repair --html --svg --seed --format --help; return ;;
        "prices -"*) compadd -- --import --refresh --date --source --prices --flex-multiplier --today --format --help; return ;;
        "learn -"*) compadd -- --workload --nodes --format --help; return ;;
        "why -"*) compadd -- --workload --tier --price --currency --nodes --today --format --help; return ;;
        "render -"*) compadd -- --set --out --format --help; return ;;
        "lint -"*) compadd -- --pools --format --fix --diff --unsafe-fixes --select --ignore --fail-on --baseline --write-baseline --kubernetes-version --autopilot --config --help; return ;;
        "rules -"*) compadd -- --format --help; return ;;
        "schema -"*) compadd -- --help; return ;;
        "doctor -"*) compadd -- --context --kubeconfig --namespace --set --role --format --help; return ;;
        "submit -"*) compadd -- --context --kubeconfig --namespace --set --dry-run --setup --replace --wait --timeout --format --help; return ;;
        "watch -"*) compadd -- --context --kubeconfig --namespace --once --all --journal --format --help; return ;;
        "logs -"*) compadd -- --context --kubeconfig --namespace --follow --attempt --tail --journal --help; return ;;
        "stop -"*) compadd -- --context --kubeconfig --namespace --dry-run --timeout --journal --format --help; return ;;
        "resume -"*) compadd -- --context --kubeconfig --namespace --tier --dry-run --format --help; return ;;
        "settings -"*) compadd -- --format --help; return ;;
        "completion -"*) compadd -- --install --help; return ;;
        "scaffold "*) compadd -- training batch; return ;;
        "completion "*) compadd -- bash zsh fish; return ;;
    esac
    _files
}
# A file of fpath is run as a function when it is first needed.
if (( ${#funcstack} )); then _outlast "$@"; else compdef _outlast outlast; fi
