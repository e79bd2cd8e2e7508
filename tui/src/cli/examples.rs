//! What stands at the end of help: exit codes, and examples of each command. Two spaces before what an example does, four before what is typed: a test reads the
//! latter as command lines.

/// Exit codes, shown at the end of `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done (also when the defaults are best, or the run is inconclusive)
  1    unexpected error
  2    wrong use or configuration
  3    preflight refused: hosts that cannot be used as they are, or to which GPU Direct RDMA does
       not apply
  4    nothing matched: no installation in the folder, no block to remove, no line of NCCL or of its
       connections in a log, no measured time for a workload, no verification that was kept
  5    no setting beat the defaults, or gdr does not pass (only with --expect-gain)
  6    findings: of lint, doctor or apply --check; connections without GPU Direct RDMA; ways that a
       probe found slow or failed; differences, with diff --exit-code; or an installation that is
       not as it was put there, or that NCCL does not use
  100  some trials failed
  101  nodes lost; with --min-nodes, and by topo, also a result for fewer hosts than were named
  102  verification found a regression, or GPU Direct RDMA is slower
  130  interrupted; after SIGTERM the best so far is written, not verified";

/// What `gdrtune --help` ends with.
pub(super) fn after_help() -> String {
    format!("{GDRTUNE}\n\n{EXIT_CODES}")
}

/// Of gdrtune itself.
const GDRTUNE: &str = "\
Examples:
  See it work here, without any hardware, in half a minute:
    gdrtune demo
  Look for what is wrong with hosts before they are measured:
    gdrtune doctor -w 'node[01-04]'
  Tune four hosts with eight GPUs each, and write a profile with all its files to the folder tuned:
    gdrtune tune --engine nccl -w 'node[01-04]' --ranks-per-node 8 --out tuned
  Put the profile's settings into a job script, and measure it again a month later:
    gdrtune apply train.sbatch --profile tuned/profile.toml
    gdrtune verify tuned/profile.toml -w 'node[01-04]' --ranks-per-node 8
  All options of a command, with what they are for:
    gdrtune tune --help";

pub(super) const DEMO: &str = "\
Examples:
  In the terminal UI, or where there is no terminal, with plain lines:
    gdrtune demo
  With plain lines everywhere, and files in another folder:
    gdrtune demo --plain --out /tmp/demo";

pub(super) const TUNE: &str = "\
Examples:
  NCCL on four hosts with eight GPUs each, over ssh:
    gdrtune tune --engine nccl -w 'node[01-04]' --ranks-per-node 8 --out tuned
  For the calls of a training step instead of a list of sizes:
    gdrtune tune --engine nccl -w 'node[01-04]' --ranks-per-node 8 --workload ddp-25mb-buckets
  What is always the same about a cluster, from a file:
    gdrtune tune --site cluster.toml --engine nccl --collectives allreduce,allgather --budget 10m
  In a Slurm allocation, whose nodes and tasks are taken:
    salloc -N4 --ntasks-per-node=8 --gpus-per-node=8 gdrtune tune --engine nccl --out tuned
  Jobs of several shapes in one profile:
    gdrtune tune --engine nccl -w 'node[01-32]' --shapes 2x8,4x8,32x1 --budget 30m
  Search one variable more, leave one out, and fix one:
    gdrtune tune -w 'node[01-04]' --add NCCL_BUFFSIZE=2097152 --exclude NCCL_CROSS_NIC \\
        --pin NCCL_SOCKET_IFNAME==eth0
  Without hosts: a recorded grid, or a simulated cluster:
    gdrtune tune --engine replay --grid grid.csv --trials 1500
    gdrtune tune --engine sim --cluster slow-hca --out simulated
  In CI: events as JSON lines, and code 5 where nothing beat the defaults:
    gdrtune tune -w 'node[01-04]' --json --expect-gain > events.jsonl";

pub(super) const BENCH: &str = "\
Examples:
  What the defaults do, as a table like nccl-tests':
    gdrtune bench --engine nccl -w 'node[01-04]' --ranks-per-node 8 --sizes 8-1G --factor 2
  One choice, with a variable set:
    gdrtune bench --engine nccl -w 'node[01-02]' --choice ring/simple/8 --env NCCL_NTHREADS=256
  Every choice that NCCL allows, as a grid that tune --engine replay reads:
    gdrtune bench --engine nccl -w 'node[01-04]' --choices all --csv grid.csv";

pub(super) const VERIFY: &str = "\
Examples:
  Is the profile still faster here? Code 102 says that it is slower somewhere:
    gdrtune verify tuned/profile.toml -w 'node[01-04]' --ranks-per-node 8
  From cron: one line, once a week at most:
    gdrtune verify tuned/profile.toml --site cluster.toml --quiet --if-older-than 7d
  Surer, at three sizes, for a program:
    gdrtune verify tuned/profile.toml --site cluster.toml --sizes 64K,1M,64M --pairs 21 --json";

