# Completes outlast in bash: source it, or put it into bash-completion's folder.
_outlast() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""
    if [ "$before" = "=" ]; then before="${COMP_WORDS[COMP_CWORD-2]}"; fi
    if [ "$word" = "=" ]; then before="${COMP_WORDS[COMP_CWORD-1]}"; word=""; fi
    if [ "$COMP_CWORD" -eq 1 ]; then
        words='drill demo scaffold exec checkpoints publish work queue results plan simulate prices learn why render lint rules schema doctor submit watch logs stop resume settings completion --help --version'
    else
        case "${COMP_WORDS[1]} $before" in
            "drill --format") words='text json junit' ;;
            "demo --format") words='text json' ;;
            "scaffold --framework") words='numpy torch jax huggingface lightning' ;;
            "checkpoints --format") words='text json' ;;
            "publish --format") words='text json' ;;
            "work --until") words='drained forever' ;;
            "queue --format") words='text json' ;;
            "results --format") words='text json' ;;
            "plan --polarity") words='available preempted' ;;
            "plan --format") words='text json' ;;
            "simulate --polarity") words='available preempted' ;;
            "simulate --repair") words='keep-order sort refuse' ;;
            "simulate --format") words='text json' ;;
            "prices --format") words='text json csv' ;;
            "learn --format") words='text json' ;;
            "why --tier") words='auto spot flex-start on-demand hybrid' ;;
            "why --format") words='text json' ;;
            "render --format") words='text json' ;;
            "lint --format") words='text json sarif github junit' ;;
            "lint --fail-on") words='info warning error never' ;;
            "rules --format") words='text json' ;;
            "doctor --role") words='submit watch' ;;
            "doctor --format") words='text json' ;;
            "submit --wait") words='started finished' ;;
            "submit --format") words='text json' ;;
            "watch --format") words='text json' ;;
            "stop --format") words='text json' ;;
            "resume --tier") words='auto spot flex-start on-demand hybrid' ;;
            "resume --format") words='text json' ;;
            "settings --format") words='text json' ;;
            *)
                case "${COMP_WORDS[1]} $word" in
                    "drill -"*) words='--evictions --every --trace --seed --grace --no-notice --hostile --overlap --workers --nodes --ranks --expect --key --tolerance --finished-when --skip-baseline --recording --workdir --reset --replace-after --job-backoff --backoff-limit --timeout --keep --keep-env --strict --report --format --help' ;;
                    "demo -"*) words='--seed --out --format --help' ;;
                    "scaffold -"*) words='--name --framework --help' ;;
                    "exec -"*) words='--grace --distrust-zero --durable --help' ;;
                    "checkpoints -"*) words='--verify --diff --export --prune --keep-last --force --format --help' ;;
                    "publish -"*) words='--key --format --help' ;;
                    "work -"*) words='--queue --sink --chunk --batch --until --lease --timeout --failures-max --result-version --help' ;;
                    "queue -"*) words='--watch --dead --retry-dead --limit --format --help' ;;
                    "results -"*) words='--export --format --help' ;;
                    "plan -"*) words='--set --sweep --prices --flex-multiplier --value-of-time --bucket-location --trace --polarity --weibull-shape --html --svg --today --runs --seed --format --help' ;;
                    "simulate -"*) words='--save-time --restart-time --unannounced-share --interval --start-every --rounds --work --deadline --machine --location --prices --polarity --repair --html --svg --seed --format --help' ;;
                    "prices -"*) words='--import --refresh --date --source --prices --flex-multiplier --today --format --help' ;;
                    "learn -"*) words='--workload --nodes --format --help' ;;
                    "why -"*) words='--workload --tier --price --currency --nodes --today --format --help' ;;
                    "render -"*) words='--set --out --format --help' ;;
                    "lint -"*) words='--pools --format --fix --diff --unsafe-fixes --select --ignore --fail-on --baseline --write-baseline --kubernetes-version --autopilot --config --help' ;;
                    "rules -"*) words='--format --help' ;;
                    "schema -"*) words=--help ;;
                    "doctor -"*) words='--context --kubeconfig --namespace --set --role --format --help' ;;
                    "submit -"*) words='--context --kubeconfig --namespace --set --dry-run --setup --replace --wait --timeout --format --help' ;;
                    "watch -"*) words='--context --kubeconfig --namespace --once --all --journal --format --help' ;;
                    "logs -"*) words='--context --kubeconfig --namespace --follow --attempt --tail --journal --help' ;;
                    "stop -"*) words='--context --kubeconfig --namespace --dry-run --timeout --journal --format --help' ;;
                    "resume -"*) words='--context --kubeconfig --namespace --tier --dry-run --format --help' ;;
                    "settings -"*) words='--format --help' ;;
                    "completion -"*) words='--install --help' ;;
                    "scaffold "*) words='training batch' ;;
                    "completion "*) words='bash zsh fish' ;;
                esac ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o bashdefault -o default -F _outlast outlast
