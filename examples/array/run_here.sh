#!/bin/bash
# A stand-in for a scheduler: bash run_here.sh TASKS [AT_ONCE]. Each task is a process; all share the store.
set -eu
tasks=${1:?how many tasks}
here=$(cd "$(dirname "$0")" && pwd)
export SLURM_ARRAY_TASK_COUNT=$tasks CONFIG=${CONFIG:-$here/audit.yaml}
seq 0 $((tasks - 1)) | xargs -P "${2:-2}" -I{} env SLURM_ARRAY_TASK_ID={} bash "$here/task.sh"