pub(super) const EXPLAIN: &str = "\
Examples:
  Why an all-reduce of 64 KiB runs as it does, what it replaced, and what else was tried:
    gdrtune explain tuned/profile.toml allreduce 64K
  Why a variable is set, or is not:
    gdrtune explain tuned/profile.toml --env NCCL_IB_HCA
  Decisions over all sizes, of a run:
    gdrtune explain last --table";

pub(super) const DIFF: &str = "\
Examples:
  Two profiles:
    gdrtune diff profiles/may.toml tuned/profile.toml
  What another seed or another day decides otherwise, in CI: code 6 where settings or rules differ:
    gdrtune diff 2026-11-29 last --exit-code";

pub(super) const EMIT: &str = "\
Examples:
  Which formats there are, their files, and who reads them:
    gdrtune emit --list
  One, to standard output:
    gdrtune emit tuned/profile.toml --format sh
  Several, into a folder:
    gdrtune emit tuned/profile.toml --format k8s-configmap,k8s-patch --container train --out k8s
  A script that lets be what the user has set already:
    gdrtune emit tuned/profile.toml --format sh --keep-set > nccl-settings.sh";

pub(super) const APPLY: &str = "\
Examples:
  Show the difference, ask, and put the block in:
    gdrtune apply train.sbatch --profile tuned/profile.toml
  In CI: code 6 where the block is missing, stale or was edited:
    gdrtune apply train.sbatch --profile tuned/profile.toml --check
  Into the nccl.conf of an image, without asking:
    gdrtune apply image/etc/nccl.conf --profile tuned/profile.toml --yes
  Take it away again:
    gdrtune apply train.sbatch --remove";

pub(super) const INSTALL: &str = "\
Examples:
  Files and tuner plugin to a folder of every host:
    gdrtune install tuned/profile.toml --to /opt/gdrtune -w 'node[01-04]'
  Prove by NCCL's own log that jobs use them:
    gdrtune install --check --to /opt/gdrtune -w 'node[01-04]' --ranks-per-node 8
  For a container image that is built here:
    gdrtune install tuned/profile.toml --to image/opt/gdrtune --path-in-image /opt/gdrtune
  Take them away again:
    gdrtune install --uninstall --to /opt/gdrtune -w 'node[01-04]'";

pub(super) const TOPO: &str = "\
Examples:
  This machine:
    gdrtune topo
  Hosts, and what jobs on them can be bound to:
    gdrtune topo -w 'node[01-04]' --bindings
  A machine that you are not on:
    ssh node07 nvidia-smi topo -m | gdrtune topo --from -
  Record this machine, and look at it elsewhere:
    gdrtune topo --record node07
    gdrtune topo --from node07
  All that is known of each, for a program:
    gdrtune topo -w 'node[01-04]' --inventory --format json";

pub(super) const DOCTOR: &str = "\
Examples:
  This machine, or the nodes of the Slurm job:
    gdrtune doctor
  Hosts, and only what is about GPUDirect RDMA and networks:
    gdrtune doctor -w 'node[01-16]' --only gdr,net
  What a check looks at, and how to mend what it finds:
    gdrtune doctor explain gdr-path
  Before each job: code 6 also on a warning:
    gdrtune doctor --site cluster.toml --strict --json";

pub(super) const DOCTOR_EXPLAIN: &str = "\
Examples:
    gdrtune doctor explain gdr-path sys-memlock";

pub(super) const GDR: &str = "\
Examples:
  Which ranks of a job used it, by its logs (NCCL_DEBUG=INFO), and why not the others:
    gdrtune gdr --log nccl.*.log
  What it gains on two hosts:
    gdrtune gdr -w 'node[01-02]' --ranks-per-node 8
  Only where GPU and HCA share a switch, and code 5 where that is no gain of 10 %:
    gdrtune gdr -w 'node[01-02]' --level pxb --min-gain 10 --expect-gain";

pub(super) const PROBE: &str = "\
Examples:
  All pairs of hosts, each HCA in both directions:
    gdrtune probe -w 'node[01-16]'
  Two HCAs, three partners for each host:
    gdrtune probe -w 'node[01-64]' --hca =mlx5_0,mlx5_1 --partners 3
  Leave slow HCAs out of a search:
    gdrtune probe -w 'node[01-16]' --json > ceilings.json
    gdrtune tune --engine nccl -w 'node[01-16]' --ceilings ceilings.json";

