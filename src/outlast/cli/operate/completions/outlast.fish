# Completes outlast in fish: source it, or put it into fish's completions folder.
complete -c outlast -n __fish_use_subcommand -f -a drill -d 'Evict a command as a Spot cluster would, restart it as a Job does, and report what survived.'
complete -c outlast -n '__fish_seen_subcommand_from drill' -l evictions -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l every -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l trace -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l seed -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l grace -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l no-notice -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l hostile -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l overlap -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l workers -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l nodes -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l ranks -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l expect -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l key -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l tolerance -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l finished-when -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l skip-baseline
complete -c outlast -n '__fish_seen_subcommand_from drill' -l recording -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l workdir -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l reset -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l replace-after -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l job-backoff
complete -c outlast -n '__fish_seen_subcommand_from drill' -l backoff-limit -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l timeout -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l keep -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l keep-env -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l strict
complete -c outlast -n '__fish_seen_subcommand_from drill' -l report -r
complete -c outlast -n '__fish_seen_subcommand_from drill' -l format -x -a 'text json junit'
complete -c outlast -n '__fish_seen_subcommand_from drill' -l help
complete -c outlast -n __fish_use_subcommand -f -a demo -d 'Train a small model and score images with it while evicting the processes.'
complete -c outlast -n '__fish_seen_subcommand_from demo' -l seed -r
complete -c outlast -n '__fish_seen_subcommand_from demo' -l out -r
complete -c outlast -n '__fish_seen_subcommand_from demo' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from demo' -l help
complete -c outlast -n __fish_use_subcommand -f -a scaffold -d 'Create a small project that survives evictions, as a starting point for your own.'
complete -c outlast -n '__fish_seen_subcommand_from scaffold' -f -a 'training batch'
complete -c outlast -n '__fish_seen_subcommand_from scaffold' -l name -r
complete -c outlast -n '__fish_seen_subcommand_from scaffold' -l framework -x -a 'numpy torch jax huggingface lightning'
complete -c outlast -n '__fish_seen_subcommand_from scaffold' -l help
complete -c outlast -n __fish_use_subcommand -f -a exec -d 'Run a command as the first process of a container: signals, zombies, grace, exit code.'
complete -c outlast -n '__fish_seen_subcommand_from exec' -l grace -r
complete -c outlast -n '__fish_seen_subcommand_from exec' -l distrust-zero
complete -c outlast -n '__fish_seen_subcommand_from exec' -l durable
complete -c outlast -n '__fish_seen_subcommand_from exec' -l help
complete -c outlast -n __fish_use_subcommand -f -a checkpoints -d 'List, verify, compare, export or prune the checkpoints of a run.'
complete -c outlast -n '__fish_seen_subcommand_from checkpoints' -l verify
complete -c outlast -n '__fish_seen_subcommand_from checkpoints' -l diff -r
complete -c outlast -n '__fish_seen_subcommand_from checkpoints' -l export -r
complete -c outlast -n '__fish_seen_subcommand_from checkpoints' -l prune
complete -c outlast -n '__fish_seen_subcommand_from checkpoints' -l keep-last -r
complete -c outlast -n '__fish_seen_subcommand_from checkpoints' -l force
complete -c outlast -n '__fish_seen_subcommand_from checkpoints' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from checkpoints' -l help
complete -c outlast -n __fish_use_subcommand -f -a publish -d 'Publish items to a queue. Running it again adds only items that are new.'
complete -c outlast -n '__fish_seen_subcommand_from publish' -l key -r
complete -c outlast -n '__fish_seen_subcommand_from publish' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from publish' -l help
complete -c outlast -n __fish_use_subcommand -f -a work -d 'Process the items of a queue until it is drained.'
complete -c outlast -n '__fish_seen_subcommand_from work' -l queue -r
complete -c outlast -n '__fish_seen_subcommand_from work' -l sink -r
complete -c outlast -n '__fish_seen_subcommand_from work' -l chunk -r
complete -c outlast -n '__fish_seen_subcommand_from work' -l batch
complete -c outlast -n '__fish_seen_subcommand_from work' -l until -x -a 'drained forever'
complete -c outlast -n '__fish_seen_subcommand_from work' -l lease -r
complete -c outlast -n '__fish_seen_subcommand_from work' -l timeout -r
complete -c outlast -n '__fish_seen_subcommand_from work' -l failures-max -r
complete -c outlast -n '__fish_seen_subcommand_from work' -l result-version -r
complete -c outlast -n '__fish_seen_subcommand_from work' -l help
complete -c outlast -n __fish_use_subcommand -f -a queue -d 'Show how many items are left in a queue, the throughput and the estimated time left.'
complete -c outlast -n '__fish_seen_subcommand_from queue' -l watch
complete -c outlast -n '__fish_seen_subcommand_from queue' -l dead
complete -c outlast -n '__fish_seen_subcommand_from queue' -l retry-dead
complete -c outlast -n '__fish_seen_subcommand_from queue' -l limit -r
complete -c outlast -n '__fish_seen_subcommand_from queue' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from queue' -l help
complete -c outlast -n __fish_use_subcommand -f -a results -d 'Count the results in a sink, or export them to a file.'
complete -c outlast -n '__fish_seen_subcommand_from results' -l export -r
complete -c outlast -n '__fish_seen_subcommand_from results' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from results' -l help
complete -c outlast -n __fish_use_subcommand -f -a plan -d 'Compare Spot, flex-start, on-demand and hybrid for a workload, and recommend one.'
complete -c outlast -n '__fish_seen_subcommand_from plan' -l set -r
complete -c outlast -n '__fish_seen_subcommand_from plan' -l sweep -r
complete -c outlast -n '__fish_seen_subcommand_from plan' -l prices -r
complete -c outlast -n '__fish_seen_subcommand_from plan' -l flex-multiplier -r
complete -c outlast -n '__fish_seen_subcommand_from plan' -l value-of-time -r
complete -c outlast -n '__fish_seen_subcommand_from plan' -l bucket-location -r
complete -c outlast -n '__fish_seen_subcommand_from plan' -l trace -r
complete -c outlast -n '__fish_seen_subcommand_from plan' -l polarity -x -a 'available preempted'
complete -c outlast -n '__fish_seen_subcommand_from plan' -l weibull-shape -r
complete -c outlast -n '__fish_seen_subcommand_from plan' -l html -r
complete -c outlast -n '__fish_seen_subcommand_from plan' -l svg -r
complete -c outlast -n '__fish_seen_subcommand_from plan' -l today -r
complete -c outlast -n '__fish_seen_subcommand_from plan' -l runs -r
complete -c outlast -n '__fish_seen_subcommand_from plan' -l seed -r
complete -c outlast -n '__fish_seen_subcommand_from plan' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from plan' -l help
complete -c outlast -n __fish_use_subcommand -f -a simulate -d 'Replay traces of Spot machines to compare save intervals and ways to meet a deadline.'
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l save-time -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l restart-time -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l unannounced-share -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l interval -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l start-every -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l rounds -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l work -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l deadline -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l machine -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l location -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l prices -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l polarity -x -a 'available preempted'
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l repair -x -a 'keep-order sort refuse'
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l html -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l svg -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l seed -r
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from simulate' -l help
complete -c outlast -n __fish_use_subcommand -f -a prices -d 'Show hourly machine prices with their date and source.'
complete -c outlast -n '__fish_seen_subcommand_from prices' -l import -r
complete -c outlast -n '__fish_seen_subcommand_from prices' -l refresh -r
complete -c outlast -n '__fish_seen_subcommand_from prices' -l date -r
complete -c outlast -n '__fish_seen_subcommand_from prices' -l source -r
complete -c outlast -n '__fish_seen_subcommand_from prices' -l prices -r
complete -c outlast -n '__fish_seen_subcommand_from prices' -l flex-multiplier -r
complete -c outlast -n '__fish_seen_subcommand_from prices' -l today -r
complete -c outlast -n '__fish_seen_subcommand_from prices' -l format -x -a 'text json csv'
complete -c outlast -n '__fish_seen_subcommand_from prices' -l help
complete -c outlast -n __fish_use_subcommand -f -a learn -d 'Turn measurements from past runs into values for the workload file.'
complete -c outlast -n '__fish_seen_subcommand_from learn' -l workload -r
complete -c outlast -n '__fish_seen_subcommand_from learn' -l nodes -r
complete -c outlast -n '__fish_seen_subcommand_from learn' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from learn' -l help
complete -c outlast -n __fish_use_subcommand -f -a why -d 'Show where the time and money of a run went, attempt by attempt.'
complete -c outlast -n '__fish_seen_subcommand_from why' -l workload -r
complete -c outlast -n '__fish_seen_subcommand_from why' -l tier -x -a 'auto spot flex-start on-demand hybrid'
complete -c outlast -n '__fish_seen_subcommand_from why' -l price -r
complete -c outlast -n '__fish_seen_subcommand_from why' -l currency -r
complete -c outlast -n '__fish_seen_subcommand_from why' -l nodes -r
complete -c outlast -n '__fish_seen_subcommand_from why' -l today -r
complete -c outlast -n '__fish_seen_subcommand_from why' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from why' -l help
complete -c outlast -n __fish_use_subcommand -f -a render -d 'Render the manifests of a workload file, with comments that explain them.'
complete -c outlast -n '__fish_seen_subcommand_from render' -l set -r
complete -c outlast -n '__fish_seen_subcommand_from render' -l out -r
complete -c outlast -n '__fish_seen_subcommand_from render' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from render' -l help
complete -c outlast -n __fish_use_subcommand -f -a lint -d 'Check manifests for problems on Spot and flex-start nodes.'
complete -c outlast -n '__fish_seen_subcommand_from lint' -l pools -r
complete -c outlast -n '__fish_seen_subcommand_from lint' -l format -x -a 'text json sarif github junit'
complete -c outlast -n '__fish_seen_subcommand_from lint' -l fix
complete -c outlast -n '__fish_seen_subcommand_from lint' -l diff
complete -c outlast -n '__fish_seen_subcommand_from lint' -l unsafe-fixes
complete -c outlast -n '__fish_seen_subcommand_from lint' -l select -r
complete -c outlast -n '__fish_seen_subcommand_from lint' -l ignore -r
complete -c outlast -n '__fish_seen_subcommand_from lint' -l fail-on -x -a 'info warning error never'
complete -c outlast -n '__fish_seen_subcommand_from lint' -l baseline -r
complete -c outlast -n '__fish_seen_subcommand_from lint' -l write-baseline
complete -c outlast -n '__fish_seen_subcommand_from lint' -l kubernetes-version -r
complete -c outlast -n '__fish_seen_subcommand_from lint' -l autopilot
complete -c outlast -n '__fish_seen_subcommand_from lint' -l config -r
complete -c outlast -n '__fish_seen_subcommand_from lint' -l help
complete -c outlast -n __fish_use_subcommand -f -a rules -d 'List the rules of `outlast lint`, or print the manual page of one.'
complete -c outlast -n '__fish_seen_subcommand_from rules' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from rules' -l help
complete -c outlast -n __fish_use_subcommand -f -a schema -d 'Print the JSON Schema of workload files.'
complete -c outlast -n '__fish_seen_subcommand_from schema' -l help
complete -c outlast -n __fish_use_subcommand -f -a doctor -d 'Check whether a cluster can run a workload, and what to do if not.'
complete -c outlast -n '__fish_seen_subcommand_from doctor' -l context -r
complete -c outlast -n '__fish_seen_subcommand_from doctor' -l kubeconfig -r
complete -c outlast -n '__fish_seen_subcommand_from doctor' -l namespace -r
complete -c outlast -n '__fish_seen_subcommand_from doctor' -l set -r
complete -c outlast -n '__fish_seen_subcommand_from doctor' -l role -x -a 'submit watch'
complete -c outlast -n '__fish_seen_subcommand_from doctor' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from doctor' -l help
complete -c outlast -n __fish_use_subcommand -f -a submit -d 'Apply a workload file or manifests to a cluster.'
complete -c outlast -n '__fish_seen_subcommand_from submit' -l context -r
complete -c outlast -n '__fish_seen_subcommand_from submit' -l kubeconfig -r
complete -c outlast -n '__fish_seen_subcommand_from submit' -l namespace -r
complete -c outlast -n '__fish_seen_subcommand_from submit' -l set -r
complete -c outlast -n '__fish_seen_subcommand_from submit' -l dry-run
complete -c outlast -n '__fish_seen_subcommand_from submit' -l setup
complete -c outlast -n '__fish_seen_subcommand_from submit' -l replace
complete -c outlast -n '__fish_seen_subcommand_from submit' -l wait -x -a 'started finished'
complete -c outlast -n '__fish_seen_subcommand_from submit' -l timeout -r
complete -c outlast -n '__fish_seen_subcommand_from submit' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from submit' -l help
complete -c outlast -n __fish_use_subcommand -f -a watch -d 'Show why a run waits, how its attempts ended, what it has cost and when it finishes.'
complete -c outlast -n '__fish_seen_subcommand_from watch' -l context -r
complete -c outlast -n '__fish_seen_subcommand_from watch' -l kubeconfig -r
complete -c outlast -n '__fish_seen_subcommand_from watch' -l namespace -r
complete -c outlast -n '__fish_seen_subcommand_from watch' -l once
complete -c outlast -n '__fish_seen_subcommand_from watch' -l all
complete -c outlast -n '__fish_seen_subcommand_from watch' -l journal -r
complete -c outlast -n '__fish_seen_subcommand_from watch' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from watch' -l help
complete -c outlast -n __fish_use_subcommand -f -a logs -d 'Print the logs of a run, and follow them from Pod to Pod.'
complete -c outlast -n '__fish_seen_subcommand_from logs' -l context -r
complete -c outlast -n '__fish_seen_subcommand_from logs' -l kubeconfig -r
complete -c outlast -n '__fish_seen_subcommand_from logs' -l namespace -r
complete -c outlast -n '__fish_seen_subcommand_from logs' -l follow
complete -c outlast -n '__fish_seen_subcommand_from logs' -l attempt -r
complete -c outlast -n '__fish_seen_subcommand_from logs' -l tail -r
complete -c outlast -n '__fish_seen_subcommand_from logs' -l journal -r
complete -c outlast -n '__fish_seen_subcommand_from logs' -l help
complete -c outlast -n __fish_use_subcommand -f -a stop -d 'Stop a run, and wait until its final save is in the journal.'
complete -c outlast -n '__fish_seen_subcommand_from stop' -l context -r
complete -c outlast -n '__fish_seen_subcommand_from stop' -l kubeconfig -r
complete -c outlast -n '__fish_seen_subcommand_from stop' -l namespace -r
complete -c outlast -n '__fish_seen_subcommand_from stop' -l dry-run
complete -c outlast -n '__fish_seen_subcommand_from stop' -l timeout -r
complete -c outlast -n '__fish_seen_subcommand_from stop' -l journal -r
complete -c outlast -n '__fish_seen_subcommand_from stop' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from stop' -l help
complete -c outlast -n __fish_use_subcommand -f -a resume -d 'Continue a stopped run from its newest checkpoint.'
complete -c outlast -n '__fish_seen_subcommand_from resume' -l context -r
complete -c outlast -n '__fish_seen_subcommand_from resume' -l kubeconfig -r
complete -c outlast -n '__fish_seen_subcommand_from resume' -l namespace -r
complete -c outlast -n '__fish_seen_subcommand_from resume' -l tier -x -a 'auto spot flex-start on-demand hybrid'
complete -c outlast -n '__fish_seen_subcommand_from resume' -l dry-run
complete -c outlast -n '__fish_seen_subcommand_from resume' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from resume' -l help
complete -c outlast -n __fish_use_subcommand -f -a settings -d 'Show all settings, their current values and their sources.'
complete -c outlast -n '__fish_seen_subcommand_from settings' -l format -x -a 'text json'
complete -c outlast -n '__fish_seen_subcommand_from settings' -l help
complete -c outlast -n __fish_use_subcommand -f -a completion -d 'Print or install shell completion.'
complete -c outlast -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'
complete -c outlast -n '__fish_seen_subcommand_from completion' -l install
complete -c outlast -n '__fish_seen_subcommand_from completion' -l help