pub(super) const LINT: &str = "\
Examples:
  What jobs have already:
    gdrtune lint train.sbatch /etc/nccl.conf
  With what depends on the version of NCCL:
    gdrtune lint --nccl-version 2.27.5 train.sbatch
  Do all ranks have the same settings?
    srun --label env | gdrtune lint --as env -
  Annotations in a workflow of GitHub's:
    gdrtune lint --format github jobs/*.sbatch
  What it looks for:
    gdrtune lint --rules";

pub(super) const WORKLOAD: &str = "\
Examples:
  From a job's logs to a profile that is made for it, and what that does to a step:
    gdrtune workload import nccl.*.log -o job.toml
    gdrtune tune --engine nccl -w 'node[01-04]' --workload job.toml --out tuned
    gdrtune workload predict job.toml --profile tuned/profile.toml --overlap 0.6 --step-ms 840";

pub(super) const WORKLOAD_IMPORT: &str = "\
Examples:
  Logs of a job that ran with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL:
    gdrtune workload import nccl.*.log -o job.toml
  Which communicators there are:
    gdrtune workload import nccl.*.log --list
  A compressed trace of PyTorch's profiler:
    gunzip -c trace.json.gz | gdrtune workload import - -o job.toml";

pub(super) const WORKLOAD_ESTIMATE: &str = "\
Examples:
  7 billion parameters on 64 GPUs, data-parallel with 8 tensor-parallel ranks each:
    gdrtune workload estimate --params 7B --dp 8 --tp 8
  A workload file for each group:
    gdrtune workload estimate --params 70B --dp 8 --tp 8 --pp 4 --zero 1 --out job
  FSDP, as a file that tune takes:
    gdrtune workload estimate --params 7B --dp 64 --zero fsdp --group dp -o fsdp-7b.toml";

pub(super) const WORKLOAD_SHOW: &str = "\
Examples:
  One that comes along:
    gdrtune workload show ddp-25mb-buckets
  With the times that a run has measured:
    gdrtune workload show job.toml --profile tuned/profile.toml";

pub(super) const WORKLOAD_PREDICT: &str = "\
Examples:
  If computation hides 60 % of the communication, and a step takes 840 ms:
    gdrtune workload predict job.toml --profile tuned/profile.toml --overlap 0.6 --step-ms 840
  By another run's times:
    gdrtune workload predict job.toml --profile tuned/profile.toml --run last";

pub(super) const RUNS: &str = "\
Examples:
  All of them; RUN is an id, the beginning of one, `last`, or a .jsonl file:
    gdrtune runs
    gdrtune runs show last
  Go on with one that was cut off:
    gdrtune runs resume last
  All trials as a table:
    gdrtune runs export last --format csv -o trials.csv";

pub(super) const RUNS_LIST: &str = "\
Examples:
    gdrtune runs list";

pub(super) const RUNS_SHOW: &str = "\
Examples:
    gdrtune runs show last
    gdrtune runs show 2026-11-30";

pub(super) const RUNS_RESUME: &str = "\
Examples:
  Nothing that is in its store is measured again:
    gdrtune runs resume last
  In another job that lacks one of the nodes:
    gdrtune runs resume 2026-11-30T07:14 --min-nodes 3 --plain";

pub(super) const RUNS_TREND: &str = "\
Examples:
  What the profile gained, verification by verification:
    gdrtune runs trend tuned/profile.toml";

pub(super) const RUNS_EXPORT: &str = "\
Examples:
  As CSV to standard output:
    gdrtune runs export last | head
  As JSON, for a program:
    gdrtune runs export last --format json -o trials.json";

pub(super) const REPORT: &str = "\
Examples:
  As Markdown, to standard output:
    gdrtune report last
  One HTML file that needs nothing else, and the plots as files:
    gdrtune report last --html report.html --svg plots
  Tables for other programs:
    gdrtune report last --csv trials.csv --nccl-tests table.txt";

pub(super) const ATTACH: &str = "\
Examples:
  The latest run, as its own terminal shows it; q leaves, and the run goes on:
    gdrtune attach last
  As lines, until it ends; the exit code is the run's:
    gdrtune attach last --plain";

pub(super) const REPLAY: &str = "\
Examples:
  Ten times as fast as it was:
    gdrtune replay last
  To its end at once:
    gdrtune replay last --speed max";

pub(super) const COMPLETIONS: &str = "\
Examples:
  In ~/.bashrc:
    source <(gdrtune completions bash)
  Once, with ~/.zfunc in fpath before compinit:
    gdrtune completions zsh > ~/.zfunc/_gdrtune
  Once:
    gdrtune completions fish > ~/.config/fish/completions/gdrtune.fish";

pub(super) const MAN: &str = "\
Examples:
  The page of gdrtune, with the keys of the terminal UI, and that of a command:
    gdrtune man | man -l -
    gdrtune man tune | man -l -
    gdrtune man runs resume | man -l -";
